"""Sites that limit the rate of requests, as nginx does: no page is lost, few are refused.

Laws
----
* A crawl is judged by the site's own log: `rude_hits` is the judge, and the harness shows that
  the same judge finds stock Scrapy rude (`tests/test_harness.py`).
* The least time for a crawl is its pages by the limit, which is low enough for a busy machine to
  meet it.
* The small crawls on the other reactors are not timed: they end soon after their first pause.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from email.utils import formatdate
from typing import Any

import pytest

from docsite.hits import REFUSAL_CODES, Hit
from tests.acceptance.readings import READING, rude
from tests.crawling import Crawl, Crawler, Reactor
from tests.servers.nginx import Nginx, limit_req
from tests.servers.origin import Answer, Origin, Visit, refusal
from tests.spiders import UrlsSpider

LIMIT, LOW_LIMIT = 15, 8
"""Requests a second that the sites let through, and that those of the small crawls do."""

CAP = 16
"""Requests in flight at most."""

MOST_DROPPED = 3 * CAP
"""A round in flight and five probes; HTTP clients try a kept connection and then a new one."""

SETTINGS: dict[str, Any] = {
    **READING,
    "ADAPTIVE_TARGET_CONCURRENCY": CAP,
    "CONCURRENT_REQUESTS_PER_DOMAIN": CAP,
}
"""As many as may be in flight: where a busy machine answers in a quarter of a second, eight would
not reach the limit."""

HASTY: dict[str, Any] = {**SETTINGS, "ADAPTIVE_START_DELAY": 0.005}
"""A small crawl that began with one page a second would be over before it met the limit."""

PAGES = 400

MOST_SECONDS = 3 * PAGES / LIMIT
"""Of a crawl of them all: three times what the limit allows."""

BURST = 5

FEW = 30

CRAWLS: list[tuple[Reactor, int]] = [("asyncio", PAGES), ("select", FEW), ("none", FEW)]
"""Reactor and pages. The small ones show that the same holds on the other reactors."""

pytestmark = pytest.mark.timeout(240)


def limit(pages: int) -> int:
    """Of the site of a crawl of so many pages."""
    return LIMIT if pages == PAGES else LOW_LIMIT


def most_refusals(hits: list[Hit]) -> float:
    """One in fifty; of a small crawl the two rounds of `CAP` that may be on their way."""
    return 0.02 * len(hits) if len(hits) >= PAGES else 2 * CAP


def refused(hits: list[Hit]) -> list[Hit]:
    return [hit for hit in hits if hit.status in REFUSAL_CODES]


def assert_the_limit_was_held(done: Crawl, urls: list[str], hits: list[Hit]) -> None:
    """Every page once and in time, few refusals, and silence after each."""
    print(f"{len(refused(hits))} of {len(hits)} requests refused, {done.seconds:.1f} s")
    assert sorted(done.urls) == sorted(urls)
    assert done.lost == []
    assert 0 < len(refused(hits)) <= most_refusals(hits)
    assert rude(hits, done) == []
    if len(urls) == PAGES:
        assert done.seconds <= MOST_SECONDS


class LeakyBucket:
    """nginx's `limit_req` as a handler, whose refusals name the end of the wait as a date."""

    def __init__(self, limit: float) -> None:
        self._limit = limit
        self._excess = 0.0
        self._at = 0.0

    def __call__(self, visit: Visit) -> Answer:
        excess = max(0.0, self._excess - (visit.elapsed - self._at) * self._limit) + 1.0
        if excess > BURST + 1:
            return refusal(429, formatdate(time.time() + 2, usegmt=True))
        self._excess, self._at = excess, visit.elapsed
        return Answer()


class Outage:
    """Drops every connection for some seconds, from the visit that `begins` it."""

    def __init__(self, begins: int, seconds: float) -> None:
        self._begins = begins
        self._seconds = seconds
        self._began_at = math.inf

    def __call__(self, visit: Visit) -> Answer:
        if visit.total == self._begins:
            self._began_at = visit.elapsed
        return Answer(drop=0 <= visit.elapsed - self._began_at < self._seconds)


@pytest.mark.parametrize(("reactor", "pages"), CRAWLS)
@pytest.mark.parametrize(
    ("status", "retry_after"),
    [(429, ""), (503, ""), (429, "2")],
    ids=["bare-429", "bare-503", "retry-after-2"],
)
def test_every_page_is_fetched_through_a_limit_of_nginx_with_few_refusals(
    status: int,
    retry_after: str,
    reactor: Reactor,
    pages: int,
    nginx: Callable[..., Nginx],
    crawl: Crawler,
) -> None:
    fragment = limit_req(f"{limit(pages)}r/s", burst=BURST, status=status)
    site = nginx(fragment, pages=pages, retry_after=retry_after)
    urls = site.page_urls()
    settings = SETTINGS if pages == PAGES else HASTY
    done = crawl(UrlsSpider, settings, reactor=reactor, arguments={"urls": urls}, timeout=210)
    assert_the_limit_was_held(done, urls, site.hits())


@pytest.mark.parametrize(("reactor", "pages"), CRAWLS)
def test_a_date_in_retry_after_is_waited_for(
    reactor: Reactor, pages: int, origin: Callable[..., Origin], crawl: Crawler
) -> None:
    site = origin(LeakyBucket(limit(pages)))
    urls = [f"{site.url}/{n}" for n in range(pages)]
    settings = SETTINGS if pages == PAGES else HASTY
    done = crawl(UrlsSpider, settings, reactor=reactor, arguments={"urls": urls}, timeout=210)
    assert_the_limit_was_held(done, urls, site.hits())


@pytest.mark.parametrize(("reactor", "pages"), CRAWLS)
def test_no_page_is_lost_to_a_server_that_drops_connections_for_some_seconds(
    reactor: Reactor, pages: int, origin: Callable[..., Origin], crawl: Crawler
) -> None:
    site = origin(Outage(begins=pages // 4, seconds=2.5 if reactor == "asyncio" else 1.5))
    urls = [f"{site.url}/{n}" for n in range(pages)]
    done = crawl(UrlsSpider, SETTINGS, reactor=reactor, arguments={"urls": urls}, timeout=210)
    dropped = [hit for hit in site.hits() if hit.status == 0]
    print(f"{len(dropped)} connections dropped, {done.seconds:.1f} s")
    assert sorted(done.urls) == sorted(urls)
    assert done.lost == []
    assert 2 <= len(dropped) <= MOST_DROPPED
    if pages == PAGES:
        assert done.seconds <= MOST_SECONDS
