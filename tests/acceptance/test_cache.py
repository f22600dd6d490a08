"""The HTTP cache keeps pages and never refusals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from scrapy.http import Response

from scrapy_adaptive import Outcome
from tests.acceptance.test_beside_middlewares import RetriesItself
from tests.crawling import Crawl, Crawler, Reactor
from tests.servers.origin import Answer, Origin, Visit, gzipped
from tests.spiders import UrlsSpider

HOSTS = [f"127.1.0.{n}" for n in range(1, 5)]
POLICIES = ["DummyPolicy", "RFC2616Policy"]
FRESH = {"Cache-Control": "max-age=3600"}
"""A cache by the book may keep even a 429 that says so."""


def refuse_first(visit: Visit) -> Answer:
    """Every page is refused once, as politely as can be."""
    if visit.count == 1:
        return Answer(429, "refused", {**FRESH, "Retry-After": "0"})
    return Answer(body="page", headers=FRESH)


def captcha_first(visit: Visit) -> Answer:
    """Every page is a captcha once, in disguise: status 200, compressed."""
    if visit.count == 1:
        captcha = gzipped("captcha")
        return Answer(200, captcha.body, {**captcha.headers, **FRESH, "Retry-After": "0"})
    return Answer(body="page", headers=FRESH)


def is_captcha(response: Response) -> Outcome | None:
    """The classifier of these tests."""
    return Outcome.REFUSED if b"captcha" in response.body else None


@pytest.fixture
def visit_all(crawl: Crawler, tmp_path: Path) -> Callable[..., Crawl]:
    """Crawls all pages of a site with the same cache each time."""

    def visit_all(
        site: Origin, policy: str, reactor: Reactor = "asyncio", **settings: Any
    ) -> Crawl:
        return crawl(
            UrlsSpider,
            {
                "HTTPCACHE_ENABLED": True,
                "HTTPCACHE_DIR": str(tmp_path / "cache"),
                "HTTPCACHE_POLICY": f"scrapy.extensions.httpcache.{policy}",
                "ADAPTIVE_START_DELAY": 0.02,
                **settings,
            },
            reactor=reactor,
            arguments={"urls": urls(site)},
        )

    return visit_all


def urls(site: Origin) -> list[str]:
    return [f"{site.url_at(host)}/{n}" for n in range(3) for host in HOSTS]


def assert_all_pages(done: Crawl, site: Origin) -> None:
    """Each page once, and none of them a refusal."""
    assert Counter(done.urls) == Counter(urls(site))
    assert {(item["status"], item["body_start"]) for item in done.items} == {(200, "page")}


@pytest.mark.parametrize(
    ("policy", "reactor"),
    [*((policy, "asyncio") for policy in POLICIES), (POLICIES[0], "select"), (POLICIES[0], "none")],
)
def test_no_refusal_is_served_from_the_cache(
    policy: str,
    reactor: Reactor,
    visit_all: Callable[..., Crawl],
    origin: Callable[..., Origin],
) -> None:
    """Every page is refused once; the second crawl asks for nothing and has every page."""
    site = origin(refuse_first, addresses=HOSTS)
    first = visit_all(site, policy, reactor)
    assert_all_pages(first, site)
    assert Counter(hit.status for hit in site.hits()) == {429: 12, 200: 12}
    assert "httpcache/hit" not in first.stats

    second = visit_all(site, policy, reactor)
    assert_all_pages(second, site)
    assert len(site.hits()) == 24
    assert second.stats["adaptive/permits/granted"] == 0


@pytest.mark.parametrize("policy", POLICIES)
def test_no_captcha_that_the_classifier_knows_is_served_from_the_cache(
    policy: str, visit_all: Callable[..., Crawl], origin: Callable[..., Origin]
) -> None:
    """The cache is nearer the site than the classifier, yet keeps the page and not the captcha."""
    site = origin(captcha_first, addresses=HOSTS)
    first = visit_all(site, policy, ADAPTIVE_CLASSIFIER=is_captcha)
    assert_all_pages(first, site)
    assert first.stats["adaptive/refusals"] == 12

    second = visit_all(site, policy, ADAPTIVE_CLASSIFIER=is_captcha)
    assert_all_pages(second, site)
    assert len(site.hits()) == 24


@pytest.mark.parametrize(
    ("asked", "statuses"), [(True, [429, 200, 200]), (False, [429, 200]), (None, [429, 200])]
)
def test_what_a_request_says_of_the_cache_holds_after_a_refusal(
    asked: bool | None,
    statuses: list[int],
    crawl: Crawler,
    origin: Callable[..., Origin],
    tmp_path: Path,
) -> None:
    """`dont_cache` of the user's own outlives our mark, which is the same; the refusal is kept out
    in any case."""
    site = origin(refuse_first)
    settings = {
        "HTTPCACHE_ENABLED": True,
        "HTTPCACHE_DIR": str(tmp_path / "cache"),
        "ADAPTIVE_START_DELAY": 0.02,
    }
    pages = [{"url": f"{site.url}/1", "meta": {"dont_cache": asked}}]
    for _ in range(2):
        assert crawl(UrlsSpider, settings, arguments={"urls": pages}).urls == [pages[0]["url"]]
    assert [hit.status for hit in site.hits()] == statuses


def test_what_somebody_else_retries_is_cached(
    visit_all: Callable[..., Crawl], origin: Callable[..., Origin]
) -> None:
    """A middleware that makes another request of a refused one copies our mark, which is ours
    there too."""
    site = origin(refuse_first, addresses=HOSTS)
    retries = {"DOWNLOADER_MIDDLEWARES": {RetriesItself: 700}}
    for _ in range(2):
        assert_all_pages(visit_all(site, POLICIES[0], **retries), site)
    assert len(site.hits()) == 24


@pytest.mark.parametrize("classifier", [None, is_captcha], ids=["by status", "by classifier"])
def test_a_refusal_whose_crawl_was_interrupted_is_not_served_by_the_next(
    classifier: Any, crawl: Crawler, origin: Callable[..., Origin], tmp_path: Path
) -> None:
    """A page waits out its Retry-After when Ctrl-C comes; the resumed job waits on, and asks."""

    def refuse_long(visit: Visit) -> Answer:
        answer = (captcha_first if classifier else refuse_first)(visit)
        return Answer(answer.status, answer.body, {**answer.headers, "Retry-After": "3"})

    site = origin(refuse_long)
    settings = {
        "HTTPCACHE_ENABLED": True,
        "HTTPCACHE_DIR": str(tmp_path / "cache"),
        "ADAPTIVE_CLASSIFIER": classifier,
    }
    options: dict[str, Any] = {
        "arguments": {"urls": [f"{site.url}/1"]},
        "jobdir": tmp_path / "job",
    }
    first = crawl.start(UrlsSpider, settings, **options)
    first.until(lambda: "paused for" in first.log)
    first.interrupt()
    assert first.wait().items == []
    assert [item["body_start"] for item in crawl(UrlsSpider, settings, **options).items] == ["page"]
    refused, served = site.hits()
    assert served.start >= refused.end + 3
