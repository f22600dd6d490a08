"""Whatever frees a place wakes who waits for it: no crawl stands still.

Laws
----
* Each crawl here hung before who waits was woken; stock Scrapy ends it in seconds.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from scrapy import Request
from scrapy.crawler import Crawler as ScrapyCrawler
from scrapy.http import Response
from scrapy.http.request import NO_CALLBACK

from scrapy_adaptive.adapters.extension import AdaptiveThrottle
from tests.crawling import Crawler
from tests.servers.origin import Answer, Origin, Visit, image, refusal, robots_txt
from tests.servers.valkey import Valkey
from tests.spiders import UrlsSpider

LEARNED = {"rate": 50.0, "refused_rate": None, "concurrency": None, "price": 0.0, "silence": 0.0}


def assert_ends(
    crawl: Crawler,
    spider: type[UrlsSpider],
    settings: dict[str, Any],
    arguments: dict[str, Any],
    urls: list[str],
) -> None:
    """The crawl ends, and each of these pages has come once."""
    done = crawl(spider, settings, timeout=90, arguments=arguments)
    assert sorted(done.urls) == sorted(urls)


class FromCrawler:
    """A middleware that knows its crawler."""

    def __init__(self, crawler: ScrapyCrawler) -> None:
        self.crawler = crawler

    @classmethod
    def from_crawler(cls, crawler: ScrapyCrawler) -> Any:
        """As Scrapy makes it."""
        return cls(crawler)


class Tokens(FromCrawler):
    """Fetches a token for each page, while the page has its place."""

    async def process_request(self, request: Request) -> None:
        """Once for each request."""
        if "token" in request.url or request.meta.get("has_token"):
            return
        assert self.crawler.engine is not None
        token = Request(f"{request.url}?token", callback=NO_CALLBACK)
        await self.crawler.engine.download_async(token)
        request.meta["has_token"] = True


@pytest.mark.parametrize("places", [1, 4])
def test_a_token_that_a_page_awaits_passes_pages_that_wait_for_a_place(
    places: int, origin: Callable[..., Origin], crawl: Crawler
) -> None:
    site = origin(lambda visit: Answer(delay=0.05))
    urls = [f"{site.url}/{n}" for n in range(25)]
    settings = {
        "CONCURRENT_REQUESTS": places,
        "DOWNLOAD_DELAY": 0.1,
        "ADAPTIVE_START_DELAY": 0.1,
        "DOWNLOADER_MIDDLEWARES": {Tokens: 500},
    }
    assert_ends(crawl, UrlsSpider, settings, {"urls": urls}, urls)


class OneSlot:
    """All hosts are asked through one proxy."""

    def process_request(self, request: Request) -> None:
        """Chosen after the queue."""
        request.meta["download_slot"] = "proxy"


def test_the_robots_txt_of_many_hosts_pass_through_one_slot(
    origin: Callable[..., Origin], crawl: Crawler
) -> None:
    hosts = [f"127.3.0.{n}" for n in range(1, 31)]

    def handler(visit: Visit) -> Answer:
        return robots_txt("") if visit.path == "/robots.txt" else Answer(delay=0.02)

    site = origin(handler, addresses=hosts)
    urls = [f"{site.url_at(host)}/{n}" for host in hosts for n in range(2)]
    settings = {
        "CONCURRENT_REQUESTS": 4,
        "ROBOTSTXT_OBEY": True,
        "DOWNLOAD_DELAY": 0.05,
        "ADAPTIVE_START_DELAY": 0.05,
        "DOWNLOADER_MIDDLEWARES": {OneSlot: 740},
    }
    assert_ends(crawl, UrlsSpider, settings, {"urls": urls}, urls)


class LateRobots(FromCrawler):
    """One robots.txt gets to the gate in a pause, another before a page is asked for again."""

    async def process_request(self, request: Request) -> None:
        """Wait until the slot wants such a request."""
        late: dict[int, str] = getattr(self.crawler.spider, "late", {})
        for port, wanted in late.items():
            if request.url.endswith(f":{port}/robots.txt"):
                throttle = self.crawler.get_extension(AdaptiveThrottle)
                assert throttle is not None
                while throttle.traffic.governor.wanted("127.0.0.1").value != wanted:
                    await asyncio.sleep(0.01)


class LateSpider(UrlsSpider):
    """Knows which robots.txt is late."""

    def __init__(self, late: dict[int, str], **fields: Any) -> None:
        super().__init__(**fields)
        self.late = late


def test_a_robots_txt_at_the_gate_does_not_wait_for_a_page_that_waits_for_it(
    origin: Callable[..., Origin], crawl: Crawler
) -> None:
    """The page that alone was refused is in the queue, which waits for the robots.txt."""

    def handler(visit: Visit) -> Answer:
        if visit.path == "/robots.txt":
            return robots_txt("")
        is_refused = visit.path == "/3" and visit.count == 1
        return refusal(429, delay=0.1) if is_refused else Answer(delay=0.05)

    one, two, three = (origin(handler) for _ in range(3))
    urls = [f"{one.url}/0", f"{two.url}/a", f"{three.url}/a"]
    urls += [f"{one.url}/{n}" for n in range(1, 10)]
    settings = {
        "ROBOTSTXT_OBEY": True,
        "ADAPTIVE_START_DELAY": 0.1,
        "ADAPTIVE_TARGET_CONCURRENCY": 8,
        "DOWNLOADER_MIDDLEWARES": {LateRobots: 800},
    }
    arguments = {
        "urls": [{"url": url, "priority": -n} for n, url in enumerate(urls)],
        "late": {two.port: "unsuspected", three.port: "suspected"},
    }
    assert_ends(crawl, LateSpider, settings, arguments, urls)


def classes(folder: Path) -> str:
    """The state of an earlier run, which knows that /b/# has a limit of its own."""
    path = folder / "state.json"
    slots = {"127.0.0.1": {"learned": LEARNED}, "127.0.0.1 /b/#": {"learned": LEARNED}}
    path.write_text(json.dumps({"version": 3, "at": time.time(), "slots": slots}))
    return str(path)


