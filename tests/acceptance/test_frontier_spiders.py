"""What spiders do beside yielding requests comes to the same with a frontier as without one.

Laws
----
* The judge is the site's log, and the items.
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import scrapy
from scrapy.exceptions import CloseSpider, DontCloseSpider
from scrapy.http import Response
from twisted.internet.defer import succeed

from scrapy_adaptive.frontier.opening import open_frontier
from scrapy_adaptive.frontier.poller import Ranking
from tests.crawling import Crawler, Reactor
from tests.servers.origin import Answer, Origin

PAGES, LINKS = 3, 4
OTHER = "127.1.10.2"
NOT_ASKED = "DUPEFILTER_CLASS = scrapy.dupefilters.BaseDupeFilter is not asked"


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, Any]:
    """Of a crawl with an empty frontier."""
    return {
        "ADAPTIVE_FRONTIER": f"sqlite:///{tmp_path}/crawl.db",
        "ADAPTIVE_FRONTIER_POLL_INTERVAL": 0.1,
        "ADAPTIVE_START_DELAY": 0.02,
        "ADAPTIVE_LOG_INTERVAL": 0,
    }


class PagesSpider(scrapy.Spider):
    """Begins with a few pages."""

    name = "pages"

    def __init__(self, site: str = "", **rest: Any) -> None:
        super().__init__(**rest)
        self.site = site
        self.start_urls = [f"{site}/page/{n}" for n in range(PAGES)]

    def parse(self, response: Response) -> Any:
        yield {"url": response.url}

    def follow_all(self, response: Response) -> Iterator[Any]:
        """The links of a page."""
        for n in range(LINKS):
            yield response.follow(f"{response.url}/link/{n}", self.parse_link)

    def parse_link(self, response: Response) -> Iterator[Any]:
        yield {"url": response.url}


class HandingSpider(PagesSpider):
    """Hands requests to the engine, with the meta of its page, and goes on with its links."""

    allowed_domains = ("127.0.0.1",)

    def parse(self, response: Response) -> Iterator[Any]:
        self.crawler.engine.crawl(scrapy.Request("http://127.0.0.2/away", meta=response.meta))
        handed = scrapy.Request(f"{response.url}/handed", self.parse_handed, meta=response.meta)
        self.crawler.engine.crawl(handed)
        yield from self.follow_all(response)

    def parse_handed(self, response: Response) -> Iterator[Any]:
        yield response.follow(f"{response.url}/link", self.parse_link)


class HandingAgainSpider(PagesSpider):
    """Hands the very request of each page to the engine once more."""

    def parse(self, response: Response) -> Iterator[Any]:
        request = response.request
        assert request is not None
        if not request.meta.get("again"):
            request.meta["again"] = True
            self.crawler.engine.crawl(request)
        else:
            yield from self.follow_all(response)


class FailingSpider(PagesSpider):
    """A page that cannot be had is asked for elsewhere, by its errback and the engine."""

    async def start(self) -> AsyncIterator[Any]:
        yield scrapy.Request("http://127.0.0.1:1/", errback=self.on_error)

    def on_error(self, failure: Any) -> Iterator[Any]:
        self.crawler.engine.crawl(failure.request.replace(url=f"{self.site}/mirror"))
        yield scrapy.Request(f"{self.site}/found", self.parse_link)

    def parse(self, response: Response) -> Iterator[Any]:
        yield from self.follow_all(response)


@pytest.mark.parametrize(
    ("spider", "count"),
    [
        (HandingSpider, PAGES * (1 + LINKS + 2)),
        (HandingAgainSpider, PAGES * (2 + LINKS)),
        (FailingSpider, 2 + LINKS),
    ],
)
def test_a_request_that_the_engine_is_handed_with_a_page_s_meta_costs_no_link(
    spider: type[PagesSpider],
    count: int,
    settings: dict[str, Any],
    origin: Callable[..., Origin],
    crawl: Crawler,
) -> None:
    """It is another request, and the page's callback goes on."""
    site = origin(lambda asked: Answer())
    given = {**settings, "RETRY_ENABLED": False}
    done = crawl(spider, given, arguments={"site": site.url})
    assert len(site.hits()) == count
    assert done.stats.get("adaptive/frontier/failed", 0) == (spider is FailingSpider)


class AwaitingSpider(PagesSpider):
    """Its callback awaits a page of another host, with a copy of its meta."""

    async def parse(self, response: Response) -> AsyncIterator[Any]:
        other = response.url.replace("127.0.0.1", OTHER)
        request = scrapy.Request(f"{other}/detail", meta=response.meta)
        detail = await self.crawler.engine.download_async(request)
        yield {"url": detail.url}


