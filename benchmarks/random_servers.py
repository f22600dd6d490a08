"""The ceilings against servers that are drawn at random: what they are worth beyond their tables.

Kind, limit, burst, window, service time, network and N of each server are drawn from a seed. The
constants of `hold` may be set on seeds up to 9; what is claimed of it is printed from others. A
crawl lasts two virtual hours, or as long as an oracle needs for `--pages`, ten minutes at least;
one of `short` ends with its 200th page: goodput is the oracle's time there, as a share of its own.

Goodput is a share of an oracle that knows the rule, the N and the network, at most 100 %. Refusals
are a share of all hits, beyond those that come by chance. The last column is the worst mean
latency, as a multiple of that of a page alone.

    python benchmarks/random_servers.py [--seed 101] [--count 300] [--laws hold,aimd,cubic]
        [--group mixed] [--pages 20000] [--rows] [--out FOLDER]

`mixed` is drawn from all kinds; the other groups are special cases, by `drawn_servers.py`.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.pop(0)
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import argparse
import math
import random
import statistics
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import Pool
from typing import cast

from benchmarks.arguments import among, new_folder, whole
from benchmarks.cubic_governor import CubicGovernor
from benchmarks.drawn_servers import AUTO, GROUPS, PER_DOMAIN, WHOLE, Site, drawn
from benchmarks.tables import Table
from scrapy_adaptive.models import allowed
from scrapy_adaptive.simulate import Crawl, Governor, Timeline, governor_of, longest_pause

LEAST = 600.0
"""Least seconds of a crawl that is cut short after so many pages."""

FIRST = 600.0
"""Seconds of its first part."""

BAD = 80.0
"""Percent of goodput under which a row is bad."""

RUDE = 1.0
"""Percent of refusals over which a row is rude."""

LATE = 1.3
"""Times the oracle's that a short crawl may take, and 10 s."""

LAWS = ("hold", "aimd", "cubic")
"""What may pace a crawl."""


@dataclass(frozen=True)
class Found:
    """What one crawl came to; percent, seconds and counts."""

    law: str
    number: int
    kind: str
    text: str
    goodput: float
    first: float
    refused: float
    refusals: int
    pages: int
    pause: float
    latency: float
    lost: int
    base: float
    """Seconds of latency of one page alone, on average."""
    is_late: bool = False


def governor(site: Site, law: str, seed: str) -> Governor:
    """What paces one crawl."""
    target, is_auto = site.target_concurrency, site.target_concurrency == AUTO
    if law == "cubic":
        return cast("Governor", CubicGovernor(PER_DOMAIN if is_auto else target))
    settings = {
        "ADAPTIVE_CEILING": law,
        "ADAPTIVE_TARGET_CONCURRENCY": "auto" if is_auto else target,
        "CONCURRENT_REQUESTS_PER_DOMAIN": PER_DOMAIN,
    }
    return governor_of(settings, random.Random(f"{seed} governor").random)


def crawl(job: tuple[str, str, int, int], pages: int) -> Found:
    """One crawl."""
    law, group, seed, number = job
    site, name = drawn(group, seed, number), f"{group} {seed} {number}"
    until = site.seconds
    rate = site.oracle(0.0)
    if until == WHOLE:
        until = min(until, max(LEAST, pages / rate if rate else until))
    if site.most_pages:
        until = max(WHOLE, last_call(site))
    paced, fresh, delay = governor(site, law, name), site.pages(name), site.delay(name)

    def awake(instant: float) -> float:
        """Never again after the last page."""
        is_over = len(crawler.timeline.accepted) >= site.most_pages
        return math.inf if is_over else instant

    machine = awake if site.most_pages else site.machine
    crawler = Crawl(paced, site.server, fresh, delay, machine)
    for begin, end in site.idle:
        if begin >= until:
            break
        if crawler.now < begin:
            crawler.run(begin)
            crawler.drain()
        crawler.wait(min(end, until))
    return read(job, site, *ended(crawler.run(until), site.most_pages, until))


def oracle_time(site: Site) -> float:
    """Seconds in which the oracle gets the pages of a short crawl."""
    second, left = 0.0, float(site.most_pages)
    while left > (pages := site.oracle(second + 0.5)):
        second, left = second + 1.0, left - pages
    return second + left / pages


def last_call(site: Site) -> float:
    """The second after which a short crawl is late."""
    return LATE * oracle_time(site) + 10.0


def ended(line: Timeline, most_pages: int, until: float) -> tuple[Timeline, float]:
    """A crawl until its last page, if it has one and came to it, and when that was."""
    if not 0 < most_pages <= len(line.accepted):
        return line, until
    accepted = line.accepted[:most_pages]
    until = accepted[-1]
    refused, failed = (each[: bisect_right(each, until)] for each in (line.refused, line.failed))
    latencies = line.latencies[:most_pages]
    cut = replace(line, accepted=accepted, refused=refused, failed=failed, latencies=latencies)
    return cut, until


