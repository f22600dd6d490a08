"""`spider_idle` fires when nothing is left to do, and what waits at the gate is left to do."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from benchmarks.beside.spiders import TwoPhasesSpider
from tests.acceptance.beside import Arm, beside_stock, numbered
from tests.crawling import Crawler, Reactor
from tests.servers.origin import Answer, Handler, Origin, Visit, refusal

PAGES = 12


def steady(visit: Visit) -> Answer:
    return Answer(delay=0.1)


def phases(arm: Arm) -> tuple[int, int]:
    """How many pages each phase was served, the first wholly before the second."""
    pages = arm.pages
    second = [hit.path.endswith("/found") for hit in pages]
    assert second == sorted(second)
    return second.count(False), second.count(True)


@pytest.mark.parametrize("reactor", ["asyncio", "none"])
def test_a_spider_that_works_in_two_phases_begins_the_second_when_the_first_is_over(
    reactor: Reactor, origin: Callable[..., Origin], crawl: Crawler
) -> None:
    """The first is fetched past the scheduler, and most of it waits for its turn."""
    ours, stock = beside_stock(
        origin,
        crawl,
        steady,
        spider=TwoPhasesSpider,
        settings=lambda site: {"ADAPTIVE_START_DELAY": 0.2},
        arguments=lambda site: numbered(site, PAGES),
        reactor=reactor,
    )
    assert phases(ours) == (PAGES, PAGES) >= phases(stock)
    assert len(ours.done.urls) == PAGES


def test_a_pause_of_the_host_does_not_make_the_spider_idle(
    origin: Callable[..., Origin], crawl: Crawler
) -> None:
    """One page of the first phase is refused for a second, and the rest waits for it."""

    def refuse_once(visit: Visit) -> Answer:
        return refusal(retry_after=1) if visit.total == 3 else Answer()

    handler: Handler = refuse_once
    site = origin(handler)
    settings = {"ADAPTIVE_START_DELAY": 0.2}
    arguments = numbered(site, PAGES)
    done = crawl(TwoPhasesSpider, settings, arguments=arguments)
    assert phases(Arm(site, done)) == (PAGES, PAGES)
