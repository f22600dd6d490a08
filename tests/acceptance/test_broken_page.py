"""One page that is always refused costs its host a breath, and no other page.

Where the broken page is alone at the end, its probes wait out three silences (0.25, 12 and
62 s) before it is believed to be broken: these crawls take more than a minute, all asleep.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import pytest

from docsite.hits import rude_hits
from tests.acceptance.alongside import TRIES
from tests.crawling import Crawl, Crawler, Reactor, RunningCrawl
from tests.servers.origin import Answer, Origin, Visit, refusal
from tests.spiders import UrlsSpider

GOOD = [f"/{n:02}" for n in range(20)]
BREATH = 0.8
"""Share of its time that the good pages may take longer, 1.5 s of 1.9 on an idle machine: a few
gaps at half the pace and two breaths."""

RETRY_TIMES = 2
"""Scrapy's default."""

Place = Literal["first", "last"]


def break_one(visit: Visit) -> Answer:
    """/broken is refused for ever, the rest takes a tenth of a second."""
    if visit.path == "/broken":
        return refusal(503, delay=0.05)
    return Answer(delay=0.1)


def span(site: Origin) -> float:
    """Seconds between the first and the last start of the good pages."""
    starts = [hit.start for hit in site.hits() if hit.path != "/broken"]
    return starts[-1] - starts[0]


@dataclass(frozen=True)
class Trial:
    """Two crawls under way in one order: one meets the broken page, one has the good ones only."""

    with_it: Origin
    without_it: Origin
    meets: RunningCrawl
    spared: RunningCrawl


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("place", "reactor"),
    [("first", "asyncio"), ("last", "asyncio"), ("first", "select"), ("first", "none")],
)
def test_a_broken_page_slows_its_host_by_no_more_than_a_breath(
    place: Place, reactor: Reactor, crawl: Crawler, origin: Callable[..., Origin]
) -> None:
    """20 pages come home about as soon as without it; the broken one ends in RetryMiddleware.

    Last in first out or first in first out: the two orders run side by side.
    """
    paths = ["/broken", *GOOD] if place == "first" else [*GOOD, "/broken"]

    def start(site: Origin, order: str, paths: list[str]) -> RunningCrawl:
        settings: dict[str, Any] = {
            "SCHEDULER_MEMORY_QUEUE": f"scrapy.squeues.{order}MemoryQueue",
            "ADAPTIVE_START_DELAY": 0.2,
        }
        arguments = {"urls": [site.url + path for path in paths]}
        return crawl.start(UrlsSpider, settings, reactor=reactor, arguments=arguments, timeout=150)

    def try_order(order: str) -> Trial:
        sites = origin(break_one), origin(break_one)
        return Trial(*sites, start(sites[0], order, paths), start(sites[1], order, GOOD))

    def longer(order: str, trial: Trial) -> float:
        assert len(trial.spared.wait().urls) == len(GOOD)
        assert_only_the_broken_page_is_lost(trial.meets.wait(), trial.with_it)
        seconds, without_it = span(trial.with_it), span(trial.without_it)
        print(f"{order}: {seconds:.2f} s, {without_it:.2f} s without the broken page")
        return seconds / without_it - 1.0

    for order, trial in [(order, try_order(order)) for order in ("Lifo", "Fifo")]:
        longest = longer(order, trial)
        for _ in range(TRIES - 1):  # a hiccup of the machine is over by then
            longest = longest if longest <= BREATH else longer(order, try_order(order))
        assert longest <= BREATH


def assert_only_the_broken_page_is_lost(done: Crawl, site: Origin) -> None:
    """Each good page was asked for once; RetryMiddleware gave the other up.

    Asked for once, again by us, and once more by RetryMiddleware, it was asked for as often as
    RETRY_TIMES says, if the second time told that it is broken.
    """
    assert sorted(done.urls) == [site.url + path for path in GOOD]
    assert done.lost == [f"{site.url}/broken"]
    assert done.stats["retry/max_reached"] == 1
    assert f"Gave up retrying <GET {site.url}/broken>" in done.log
    paths = [hit.path for hit in site.hits()]
    assert sorted(path for path in paths if path != "/broken") == GOOD
    asked_again = done.stats["adaptive/requeued"]
    assert paths.count("/broken") == 1 + asked_again + (RETRY_TIMES - 1)
    assert done.stats["retry/count"] == RETRY_TIMES - 1


def test_a_site_that_refuses_the_first_visit_of_each_page_is_fetched_whole(
    crawl: Crawler, origin: Callable[..., Origin]
) -> None:
    """Two hits a page, but for those that found it out; no retry is spent.

    It begins slowly: a busy machine may read a refusal later than the next page is due.
    """
    site = origin(lambda visit: refusal(503) if visit.count == 1 else Answer())
    urls = [f"{site.url}/{n:02}" for n in range(40)]
    done = crawl(UrlsSpider, {"ADAPTIVE_START_DELAY": 0.5}, arguments={"urls": urls}, timeout=150)
    assert sorted(done.urls) == urls
    assert done.stats.get("retry/count", 0) == 0
    assert len(site.hits()) <= 2.2 * len(urls)
    assert list(rude_hits(site.hits())) == []
