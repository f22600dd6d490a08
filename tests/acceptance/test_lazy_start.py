"""A `start()` that waits while the engine has enough to do is not read without end.

Laws
----
* The spider asks as Scrapy's documentation says, or awaits `scheduler_empty` before each request.
* With one place in CONCURRENT_REQUESTS the bound is `AHEAD` requests, and one more for each page:
  the engine asks once in vain after it, which lets `start()` be read on by one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import scrapy
from scrapy import signals
from scrapy.http import Response
from scrapy.utils.asyncio import call_later

from scrapy_adaptive.adapters.queues.lazy_start import AHEAD
from tests.acceptance.alongside import hits_at
from tests.crawling import Crawler, Reactor
from tests.servers.origin import Answer, Origin, Visit, refusal
from tests.spiders import UrlsSpider

HOSTS = PARKED, *OTHERS = ["127.1.2.1", "127.1.2.2", "127.1.2.3"]

PAGES = 20
"""After which the crawl is closed."""

FEW = 5
"""Requests by which more may wait: those that were under way when the bound was reached."""

READ, MOST = "start_requests_read", "most_waiting"

SETTINGS: dict[str, Any] = {"CONCURRENT_REQUESTS": 1, "ADAPTIVE_START_DELAY": 0.01}


class LazySpider(UrlsSpider):
    """Reads on when the engine has room, as Scrapy's page on lazy start requests shows."""

    name = "lazy"

    async def start(self) -> AsyncIterator[Any]:
        assert self.crawler.stats is not None
        async for each in super().start():
            await self.room()
            self.crawler.stats.inc_value(READ)
            self.crawler.stats.max_value(MOST, self.waiting)
            yield each

    @property
    def waiting(self) -> int:
        engine = self.crawler.engine
        assert engine is not None
        slot: Any = engine._slot
        return len(slot.scheduler)

    async def room(self) -> None:
        engine = self.crawler.engine
        assert engine is not None
        if engine.needs_backout():
            await self.crawler.signals.wait_for(signals.scheduler_empty)


class WaitingSpider(LazySpider):
    """Awaits an empty scheduler before each request."""

    name = "waiting"

    async def room(self) -> None:
        await self.crawler.signals.wait_for(signals.scheduler_empty)


class PausingSpider(LazySpider):
    """Its fifth page pauses the engine for half a second."""

    name = "pausing"
    count = 0

    def parse(self, response: Response) -> Iterator[Any]:
        self.count += 1
        if self.count == 5:
            engine = self.crawler.engine
            assert engine is not None
            engine.pause()
            call_later(0.5, engine.unpause)
        yield from super().parse(response)


class LinkingSpider(LazySpider):
    """Each page leads to one more, of the same host."""

    name = "linking"

    def parse(self, response: Response) -> Iterator[Any]:
        yield from super().parse(response)
        yield scrapy.Request(f"{response.url}/on", callback=self.parse, errback=self.lose)


def pages(site: Origin, count: int, address: str | None = None) -> list[str]:
    base = site.url if address is None else site.url_at(address)
    return [f"{base}/{n}" for n in range(count)]


@pytest.mark.parametrize(
    ("spider", "is_job", "reactor"),
    [
        (LazySpider, False, "asyncio"),
        (LazySpider, False, "select"),
        (LazySpider, True, "none"),
        (LinkingSpider, True, "asyncio"),
    ],
)
def test_a_lazy_start_is_read_no_further_than_so_many_requests_that_wait(
    spider: type[LazySpider],
    is_job: bool,
    reactor: Reactor,
    origin: Callable[..., Origin],
    crawl: Crawler,
    tmp_path: Path,
) -> None:
    """Twenty pages at a fifth of a second each give time to read hundreds more.

    A page that leads to another takes one request off those that wait, and brings two.
    """
    site = origin()
    done = crawl(
        spider,
        {**SETTINGS, "DOWNLOAD_DELAY": 0.2, "CLOSESPIDER_PAGECOUNT": PAGES},
        reactor=reactor,
        jobdir=tmp_path / "job" if is_job else None,
        arguments={"urls": pages(site, 50 * AHEAD)},
    )
    assert done.stats["finish_reason"] == "closespider_pagecount"
    brought = PAGES if spider is LinkingSpider else 0
    assert AHEAD // 2 < done.stats[MOST] <= AHEAD + brought + FEW
    assert done.stats[READ] <= AHEAD + PAGES + FEW


