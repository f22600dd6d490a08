"""When a refusal is Scrapy's to deal with: too many of one page, `dont_retry`, no retries."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from docsite.hits import rude_hits
from tests.acceptance.test_filters import MetaSpider
from tests.crawling import Crawler
from tests.servers.origin import Answer, Origin, Visit, links_page, refusal
from tests.spiders import LinksSpider, UrlsSpider

HOSTS = [f"127.1.0.{n}" for n in range(1, 5)]
QUICK = {"ADAPTIVE_START_DELAY": 0.05, "ADAPTIVE_TARGET_CONCURRENCY": 8}
OTHERS = 15
REFUSALS = 3
"""ADAPTIVE_MAX_REFUSALS of these tests."""


class Twins:
    """Two pages that are refused for ever, and both at once, while all others are served.

    A page that alone is refused is soon known to be broken; these are never alone. The others
    are a chain of links and take their time, so that the two need not wait behind them.
    """

    PATHS = ("/twin/1", "/twin/2")

    def __init__(self) -> None:
        self._here: set[str] = set()
        self._both = asyncio.Event()

    async def __call__(self, visit: Visit) -> Answer:
        if visit.path not in self.PATHS:
            n = int(visit.path[1:])
            await asyncio.sleep(0.4)
            return links_page([f"/{n + 1}"] if n + 1 < OTHERS else [])
        self._here.add(visit.path)
        both = self._both
        if len(self._here) == 2:
            both.set()
            self._here, self._both = set(), asyncio.Event()
        try:
            await asyncio.wait_for(both.wait(), 3)
        except asyncio.TimeoutError:
            self._here.discard(visit.path)
        return refusal(retry_after=0)


def refuse_once(visit: Visit) -> Answer:
    """Every page is refused once."""
    return refusal(retry_after=0) if visit.count == 1 else Answer()


def test_a_page_refused_too_often_is_handed_to_retry_middleware(
    crawl: Crawler, origin: Callable[..., Origin]
) -> None:
    """With one error in the log, while others are served; RetryMiddleware then gives it up."""
    site = origin(Twins())
    twins = [site.url + path for path in Twins.PATHS]
    others = [f"{site.url}/{n}" for n in range(OTHERS)]
    done = crawl(
        LinksSpider,
        {
            **QUICK,
            "ADAPTIVE_MAX_REFUSALS": REFUSALS,
            "ADAPTIVE_CEILING": "aimd",
            "ADAPTIVE_BACKOFF_RATIO": 0.9,
            "RETRY_TIMES": 1,
        },
        arguments={"urls": [*twins, others[0]]},
    )
    assert sorted(done.urls) == sorted(others)
    assert sorted(done.lost) == twins
    errors = [line for line in done.log.splitlines() if "ADAPTIVE_MAX_REFUSALS" in line]
    assert len(errors) == 2
    for twin, error in zip(twins, sorted(errors, key=lambda line: line[20:]), strict=True):
        assert "ERROR" in error
        assert f"<GET {twin}> was refused more than {REFUSALS} times" in error
    assert done.stats["adaptive/handed_over"] >= 2
    assert done.stats["retry/count"] == 2
    assert done.stats["retry/max_reached"] == 2
    hits = Counter(hit.path for hit in site.hits())
    assert [hits[path] for path in Twins.PATHS] == [REFUSALS + 2] * 2


@pytest.mark.parametrize("retries", [{}, {"RETRY_ENABLED": False}, {"RETRY_TIMES": 0}], ids=str)
def test_refusals_spend_no_retries(
    retries: dict[str, Any], crawl: Crawler, origin: Callable[..., Origin]
) -> None:
    """Each page is refused once and comes home as if it had not been, with retries or without."""
    site = origin(refuse_once, addresses=HOSTS)
    urls = [f"{site.url_at(host)}/{n}" for n in range(3) for host in HOSTS]
    done = crawl(MetaSpider, {**QUICK, **retries}, arguments={"urls": urls})
    assert Counter(item["url"] for item in done.items) == Counter(urls)
    assert {(item["status"], item["retry_times"]) for item in done.items} == {(200, None)}
    assert done.stats["adaptive/requeued"] == len(urls)
    assert not [name for name in done.stats if name.startswith("retry/")]


def test_a_lost_connection_spends_a_retry_as_in_stock_scrapy(
    crawl: Crawler, origin: Callable[..., Origin]
) -> None:
    """A host that has answered drops every page once; they are all in flight when the first is.

    Twisted itself asks again on a new connection where one that it had kept is dropped.
    """
    site = origin(lambda visit: Answer(drop=visit.path != "/0" and visit.count == 1, delay=0.3))
    urls = [f"{site.url}/{n}" for n in range(7)]
    settings = {**QUICK, "ADAPTIVE_CEILING": "aimd", "RETRY_TIMES": 1}
    done = crawl(MetaSpider, settings, arguments={"urls": urls})
    assert Counter(item["url"] for item in done.items) == Counter(urls)
    assert done.stats["retry/count"] in (5, 6)
    assert "adaptive/requeued" not in done.stats


def test_a_request_that_must_not_be_retried_reaches_the_spider_as_it_is(
    crawl: Crawler, origin: Callable[..., Origin]
) -> None:
    """`dont_retry`: asked once, seen refused, and still felt as pain by its host."""
    site = origin(lambda visit: refusal(retry_after=2) if visit.path == "/1" else Answer())
    first = {"url": f"{site.url}/1", "meta": {"dont_retry": True}}
    # On a busy machine a refusal is read late: the second page must not be due before that.
    settings = {**QUICK, "ADAPTIVE_START_DELAY": 1.0}
    done = crawl(MetaSpider, settings, arguments={"urls": [first, f"{site.url}/2"]})
    assert [item["status"] for item in done.items] == [429, 200]
    assert done.stats["adaptive/trips"] == 1
    assert "adaptive/requeued" not in done.stats
    assert [hit.path for hit in site.hits()] == ["/1", "/2"]
    assert list(rude_hits(site.hits())) == []


def test_refused_pages_leave_at_the_pace_of_their_host_and_not_one_by_one(
    crawl: Crawler, origin: Callable[..., Origin]
) -> None:
    """Six pages are refused at once; after the probe they go out while others are in service."""

    def refuse_once_then_take_long(visit: Visit) -> Answer:
        return refusal(delay=0.5) if visit.count == 1 else Answer(delay=1.5)

    site = origin(refuse_once_then_take_long)
    urls = [f"{site.url}/{n}" for n in range(6)]
    crawl(UrlsSpider, {**QUICK, "ADAPTIVE_BACKOFF_RATIO": 0.9}, arguments={"urls": urls})
    _probe, *rest = [hit for hit in site.hits() if hit.status == 200]
    assert len(rest) == 5
    assert all(later.start < earlier.end for earlier, later in pairwise(rest))