class BesideSpider(UrlsSpider):
    """Once the first page is there, asks for one more beside the crawl."""

    def __init__(self, first: str, beside: str, **fields: Any) -> None:
        super().__init__(**fields)
        self.first, self.beside = first, beside

    async def start(self) -> AsyncIterator[Any]:
        """The first page alone."""
        yield Request(self.first, callback=self.begin, errback=self.lose)

    async def begin(self, response: Response) -> AsyncIterator[Any]:
        """All others, and the one beside them."""
        yield {"url": response.url, "status": response.status}
        for n, url in enumerate(self.urls):
            yield Request(str(url), callback=self.parse, errback=self.lose, priority=-n)
        await asyncio.sleep(0.3)
        assert self.crawler.engine is not None
        beside = Request(self.beside, callback=NO_CALLBACK)
        response = await self.crawler.engine.download_async(beside)
        yield {"url": response.url, "status": response.status}


def test_a_page_of_a_class_at_the_gate_waits_no_longer_than_its_hosts_place(
    origin: Callable[..., Origin], crawl: Crawler, tmp_path: Path
) -> None:
    """A rule counts the class apart, and the host has one place."""
    site = origin(lambda visit: Answer(delay=0.2))
    urls = [f"{site.url}/a/{n}" for n in range(20)]
    settings = {
        "CONCURRENT_REQUESTS_PER_DOMAIN": 1,
        "ADAPTIVE_START_DELAY": 0.02,
        "ADAPTIVE_STATE_FILE": classes(tmp_path),
        "ADAPTIVE_RULES": [{"uri": "/b/*", "rate": 50}],
    }
    arguments: dict[str, Any] = {"urls": urls}
    arguments |= {"first": f"{site.url}/a/first", "beside": f"{site.url}/b/100"}
    assert_ends(
        crawl, BesideSpider, settings, arguments, [*urls, arguments["first"], arguments["beside"]]
    )


class SlowClass:
    """A page of the class takes a second on its way to the gate."""

    async def process_request(self, request: Request) -> None:
        """But for the one that is asked for beside the crawl."""
        if "/b/" in request.url and not request.url.endswith("/100"):
            await asyncio.sleep(1.0)


