"""Four workers on one PostgreSQL, and one site that lets 50 requests a second through.

    python benchmarks/frontier_workers.py [--minutes 3] [--kill-each 60] [--lease 10]

Judged by the site's own log: goodput as a share of the limit, refusals, the most in any ten
seconds, and how long the site waited where the worker that crawled it was killed. After the first
20 seconds, in which the limit is found.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path

from docsite.hits import Hit
from tests.crawling import Crawler
from tests.servers.nginx import Nginx, limit_req
from tests.servers.postgres import shared
from tests.spiders import UrlsSpider

LIMIT, BURST, WORKERS = 50, 20, 4
SETTLED = 20.0
GOODPUT, GOODPUT_KILLED, REFUSED, PEAK = 0.97, 0.95, 0.005, 1.1
SPARE = 2.0
"""Seconds beyond its lease after which a dead worker's host goes on."""


def crawl(
    folder: Path, stack: ExitStack, minutes: float, kill_each: float, lease: float
) -> tuple[list[Hit], list[float]]:
    """The site's log, and the instants of the kills."""
    pages = round(minutes * 60 * LIMIT * 1.3)
    server = stack.enter_context(shared("bench-workers"))
    limit = limit_req(f"{LIMIT}r/s", BURST)
    site = stack.enter_context(Nginx(folder / "nginx", limit, pages=pages))
    address = server.database()
    crawler = Crawler(folder)
    stack.callback(crawler.stop)
    urls = site.page_urls()

    def start(number: int) -> None:
        given = {
            "ADAPTIVE_FRONTIER": address,
            "ADAPTIVE_FRONTIER_LEASE": lease,
            "USER_AGENT": f"w{number}",
            "CONCURRENT_REQUESTS_PER_DOMAIN": 16,
            "LOG_LEVEL": "INFO",
        }
        crawler.start(UrlsSpider, given, arguments={"urls": urls}, timeout=minutes * 60 + 120)

    for number in range(WORKERS):
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
    crawler.stop()
    hits = [hit for hit in site.hits() if began + SETTLED <= hit.start <= began + minutes * 60]
    return hits, kills


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
    given = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        hits, kills = crawl(folder, stack, given.minutes, given.kill_each, given.lease)
    seconds = given.minutes * 60 - SETTLED
    served = sum(hit.status == 200 for hit in hits)
    goodput = served / seconds / LIMIT
    refused = sum(hit.status == 429 for hit in hits) / max(1, len(hits))
    most = peak(hits) / (10 * LIMIT + BURST)
    gaps = [longest_gap(hits, at, given.lease) for at in kills]
    names = {hit.agent for hit in hits}
    print(
        f"{WORKERS} workers ({len(names)} sent), {seconds:.0f} s, {len(kills)} kills of the holder "
        f"at a lease of {given.lease:g} s: goodput {goodput:.3f}, refused {100 * refused:.2f} %, "
        f"peak in 10 s {most:.2f}, gaps after kills {[round(gap, 1) for gap in gaps]} s"
    )
    least = GOODPUT_KILLED if kills else GOODPUT
    kept = goodput >= least and refused <= REFUSED and most <= PEAK
    kept &= all(gap <= given.lease + SPARE for gap in gaps)
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
