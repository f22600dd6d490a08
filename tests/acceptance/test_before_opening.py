"""What is downloaded before the spider is opened is a download like any other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from scrapy.downloadermiddlewares.offsite import OffsiteMiddleware

from benchmarks.beside.spiders import LoginPipeline
from tests.acceptance.beside import beside_stock, numbered
from tests.crawling import Crawler, Reactor
from tests.servers.origin import Origin, answers, robots_txt

PAGES = 10

ROBOTS = answers({"/robots.txt": robots_txt("User-agent: *\nDisallow: /no\n")})


def settings(site: Origin) -> dict[str, Any]:
    """A pipeline logs in before the spider is opened, and that needs robots.txt.

    Scrapy 2.15's own OffsiteMiddleware fails before then, with the add-on or without.
    """
    return {
        "DOWNLOADER_MIDDLEWARES": {OffsiteMiddleware: None},
        "ROBOTSTXT_OBEY": True,
        "LOGIN_URL": f"{site.url}/login",
        "ITEM_PIPELINES": {LoginPipeline: 1},
        "ADAPTIVE_START_DELAY": 0.05,
    }


@pytest.mark.parametrize("reactor", ["asyncio", "select", "none"])
def test_a_download_in_an_async_open_spider_leaves_its_host_as_stock_scrapy_does(
    reactor: Reactor, origin: Callable[..., Origin], crawl: Crawler
) -> None:
    """The same hits: robots.txt and the login once, then each page."""
    ours, stock = beside_stock(
        origin,
        crawl,
        ROBOTS,
        settings=settings,
        arguments=lambda site: numbered(site, PAGES),
        reactor=reactor,
    )
    asked = [sorted(hit.path for hit in arm.site.hits()) for arm in (ours, stock)]
    assert asked[0] == asked[1]
    assert len(ours.done.urls) == len(stock.done.urls) == PAGES
