"""Every permit ends once, whatever other middlewares do.

Middlewares on both sides of the gate raise, return a Request or return a Response at random in
each of their three methods, while the site drops connections and refuses; some requests come
through the scheduler, some past it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable
from random import Random
from typing import Any
from urllib.parse import urlsplit

import pytest
from scrapy import Request
from scrapy.exceptions import DownloadConnectionRefusedError, IgnoreRequest
from scrapy.http import HtmlResponse, Response

from scrapy_adaptive import Outcome
from tests.crawling import Crawl, Crawler, Reactor
from tests.servers.origin import Answer, Origin, Visit
from tests.spiders import UrlsSpider

HOSTS = [f"127.1.0.{n}" for n in range(1, 9)]
PAGES = 50
"""Pages of each host."""

AGAIN, ANSWER = "return a Request", "return a Response"
MISCHIEF = (IgnoreRequest, ValueError, DownloadConnectionRefusedError, AGAIN, ANSWER)


def page_of(url: str) -> str:
    """Host and path, without the port, which differs between runs."""
    parts = urlsplit(url)
    return f"{parts.hostname} {parts.path}"


class Mischief:
    """Goes wrong in each method at `shares[method]` of its calls, in one of five ways."""

    shares = (0.05, 0.03, 0.10)
    """Of the calls of process_request, process_response and process_exception."""

    def __init__(self) -> None:
        self._calls: Counter[tuple[int, str]] = Counter()

    def process_request(self, request: Request) -> Request | Response | None:
        return self._go_wrong(0, request)

    def process_response(self, request: Request, response: Response) -> Request | Response:
        return self._go_wrong(1, request) or response

    def process_exception(
        self, request: Request, exception: Exception
    ) -> Request | Response | None:
        return self._go_wrong(2, request)

    def _go_wrong(self, method: int, request: Request) -> Request | Response | None:
        """The nth call for a page goes the same way in each run, in whatever order they come."""
        self._calls[method, request.url] += 1
        count = self._calls[method, request.url]
        page = page_of(request.url)
        chance = Random(f"{type(self).__name__} {method} {page} {count}")
        if chance.random() >= self.shares[method]:
            return None
        what = chance.choice(MISCHIEF)
        if what == AGAIN:
            return request.replace(dont_filter=True)
        if what == ANSWER:
            return HtmlResponse(request.url, status=chance.choice([200, 200, 429, 503]))
        assert isinstance(what, type)
        raise what("mischief")


class At10(Mischief):
    """Before all of Scrapy's own."""


class At300(Mischief):
    """Among Scrapy's own."""


class At587(Mischief):
    """Between decompression and the requeueing of refusals."""


class At949(Mischief):
    """Next to the gate, on the spider's side."""


class At960(Mischief):
    """Next to the gate, on the site's side."""


class At990(Mischief):
    """Before the downloader: takes most failures away before the gate sees them."""

    shares = (0.05, 0.03, 0.95)


MIDDLEWARES = {At10: 10, At300: 300, At587: 587, At949: 949, At960: 960, At990: 990}


class MixedSpider(UrlsSpider):
    """Fetches a twin of every fourth page past the scheduler, as media pipelines do."""

    async def parse(self, response: Response) -> AsyncIterator[Any]:  # type: ignore[override]
        for item in super().parse(response):
            yield item
        if response.url.endswith("4"):
            engine = self.crawler.engine
            assert engine is not None
            try:
                await engine.download_async(Request(f"{response.url}/twin"))
            except Exception as error:
                self.logger.info("the twin failed: %r", error)


def trust_the_status(response: Response) -> Outcome | None:
    """A classifier without an opinion: it only delays the verdict."""
    return None


def drop_some(visit: Visit) -> Answer:
    """One in eight pages loses its first connections, each host refuses one page once.

    Connections are not kept open: Twisted resends by itself what a kept one has lost.
    """
    chance = Random(page_of(f"http://{visit.host}{visit.path}")).random()
    if chance < 1 / 8 and visit.count <= 2:
        return Answer(drop=True)
    if visit.path == "/044" and visit.count == 1:
        return Answer(429, headers={"Retry-After": "0", "Connection": "close"})
    return Answer(headers={"Connection": "close"})


def run(
    crawl: Crawler, site: Origin, *, hosts: int, reactor: Reactor = "asyncio", **settings: Any
) -> tuple[Crawl, set[str]]:
    """The crawl, and the pages it was asked for."""
    urls = [f"{site.url_at(host)}/{n:03}" for n in range(PAGES) for host in HOSTS[:hosts]]
    done = crawl(
        MixedSpider,
        {
            "DOWNLOADER_MIDDLEWARES": MIDDLEWARES,
            "CONCURRENT_REQUESTS": 32,
            "ADAPTIVE_START_DELAY": 0.01,
            "ADAPTIVE_TARGET_CONCURRENCY": 4,
            "ADAPTIVE_BACKOFF_RATIO": 0.9,
            "ADAPTIVE_GLOBAL_TRIP_SLOTS": 1000,
            "LOG_LEVEL": "INFO",
            **settings,
        },
        arguments={"urls": urls},
        reactor=reactor,
    )
    return done, set(urls)


def ends(done: Crawl) -> dict[str, int]:
    """How the permits ended, by name."""
    return {
        name: done.stats[f"adaptive/permits/{name}"]
        for name in ("granted", "measured", "ignored", "dropped")
    }


def assert_all_ended_once(done: Crawl, urls: set[str]) -> None:
    """No permit is left open, no page is left without an answer, and the spider closed."""
    permits = ends(done)
    assert permits["granted"] == permits["measured"] + permits["ignored"] + permits["dropped"]
    assert done.stats["finish_reason"] == "finished"
    assert Counter([*done.urls, *done.lost]) == Counter(urls)


@pytest.mark.parametrize(
    "settings",
    [{}, {"ADAPTIVE_CLASSIFIER": trust_the_status}],
    ids=["by status", "by classifier"],
)
def test_every_permit_ends_once_among_unruly_middlewares(
    settings: dict[str, Any], crawl: Crawler, origin: Callable[..., Origin]
) -> None:
    """Hundreds of each end, every page answered for, and the spider closes by itself."""
    site = origin(drop_some, addresses=HOSTS)
    done, urls = run(crawl, site, hosts=len(HOSTS), **settings)
    assert_all_ended_once(done, urls)
    assert all(count > 20 for count in ends(done).values()), ends(done)
    # What left for the site was neither dropped nor sent twice.
    assert len(site.hits()) == ends(done)["granted"] - ends(done)["dropped"]


@pytest.mark.parametrize("reactor", ["select", "none"])
def test_every_permit_ends_once_on_other_reactors(
    reactor: Reactor, crawl: Crawler, origin: Callable[..., Origin]
) -> None:
    """A smaller crawl of the same kind."""
    site = origin(drop_some, addresses=HOSTS)
    done, urls = run(crawl, site, hosts=3, reactor=reactor)
    assert_all_ended_once(done, urls)
    assert all(count > 0 for count in ends(done).values()), ends(done)
