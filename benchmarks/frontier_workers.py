"""Workers on one frontier, and one site that limits them: by default four, PostgreSQL, 50 a second.

    python benchmarks/frontier_workers.py [--minutes 3] [--kill-each 60] [--lease 10]
        [--engine redis] [--workers 1 2 4 8] [--site nginx window cap ban] [--scale 0.2]
        [--out FOLDER]

With --scale all limits are so much smaller, for a machine that is busy otherwise.

Judged by the site's own log, after the first 20 seconds, in which the limit is found: goodput as a
share of the limit, refusals, the most in any ten seconds, hits of any worker while the one that was
refused pauses (as its journal says), and how long the site waited where the worker that crawled it
was killed. Where several numbers of workers are named, the first is what the others are held
against. Exit status 1 where a bound is missed.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    ROOT = Path(__file__).resolve().parents[1]
    sys.path[:0] = [str(ROOT), str(ROOT / "sample_project")]

import argparse
import math
import tempfile
import time
from contextlib import ExitStack
from itertools import pairwise
from typing import NamedTuple

from benchmarks.arguments import amount, new_folder, whole
from benchmarks.tables import Table
from benchmarks.worker_sites import KINDS, Served
from docsite.hits import Hit
from scrapy_adaptive.report.events import LONGER, PARKED, PAUSE
from scrapy_adaptive.report.reader import Journals
from scrapy_adaptive.report.records import EventRecord, Start
from tests.crawling import Crawler
from tests.spiders import UrlsSpider

SETTLED = 20.0
GOODPUT, GOODPUT_KILLED, REFUSED, PEAK = 0.97, 0.95, 0.005, 1.1
OF_THE_FIRST, MORE_REFUSED = 0.97, 0.001
"""Least goodput of the first number of workers', and most refusals beyond theirs."""
SPARE = 2.0
"""Seconds beyond its lease after which a dead worker's host goes on."""
ON_ITS_WAY = 0.5
"""Seconds after a refusal was noted in which what was on its way may reach the site's log."""
PAUSES = (PAUSE, LONGER, PARKED)
STARTS = 120.0
"""Seconds within which the first worker sends."""


class Row(NamedTuple):
    """What came of one crawl."""

    site: str
    workers: int
    sent: int
    """Workers that sent anything."""
    goodput: float
    refused: float
    most: float
    """Of the limit, in any ten seconds."""
    pauses: int
    early: int
    """Hits of any worker in a pause."""
    in_ban: int
    gaps: list[float]

    def misses(self, given: argparse.Namespace, first: Row) -> list[str]:
        """The bounds that are not kept."""
        kept = {
            "peak": self.most <= PEAK,
            "early": not self.early,
            "gaps": all(gap <= given.lease + SPARE for gap in self.gaps),
        }
        if first is self:
            least = GOODPUT_KILLED if self.gaps else GOODPUT
            if len(given.workers) == 1:  # of several the first shows what the law itself comes to
                kept |= {"goodput": self.goodput >= least, "refused": self.refused <= REFUSED}
        else:
            kept |= {
                "goodput": self.goodput >= OF_THE_FIRST * first.goodput,
                "refused": self.refused <= first.refused + MORE_REFUSED,
            }
        return [name for name, is_kept in kept.items() if not is_kept]

    def line(self, first: Row, misses: list[str]) -> str:
        beside = f"{self.goodput / max(first.goodput, 1e-9):.3f} of {first.workers}'s"
        gaps = f", gaps after kills {[round(gap, 1) for gap in self.gaps]} s" if self.gaps else ""
        missed = f"  MISSED: {', '.join(misses)}" if misses else ""
        return (
            f"{self.site:7} {self.workers} workers ({self.sent} sent): "
            f"goodput {self.goodput:.3f} ({beside}), "
            f"refused {100 * self.refused:.2f} %, peak in 10 s {self.most:.2f}, "
            f"{self.pauses} pauses, {self.early} hits in them, {self.in_ban} in a ban{gaps}{missed}"
        )