def read(job: tuple[str, str, int, int], site: Site, line: Timeline, until: float) -> Found:
    """What it came to."""
    law, _, _, number = job
    accepted, refused, failed = (
        len(hits) - bisect_left(hits, site.since)
        for hits in (line.accepted, line.refused, line.failed)
    )
    hits = accepted + refused + failed
    beyond = max(0.0, refused - site.noise * hits - site.broken_refusals * accepted)
    latencies = line.latencies
    goodput = _goodput(line, site, site.since, until)
    is_late = False
    if site.most_pages:
        is_late = accepted < site.most_pages or until > last_call(site)
        goodput = min(100.0, 100.0 * accepted / site.most_pages * oracle_time(site) / until)
    return Found(
        law=law,
        number=number,
        kind=site.kind,
        text=f"{site.text}, {2000.0 * site.one_way:.0f} ms {site.network},"
        f" N {'auto' if site.target_concurrency == AUTO else f'{site.target_concurrency:g}'}",
        goodput=goodput,
        first=_goodput(line, site, 0.0, min(FIRST, until)),
        refused=100.0 * beyond / hits if hits else 0.0,
        refusals=refused,
        pages=accepted,
        pause=longest_pause(line, until),
        latency=statistics.fmean(latencies) if latencies else 0.0,
        lost=sum(not site.broken or page % site.broken > 0 for page in line.lost),
        base=2.0 * site.one_way + (site.service.mean if site.service else 0.0),
        is_late=is_late,
    )


def _goodput(line: Timeline, site: Site, since: float, until: float) -> float:
    """Percent of what the oracle gets between two instants."""
    oracle = allowed(site.oracle, since, until)
    pages = bisect_right(line.accepted, until) - bisect_left(line.accepted, since)
    return min(100.0, 100.0 * pages / oracle) if oracle else 100.0


HEADS = (
    "count",
    "mean",
    "median",
    "5th",
    "< 80%",
    "> 1%",
    "refused",
    "10 min",
    "late",
    "lost",
    "x base",
)


def line(name: str, found: Sequence[Found]) -> str:
    """Some crawls as one line; shares of rows in percent."""
    goodput = sorted(each.goodput for each in found)
    percent = 100.0 / len(found)
    cells = (
        f"{len(found)}",
        f"{statistics.fmean(goodput):.1f}",
        f"{statistics.median(goodput):.1f}",
        f"{goodput[int(0.05 * len(goodput))]:.1f}",
        f"{percent * sum(each < BAD for each in goodput):.1f}",
        f"{percent * sum(each.refused > RUDE for each in found):.1f}",
        f"{statistics.fmean(each.refused for each in found):.2f}",
        f"{statistics.fmean(each.first for each in found):.1f}",
        f"{percent * sum(each.is_late for each in found):.1f}",
        f"{sum(each.lost for each in found)}",
        f"{max(each.latency / each.base for each in found):.2f}",
    )
    return f"{name:<34}" + "".join(f"{cell:>8}" for cell in cells)


def row(each: Found) -> str:
    """One crawl as one line."""
    return (
        f"{each.goodput:6.1f} {each.first:6.1f} {each.refused:6.2f} {each.refusals:6d} of"
        f" {each.pages + each.refusals:7d}, pause {each.pause:7.1f}, latency {each.latency:6.3f},"
        f" lost {each.lost:3d}  {each.number:4d} {each.kind}: {each.text}"
    )


def main() -> int:
    """Crawl, and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seed", type=int, default=101)
    parser.add_argument("--count", type=whole(), default=300)
    parser.add_argument("--only", type=whole(0), action="append", help="this number alone")
    parser.add_argument("--laws", type=among(LAWS), default=LAWS, help="by commas")
    parser.add_argument(
        "--group", type=among(GROUPS), default="mixed", help=f"of {', '.join(GROUPS)}; or several"
    )
    parser.add_argument("--pages", type=whole(), default=20_000)
    parser.add_argument("--rows", action="store_true", help="each crawl, the worst first")
    parser.add_argument("--processes", type=whole(), default=None)
    parser.add_argument("--out", type=new_folder, help="folder for the table")
    given = parser.parse_args()
    table = Table("random_servers")
    table.add(f"{'':<34}" + "".join(f"{head:>8}" for head in HEADS))
    for group in given.group:
        for law in given.laws:
            numbers = given.only or range(given.count)
            jobs = [(law, group, given.seed, number) for number in numbers]
            with Pool(given.processes) as pool:
                found = list(pool.imap_unordered(partial(crawl, pages=given.pages), jobs))
            for kind in sorted({each.kind for each in found}):
                table.add(line(f"{law} {group} {kind}", [e for e in found if e.kind == kind]))
            table.add(line(f"{law} {group}", found), "")
            if given.rows:
                table.add(*map(row, sorted(found, key=lambda each: each.goodput)), "")
    table.keep(given.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