class DetailMiddleware:
    """As AwaitingSpider, before each page is sent."""

    def __init__(self, crawler: Any) -> None:
        self._crawler = crawler

    @classmethod
    def from_crawler(cls, crawler: Any) -> DetailMiddleware:
        return cls(crawler)

    async def process_request(self, request: scrapy.Request) -> None:
        if not request.url.endswith("/detail"):
            other = request.url.replace("127.0.0.1", OTHER)
            detail = scrapy.Request(f"{other}/detail", meta=request.meta)
            await self._crawler.engine.download_async(detail)


@pytest.mark.parametrize(
    ("spider", "middlewares"), [(AwaitingSpider, {}), (PagesSpider, {DetailMiddleware: 543})]
)
def test_a_page_of_another_host_may_be_awaited_with_a_copy_of_the_meta(
    spider: type[PagesSpider],
    middlewares: dict[Any, int],
    settings: dict[str, Any],
    origin: Callable[..., Origin],
    crawl: Crawler,
) -> None:
    """It is not the visit's page, though it has the visit's mark."""
    site = origin(lambda asked: Answer(), addresses=["127.0.0.1", OTHER])
    given = {**settings, "DOWNLOADER_MIDDLEWARES": middlewares}
    done = crawl(spider, given, arguments={"site": site.url}, timeout=30)
    hosts = [hit.host.partition(":")[0] for hit in site.hits()]
    assert (hosts.count("127.0.0.1"), hosts.count(OTHER)) == (PAGES, PAGES)
    assert len(done.items) == PAGES


class ErrbacksSpider(PagesSpider):
    """Nothing can be downloaded, and each errback gives an item and a request in its own way."""

    WAYS = ("one", "none", "listed", "generated", "coroutine", "awaited", "streamed", "deferred")

    async def start(self) -> AsyncIterator[Any]:
        for way in self.WAYS:
            yield scrapy.Request(f"http://127.0.0.1:1/{way}", errback=getattr(self, f"on_{way}"))

    def both(self, way: str) -> list[Any]:
        return [{"way": way}, scrapy.Request(f"{self.site}/{way}", self.parse_link)]

    def on_one(self, failure: Any) -> Any:
        return self.both("one")[1]

    def on_none(self, failure: Any) -> None:
        pass

    def on_listed(self, failure: Any) -> Any:
        return self.both("listed")

    def on_generated(self, failure: Any) -> Iterator[Any]:
        yield from self.both("generated")

    async def on_coroutine(self, failure: Any) -> Any:
        return {"way": "coroutine"}

    async def on_awaited(self, failure: Any) -> Any:
        return self.both("awaited")

    async def on_streamed(self, failure: Any) -> AsyncIterator[Any]:
        for each in self.both("streamed"):
            yield each

    def on_deferred(self, failure: Any) -> Any:
        return succeed(self.both("deferred"))


@pytest.mark.parametrize("reactor", ["asyncio", "select", "none"])
def test_an_errback_may_be_whatever_a_callback_may_be(
    reactor: Reactor, settings: dict[str, Any], origin: Callable[..., Origin], crawl: Crawler
) -> None:
    site = origin(lambda asked: Answer())
    given = {**settings, "RETRY_ENABLED": False}
    done = crawl(ErrbacksSpider, given, arguments={"site": site.url}, reactor=reactor)
    both = {"listed", "generated", "awaited", "streamed", "deferred"}
    found = sorted(item["way"] for item in done.items if "way" in item)
    assert found == sorted({*both, "coroutine"})
    assert sorted(hit.path.strip("/") for hit in site.hits()) == sorted({*both, "one"})


class CarryingSpider(PagesSpider):
    """Each page links twice to the same products, with an object that JSON cannot hold."""

    def parse(self, response: Response) -> Iterator[Any]:
        for n in [*range(LINKS), *range(LINKS)]:
            yield response.follow(f"/product/{n}", self.parse_product, meta={"carried": {n}})

    def parse_product(self, response: Response) -> Iterator[Any]:
        for n in response.meta["carried"]:
            yield response.follow(f"/price/{n}", self.parse_link, meta={"carried": {n}})
            yield response.follow(f"/price/{n}", self.parse_link, meta={"carried": {n}})


def test_what_passes_by_the_table_is_fetched_once(
    settings: dict[str, Any], origin: Callable[..., Origin], crawl: Crawler
) -> None:
    """Whether one page asks for it twice, or two pages that are under way at the same time."""
    site = origin(lambda asked: Answer(delay=0.2))
    done = crawl(CarryingSpider, settings, arguments={"site": site.url})
    paths = Counter(hit.path for hit in site.hits())
    assert len(paths) == PAGES + 2 * LINKS
    assert set(paths.values()) == {1}
    assert "DUPEFILTER_CLASS = " not in done.log


