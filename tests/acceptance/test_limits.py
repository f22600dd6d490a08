"""Sites that limit the rate of requests, as nginx does: no page is lost, few are refused.

Laws
----
* A crawl is judged by the site's own log: `rude_hits` is the judge, and the harness shows that
  the same judge finds stock Scrapy rude (`tests/test_harness.py`).
* The limit is 50 requests a second, so the least time for a crawl is its pages / 50.
"""

from __future__ import annotations

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

LIMIT = 50.0
"""Requests a second that the sites let through."""

BURST = 20

PAGES = 900
"""Of the variants; the plain crawl has 2,000. Before the first refusal is read a whole round of
`CAP` requests may be on its way, which must not be much of the 2 % allowed."""

CAP = 16
"""Requests in flight at most."""

SPARE = 5.0
"""Seconds for start, first steps and end of a crawl of any size."""

SETTINGS: dict[str, Any] = {
    **READING,
    "ADAPTIVE_TARGET_CONCURRENCY": 8,
    "CONCURRENT_REQUESTS_PER_DOMAIN": CAP,
}


def most_seconds(pages: int) -> float:
    """Three times what the limit allows."""
    return 3 * pages / LIMIT


def refused(hits: list[Hit]) -> list[Hit]:
    return [hit for hit in hits if hit.status in REFUSAL_CODES]


def assert_complete_and_polite(done: Crawl, urls: list[str], hits: list[Hit]) -> None:
    """Every page once, and silence after each refusal."""
    print(f"{len(refused(hits))} of {len(hits)} requests refused, {done.seconds:.1f} s")
    assert sorted(done.urls) == sorted(urls)
    assert done.lost == []
    assert len(refused(hits)) > 0
    assert rude(hits, done) == []


class LeakyBucket:
    """nginx's `limit_req` as a handler, whose refusals name the end of the wait as a date."""

    def __init__(self) -> None:
        self._excess = 0.0
        self._at = 0.0

    def __call__(self, visit: Visit) -> Answer:
        excess = max(0.0, self._excess - (visit.elapsed - self._at) * LIMIT) + 1.0
        if excess > BURST + 1:
            return refusal(429, formatdate(time.time() + 2, usegmt=True))
        self._excess, self._at = excess, visit.elapsed
        return Answer()


class Outage:
    """Drops every connection for five seconds, soon after the first visit."""

    def __init__(self) -> None:
        self._first = 0.0

    def __call__(self, visit: Visit) -> Answer:
        self._first = self._first or visit.elapsed
        return Answer(drop=1.5 <= visit.elapsed - self._first < 6.5)


@pytest.mark.timeout(150)
def test_two_thousand_pages_are_fetched_through_a_limit_with_few_refusals(
    nginx: Callable[..., Nginx], crawl: Crawler
) -> None:
    site = nginx(limit_req("50r/s", burst=BURST), pages=2000)
    urls = site.page_urls()
    done = crawl(UrlsSpider, SETTINGS, arguments={"urls": urls}, timeout=135)
    hits = site.hits()
    assert_complete_and_polite(done, urls, hits)
    assert len(refused(hits)) <= 0.02 * len(hits)
    assert done.seconds <= most_seconds(2000)


@pytest.mark.parametrize(
    ("status", "retry_after"), [(503, ""), (429, "2")], ids=["bare-503", "retry-after-2"]
)
def test_the_limit_is_held_however_nginx_refuses(
    status: int, retry_after: str, nginx: Callable[..., Nginx], crawl: Crawler
) -> None:
    fragment = limit_req("50r/s", burst=BURST, status=status)
    site = nginx(fragment, pages=PAGES, retry_after=retry_after)
    urls = site.page_urls()
    done = crawl(UrlsSpider, SETTINGS, arguments={"urls": urls}, timeout=100)
    hits = site.hits()
    assert_complete_and_polite(done, urls, hits)
    assert len(refused(hits)) <= 0.02 * len(hits)
    assert done.seconds <= most_seconds(PAGES) + SPARE


def test_a_date_in_retry_after_is_waited_for(origin: Callable[..., Origin], crawl: Crawler) -> None:
    site = origin(LeakyBucket())
    urls = [f"{site.url}/{n}" for n in range(PAGES)]
    done = crawl(UrlsSpider, SETTINGS, arguments={"urls": urls}, timeout=100)
    hits = site.hits()
    assert_complete_and_polite(done, urls, hits)
    assert len(refused(hits)) <= 0.02 * len(hits)
    assert done.seconds <= most_seconds(PAGES) + SPARE


def test_no_page_is_lost_to_a_server_that_drops_connections_for_five_seconds(
    origin: Callable[..., Origin], crawl: Crawler
) -> None:
    site = origin(Outage())
    urls = [f"{site.url}/{n}" for n in range(PAGES)]
    done = crawl(UrlsSpider, SETTINGS, arguments={"urls": urls}, timeout=100)
    dropped = [hit for hit in site.hits() if hit.status == 0]
    print(f"{len(dropped)} connections dropped, {done.seconds:.1f} s")
    assert sorted(done.urls) == sorted(urls)
    assert done.lost == []
    assert 2 <= len(dropped) <= 2 * CAP
    assert done.seconds <= most_seconds(PAGES) + SPARE


@pytest.mark.parametrize("reactor", ["select", "none"])
def test_the_limit_is_held_on_the_other_reactors(
    reactor: Reactor, nginx: Callable[..., Nginx], crawl: Crawler
) -> None:
    site = nginx(limit_req("50r/s", burst=BURST), pages=200)
    urls = site.page_urls()
    done = crawl(UrlsSpider, SETTINGS, reactor=reactor, arguments={"urls": urls})
    assert_complete_and_polite(done, urls, site.hits())
    assert done.seconds <= most_seconds(200) + SPARE
