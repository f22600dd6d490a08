"""The learned ceiling against every model of a server, in virtual time: goodput and refusals.

Each row is a server, a network and a number of seeds that were not used when the law was made.
Goodput is a share of an oracle that knows the server, refusals a share of all hits; both are means
over the seeds, for the whole crawl, its second half and its first ten minutes. The bars of a row
are what a law of some 140 lines had reached before this project began, found by a simulation of
its own. Exit status 1 if a row is more than a point of goodput under a bar, or more than 0.05
points of refusals over it.

    python benchmarks/simulation.py [--seeds 101,102] [--minutes 120] [--only TEXT] [--out FOLDER]

A cap's oracle may never have more outstanding requests than the cap: a request that is on its way
over the network counts, as nobody knows where it is.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.pop(0)  # this folder, whose queue.py would hide the standard library's
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import argparse
import math
import random
import statistics
from dataclasses import dataclass
from multiprocessing import Pool

from benchmarks.arguments import amount, new_folder, numbers, part_of
from benchmarks.tables import Table
from scrapy_adaptive.simulate import (
    Crawl,
    Governor,
    Part,
    Readings,
    governor_of,
    network,
    read,
    read_spec,
)

GOODPUT_SLACK = 1.0
"""Points of goodput by which a row may be under its bar."""

REFUSED_SLACK = 0.05
"""Points of refusals by which it may be over it."""


@dataclass(frozen=True)
class Row:
    """One server, and its bar, if the earlier law had met it: goodput and refusals, in percent."""

    spec: str
    goodput: float = 0.0
    refused: float = math.inf
    network: str = "constant"
    target_concurrency: float = 8.0
    share: float = 1.0
    """What the oracle can get of the server's capacity."""
    minutes: float | None = None

    @property
    def name(self) -> str:
        """Server and network."""
        return self.spec if self.network == "constant" else f"{self.spec} {self.network}"


ROUND_TRIP = 0.05
"""Mean seconds of a message over the network and back."""

CLOSED = 0.25 / (0.25 + ROUND_TRIP)
"""Share of a cap's capacity that as many outstanding requests get, each 0.25 s in service."""

UNBOUND = 1000.0
"""A target concurrency that does not bind: one late answer would make the latency law wait."""

TAIL = "heavy-tailed"