class TwoPhasesSpider(PagesSpider):
    """Begins its second phase when it is idle, and closes when it is idle again."""

    @classmethod
    def from_crawler(cls, crawler: Any, *args: Any, **rest: Any) -> TwoPhasesSpider:
        spider = super().from_crawler(crawler, *args, **rest)
        crawler.signals.connect(spider.on_idle, scrapy.signals.spider_idle)
        spider.seen, spider.seen_when_idle = 0, []
        return spider

    seen: int
    seen_when_idle: list[int]

    def on_idle(self) -> None:
        self.seen_when_idle.append(self.seen)
        self.crawler.stats.set_value("seen_when_idle", self.seen_when_idle)
        if len(self.seen_when_idle) > 1:
            raise CloseSpider("mine")
        self.crawler.engine.crawl(scrapy.Request(f"{self.site}/second", self.parse))
        raise DontCloseSpider

    def parse(self, response: Response) -> Iterator[Any]:
        self.seen += 1
        yield from self.follow_all(response)

    def parse_link(self, response: Response) -> Any:
        self.seen += 1


@pytest.mark.parametrize("reactor", ["asyncio", "none"])
def test_a_spider_is_idle_when_nothing_is_left_to_visit(
    reactor: Reactor, settings: dict[str, Any], origin: Callable[..., Origin], crawl: Crawler
) -> None:
    """Not while its requests are in the table alone: once before the first page, and again."""
    site = origin(lambda asked: Answer())
    done = crawl(TwoPhasesSpider, settings, arguments={"site": site.url}, reactor=reactor)
    each = 1 + LINKS
    assert done.stats["seen_when_idle"] == [PAGES * each, (PAGES + 1) * each]
    assert done.stats["finish_reason"] == "mine"


class LoginsSpider(PagesSpider):
    """Begins with one URL for each of its sessions, and one of them twice."""

    async def start(self) -> AsyncIterator[Any]:
        for n in (0, 1, 2, 0):
            login = f"{self.site}/login"
            yield scrapy.Request(login, meta={"cookiejar": n}, dont_filter=True)

    def parse(self, response: Response) -> Iterator[Any]:
        yield {"session": response.meta["cookiejar"]}


def test_start_requests_of_one_url_that_differ_are_all_sent(
    settings: dict[str, Any], origin: Callable[..., Origin], crawl: Crawler
) -> None:
    """Each at each start, and as the same rows; where a page fails at first, it is tried again."""
    site = origin(lambda asked: Answer(500 if asked.count <= 3 else 200))
    given = {**settings, "RETRY_HTTP_CODES": [500]}
    for _ in range(2):
        done = crawl(LoginsSpider, given, arguments={"site": site.url})
        assert sorted(item["session"] for item in done.items) == [0, 1, 2]
    assert len(site.hits()) == 3 + 2 * 3
    with closing(open_frontier(settings["ADAPTIVE_FRONTIER"], "pages", Ranking())) as frontier:
        counts = frontier.counts()
    assert (counts.finished, counts.ready) == (3, 0)


def test_who_has_a_filter_of_duplicates_of_their_own_is_told_that_it_is_not_asked(
    settings: dict[str, Any], origin: Callable[..., Origin], crawl: Crawler
) -> None:
    site = origin(lambda asked: Answer())
    given = {**settings, "DUPEFILTER_CLASS": "scrapy.dupefilters.BaseDupeFilter"}
    done = crawl(PagesSpider, given, arguments={"site": site.url})
    assert done.log.count(NOT_ASKED) == 1


class KeepingSpider(PagesSpider):
    """Keeps its requests elsewhere, as a dict and by pickle."""

    def kept(self, request: scrapy.Request) -> dict[str, Any]:
        kept = request.to_dict(spider=self)
        meta = pickle.loads(pickle.dumps(kept["meta"]))
        return {"callback": kept["callback"], "errback": kept["errback"], "n": meta.get("n")}

    def parse(self, response: Response) -> Iterator[Any]:
        assert response.request is not None
        yield self.kept(response.request)
        for n, errback in enumerate([None, self.on_error]):
            for path in ("link", "gone"):
                url = f"{response.url}/{path}/{n}"
                yield scrapy.Request(url, self.parse_link, meta={"n": n}, errback=errback)

    def parse_link(self, response: Response) -> Iterator[Any]:
        assert response.request is not None
        yield self.kept(response.request)

    def on_error(self, failure: Any) -> Iterator[Any]:
        yield self.kept(failure.request)


def test_a_request_can_be_kept_elsewhere_as_the_spider_has_made_it(
    settings: dict[str, Any], origin: Callable[..., Origin], crawl: Crawler
) -> None:
    """With its own errback, or with none; a page that its spider is not told of has failed."""
    site = origin(lambda asked: Answer(404 if "/gone/" in asked.path else 200))
    done = crawl(KeepingSpider, settings, arguments={"site": site.url})
    kept = Counter((item["callback"], item["errback"], item["n"]) for item in done.items)
    assert kept == {
        (None, None, None): PAGES,
        ("parse_link", None, 0): PAGES,
        ("parse_link", "on_error", 1): 2 * PAGES,
    }
    assert done.stats["adaptive/frontier/failed"] == 2 * PAGES
