"""The live page while a real crawl runs."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from threading import Event

import pytest

from tests.browser.pages import Opener
from tests.crawling import Crawler, Reactor, RunningCrawl
from tests.servers.origin import Answer, Origin, Visit, refusal
from tests.spiders import UrlsSpider

PAGES = 12
REFUSED_AT = 6
WAIT = 3
"""Seconds that the refusal asks for."""

WATCH_AT = re.compile(r"INFO: watch at (http://127\.0\.0\.1:\d+/)$", re.MULTILINE)


class Site:
    """Refuses one visit when the page is open, and serves the last when it has shown enough."""

    def __init__(self) -> None:
        self.may_refuse = Event()
        self.may_end = Event()

    async def __call__(self, visit: Visit) -> Answer:
        if visit.total == REFUSED_AT:
            await happens(self.may_refuse)
            return refusal(retry_after=WAIT)
        if visit.total == PAGES:
            await happens(self.may_end)
        return Answer()


async def happens(event: Event) -> None:
    """Wait for it, in an event loop."""
    while not event.is_set():
        await asyncio.sleep(0.02)


def address(running: RunningCrawl) -> str:
    """What the crawl has printed."""
    running.until(lambda: WATCH_AT.search(running.log))
    found = WATCH_AT.search(running.log)
    assert found
    return found[1]


@pytest.mark.parametrize("reactor", ["asyncio", "select", "none"])
def test_the_page_follows_a_crawl_through_a_pause_to_its_end(
    reactor: Reactor, origin: Callable[..., Origin], crawl: Crawler, opened: Opener
) -> None:
    """Paused when the site refuses, crawling afterwards, and at the end the site's own counts."""
    handler = Site()
    site = origin(handler)
    settings = {
        "ADAPTIVE_WATCH": True,
        "ADAPTIVE_WATCH_PORT": 0,
        "ADAPTIVE_START_DELAY": 0.1,
        "CONCURRENT_REQUESTS_PER_DOMAIN": 1,
    }
    unlearned = {"autothrottle_dont_adjust_delay": True}
    urls = [{"url": f"{site.url}/{number}", "meta": unlearned} for number in range(PAGES)]
    running = crawl.start(UrlsSpider, settings, arguments={"urls": urls}, reactor=reactor)
    page = opened(address(running))
    state = "#sites td[data-name=state]"
    page.tab.wait_for_selector(f"{state}:text-is('● crawling')")
    handler.may_refuse.set()
    page.tab.wait_for_selector(f"{state}:text-is('‖ paused')")
    page.tab.wait_for_selector(f"{state}:text-is('● crawling')")
    handler.may_end.set()
    page.tab.wait_for_selector("#about:has-text('ended: finished')")
    running.wait()

    statuses = [hit.status for hit in site.hits()]
    assert page.tile("pages") == statuses.count(200) == PAGES
    assert page.tile("refused") == statuses.count(429) == 1
    assert page.text("#about").endswith("ended: finished")
    assert len(page.requests) == 2