ROWS = (
    Row("bucket:0.2/1", 96.0, 0.50),
    Row("bucket:0.2/5", 100.0, 0.69),
    Row("bucket:0.2/20", 101.0, 0.71),
    Row("bucket:0.2/100", 107.0, 0.97),
    Row("bucket:1/1", 97.3, 0.20),
    Row("bucket:1/5", 99.6, 0.20),
    Row("bucket:1/20", 99.8, 0.20),
    Row("bucket:1/100", 101.0, 0.25),
    Row("bucket:2/1", 97.4, 0.17),
    Row("bucket:2/5", 99.5, 0.17),
    Row("bucket:2/20", 99.9, 0.17),
    Row("bucket:2/100", 100.5, 0.17),
    Row("bucket:10/1", 98.0, 0.19),
    Row("bucket:10/5", 99.9, 0.17),
    Row("bucket:10/20", 100.0, 0.17),
    Row("bucket:10/100", 100.0, 0.17),
    Row("bucket:50/1", 97.3, 0.19),
    Row("bucket:50/5", 99.1, 0.19),
    Row("bucket:50/20", 99.9, 0.17),
    Row("bucket:50/100", 100.0, 0.17),
    Row("bucket:100/1", 96.9, 0.19),
    Row("bucket:100/5", 97.3, 0.19),
    Row("bucket:100/20", 99.8, 0.17),
    Row("bucket:100/100", 99.9, 0.17),
    Row("bucket:1000/1", 96.0, 0.19, target_concurrency=64.0, minutes=20.0),
    Row("bucket:1000/100", 97.8, 0.15, target_concurrency=64.0, minutes=20.0),
    Row("window:60/60", 98.0, 0.21),
    Row("window:60/60,retry-after", 99.5, 0.19),
    Row("window:600/60", 96.4, 0.07),
    Row("window:600/60,retry-after", 99.5, 0.06),
    Row("window:300/10", 97.9, 0.10),
    Row("window:300/10,retry-after", 98.5, 0.05),
    Row("log:300/60", 98.4, 0.17),
    Row("log:300/60,counted", 98.4, 0.17),
    Row("counter:300/10", 98.1, 0.17),
    Row("cap:4/0.25", 96.7, 0.02, share=CLOSED),
    Row("cap:16/0.25", 97.3, 0.02, share=CLOSED / 2.0),
    Row("cap:16/0.25", 98.4, 0.02, target_concurrency=32.0, share=CLOSED),
    Row("queue:4/0.25", 97.8, 0.0),
    Row("queue:4/0.25", 97.4, 0.0, target_concurrency=32.0),
    Row("queue:4/0.25,random", 98.3, 0.0, target_concurrency=32.0),
    Row("ban:10/20/60,restarted", 92.6, 0.01),
    Row("ban:10/20/5,restarted", 97.5, 0.02),
    Row("ban:10/20/60,doubling", 44.6, 0.02),
    Row("connotea", 97.5, 0.27),
    Row("bucket:10/20,step=0.3@3600", 99.9, 0.18),
    Row("bucket:10/20,step=4@3600", 98.1, 0.17),
    Row("bucket:10/20,sine=0.6", 98.2, 0.26),
    Row("bucket:10/20,noise=0.005", 99.4, 1.1),
    Row("bucket:2/5,noise=0.005", 98.3, 1.5),
    Row("bucket:10/20,dead=200", 97.4, 2.1),
    Row("bucket:10/20,noise=0.005,retry-after=1"),
    Row("bucket:10/20,noise=0.005,retry-after=5"),
    Row("bucket:10/20,vanish=1800-3600"),
    Row("window:600/60,first-hit"),
    Row("window:600/60,ratelimit"),
    Row("window:600/60,lying=remaining"),
    Row("ban:10/20/60"),
    Row("bucket:10/5", 99.9, 0.2, network="jittered"),
    Row("bucket:50/20", 99.9, 0.2, network="jittered"),
    Row("window:600/60", 95.6, 0.07, network="jittered"),
    Row("log:300/60", 98.4, 0.2, network="jittered"),
    Row("cap:4/0.25", 95.8, 0.05, network="jittered", share=CLOSED),
    Row("queue:4/0.25", 97.6, 0.0, network="jittered"),
    Row("ban:10/20/60,restarted", 92.6, 0.01, network="jittered"),
    Row("bucket:10/20,step=4@3600", 96.3, 0.17, network="jittered"),
    Row("bucket:10/20,noise=0.005", 95.3, 1.1, network="jittered"),
    Row("bucket:1/1", 93.9, 0.2, network="jittered"),
    Row("bucket:10/1", 69.0, 0.2, network="jittered"),
    Row("bucket:10/5", 99.3, 0.2, network=TAIL, target_concurrency=UNBOUND),
    Row("bucket:50/20", 96.7, 0.2, network=TAIL, target_concurrency=UNBOUND),
    Row("window:600/60", 96.3, 0.07, network=TAIL, target_concurrency=UNBOUND),
    Row("log:300/60", 97.4, 0.2, network=TAIL, target_concurrency=UNBOUND),
    Row("queue:4/0.25", 99.9, 0.0, network=TAIL),
    Row("ban:10/20/60,restarted", 92.5, 0.01, network=TAIL, target_concurrency=UNBOUND),
    Row("bucket:10/20,step=4@3600", 97.0, 0.17, network=TAIL, target_concurrency=UNBOUND),
    Row("cap:4/0.25", 95.0, 0.05, network=TAIL, target_concurrency=UNBOUND, share=CLOSED),
    Row("bucket:10/20,noise=0.005", 90.0, 1.1, network=TAIL, target_concurrency=UNBOUND),
    Row("bucket:10/20,dead=200", 90.0, 2.1, network=TAIL, target_concurrency=UNBOUND),
    Row("bucket:1/1", 73.0, 0.2, network=TAIL, target_concurrency=UNBOUND),
    Row("bucket:10/1", 44.0, 0.9, network=TAIL, target_concurrency=UNBOUND),
)

BURSTS = (1, 5, 20, 100)

FIRST = {
    **{f"bucket:0.2/{burst}": (76.0, 5.5) for burst in BURSTS},
    **{f"bucket:1/{burst}": (89.0, 1.3) for burst in BURSTS},
    **{f"bucket:2/{burst}": (90.0, 0.9) for burst in BURSTS},
    **{f"bucket:10/{burst}": (97.0, 0.2) for burst in BURSTS},
    **{f"bucket:50/{burst}": (96.0, 0.2) for burst in BURSTS},
    **{f"bucket:100/{burst}": (96.0, 0.2) for burst in BURSTS},
    "bucket:1000/1": (95.0, 0.2),
    "bucket:1000/100": (97.0, 0.2),
    "window:60/60": (90.0, 1.3),
    "window:60/60,retry-after": (102.0, 1.0),
    "window:600/60": (84.0, 0.16),
    "window:600/60,retry-after": (102.0, 0.1),
    "window:300/10": (92.0, math.inf),
    "window:300/10,retry-after": (97.5, 0.1),
    "log:300/60": (89.0, 0.3),
    "log:300/60,counted": (89.0, 0.3),
    "counter:300/10": (98.0, 0.2),
    "cap:4/0.25": (88.0, math.inf),
    "cap:16/0.25": (96.0, math.inf),
    "queue:4/0.25": (97.0, 0.0),
    "queue:4/0.25,random": (97.0, 0.0),
    "ban:10/20/60,restarted": (53.0, 0.2),
    "ban:10/20/5,restarted": (91.0, 0.15),
    "ban:10/20/60,doubling": (1.0, 8.0),
    "connotea": (92.0, 1.2),
    "bucket:10/20,step=0.3@3600": (98.0, 0.2),
    "bucket:10/20,step=4@3600": (98.0, 0.2),
    "bucket:10/20,sine=0.6": (98.0, 0.2),
    "bucket:10/20,noise=0.005": (90.0, math.inf),
    "bucket:2/5,noise=0.005": (82.0, math.inf),
    "bucket:10/20,dead=200": (79.0, math.inf),
}
"""Bars of the first ten minutes, by server, over a network of constant delay: goodput and
refusals, in percent. Where the earlier law was told of by a range of bursts, its worse end."""