@pytest.mark.parametrize(
    ("spider", "reactor"),
    [
        (LazySpider, "asyncio"),
        (LazySpider, "none"),
        (WaitingSpider, "asyncio"),
        (WaitingSpider, "select"),
        (PausingSpider, "asyncio"),
    ],
)
def test_a_lazy_start_is_read_to_its_end(
    spider: type[LazySpider], reactor: Reactor, origin: Callable[..., Origin], crawl: Crawler
) -> None:
    """Though twice as many requests as may wait are to be read, and the engine stops meanwhile.

    While it is paused it asks for nothing, and `start()` is read on, as without the add-on.
    """
    site = origin()
    urls = pages(site, 2 * AHEAD)
    done = crawl(
        spider,
        {**SETTINGS, "DOWNLOAD_DELAY": 0.01, "CONCURRENT_REQUESTS_PER_DOMAIN": 1},
        reactor=reactor,
        arguments={"urls": urls},
    )
    assert done.stats["finish_reason"] == "finished"
    assert sorted(done.urls) == sorted(urls)
    assert done.stats[MOST] <= AHEAD + FEW or spider is PausingSpider


def test_a_start_that_waits_for_nothing_is_read_at_once(
    origin: Callable[..., Origin], crawl: Crawler
) -> None:
    """As by Scrapy: a request that is read last may have the highest priority."""
    site = origin()
    urls: list[Any] = list(pages(site, 3 * AHEAD))
    urls.append({"url": f"{site.url}/first", "priority": 1})
    done = crawl(
        UrlsSpider,
        {**SETTINGS, "DOWNLOAD_DELAY": 0.5, "CLOSESPIDER_PAGECOUNT": 10},
        arguments={"urls": urls},
    )
    assert f"{site.url}/first" in done.urls


def test_a_job_that_closes_while_its_start_waits_is_resumed_and_completed(
    origin: Callable[..., Origin], crawl: Crawler, tmp_path: Path
) -> None:
    site = origin()
    urls = pages(site, 2 * AHEAD)
    options: dict[str, Any] = {"jobdir": tmp_path / "job", "arguments": {"urls": urls}}
    settings = {**SETTINGS, "DOWNLOAD_DELAY": 0.3}
    first = crawl.start(LazySpider, settings, **options)
    first.until(lambda: len(site.hits()) >= 8)
    first.interrupt()
    begun = first.wait()
    assert begun.stats["finish_reason"] == "shutdown"
    assert begun.stats[READ] < len(urls)
    rest = crawl(LazySpider, {**SETTINGS, "DOWNLOAD_DELAY": 0.01}, **options)
    assert rest.stats["finish_reason"] == "finished"
    assert sorted(begun.urls + rest.urls) == sorted(urls)


def test_hosts_behind_a_parked_one_are_read_and_crawled(
    origin: Callable[..., Origin], crawl: Crawler, tmp_path: Path
) -> None:
    """It has more requests than may wait, and asks for an hour; the job then ends, parked."""

    def handler(visit: Visit) -> Answer:
        return refusal(retry_after=3600) if visit.host.startswith(PARKED) else Answer()

    site = origin(handler, addresses=HOSTS)
    others = [url for host in OTHERS for url in pages(site, 5, host)]
    done = crawl(
        LazySpider,
        {**SETTINGS, "ADAPTIVE_MAX_PAUSE": 60},
        jobdir=tmp_path / "job",
        arguments={"urls": pages(site, 2 * AHEAD, PARKED) + others},
    )
    assert done.stats["finish_reason"] == "adaptive_parked"
    assert sorted(done.urls) == sorted(others)
    assert len(hits_at(site, PARKED)) == 1