class Workers:
    """So many processes that crawl one site, the one that sends killed now and then."""

    def __init__(
        self, given: argparse.Namespace, name: str, count: int, folder: Path, stack: ExitStack
    ) -> None:
        self._given = given
        self._name = name
        self._count = count
        self.folder = folder
        self._address = frontier(given.engine, folder, stack)
        self.served = Served(name, given.scale, folder / "site")
        stack.enter_context(self.served.site)
        self.crawler = Crawler(folder)
        stack.callback(self.crawler.stop)
        rate = KINDS[name].rate * given.scale
        self._urls = self.served.urls(round(given.minutes * 60 * rate * 1.3))
        self.kills: list[float] = []

    def run(self) -> Row:
        """Crawl for the minutes that are asked for, from the first hit on."""
        for _ in range(self._count):
            self._start()
        deadline = time.monotonic() + STARTS
        while not self.served.site.hits():
            if time.monotonic() > deadline:
                raise RuntimeError(f"nothing was sent in {STARTS:g} s")
            time.sleep(0.1)
        began = time.time()
        ends = began + self._given.minutes * 60
        while time.time() < ends:
            time.sleep(0.5)
            self._kill(began, ends)
        in_ban = self.served.in_ban
        self.crawler.stop()
        hits = [hit for hit in self.served.site.hits() if began + SETTLED <= hit.start <= ends]
        return self._row(hits, in_ban)

    def _start(self) -> None:
        given, number = self._given, len(self.crawler.started)
        settings = {
            "ADAPTIVE_FRONTIER": self._address,
            "ADAPTIVE_FRONTIER_LEASE": given.lease,
            "ADAPTIVE_JOURNAL": str(self.folder / f"w{number}.jsonl"),
            "USER_AGENT": f"w{number}",
            "CONCURRENT_REQUESTS_PER_DOMAIN": 16,
            "LOG_LEVEL": "INFO",
        }
        seconds = given.minutes * 60 + STARTS
        self.crawler.start(UrlsSpider, settings, arguments={"urls": self._urls}, timeout=seconds)

    def _kill(self, began: float, ends: float) -> None:
        each = self._given.kill_each
        due = began + SETTLED + each * (len(self.kills) + 1)
        if each and due <= time.time() < ends - each / 2:
            last = self.served.site.hits()[-1].agent
            self.crawler.started[int(last[1:])].kill()
            self.kills.append(time.time())
            self._start()

    def _row(self, hits: list[Hit], in_ban: int) -> Row:
        scale, kind = self._given.scale, KINDS[self._name]
        seconds = self._given.minutes * 60 - SETTLED
        served = sum(hit.status == 200 for hit in hits)
        pauses = pauses_of(sorted(self.folder.glob("w*.jsonl")))
        return Row(
            self._name,
            self._count,
            len({hit.agent for hit in hits}),
            served / seconds / kind.rate / scale,
            sum(hit.status == 429 for hit in hits) / max(1, len(hits)),
            peak(hits) / kind.most / scale,
            len(pauses),
            in_pauses(hits, pauses),
            in_ban,
            [longest_gap(hits, at, self._given.lease) for at in self.kills],
        )


def frontier(engine: str, folder: Path, stack: ExitStack) -> str:
    """The address of a new frontier."""
    if engine == "redis":
        from tests.servers.valkey import Valkey

        return stack.enter_context(Valkey(folder / "valkey")).frontier()
    from tests.servers.postgres import shared

    return stack.enter_context(shared("bench-workers")).database()


def pauses_of(journals: list[Path]) -> list[tuple[float, float]]:
    """From when to when any worker paused the site, by its own journal; wall clock."""
    found = []
    with Journals(journals) as opened:
        for _, records in opened.read():
            began = 0.0
            for record in records:
                if isinstance(record, Start):
                    began = record.started_at
                elif isinstance(record, EventRecord) and record.event in PAUSES:
                    found.append((began + record.at, began + record.at + record.seconds))
    return sorted(found)


def in_pauses(hits: list[Hit], pauses: list[tuple[float, float]]) -> int:
    """Hits that began in a pause, but for those that were on their way."""
    starts = [hit.start for hit in hits]
    return sum(any(at + ON_ITS_WAY < start < end for at, end in pauses) for start in starts)


def peak(hits: list[Hit], seconds: float = 10.0) -> int:
    """Most hits that were let through in any so many seconds."""
    starts = [hit.start for hit in hits if hit.status == 200]
    first = most = 0
    for last, start in enumerate(starts):
        while starts[first] < start - seconds:
            first += 1
        most = max(most, last - first + 1)
    return most


def longest_gap(hits: list[Hit], killed_at: float, lease: float) -> float:
    """Longest time without a hit, after a kill; infinite where none came any more."""
    gaps = (
        after.start - before.start
        for before, after in pairwise(hits)
        if after.start >= killed_at and before.start <= killed_at + lease
    )
    return max(gaps, default=math.inf)


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=amount(0.5), default=3.0)
    parser.add_argument("--kill-each", type=float, default=0.0, help="seconds between two kills")
    parser.add_argument("--lease", type=amount(), default=10.0)
    parser.add_argument("--engine", choices=("postgresql", "redis"), default="postgresql")
    parser.add_argument("--workers", type=whole(), nargs="+", default=[4])
    parser.add_argument("--site", choices=tuple(KINDS), nargs="+", default=["bucket"])
    parser.add_argument("--scale", type=amount(), default=1.0)
    parser.add_argument("--out", type=new_folder, help="folder of what is printed")
    return parser.parse_args()


def main() -> int:
    given = read_arguments()
    table = Table("frontier_workers")
    kept = True
    for site in given.site:
        first: Row | None = None
        for count in given.workers:
            with ExitStack() as stack:
                folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
                row = Workers(given, site, count, folder, stack).run()
            first = first or row
            misses = row.misses(given, first)
            kept &= not misses
            table.add(row.line(first, misses))
            table.keep(given.out)
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