@pytest.mark.parametrize("rules", [[], [{"uri": "/b/*", "rate": 50}]])
def test_a_page_that_waits_at_the_gate_for_its_class_holds_up_no_other(
    rules: list[Any], origin: Callable[..., Origin], crawl: Crawler, tmp_path: Path
) -> None:
    """Its class is paused for fifteen seconds while it is on its way."""

    def handler(visit: Visit) -> Answer:
        is_refused = visit.path == "/b/100" and visit.count == 1
        return refusal(retry_after=15, delay=0.2) if is_refused else Answer(delay=0.05)

    site = origin(handler)
    urls = [f"{site.url}/b/1", *(f"{site.url}/a/{n}" for n in range(20))]
    settings = {
        "CONCURRENT_REQUESTS_PER_DOMAIN": 1,
        "ADAPTIVE_START_DELAY": 0.02,
        "ADAPTIVE_STATE_FILE": classes(tmp_path),
        "ADAPTIVE_RULES": rules,
        "DOWNLOADER_MIDDLEWARES": {SlowClass: 500},
    }
    arguments: dict[str, Any] = {"urls": urls}
    arguments |= {"first": f"{site.url}/a/first", "beside": f"{site.url}/b/100"}
    crawl(BesideSpider, settings, timeout=90, arguments=arguments)
    (refused,) = [hit for hit in site.hits() if hit.status == 429]
    last = max(hit.start for hit in site.hits() if hit.path.startswith("/a/"))
    assert last < refused.end + 12


class SlowWay:
    """Each page takes a while on its way to the gate."""

    async def process_request(self, request: Request) -> None:
        """All of them."""
        await asyncio.sleep(0.4)


class TwiceSpider(UrlsSpider):
    """Asks for each page twice with the same object."""

    async def start(self) -> AsyncIterator[Any]:
        """From a callback, as spiders do it."""
        yield Request("data:text/html,x", callback=self.begin)

    def begin(self, response: Response) -> Iterator[Request]:
        """Twice each."""
        for url in self.urls:
            request = Request(str(url), callback=self.parse, errback=self.lose, dont_filter=True)
            yield from (request, request)


def test_a_request_that_is_queued_twice_keeps_no_place_for_ever(
    origin: Callable[..., Origin], crawl: Crawler
) -> None:
    """Scrapy itself loses some of them, but ends."""
    site = origin(lambda visit: Answer(delay=0.1))
    urls = [f"{site.url}/{n}" for n in range(30)]
    settings = {
        "ADAPTIVE_START_DELAY": 0.02,
        "CONCURRENT_REQUESTS_PER_DOMAIN": 4,
        "DOWNLOADER_MIDDLEWARES": {SlowWay: 50},
    }
    done = crawl(TwiceSpider, settings, timeout=90, arguments={"urls": urls})
    assert set(done.urls) == set(urls)


class FilesSpider(UrlsSpider):
    """The file of each page is on the other host."""

    hosts = ("127.3.4.1", "127.3.4.2")

    async def start(self) -> AsyncIterator[Any]:
        """Through the frontier."""
        for url in self.urls:
            yield Request(str(url), callback=self.parse, errback=self.lose)

    def parse(self, response: Response) -> Iterator[Any]:
        """The page, and where its file is."""
        one, other = self.hosts if self.hosts[0] in response.url else reversed(self.hosts)
        file = f"{response.url.replace(one, other)}.png"
        yield {"url": response.url, "status": response.status, "file_urls": [file]}


def test_two_workers_that_wait_for_each_others_hosts_go_on(
    valkey: Valkey, origin: Callable[..., Origin], crawl: Crawler, tmp_path: Path
) -> None:
    """A page that waits for so long is fetched once more; none is lost."""

    def handler(visit: Visit) -> Answer:
        return image() if visit.path.endswith(".png") else Answer(delay=3.0)

    site = origin(handler, addresses=FilesSpider.hosts)
    urls = [f"{site.url_at(host)}/{n}" for n in range(2) for host in FilesSpider.hosts]
    settings = {
        "ADAPTIVE_FRONTIER": valkey.frontier(),
        "ADAPTIVE_FRONTIER_HOSTS": 1,
        "ADAPTIVE_FRONTIER_PER_HOST": 1,
        "ADAPTIVE_FRONTIER_STAY": 0,
        "ADAPTIVE_START_DELAY": 0.05,
        "ITEM_PIPELINES": {"scrapy.pipelines.files.FilesPipeline": 1},
        "FILES_STORE": str(tmp_path),
    }
    running = [
        crawl.start(FilesSpider, settings, timeout=200, arguments={"urls": urls}) for _ in range(2)
    ]
    assert {url for each in running for url in each.wait().urls} == set(urls)
