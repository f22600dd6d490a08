"""What is not done when a crawl ends, or a host changes hands, is nobody's loss.

Laws
----
* What was visited, and what is left, is read from the frontier; who was asked when, from the site's
  log.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import scrapy
from scrapy.http import Response

from scrapy_adaptive.frontier.opening import open_frontier
from scrapy_adaptive.frontier.poller import Ranking
from scrapy_adaptive.frontier.protocol import Counts, Frontier
from tests.crawling import Crawler
from tests.servers.origin import Answer, Origin, redirect, refusal
from tests.servers.origin import Visit as Asked

HOSTS = [A, B] = ["127.1.9.1", "127.1.9.2"]

WAITING = 500


class EndingSpider(scrapy.Spider):
    """Begins with one page of the first host."""

    name = "ending"

    def __init__(self, port: int = 0, **rest: Any) -> None:
        super().__init__(**rest)
        self.port = int(port)

    def url(self, host: str, path: str) -> str:
        return f"http://{host}:{self.port}{path}"

    async def start(self) -> AsyncIterator[Any]:
        yield scrapy.Request(self.url(A, "/page"))

    def parse(self, response: Response) -> Iterator[Any]:
        yield {"url": response.url}


class ClosingSpider(EndingSpider):
    """Closes as the engine is given the first of many visits."""

    is_closing = False

    @classmethod
    def from_crawler(cls, crawler: Any, *args: Any, **rest: Any) -> ClosingSpider:
        spider = super().from_crawler(crawler, *args, **rest)
        crawler.signals.connect(spider.close_once, scrapy.signals.request_scheduled)
        return spider

    async def start(self) -> AsyncIterator[Any]:
        for n in range(WAITING):
            yield scrapy.Request(self.url(A, f"/{n}"))

    def close_once(self) -> None:
        if not self.is_closing:
            self.is_closing = True
            self.crawler.engine.close_spider(self, "enough")


class AwaitingSpider(EndingSpider):
    """Its callback awaits another page."""

    async def parse(self, response: Response) -> AsyncIterator[Any]:  # type: ignore[override]
        found = await self.crawler.engine.download_async(scrapy.Request(self.url(A, "/detail")))
        yield {"url": found.url}


class DetailSpider(EndingSpider):
    """A page has a detail on the other host."""

    def parse(self, response: Response) -> Iterator[Any]:
        yield {"url": response.url}
        yield scrapy.Request(
            self.url(B, "/detail"), self.parse_detail, meta={"adaptive_frontier": False}
        )

    def parse_detail(self, response: Response) -> Iterator[Any]:
        yield {"url": response.url}


class FileSpider(EndingSpider):
    """A page has a file on the other host."""

    def parse(self, response: Response) -> Iterator[Any]:
        yield {"file_urls": [self.url(B, "/file")]}


class LinkingSpider(EndingSpider):
    """The page links to pages that redirect to the other host."""

    async def start(self) -> AsyncIterator[Any]:
        yield scrapy.Request(self.url(B, "/first"))
        yield scrapy.Request(self.url(A, "/page"))

    def parse(self, response: Response) -> Iterator[Any]:
        yield {"url": response.url}
        if response.url.endswith("/page"):
            for n in range(5):
                yield response.follow(f"/to/{n}")


@pytest.fixture
def address(tmp_path: Path) -> str:
    """Of an empty frontier."""
    return f"sqlite:///{tmp_path}/crawl.db"


def opened(address: str) -> Frontier:
    """The same frontier, as another worker sees it."""
    return open_frontier(address, EndingSpider.name, Ranking())


def counts(address: str) -> Counts:
    """What is finished, and what is left."""
    with closing(opened(address)) as frontier:
        return frontier.counts()


def test_what_was_not_delivered_when_the_spider_closed_comes_again(
    address: str, origin: Callable[..., Origin], crawl: Crawler
) -> None:
    """All visits are given out at once; the spider is closed as the engine gets the first."""
    site = origin(lambda asked: Answer(), addresses=HOSTS)
    settings = {"ADAPTIVE_FRONTIER": address, "ADAPTIVE_FRONTIER_PER_HOST": WAITING}
    crawl(ClosingSpider, settings, arguments={"port": site.port})
    left = counts(address)
    assert left.finished <= len(site.hits())
    assert left.finished + left.ready == WAITING


@pytest.mark.parametrize("spider", [AwaitingSpider, DetailSpider])
def test_a_page_whose_other_requests_were_given_up_at_the_end_comes_again(
    spider: type[EndingSpider], address: str, origin: Callable[..., Origin], crawl: Crawler
) -> None:
    """What it awaits is paused for a minute; or its detail's host is another worker's."""

    def answer(asked: Asked) -> Answer:
        return refusal(retry_after=60) if asked.path == "/detail" else Answer()

    site = origin(answer, addresses=HOSTS)
    with closing(opened(address)) as other:
        other.open("other", "shared", 600.0)
        other.lease(0, 0, only=B)
        settings = {"ADAPTIVE_FRONTIER": address, "CLOSESPIDER_TIMEOUT": 3}
        crawl(spider, settings, arguments={"port": site.port})
    left = counts(address)
    assert (left.finished, left.ready) == (0, 1)


def test_a_host_stays_with_a_worker_while_a_file_of_it_is_under_way(
    address: str, origin: Callable[..., Origin], crawl: Crawler, tmp_path: Path
) -> None:
    """Longer than a turn of five seconds, and though another waits for it."""

    site = origin(
        lambda asked: Answer(delay=9.0 if asked.path == "/file" else 0.0), addresses=HOSTS
    )
    settings = {
        "ADAPTIVE_FRONTIER": address,
        "ITEM_PIPELINES": {"scrapy.pipelines.files.FilesPipeline": 1},
        "FILES_STORE": str(tmp_path),
    }
    running = crawl.start(FileSpider, settings, arguments={"port": site.port})
    running.until(lambda: site.hits() and site.in_flight())
    asked_at, got = time.monotonic(), False
    with closing(opened(address)) as other:
        other.open("other", "shared", 600.0)
        while not got and time.monotonic() < asked_at + 8.0:
            got = bool(other.lease(0, 0, only=B).held)
            time.sleep(0.5)
    assert not got
    running.wait()


def test_a_redirect_to_another_host_goes_by_the_pace_of_that_host(
    address: str, origin: Callable[..., Origin], crawl: Crawler
) -> None:
    """That one has asked for silence just before."""
    seconds = 4

    def answer(asked: Asked) -> Answer:
        if asked.path == "/first" and asked.count == 1:
            return refusal(retry_after=seconds)
        if asked.path.startswith("/to/"):
            return redirect(f"http://{B}:{asked.host.partition(':')[2]}/at{asked.path}")
        return Answer(delay=0.3 if asked.path == "/page" else 0.0)

    site = origin(answer, addresses=HOSTS)
    crawl(LinkingSpider, {"ADAPTIVE_FRONTIER": address}, arguments={"port": site.port})
    refused, *others = [hit for hit in site.hits() if hit.host.startswith(B)]
    assert refused.status == 429
    assert len(others) == 6
    assert min(hit.start for hit in others) >= refused.end + seconds


def test_a_page_that_is_visited_again_has_its_detail_again(
    address: str, origin: Callable[..., Origin], crawl: Crawler
) -> None:
    """By the same worker, which stays for it."""
    site = origin(lambda asked: Answer(body=f"<title>{asked.count}</title>"), addresses=HOSTS)
    settings = {
        "ADAPTIVE_FRONTIER": address,
        "ADAPTIVE_FRONTIER_STAY": 60,
        "ADAPTIVE_REVISIT": {"first": "1s", "min": "1s", "max": "2s"},
        "CLOSESPIDER_PAGECOUNT": 4,
    }
    crawl(DetailSpider, settings, arguments={"port": site.port})
    visits = [hit.path for hit in site.hits()]
    assert (visits.count("/page"), visits.count("/detail")) == (2, 2)
