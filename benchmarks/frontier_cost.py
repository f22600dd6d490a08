"""What a frontier costs a crawl: CPU per page, and lag of the event loop, beside none.

    python benchmarks/frontier_cost.py [--pages 2000] [--rounds 5]

The same spider crawls the same pages of a real server on 20 addresses, each link found on another
page; with a frontier and without take turns. Medians over the rounds; CPU is that of the crawl's
process, threads included.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    ROOT = Path(__file__).resolve().parents[1]
    sys.path[:0] = [str(ROOT), str(ROOT / "sample_project")]

import argparse
import resource
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from typing import Any

import scrapy
from scrapy import signals
from scrapy.http import Response
from scrapy.utils.asyncio import create_looping_call

from benchmarks.arguments import whole
from tests.crawling import Crawler
from tests.servers.origin import Answer, Origin
from tests.servers.postgres import shared

CPU, LAG = 1.05, 2.0
SPIDER = "benchmarks.frontier_cost:TreeSpider"
STEP = 0.01
HOSTS = 20
LINKS = 10
"""Links of each page; most are known already."""


class TreeSpider(scrapy.Spider):
    """Finds each page from the one before it."""

    name = "tree"

    def __init__(self, pages: int = 0, port: int = 0, **rest: Any) -> None:
        super().__init__(**rest)
        self.pages, self.port = pages, port

    def url(self, n: int) -> str:
        return f"http://127.0.2.{n % HOSTS + 1}:{self.port}/{n}"

    async def start(self) -> AsyncIterator[Any]:
        for n in range(HOSTS):
            yield scrapy.Request(self.url(n))

    def parse(self, response: Response) -> Iterator[Any]:
        n = int(response.url.rpartition("/")[2])
        yield {"n": n}
        for link in range(n + HOSTS, min(n + HOSTS + LINKS, self.pages)):
            yield scrapy.Request(self.url(link))


class Gauge:
    """Scrapy extension: CPU from opening to close, and how late a timer is."""

    def __init__(self, stats: Any) -> None:
        self.stats = stats
        self.lags: list[float] = []

    @classmethod
    def from_crawler(cls, crawler: Any) -> Gauge:
        gauge = cls(crawler.stats)
        crawler.signals.connect(gauge.opened, signals.spider_opened)
        crawler.signals.connect(gauge.idle, signals.spider_closed)
        return gauge

    def opened(self) -> None:
        self.began = _cpu()
        self.last = time.monotonic()
        self.loop = create_looping_call(self.tick)
        self.loop.start(STEP, now=False)

    def tick(self) -> None:
        now = time.monotonic()
        self.lags.append(max(0.0, now - self.last - STEP))
        self.last = now

    def idle(self) -> None:
        self.loop.stop()
        self.stats.set_value("cpu", _cpu() - self.began)
        self.lags.sort()
        self.stats.set_value("lag", self.lags[int(0.99 * len(self.lags))])


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", type=whole(HOSTS), default=2000)
    parser.add_argument("--rounds", type=whole(), default=5)
    given = parser.parse_args()
    found: dict[str, list[tuple[float, float]]] = {"none": [], "sqlite": [], "postgresql": []}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        addresses = [f"127.0.2.{n + 1}" for n in range(HOSTS)]
        site = stack.enter_context(Origin(lambda visit: Answer(), addresses=addresses))
        server = stack.enter_context(shared("bench-cost"))
        crawler = Crawler(folder)
        stack.callback(crawler.stop)
        for number in range(given.rounds):
            for name, measured in found.items():
                address = f"sqlite:///{folder}/{number}.db" if name == "sqlite" else None
                address = server.database() if name == "postgresql" else address
                settings = {
                    "ADAPTIVE_FRONTIER": address,
                    "ADAPTIVE_START_DELAY": 0.005,
                    "CONCURRENT_REQUESTS": 64,
                    "EXTENSIONS": {"benchmarks.frontier_cost.Gauge": 0},
                    "LOG_LEVEL": "WARNING",
                }
                arguments = {"pages": given.pages, "port": site.port}
                done = crawler(SPIDER, settings, arguments=arguments, timeout=300)
                assert len(done.items) == given.pages
                measured.append((done.stats["cpu"], done.stats["lag"]))
    kept = True
    cpu, lag = (statistics.median(each[n] for each in found["none"]) for n in (0, 1))
    print(
        f"without: {1000 * cpu / given.pages:.2f} ms of CPU a page, lag {1000 * lag:.1f} ms (p99)"
    )
    for name in ("sqlite", "postgresql"):
        own_cpu, own_lag = (statistics.median(each[n] for each in found[name]) for n in (0, 1))
        good = own_cpu <= CPU * cpu and own_lag <= LAG * lag
        kept &= good
        print(
            f"{name}: CPU per page {own_cpu / cpu:.3f} times (≤ {CPU}), "
            f"lag {own_lag / lag:.2f} times (≤ {LAG}){'' if good else '  MISSED'}"
        )
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
