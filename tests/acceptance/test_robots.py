"""robots.txt: fetched under the same politeness as any page, and its Crawl-delay obeyed."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from docsite.hits import Hit
from tests.crawling import Crawler, Reactor
from tests.servers.origin import (
    Answer,
    Handler,
    Origin,
    Visit,
    answers,
    redirect,
    refusal,
    robots_txt,
)
from tests.spiders import UrlsSpider

SETTINGS: dict[str, Any] = {"ROBOTSTXT_OBEY": True, "ADAPTIVE_START_DELAY": 0.02}

ROBOTS = "/robots.txt"

LATE = 0.2
"""Seconds by which a busy machine may be late with one hit of two that are compared."""

DELAY = 0.5


def robots_refused(times: int, retry_after: int) -> Handler:
    """A site whose robots.txt is refused so often and then forbids /private."""

    def handler(visit: Visit) -> Answer:
        if visit.path != ROBOTS:
            return Answer()
        if visit.count <= times:
            return refusal(retry_after=retry_after)
        return robots_txt("User-agent: *\nDisallow: /private")

    return handler


def of_robots(hits: list[Hit]) -> list[Hit]:
    return [hit for hit in hits if hit.path == ROBOTS]


def of_pages(hits: list[Hit]) -> list[Hit]:
    return [hit for hit in hits if hit.path != ROBOTS]


@pytest.mark.parametrize("reactor", ["asyncio", "select", "none"])
def test_a_refused_robots_txt_is_fetched_again_no_earlier_than_told_and_before_any_page(
    reactor: Reactor, origin: Callable[..., Origin], crawl: Crawler
) -> None:
    site = origin(robots_refused(2, retry_after=2))
    # More pages than CONCURRENT_REQUESTS has places: all of them wait for robots.txt.
    urls = [f"{site.url}/{n}" for n in range(30)]
    private = f"{site.url}/private"
    done = crawl(
        UrlsSpider, SETTINGS, reactor=reactor, arguments={"urls": [private, *urls]}, timeout=30
    )
    hits = site.hits()
    robots = of_robots(hits)
    assert [hit.status for hit in robots] == [429, 429, 200]
    assert all(later.start >= earlier.end + 2 for earlier, later in pairwise(robots))
    assert min(hit.start for hit in of_pages(hits)) >= robots[-1].end
    assert sorted(done.urls) == sorted(urls)
    assert done.lost == [private]


@pytest.mark.parametrize("reactor", ["asyncio", "select", "none"])
def test_a_robots_txt_refused_three_times_goes_to_scrapy_which_crawls_on(
    reactor: Reactor, origin: Callable[..., Origin], crawl: Crawler
) -> None:
    site = origin(robots_refused(100, retry_after=1))
    urls = [f"{site.url}/{n}" for n in range(30)]
    done = crawl(UrlsSpider, SETTINGS, reactor=reactor, arguments={"urls": urls}, timeout=30)
    hits = site.hits()
    robots = of_robots(hits)
    assert [hit.status for hit in robots] == [429] * 3
    assert all(later.start >= earlier.end + 1 for earlier, later in pairwise(hits[:4]))
    assert min(hit.start for hit in of_pages(hits)) >= robots[-1].end
    assert sorted(done.urls) == sorted(urls)
    assert done.stats["robotstxt/response_status_count/429"] == 1


def crawl_delay(seconds: float) -> Handler:
    return answers({ROBOTS: robots_txt(f"User-agent: *\nCrawl-delay: {seconds}")})


def assert_apart(pages: list[Hit], seconds: float) -> None:
    """Each page so long after the one before, over all of them exactly so."""
    gaps = [later.start - earlier.start for earlier, later in pairwise(pages)]
    assert min(gaps) >= seconds - LATE
    assert sum(gaps) >= seconds * len(gaps) - LATE
    assert sum(gaps) <= 1.5 * seconds * len(gaps)


@pytest.mark.parametrize(("asked", "most"), [(DELAY, 300.0), (30, DELAY)], ids=["obeyed", "capped"])
def test_pages_are_as_far_apart_as_crawl_delay_asks_up_to_the_users_maximum(
    asked: float, most: float, origin: Callable[..., Origin], crawl: Crawler
) -> None:
    site = origin(crawl_delay(asked))
    urls = [f"{site.url}/{n}" for n in range(8)]
    settings = {**SETTINGS, "ADAPTIVE_MAX_CRAWL_DELAY": most}
    done = crawl(UrlsSpider, settings, arguments={"urls": urls}, timeout=30)
    assert sorted(done.urls) == sorted(urls)
    assert_apart(of_pages(site.hits()), DELAY)


def test_crawl_delay_is_nothing_to_a_crawl_that_does_not_obey_robots_txt(
    origin: Callable[..., Origin], crawl: Crawler
) -> None:
    site = origin(crawl_delay(DELAY))
    urls = [site.url + ROBOTS, *(f"{site.url}/{n}" for n in range(8))]
    settings = {**SETTINGS, "ROBOTSTXT_OBEY": False}
    done = crawl(UrlsSpider, settings, arguments={"urls": urls})
    hits = site.hits()
    assert sorted(done.urls) == sorted(urls)
    assert hits[-1].start - hits[0].start < DELAY * 4


def test_crawl_delay_is_obeyed_from_a_cached_robots_txt(
    origin: Callable[..., Origin], crawl: Crawler, tmp_path: Path
) -> None:
    site = origin(crawl_delay(DELAY))
    settings = {**SETTINGS, "HTTPCACHE_ENABLED": True, "HTTPCACHE_DIR": str(tmp_path / "cache")}
    crawl(UrlsSpider, settings, arguments={"urls": [f"{site.url}/first"]})
    assert [hit.path for hit in site.hits()] == [ROBOTS, "/first"]
    urls = [f"{site.url}/{n}" for n in range(8)]
    done = crawl(UrlsSpider, settings, arguments={"urls": urls})
    assert sorted(done.urls) == sorted(urls)
    pages = site.hits()[2:]
    assert of_robots(pages) == []
    assert_apart(pages, DELAY)


@pytest.mark.parametrize("target", ["{there}/robots.txt", "/en/robots.txt"], ids=["host", "path"])
def test_crawl_delay_of_a_robots_txt_that_is_redirected_is_its_hosts_own(
    target: str, origin: Callable[..., Origin], crawl: Crawler
) -> None:
    """As from example.com to www.example.com, while the pages stay where they are."""
    here, there = "127.1.0.1", "127.1.0.2"
    asks = robots_txt(f"User-agent: *\nCrawl-delay: {DELAY}")

    def redirected(visit: Visit) -> Answer:
        if visit.path == ROBOTS and visit.host.startswith(here):
            return redirect(target.format(there=site.url_at(there)))
        return asks if ROBOTS in visit.path else Answer()

    site = origin(redirected, addresses=[here, there])
    urls = [f"{site.url_at(here)}/{n}" for n in range(6)]
    done = crawl(UrlsSpider, SETTINGS, arguments={"urls": urls}, timeout=30)
    assert sorted(done.urls) == urls
    assert_apart([hit for hit in site.hits() if ROBOTS not in hit.path], DELAY)


@pytest.mark.parametrize("reading", ["crawl", "disallow"])
def test_a_robots_txt_refused_to_the_end_means_what_the_user_says(
    reading: str, origin: Callable[..., Origin], crawl: Crawler
) -> None:
    """Scrapy's reading, or RFC 9309's; one warning tells of it, either way."""
    site = origin(robots_refused(100, retry_after=0))
    urls = [f"{site.url}/{n}" for n in range(5)]
    settings = {**SETTINGS, "ADAPTIVE_ROBOTSTXT_REFUSED": reading}
    done = crawl(UrlsSpider, settings, arguments={"urls": urls}, timeout=30)
    assert len(of_robots(site.hits())) == 3
    assert len(of_pages(site.hits())) == (len(urls) if reading == "crawl" else 0)
    assert sorted(done.urls) == (urls if reading == "crawl" else [])
    warnings = [line for line in done.log.splitlines() if "WARNING" in line]
    (warning,) = [line for line in warnings if "refuses its robots.txt (429)" in line]
    crawled = "its pages are crawled" if reading == "crawl" else "its pages are not crawled"
    assert f"{crawled} (ADAPTIVE_ROBOTSTXT_REFUSED = {reading!r})" in warning
