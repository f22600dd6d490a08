"""Pages that fail, downloads that are given up, and requests that are cancelled."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
from scrapy import Request, signals
from scrapy.core.scheduler import Scheduler
from scrapy.crawler import Crawler as ScrapyCrawler
from scrapy.exceptions import StopDownload
from scrapy.http import Response
from twisted.python.failure import Failure

from tests.crawling import Crawl, Crawler
from tests.servers.origin import Answer, Origin, Visit, refusal
from tests.spiders import UrlsSpider

QUICK = {"ADAPTIVE_START_DELAY": 0, "ADAPTIVE_TARGET_CONCURRENCY": 8}


def pages(site: Origin, count: int) -> list[str]:
    return [f"{site.url}/{n}" for n in range(count)]


def assert_every_permit_ended(done: Crawl) -> None:
    ended = sum(done.stats[f"adaptive/permits/{end}"] for end in ("measured", "ignored", "dropped"))
    assert done.stats["adaptive/permits/granted"] == ended


def test_pages_that_always_fail_hold_up_neither_the_others_nor_the_end(
    origin: Callable[..., Origin], crawl: Crawler
) -> None:
    """A fifth of the pages answer 500: each is tried three times, as by stock Scrapy."""
    site = origin(lambda visit: Answer(500 if int(visit.path[1:]) % 5 == 0 else 200))
    done = crawl(UrlsSpider, QUICK, arguments={"urls": pages(site, 100)}, timeout=40)
    good = [url for n, url in enumerate(pages(site, 100)) if n % 5]
    assert sorted(item["url"] for item in done.items if item.get("status") == 200) == sorted(good)
    assert done.stats["retry/max_reached"] == 20
    assert done.stats["adaptive/time_paused"] < 12  # no rung of the ladder


class ImpatientSpider(UrlsSpider):
    """Asks for a page of its own in each callback and does not wait for it."""

    async def parse(self, response: Response) -> AsyncIterator[Any]:  # type: ignore[override]
        assert self.crawler.engine is not None
        extra = Request(f"{response.url}-extra")
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self.crawler.engine.download_async(extra), 0.1)
        yield {"url": response.url, "status": response.status}


def test_a_cancelled_download_gives_its_place_at_the_gate_back(
    origin: Callable[..., Origin], crawl: Crawler
) -> None:
    site = origin(lambda visit: Answer())
    settings = {
        "DOWNLOAD_DELAY": 0.3,
        "CONCURRENT_REQUESTS": 2,
        "CONCURRENT_REQUESTS_PER_DOMAIN": 2,
    }
    done = crawl(ImpatientSpider, settings, arguments={"urls": pages(site, 8)}, timeout=30)
    assert sorted(done.urls) == pages(site, 8)
    assert_every_permit_ended(done)


class StoppingSpider(UrlsSpider):
    """Wants only the headers of every third page."""

    @classmethod
    def from_crawler(cls, crawler: ScrapyCrawler, *args: Any, **kwargs: Any) -> StoppingSpider:
        spider = super().from_crawler(crawler, *args, **kwargs)
        crawler.signals.connect(spider.on_headers, signals.headers_received)
        return spider

    def on_headers(self, request: Request) -> None:
        if int(request.url.rsplit("/", 1)[1]) % 3 == 0:
            raise StopDownload(fail=True)


def test_a_download_that_the_spider_stops_is_no_failure_of_the_site(
    origin: Callable[..., Origin], crawl: Crawler
) -> None:
    site = origin(lambda visit: Answer(body="x" * 1000))
    done = crawl(StoppingSpider, QUICK, arguments={"urls": pages(site, 30)})
    assert len({hit.path for hit in site.hits()}) == 30
    assert done.stats["adaptive/trips"] == done.stats["adaptive/failures"] == 0
    assert_every_permit_ended(done)


class HeadsSpider(StoppingSpider):
    """Wants only the headers of every page."""

    def on_headers(self, request: Request) -> None:
        raise StopDownload(fail=True)

    def lose(self, failure: Failure) -> Iterator[Any]:
        response = getattr(failure.value, "response")  # noqa: B009 - set by Scrapy
        yield {"url": response.url, "status": response.status}


class Closing:
    """A site that refuses whatever comes for two seconds, from its sixth page on."""

    def __init__(self, **fields: Any) -> None:
        self.fields = fields
        self.since = math.inf
        self.late_count = 0
        """Requests that came a tenth of a second or more after the first that was refused."""

    def __call__(self, visit: Visit) -> Answer:
        if visit.total < 6 or visit.elapsed > self.since + 2.0:
            return Answer(body="x" * 1000)
        self.since = min(self.since, visit.elapsed)
        self.late_count += visit.elapsed > self.since + 0.1
        return refusal(retry_after=2, **self.fields)


BREAKS_OFF = b"HTTP/1.1 429 No\r\nRetry-After: 2\r\nContent-Length: 90\r\n\r\nno"


@pytest.mark.parametrize(
    ("spider", "fields"),
    [(HeadsSpider, {}), (UrlsSpider, {"drop": True, "drop_after": BREAKS_OFF})],
    ids=["stopped", "broken off"],
)
def test_a_refusal_whose_body_nobody_has_is_one(
    spider: type[UrlsSpider],
    fields: dict[str, Any],
    origin: Callable[..., Origin],
    crawl: Crawler,
) -> None:
    """Its body is not wanted, or breaks off: its status and its wait are known all the same."""
    closing = Closing(**fields)
    site = origin(closing)
    settings = {**QUICK, "ADAPTIVE_START_DELAY": 0.05}
    done = crawl(spider, settings, arguments={"urls": pages(site, 30)})
    assert sorted(item["url"] for item in done.items if item.get("status") == 200) == sorted(
        pages(site, 30)
    )
    assert closing.late_count == 0
    assert done.stats["adaptive/refusals"] > 0
    assert_every_permit_ended(done)


class FullDiskScheduler(Scheduler):
    """Takes each request once; nothing can be put back."""

    def enqueue_request(self, request: Request) -> bool:
        if "adaptive_requeued" in request.meta:
            raise OSError("no space left on device")
        return super().enqueue_request(request)


def test_a_scheduler_that_fails_does_not_keep_the_spider_from_closing(
    origin: Callable[..., Origin], crawl: Crawler
) -> None:
    def handler(visit: Visit) -> Answer:
        return refusal(429, retry_after=30) if visit.total > 2 else Answer()

    site = origin(handler)
    settings = {
        **QUICK,
        "SCHEDULER": FullDiskScheduler,
        "SCHEDULER_PRIORITY_QUEUE": "scrapy.pqueues.ScrapyPriorityQueue",
        "CLOSESPIDER_TIMEOUT": 2,
    }
    done = crawl(UrlsSpider, settings, arguments={"urls": pages(site, 10)}, timeout=20)
    assert done.stats["finish_reason"] == "closespider_timeout"
    assert "no space left on device" in done.log


def test_a_cool_down_of_nothing_lets_the_crawl_go_on(
    origin: Callable[..., Origin], crawl: Crawler
) -> None:
    """Every slot is woken when the global breaker closes, however short it was open."""
    hosts = [f"127.1.2.{n}" for n in range(1, 9)]

    def handler(visit: Visit) -> Answer:
        host = int(visit.host.partition(":")[0].rsplit(".", 1)[1])
        if host <= 6 and visit.path == "/0" and visit.count == 1:
            return refusal(503)
        return Answer(delay=1.0 if host == 7 else 0.0)

    site = origin(handler, addresses=hosts)
    urls = [f"{site.url_at(host)}/{n}" for host in hosts for n in range(2)]
    done = crawl(
        UrlsSpider,
        {"ADAPTIVE_GLOBAL_COOLDOWN": 0, "DOWNLOAD_DELAY": 0.5, "CONCURRENT_REQUESTS": 32},
        arguments={"urls": urls},
        timeout=40,
    )
    assert sorted(done.urls) == sorted(urls)
    assert done.stats["adaptive/global_trips"] >= 1
