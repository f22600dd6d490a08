"""What other middlewares take, they take while the pace passes: as with stock Scrapy."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from scrapy import Request

from tests.acceptance.beside import Arm, beside_stock, numbered
from tests.crawling import Crawler, Reactor
from tests.servers.origin import Origin, answers

PAGES = 14
DELAY = 0.4


class SlowMiddleware:
    """A token is fetched for each request."""

    async def process_request(self, request: Request) -> None:
        await asyncio.sleep(0.3)


def gap(arm: Arm) -> float:
    """Mean seconds between two pages; the first few are a start."""
    starts = [hit.start for hit in arm.pages][4:]
    return (starts[-1] - starts[0]) / (len(starts) - 1)


@pytest.mark.parametrize("reactor", ["asyncio", "none"])
def test_a_slow_middleware_before_the_gate_does_not_slow_the_pace(
    reactor: Reactor, origin: Callable[..., Origin], crawl: Crawler
) -> None:
    """.3 s of it before each request, and DOWNLOAD_DELAY = .4: pages are .4 s apart."""
    ours, stock = beside_stock(
        origin,
        crawl,
        answers({}),
        settings=lambda site: {
            "DOWNLOAD_DELAY": DELAY,
            "RANDOMIZE_DOWNLOAD_DELAY": False,
            "ADAPTIVE_START_DELAY": DELAY,
            "DOWNLOADER_MIDDLEWARES": {SlowMiddleware: 400},
        },
        arguments=lambda site: numbered(site, PAGES),
        reactor=reactor,
    )
    assert len(ours.pages) == len(stock.pages) == PAGES
    print(f"{gap(ours):.3f} s apart, stock {gap(stock):.3f} s")
    assert 0.98 * DELAY <= gap(ours) <= 1.5 * gap(stock)
