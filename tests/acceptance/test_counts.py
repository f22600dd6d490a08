"""Scrapy's own stats and signals count what the site has seen: no more, no less."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from scrapy import Request, signals
from scrapy.crawler import Crawler as ScrapyCrawler
from typing_extensions import Self

from tests.crawling import Crawler, Reactor
from tests.servers.origin import Answer, Origin, Visit, refusal
from tests.spiders import UrlsSpider

PAGES = 30

SCHEDULED = "signals/request_scheduled"


class CountsSignals:
    """Scrapy extension: counts what others listen for."""

    @classmethod
    def from_crawler(cls, crawler: ScrapyCrawler) -> Self:
        extension = cls()
        assert crawler.stats is not None
        extension.inc = crawler.stats.inc_value
        crawler.signals.connect(extension.on_scheduled, signals.request_scheduled)
        return extension

    inc: Callable[[str], None]

    def on_scheduled(self) -> None:
        self.inc(SCHEDULED)


class SlowMiddleware:
    """Something is fetched for each request: one let go before a refusal meets the pause."""

    async def process_request(self, request: Request) -> None:
        await asyncio.sleep(0.3)


def refusing_often(visit: Visit) -> Answer:
    """Some visits are refused for a second."""
    return refusal(retry_after=1) if visit.total in (8, 20) else Answer(delay=0.05)


@pytest.mark.parametrize("reactor", ["asyncio", "none"])
def test_requests_counted_are_hits_of_the_site(
    reactor: Reactor, origin: Callable[..., Origin], crawl: Crawler, tmp_path: Path
) -> None:
    """On a host that refuses now and then, while requests are on their way to the gate."""
    site = origin(refusing_often)
    done = crawl(
        UrlsSpider,
        {
            "EXTENSIONS": {CountsSignals: 1},
            "DOWNLOADER_MIDDLEWARES": {SlowMiddleware: 400},
            "HTTPCACHE_ENABLED": True,
            "HTTPCACHE_DIR": str(tmp_path / "cache"),
            "ADAPTIVE_START_DELAY": 0.05,
            "ADAPTIVE_TARGET_CONCURRENCY": 8,
        },
        arguments={"urls": [f"{site.url}/{n}" for n in range(PAGES)]},
        reactor=reactor,
    )
    hits = len(site.hits())
    assert hits == PAGES + 2 == PAGES + done.stats["adaptive/requeued"]
    assert len(done.urls) == PAGES
    for stat in ("downloader/request_count", "downloader/response_count", SCHEDULED):
        assert done.stats[stat] == hits, stat
    assert done.stats["httpcache/miss"] == hits
    assert done.stats["scheduler/enqueued"] == done.stats["scheduler/dequeued"] == hits
