"""What the HTTP cache holds is an answer: at once, whatever its site says meanwhile.

Laws
----
* Stock Scrapy fills the cache; the crawl that is judged has the same cache.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from scrapy import Request
from scrapy.http import Response

from benchmarks.beside.spiders import LateSpider
from tests.crawling import Crawler, Reactor
from tests.servers.origin import Answer, Origin, Visit, refusal
from tests.spiders import UrlsSpider

PAGES = 20

STALE = {"Cache-Control": "max-age=0", "ETag": '"1"'}
"""May be kept, has to be asked about each time, and may stand for an answer that fails."""


class LateReader(LateSpider):
    """Has the cache of the spider that filled it: a cache is by spider."""

    name = UrlsSpider.name


def cache(tmp_path: Path, policy: str) -> dict[str, Any]:
    return {
        "HTTPCACHE_ENABLED": True,
        "HTTPCACHE_DIR": str(tmp_path / "cache"),
        "HTTPCACHE_POLICY": f"scrapy.extensions.httpcache.{policy}",
        "ADAPTIVE_START_DELAY": 0.05,
    }


def stale_page(visit: Visit) -> Answer:
    return Answer(body=f"page, visit {visit.count}", headers=STALE)


@pytest.mark.parametrize("reactor", ["asyncio", "none"])
def test_stale_copies_are_used_while_the_host_answers_503_and_it_is_asked_little(
    reactor: Reactor, origin: Callable[..., Origin], crawl: Crawler, tmp_path: Path
) -> None:
    """RFC2616Policy. A later crawl finds no refusal in the cache: the host is asked again."""
    site = origin(stale_page)
    settings = cache(tmp_path, "RFC2616Policy")
    urls = [f"{site.url}/{n}" for n in range(PAGES)]
    options: dict[str, Any] = {"arguments": {"urls": urls}, "reactor": reactor}
    crawl(UrlsSpider, settings, adaptive=False, **options)
    assert len(site.hits()) == PAGES

    site.handler = lambda visit: refusal(503)
    ours = crawl(UrlsSpider, settings, timeout=30, **options)
    asked = len(site.hits()) - PAGES
    assert 1 <= asked <= 5
    assert sorted(ours.urls) == sorted(urls)
    assert {(item["status"], item["body_start"]) for item in ours.items} == {(200, "page, visit 1")}

    site.handler = lambda visit: Answer(body="new")
    later = crawl(UrlsSpider, settings, **options)
    assert [item["body_start"] for item in later.items] == ["new"] * PAGES


class SlowWay:
    """A downloader middleware that keeps every page but the first for a while."""

    async def process_request(self, request: Request) -> None:
        """The refusal of the first page is read meanwhile."""
        if not request.url.endswith("/0"):
            await asyncio.sleep(0.3)


@pytest.mark.parametrize(
    ("refused", "own"),
    [
        pytest.param(
            refusal(503, delay=0.2),
            {"DOWNLOADER_MIDDLEWARES": {SlowWay: 940}, "ADAPTIVE_TARGET_CONCURRENCY": 2},
            id="on their way when the host refuses",
        ),
        pytest.param(
            refusal(503, retry_after=60, delay=0.3),
            {"ADAPTIVE_RULES": [{"concurrency": 4}], "CONCURRENT_REQUESTS_PER_DOMAIN": 2},
            id="counted by a rule",
        ),
    ],
)
def test_no_copy_waits_for_its_host(
    refused: Answer,
    own: dict[str, Any],
    origin: Callable[..., Origin],
    crawl: Crawler,
    tmp_path: Path,
) -> None:
    """At the gate or in its queue, and the place that a page had on its way is another's."""
    site = origin(stale_page)
    settings = cache(tmp_path, "RFC2616Policy")
    urls = [f"{site.url}/{n}" for n in range(PAGES)]
    crawl(UrlsSpider, settings, adaptive=False, arguments={"urls": urls})

    site.handler = lambda visit: refused
    ours = crawl(UrlsSpider, settings | own, timeout=50, arguments={"urls": urls})
    assert sorted(ours.urls) == sorted(urls)


class PassesMetaOn(UrlsSpider):
    """Each page leads to another, which is asked for with the meta of the first."""

    def parse(self, response: Response) -> Iterator[Any]:
        yield from super().parse(response)
        if not response.url.endswith("/next"):
            yield Request(f"{response.url}/next", meta=response.meta, callback=self.parse)


def test_no_copy_stands_for_a_page_that_was_given_its_meta(
    origin: Callable[..., Origin], crawl: Crawler, tmp_path: Path
) -> None:
    """The site refuses both pages, and once what each leads to; one copy is used at the gate."""
    site = origin(stale_page)
    settings = cache(tmp_path, "RFC2616Policy")
    urls = [f"{site.url}/{n}" for n in range(2)]
    crawl(UrlsSpider, settings, adaptive=False, arguments={"urls": urls})

    def refuse(visit: Visit) -> Answer:
        is_served = visit.path.endswith("/next") and visit.count > 1
        return Answer(body="next") if is_served else refusal(503, retry_after=1)

    site.handler = refuse
    ours = crawl(PassesMetaOn, settings | {"ADAPTIVE_START_DELAY": 0.5}, arguments={"urls": urls})
    assert sorted(ours.urls) == sorted([*urls, *(f"{url}/next" for url in urls)])


@pytest.mark.parametrize("reactor", ["asyncio", "none"])
def test_cached_pages_of_a_paused_host_come_at_once(
    reactor: Reactor, origin: Callable[..., Origin], crawl: Crawler, tmp_path: Path
) -> None:
    """Another page of it is refused for some seconds; it comes last."""
    site = origin()
    settings = cache(tmp_path, "DummyPolicy")
    urls = [f"{site.url}/{n}" for n in range(PAGES)]
    crawl(UrlsSpider, settings, adaptive=False, arguments={"urls": urls}, reactor=reactor)

    site.handler = lambda visit: refusal(retry_after=5) if visit.count == 1 else Answer()
    new = f"{site.url}/new"
    done = crawl(LateReader, settings, arguments={"urls": [new, *urls]}, reactor=reactor)
    assert sorted(done.urls[:-1]) == sorted(urls)
    assert done.urls[-1] == new
    refused, served = site.hits()[PAGES:]
    assert refused.path == served.path == "/new"
    assert max(item["at"] for item in done.items[:-1]) < refused.end + 5
