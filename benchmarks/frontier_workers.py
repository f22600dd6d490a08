"""Workers on one frontier, and one site that limits them: by default four, PostgreSQL, 50 a second.

    python benchmarks/frontier_workers.py [--minutes 3] [--kill-each 60] [--lease 10]
        [--engine redis] [--workers 8] [--site bucket|window|cap|ban] [--scale 0.2]

With --scale all limits are so much smaller, for a machine that is busy otherwise.

Judged by the site's own log: goodput as a share of the limit, refusals, the most in any ten
seconds, and how long the site waited where the worker that crawled it was killed. After the first
20 seconds, in which the limit is found.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path

from benchmarks.crawls.limiters import Ban, Limiter, TokenBucket, Unlimited, Window
from docsite.hits import Hit
from tests.crawling import Crawler
from tests.servers.origin import Answer, Origin, Visit, refusal
from tests.spiders import UrlsSpider

LIMIT, BURST = 50, 20
SETTLED = 20.0
GOODPUT, GOODPUT_KILLED, REFUSED, PEAK = 0.97, 0.95, 0.005, 1.1
SPARE = 2.0
"""Seconds beyond its lease after which a dead worker's host goes on."""


SERVICE = 0.05
"""Seconds until an answer leaves."""

CAP = 4
"""Requests in flight that `cap` lets be."""

SITES: dict[str, tuple[float, float, Callable[[float], Limiter]]] = {
    "bucket": (LIMIT, 10 * LIMIT + BURST, lambda of: TokenBucket(LIMIT * of, BURST * of)),
    "window": (30, 300, lambda of: Window(round(300 * of), 10.0)),
    "cap": (CAP / SERVICE, 10 * CAP / SERVICE, lambda _: Unlimited()),
    "ban": (20, 220, lambda of: Ban(20.0 * of, 20.0 * of, 10.0)),
}
"""Pages a second that each serves, the most in any ten seconds, and its rule."""


class Limited:
    """A site that answers after `SERVICE` seconds, and refuses by its rule."""

    def __init__(self, name: str, scale: float) -> None:
        self._rule = SITES[name][2](scale)
        self._service = SERVICE / scale if name == "cap" else SERVICE
        self._most = CAP if name == "cap" else 10**9
        self.in_ban = 0
        """Hits in a ban, but for those of the second in which it began."""
        self._banned_at = -math.inf

    async def __call__(self, visit: Visit) -> Answer:
        now = time.monotonic()
        verdict = self._rule.hit(now)
        served = verdict.served and visit.in_flight <= self._most
        if not served and not verdict.banned:
            self._banned_at = now
        self.in_ban += verdict.banned and now > self._banned_at + 1.0
        await asyncio.sleep(self._service)
        return Answer() if served else refusal()


def crawl(
    folder: Path, stack: ExitStack, given: argparse.Namespace
) -> tuple[list[Hit], list[float], int]:
    """The site's log, the instants of the kills, and the hits in a ban."""
    minutes, kill_each, lease = given.minutes, given.kill_each, given.lease
    rate = SITES[given.site][0] * given.scale
    rule = Limited(given.site, given.scale)
    site = stack.enter_context(Origin(rule))
    address = frontier(given.engine, folder, stack)
    crawler = Crawler(folder)
    stack.callback(crawler.stop)
    urls = [f"{site.url}/{n}" for n in range(round(minutes * 60 * rate * 1.3))]

    def start(number: int) -> None:
        settings = {
            "ADAPTIVE_FRONTIER": address,
            "ADAPTIVE_FRONTIER_LEASE": lease,
            "USER_AGENT": f"w{number}",
            "CONCURRENT_REQUESTS_PER_DOMAIN": 16,
            "LOG_LEVEL": "INFO",
        }
        crawler.start(UrlsSpider, settings, arguments={"urls": urls}, timeout=minutes * 60 + 120)

    for number in range(given.workers):
        start(number)
    kills: list[float] = []
    began = time.time()
    while time.time() < began + minutes * 60:
        time.sleep(1.0)
        due = began + SETTLED + kill_each * (len(kills) + 1)
        if kill_each and time.time() >= due and time.time() < began + minutes * 60 - kill_each / 2:
            last = site.hits()[-1].agent
            crawler.started[int(last[1:])].kill()
            kills.append(time.time())
            start(len(crawler.started))
    in_ban = rule.in_ban
    crawler.stop()
    hits = [hit for hit in site.hits() if began + SETTLED <= hit.start <= began + minutes * 60]
    return hits, kills, in_ban


def frontier(engine: str, folder: Path, stack: ExitStack) -> str:
    """The address of a new frontier."""
    if engine == "redis":
        from tests.servers.valkey import Valkey

        return stack.enter_context(Valkey(folder / "valkey")).frontier()
    from tests.servers.postgres import shared

    return stack.enter_context(shared("bench-workers")).database()


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
    """Longest time without a hit, after a kill."""
    return max(
        after.start - before.start
        for before, after in pairwise(hits)
        if after.start >= killed_at and before.start <= killed_at + lease
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=3.0)
    parser.add_argument("--kill-each", type=float, default=0.0, help="seconds between two kills")
    parser.add_argument("--lease", type=float, default=10.0)
    parser.add_argument("--engine", choices=("postgresql", "redis"), default="postgresql")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--site", choices=tuple(SITES), default="bucket")
    parser.add_argument("--scale", type=float, default=1.0)
    given = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        hits, kills, in_ban = crawl(folder, stack, given)
    rate, most_in_ten = (given.scale * each for each in SITES[given.site][:2])
    seconds = given.minutes * 60 - SETTLED
    goodput = sum(hit.status == 200 for hit in hits) / seconds / rate
    refused = sum(hit.status == 429 for hit in hits) / max(1, len(hits))
    most = peak(hits) / most_in_ten
    gaps = [longest_gap(hits, at, given.lease) for at in kills]
    names = {hit.agent for hit in hits}
    print(
        f"{given.engine}, {given.site} × {given.scale:g}: {given.workers} workers "
        f"({len(names)} sent), {seconds:.0f} s, {len(kills)} kills of the holder at a lease of "
        f"{given.lease:g} s: goodput {goodput:.3f}, refused {100 * refused:.2f} %, peak in 10 s "
        f"{most:.2f}, {in_ban} hits in a ban, gaps after kills {[round(gap, 1) for gap in gaps]} s"
    )
    least = GOODPUT_KILLED if kills else GOODPUT
    kept = goodput >= least and refused <= REFUSED and most <= PEAK
    kept &= all(gap <= given.lease + SPARE for gap in gaps)
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
