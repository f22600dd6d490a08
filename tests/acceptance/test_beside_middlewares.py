"""Other downloader middlewares take requests away after the queue has let them go.

Laws
----
* A request that never reaches the gate frees its host at once: what is left of its host's
  requests goes on as fast as if only they had been asked for.
* That pace is measured: another host at the same time, in a crawl without the middleware.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import scrapy.utils.defer
from scrapy import Request
from scrapy.exceptions import IgnoreRequest
from scrapy.http import HtmlResponse, Response

from docsite.hits import Hit
from tests.acceptance.alongside import (
    ALONE,
    HEALTHY,
    Both,
    assert_few_handed_back,
    at_once,
    crawl_both,
    hits_at,
    in_turn,
    pages_of,
    quietest,
    seconds,
)
from tests.crawling import Crawler, Reactor
from tests.servers.origin import Answer, Origin, Visit, redirect, refusal
from tests.spiders import UrlsSpider

THIRD = "127.1.2.3"
SLOT = "mine"

DELAY = 0.2
PAGES = 15
"""Pages of each host that are served."""

MOST = 1.5
"""Times the undisturbed time: a request taken away costs milliseconds, a place that is not freed
seconds."""

AFTER_EXCEPTION = 0.1 if hasattr(scrapy.utils.defer, "_defer_sleep_async") else 0.0
"""Seconds that a request keeps its place after an exception; the oldest Scrapys see to that."""

MOST_DROPPED = MOST + 3 * AFTER_EXCEPTION / DELAY
"""Times the undisturbed time, where three more requests before each page end in an exception."""

SETTINGS: dict[str, Any] = {
    "DOWNLOAD_DELAY": DELAY,
    "ADAPTIVE_START_DELAY": DELAY,
    "ADAPTIVE_TARGET_CONCURRENCY": 8,
    "CONCURRENT_REQUESTS_PER_DOMAIN": 1,
}


def is_extra(url: str) -> bool:
    return "/extra/" in url


class Drops:
    def process_request(self, request: Request) -> None:
        if is_extra(request.url):
            raise IgnoreRequest


class Replaces:
    """By a request to the same host, which goes through the scheduler."""

    def process_request(self, request: Request) -> Request | None:
        if is_extra(request.url):
            return request.replace(url=request.url.replace("/extra", ""))
        return None


class ReplacesWithAnotherHost:
    def process_request(self, request: Request) -> Request | None:
        if is_extra(request.url) and HEALTHY in request.url:
            return request.replace(url=request.url.replace(HEALTHY, THIRD))
        return None


class Answers:
    def process_request(self, request: Request) -> Response | None:
        if is_extra(request.url):
            return HtmlResponse(request.url, body=b"<title>from elsewhere</title>")
        return None


class Dawdles:
    """Each request takes some time on its way."""

    async def process_request(self, request: Request) -> None:
        await asyncio.sleep(0.3)


class NamesSlots:
    """Requests of one host are sent through a slot of another name."""

    def process_request(self, request: Request) -> None:
        if HEALTHY in request.url:
            request.meta["download_slot"] = SLOT


class RetriesItself:
    """What was refused is asked for by another request, as with another proxy."""

    def process_response(self, request: Request, response: Response) -> Request | Response:
        return request.replace(dont_filter=True) if response.status == 429 else response


def with_extra(urls: list[str]) -> list[str]:
    """Three more before each page."""
    pages = [url.rsplit("/", 1) for url in urls]
    return [
        url
        for host, n in pages
        for url in (*(f"{host}/extra/{n}{x}" for x in "abc"), f"{host}/{n}")
    ]


def assert_apart(hits: list[Hit], delay: float) -> None:
    """Each so long after the one before, but for one that was held up on the wire."""
    gaps = sorted(later.start - earlier.start for earlier, later in pairwise(hits))
    assert gaps[len(gaps) // 2] >= delay
    assert sum(gaps) >= 0.98 * delay * len(gaps)


@pytest.mark.parametrize(
    ("middleware", "reactor"),
    [
        *((each, "asyncio") for each in (Drops, ReplacesWithAnotherHost, Answers)),
        *((Drops, reactor) for reactor in ("select", "none")),
        *((ReplacesWithAnotherHost, reactor) for reactor in ("select", "none")),
    ],
)
def test_what_another_middleware_takes_away_frees_its_host_at_once(
    middleware: type, reactor: Reactor, origin: Callable[..., Origin], crawl: Crawler
) -> None:
    """Dropped, sent to another host, or answered: with one place for each host."""

    def crawl_them() -> Both:
        site = origin(addresses=[ALONE, HEALTHY, THIRD])
        both = crawl_both(
            site,
            crawl,
            with_extra(in_turn(site, {HEALTHY: PAGES})),
            SETTINGS,
            pages=PAGES,
            own={"DOWNLOADER_MIDDLEWARES": {middleware: 543}},
            until=at_once if middleware is ReplacesWithAnotherHost else None,
            reactor=reactor,
        )
        assert [hit for hit in hits_at(site, HEALTHY) if is_extra(hit.path)] == []
        return both

    most = MOST_DROPPED if middleware is Drops else MOST
    both = quietest(crawl_them, most)
    assert both.ratio <= most
    assert_few_handed_back(both.beside, PAGES)


def test_what_is_replaced_by_a_page_of_its_host_costs_no_more_than_that_page(
    origin: Callable[..., Origin], crawl: Crawler
) -> None:
    def crawl_them() -> Both:
        site = origin(addresses=[ALONE, HEALTHY])
        urls = [f"{site.url_at(HEALTHY)}/extra/{n}" for n in range(PAGES)]
        own = {"DOWNLOADER_MIDDLEWARES": {Replaces: 543}}
        return crawl_both(site, crawl, urls, SETTINGS, pages=PAGES, own=own)

    both = quietest(crawl_them, MOST)
    assert both.ratio <= MOST
    assert_few_handed_back(both.beside, PAGES)


def test_what_is_redirected_frees_its_host_at_once(
    origin: Callable[..., Origin], crawl: Crawler
) -> None:
    """Each redirect is a hit like any other; the pages they lead to are on a third host."""

    def there(visit: Visit) -> Answer:
        address, _, port = visit.host.partition(":")
        if address == HEALTHY and is_extra(visit.path):
            return redirect(f"http://{THIRD}:{port}{visit.path}")
        return Answer()

    def crawl_them() -> Both:
        site = origin(there, addresses=[ALONE, HEALTHY, THIRD])
        few = PAGES // 5
        urls = with_extra(in_turn(site, {HEALTHY: few}))
        first = crawl.start(
            UrlsSpider, SETTINGS, arguments={"urls": in_turn(site, {ALONE: len(urls)})}
        )
        done = crawl(UrlsSpider, SETTINGS, arguments={"urls": urls})
        alone = first.wait()
        here, away = hits_at(site, HEALTHY), pages_of(site, THIRD)
        assert (len(here), len(away)) == (len(urls), len(urls) - few)
        return Both(seconds(here) / seconds(hits_at(site, ALONE)), alone, done)

    both = quietest(crawl_them, MOST)
    assert both.ratio <= MOST
    assert_few_handed_back(both.beside, PAGES)


def test_what_the_http_cache_answers_frees_its_host_at_once(
    origin: Callable[..., Origin], crawl: Crawler, tmp_path: Path
) -> None:
    """Three pages of four are in the cache."""
    site = origin(addresses=[ALONE, HEALTHY])
    settings = {**SETTINGS, "HTTPCACHE_ENABLED": True, "HTTPCACHE_DIR": str(tmp_path / "cache")}
    urls = with_extra(in_turn(site, {HEALTHY: PAGES}))
    cached = [url for url in urls if is_extra(url)]
    crawl(
        UrlsSpider,
        {**settings, "ADAPTIVE_START_DELAY": 0, "DOWNLOAD_DELAY": 0},
        arguments={"urls": cached},
    )
    before = len(hits_at(site, HEALTHY))
    assert before == len(cached)
    first = crawl.start(UrlsSpider, SETTINGS, arguments={"urls": in_turn(site, {ALONE: PAGES})})
    done = crawl(UrlsSpider, settings, arguments={"urls": urls})
    first.wait()
    assert done.stats["httpcache/hit"] == len(cached)
    here = hits_at(site, HEALTHY)[before:]
    assert len(here) == PAGES
    there = pages_of(site, ALONE)
    ratio = seconds(here) / seconds(there)
    print(f"×{ratio:.3f}")
    assert ratio <= 1.5
    assert_few_handed_back(done, PAGES)


def test_a_slow_middleware_slows_no_host_whose_delay_and_places_allow_more(
    origin: Callable[..., Origin], crawl: Crawler
) -> None:
    """Three requests are in it at any time."""
    pages, quick = 40, {"DOWNLOAD_DELAY": 0.1, "CONCURRENT_REQUESTS_PER_DOMAIN": 8}

    def crawl_them() -> Both:
        site = origin(addresses=[ALONE, HEALTHY])
        return crawl_both(
            site,
            crawl,
            in_turn(site, {HEALTHY: pages}),
            {**SETTINGS, **quick, "ADAPTIVE_START_DELAY": 0.1},
            pages=pages,
            own={"DOWNLOADER_MIDDLEWARES": {Dawdles: 543}},
        )

    both = quietest(crawl_them, MOST)
    assert both.ratio <= MOST
    assert_few_handed_back(both.beside, pages)


@pytest.mark.parametrize("reactor", ["asyncio", "select", "none"])
def test_a_slot_that_is_named_on_the_way_keeps_its_delay_and_holds_up_no_other_host(
    reactor: Reactor, origin: Callable[..., Origin], crawl: Crawler
) -> None:
    """The queue learns it: the requests wait there and not at the gate."""
    slow, pages = 0.6, 20

    def crawl_them() -> Both:
        site = origin(addresses=[ALONE, HEALTHY, THIRD])
        # Here the measured host is the one that is not renamed.
        first = crawl.start(
            UrlsSpider, SETTINGS, reactor=reactor, arguments={"urls": in_turn(site, {ALONE: pages})}
        )
        running = crawl.start(
            UrlsSpider,
            {
                **SETTINGS,
                "CONCURRENT_REQUESTS": 4,
                "DOWNLOAD_SLOTS": {SLOT: {"delay": slow}},
                "DOWNLOADER_MIDDLEWARES": {NamesSlots: 543},
            },
            reactor=reactor,
            arguments={"urls": in_turn(site, {HEALTHY: pages, THIRD: pages})},
        )
        alone = first.wait()
        running.until(lambda: len(pages_of(site, THIRD)) == pages)
        running.interrupt()
        done = running.wait()
        assert_apart(hits_at(site, HEALTHY), slow)
        assert len(hits_at(site, HEALTHY)) >= 4
        ratio = seconds(pages_of(site, THIRD)) / seconds(pages_of(site, ALONE))
        print(f"×{ratio:.3f}, {done.stats.get('adaptive/handed_back', 0)} handed back")
        return Both(ratio, alone, done)

    both = quietest(crawl_them, MOST)
    assert both.ratio <= MOST
    assert_few_handed_back(both.beside, pages)


def test_a_retry_of_somebody_elses_is_known_for_a_page_that_was_refused(
    origin: Callable[..., Origin], crawl: Crawler
) -> None:
    """Where each page's first visit is refused, test requests would all be first visits else."""
    site = origin(lambda visit: refusal(retry_after=1) if visit.count == 1 else Answer())
    settings = {"DOWNLOADER_MIDDLEWARES": {RetriesItself: 700}, "ADAPTIVE_START_DELAY": 0.05}
    urls = [f"{site.url}/{n}" for n in range(7)]
    done = crawl(UrlsSpider, settings, arguments={"urls": urls}, timeout=60)
    assert sorted(done.urls) == urls
    assert len(site.hits()) == 2 * len(urls)
    assert "adaptive/requeued" not in done.stats
