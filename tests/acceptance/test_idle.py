"""A crawl all of whose hosts are paused sleeps: it looks at its queue about as rarely as Scrapy's.

The yardstick is stock Scrapy at the same time, which waits for one slow page.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from scrapy.core.scheduler import Scheduler

from tests.acceptance.alongside import in_turn
from tests.crawling import Crawl, Crawler, Reactor
from tests.servers.origin import Answer, Origin, Visit, refusal
from tests.spiders import UrlsSpider

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler as ScrapyCrawler

ASKED = "asked_at"

SLOW = "127.1.2.1"
HOSTS = [f"127.1.2.{n}" for n in range(2, 7)]

SETTLED = 1.5
"""Seconds after the last refusal from which the crawl is idle."""

WINDOW = 8.0
"""Seconds for which it is watched."""

MORE = 0.5
"""Looks a second more than stock Scrapy."""


class NotingScheduler(Scheduler):
    """Notes each instant at which the engine asks for a request, in wall-clock seconds."""

    @classmethod
    def from_crawler(cls, crawler: ScrapyCrawler) -> NotingScheduler:
        """Keep the notes in the crawl's stats."""
        scheduler = super().from_crawler(crawler)
        assert crawler.stats is not None
        scheduler.asked_at = []
        crawler.stats.set_value(ASKED, scheduler.asked_at)
        return scheduler

    asked_at: list[float]

    def next_request(self) -> Request | None:
        self.asked_at.append(time.time())
        return super().next_request()


class Paused:
    """The site: one host answers when the test says so, the others refuse."""

    def __init__(self) -> None:
        self.answers = False

    async def __call__(self, visit: Visit) -> Answer:
        if not visit.host.startswith(f"{SLOW}:"):
            return refusal(retry_after=30)
        while not self.answers:
            await asyncio.sleep(0.1)
        return Answer()


def looks(done: Crawl, since: float) -> int:
    """How often the engine asked in the window."""
    return sum(since <= asked < since + WINDOW for asked in done.stats[ASKED])


@pytest.mark.parametrize(
    ("trip_slots", "reactor"),
    [(1000, "asyncio"), (5, "asyncio"), (1000, "none")],
    ids=["hosts paused", "whole crawl stopped", "no reactor"],
)
def test_a_crawl_whose_hosts_are_all_paused_looks_at_its_queue_as_rarely_as_stock_scrapy(
    trip_slots: int, reactor: Reactor, origin: Callable[..., Origin], crawl: Crawler
) -> None:
    handler = Paused()
    site = origin(handler, addresses=[SLOW, *HOSTS])
    settings: dict[str, Any] = {"SCHEDULER": NotingScheduler, "STATS_DUMP": False}
    own = {"ADAPTIVE_START_DELAY": 0.05, "ADAPTIVE_GLOBAL_TRIP_SLOTS": trip_slots}
    stock = crawl.start(
        UrlsSpider,
        settings,
        adaptive=False,
        reactor=reactor,
        arguments={"urls": in_turn(site, {SLOW: 1})},
    )
    stock.until(site.in_flight)
    adaptive = crawl.start(
        UrlsSpider,
        {**settings, **own},
        reactor=reactor,
        arguments={"urls": in_turn(site, dict.fromkeys(HOSTS, 20))},
    )
    adaptive.until(lambda: {hit.host.partition(":")[0] for hit in site.hits()} >= set(HOSTS))
    since = max(hit.end for hit in site.hits()) + SETTLED
    adaptive.until(lambda: time.time() > since + WINDOW)
    adaptive.interrupt()
    asked = looks(adaptive.wait(), since)
    handler.answers = True
    yardstick = looks(stock.wait(), since)
    print(f"{asked} looks in {WINDOW:g} s, stock Scrapy {yardstick}")
    assert asked <= yardstick + MORE * WINDOW
    assert [hit for hit in site.hits() if hit.status == 429 and hit.start > since] == []
