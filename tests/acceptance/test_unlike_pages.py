"""Downloads unlike a page's: by a browser, of large files; and one request at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from scrapy import Request
from scrapy.core.downloader.handlers.http11 import HTTP11DownloadHandler
from scrapy.crawler import Crawler as ScrapyCrawler
from scrapy.http import Response

from tests.acceptance.beside import beside_stock, numbered
from tests.acceptance.test_slots import most_in_flight
from tests.crawling import Crawler, Reactor
from tests.servers.origin import Answer, Origin, Visit, refusal
from tests.spiders import UrlsSpider


class BrowserHandler(HTTP11DownloadHandler):
    """Renders four pages at once, and says nothing of latency: as a browser's handler does."""

    def __init__(self, crawler: ScrapyCrawler) -> None:
        super().__init__(crawler)
        self.tabs = asyncio.Semaphore(4)

    async def download_request(self, request: Request) -> Response:
        async with self.tabs:
            response = await super().download_request(request)
        request.meta.pop("download_latency", None)
        return response


def test_a_handler_with_a_concurrency_of_its_own_is_kept_busy(
    origin: Callable[..., Origin], crawl: Crawler
) -> None:
    """.8 s a page, four at once and twice as many asked for: it renders as for stock Scrapy.

    A busy machine hands the next page over late, but not as late as that.
    """
    ours, stock = beside_stock(
        origin,
        crawl,
        lambda visit: Answer(delay=0.8),
        settings=lambda site: {
            "DOWNLOAD_HANDLERS": {"http": BrowserHandler},
            "ADAPTIVE_START_DELAY": 0.3,
            "ADAPTIVE_TARGET_CONCURRENCY": 8,
        },
        arguments=lambda site: numbered(site, 40),
    )
    assert len(ours.pages) == len(stock.pages) == len(ours.done.urls) == 40
    assert most_in_flight(ours.pages) == most_in_flight(stock.pages) == 4
    print(f"{ours.span:.2f} s, stock {stock.span:.2f} s")
    assert ours.span <= 1.2 * stock.span + 6


def test_a_slow_body_is_no_slow_site(origin: Callable[..., Origin], crawl: Crawler) -> None:
    """Files whose heads come at once and whose bodies take a second: as many at once as stock."""
    ours, stock = beside_stock(
        origin,
        crawl,
        lambda visit: Answer(body=b"0" * 400_000, body_seconds=1.0),
        settings=lambda site: {"ADAPTIVE_START_DELAY": 0.2},
        arguments=lambda site: numbered(site, 40),
    )
    assert len(ours.pages) == len(stock.pages) == len(ours.done.urls) == 40
    assert most_in_flight(ours.pages) >= 6
    print(f"{ours.span:.2f} s, stock {stock.span:.2f} s")
    assert ours.span <= 1.5 * stock.span + 2


@pytest.mark.parametrize("reactor", ["asyncio", "select", "none"])
def test_one_request_at_a_time_is_one_request_at_a_time(
    reactor: Reactor, origin: Callable[..., Origin], crawl: Crawler
) -> None:
    """CONCURRENT_REQUESTS = 1, several hosts, and what a paused one holds lends its place."""
    hosts = [f"127.1.0.{n}" for n in range(1, 5)]

    def refuse_one(visit: Visit) -> Answer:
        if visit.host.startswith(hosts[0]) and visit.count == 1 and visit.path in ("/0", "/3"):
            return refusal(retry_after=1)
        return Answer(delay=0.05)

    site = origin(refuse_one, addresses=hosts)
    settings: dict[str, Any] = {
        "CONCURRENT_REQUESTS": 1,
        "ADAPTIVE_START_DELAY": 0.02,
        "ADAPTIVE_TARGET_CONCURRENCY": 8,
    }
    done = crawl(UrlsSpider, settings, arguments=numbered(site, 6), reactor=reactor)
    assert len(done.urls) == 6 * len(hosts)
    assert most_in_flight(site.hits()) == 1