HEADS = ("goodput", "worst", "refused", "2nd half", "", "10 min", "", "reached", "latency")
IN_FLIGHT = 500


def governor(target_concurrency: float, seed: int, ceiling: str = "hold") -> Governor:
    """The governor of one crawl, alone with its site."""
    settings = {
        "ADAPTIVE_CEILING": ceiling,
        "ADAPTIVE_TARGET_CONCURRENCY": (
            "auto" if target_concurrency == math.inf else target_concurrency
        ),
        "CONCURRENT_REQUESTS_PER_DOMAIN": IN_FLIGHT,
    }
    return governor_of(settings, random.Random(f"{seed} governor").random)


def crawl(job: tuple[Row, int, float]) -> Readings:
    """One crawl of one row."""
    row, seed, minutes = job
    crawler = governor(row.target_concurrency, seed)
    return play(crawler, row, seed, 60.0 * (row.minutes or minutes))


def play(crawler: Governor, row: Row, seed: int, until: float) -> Readings:
    """What a crawl of that row comes to by that instant, in seconds, paced by this governor."""
    site = read_spec(row.spec, seed)
    delay = network(row.network, random.Random(f"{seed} network"))
    return read(Crawl(crawler, site.server, site.pages, delay).run(until), site.server, until)


def line(row: Row, found: list[Readings]) -> tuple[str, bool]:
    """The row as a line, and whether it misses a bar."""
    percent = 100.0 / row.share

    def goodput(parts: list[Part]) -> list[float]:
        return [percent * (part.goodput_ratio or 0.0) for part in parts]

    def refused(parts: list[Part]) -> float:
        return statistics.mean(100.0 * part.refused_ratio for part in parts)

    crawls = [each.whole for each in found]
    halves = [each.second_half for each in found]
    firsts = [each.first for each in found]
    whole = statistics.mean(goodput(crawls))
    misses = is_missed(whole, refused(crawls), row.goodput, row.refused)
    reached = [each.reached_at for each in found if each.reached_at is not None]
    cells = (
        f"{whole:.1f}",
        f"{min(goodput(crawls)):.1f}",
        f"{refused(crawls):.2f}",
        f"{statistics.mean(goodput(halves)):.1f}",
        f"{refused(halves):.2f}",
        f"{statistics.mean(goodput(firsts)):.1f}",
        f"{refused(firsts):.2f}",
        f"{statistics.mean(reached):.0f} s" if reached else "-",
        f"{statistics.mean(each.median_latency or 0.0 for each in found):.3f}",
    )
    text = f"{row.name:<40}" + "".join(f"{cell:>9}" for cell in cells)
    text += f"   {bar_of(row.goodput, row.refused):<13}{'MISSED' if misses else '':<9}"
    if row.network == "constant" and row.spec in FIRST:
        bar = FIRST[row.spec]
        misses_first = is_missed(statistics.mean(goodput(firsts)), refused(firsts), *bar)
        text += f"{bar_of(*bar):<13}{'MISSED' if misses_first else ''}"
        misses |= misses_first
    return text, misses


def bar_of(goodput: float, refused: float) -> str:
    """The bar, in percent; a dash for what the earlier law tells nothing of."""
    return f"{goodput or math.nan:.1f} / {refused:.2f}".replace("nan", "-").replace("inf", "-")


def is_missed(goodput: float, refused: float, least: float, most: float) -> bool:
    """Whether these percents of goodput and refusals miss a bar by more than the slack."""
    return goodput < least - GOODPUT_SLACK or refused > most + REFUSED_SLACK


def main() -> int:
    """Crawl all rows; print and keep the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=numbers, default="101,102,103")
    parser.add_argument("--minutes", type=amount(), default=120.0)
    names = part_of(row.name for row in ROWS)
    parser.add_argument("--only", type=names, default="", help="rows whose name has this in it")
    parser.add_argument("--out", type=new_folder, help="folder for the table")
    given = parser.parse_args()
    rows = [row for row in ROWS if given.only in row.name]
    jobs = [(row, seed, given.minutes) for row in rows for seed in given.seeds]
    table = Table("simulation")
    heads = "".join(f"{head:>9}" for head in HEADS)
    table.add(f"{'':<40}{heads}   {'bar':<22}10 min")
    missed = 0
    with Pool() as pool:
        found = pool.imap(crawl, jobs)
        for row in rows:
            text, misses = line(row, [next(found) for _ in given.seeds])
            table.add(text)
            missed += misses
    table.add("", f"{missed} of {len(rows)} rows miss a bar")
    table.keep(given.out)
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
