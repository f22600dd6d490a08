"""Spiders, pipelines, middlewares and a download handler, as projects have them."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

from scrapy import Request, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import DontCloseSpider
from scrapy.http import HtmlResponse, Response, TextResponse

from tests.spiders import UrlsSpider


class PagesSpider(UrlsSpider):
    """Reports every page, with when it came and what it embeds; with `follow`, follows links."""

    name = "pages"
    follow = False

    def parse(self, response: Response) -> Iterator[Any]:
        """One item a page; the stats count pages whose items are lost, too."""
        if response.status == 200 and self.crawler.stats is not None:
            self.crawler.stats.inc_value("beside/pages")
        item: dict[str, Any] = {"url": response.url, "status": response.status, "at": time.time()}
        if isinstance(response, TextResponse):
            embedded = response.css("img::attr(src)").getall()
            if embedded:
                item["file_urls"] = [response.urljoin(each) for each in embedded]
        yield item
        if self.follow and isinstance(response, TextResponse):
            yield from response.follow_all(css="a", callback=self.parse, errback=self.lose)


class LateSpider(PagesSpider):
    """Asks for the first `ahead` pages, and a second later for the others."""

    ahead = 1

    async def start(self) -> AsyncIterator[Any]:
        """As spiders do that wait for something else."""
        for number, url in enumerate(self.urls):
            if number == self.ahead:
                await asyncio.sleep(1)
            yield Request(str(url), callback=self.parse, errback=self.lose)


class TwoPhasesSpider(UrlsSpider):
    """Awaits what it fetches outside of the scheduler; when idle, asks for what that has found."""

    name = "two-phases"
    found: list[str]
    is_second = False

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> TwoPhasesSpider:
        """Listen for the end of the first phase."""
        spider = super().from_crawler(crawler, *args, **kwargs)
        spider.found = []
        spider.tasks = []
        crawler.signals.connect(spider.on_idle, signals.spider_idle)
        return spider

    async def start(self) -> AsyncIterator[Any]:
        """The first phase runs beside the engine's own requests."""
        self.tasks = [asyncio.ensure_future(self._look(str(url))) for url in self.urls]
        await asyncio.sleep(0)
        nothing: list[Request] = []
        for request in nothing:
            yield request

    async def _look(self, url: str) -> None:
        assert self.crawler.engine is not None
        await self.crawler.engine.download_async(Request(url))
        self.found.append(f"{url}/found")

    def on_idle(self) -> None:
        """The second phase, once."""
        if self.is_second:
            return
        self.is_second = True
        assert self.crawler.engine is not None
        for url in self.found:
            self.crawler.engine.crawl(Request(url, callback=self.parse, errback=self.lose))
        raise DontCloseSpider


class ScreenshotPipeline:
    """Fetches a picture of each page with the engine, as Scrapy's docs on pipelines show it."""

    def __init__(self, crawler: Crawler) -> None:
        self.crawler = crawler

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> ScreenshotPipeline:
        """Scrapy's way to make one."""
        return cls(crawler)

    async def process_item(self, item: dict[str, Any]) -> dict[str, Any]:
        """An item whose picture cannot be had keeps its error."""
        assert self.crawler.engine is not None
        url = f"{self.crawler.settings['SCREENSHOTS']}/?url={item['url']}"
        response = await self.crawler.engine.download_async(Request(url))
        if response.status != 200:
            item["error"] = f"no screenshot: {response.status}"
        item["size"] = len(response.body)
        return item


class LoginPipeline(ScreenshotPipeline):
    """Fetches a page before the spider is opened."""

    async def open_spider(self) -> None:
        """`LOGIN_URL` is asked for, and awaited."""
        assert self.crawler.engine is not None
        url = self.crawler.settings["LOGIN_URL"]
        await self.crawler.engine.download_async(Request(url))

    async def process_item(self, item: dict[str, Any]) -> dict[str, Any]:
        """Nothing to do."""
        return item


class RotatingProxies:
    """`PROXIES` in turn, each a slot of its own."""

    def __init__(self, crawler: Crawler) -> None:
        self.proxies = itertools.cycle(crawler.settings["PROXIES"])

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> RotatingProxies:
        """Scrapy's way to make one."""
        return cls(crawler)

    def process_request(self, request: Request) -> None:
        """The next proxy."""
        proxy = next(self.proxies)
        request.meta["proxy"] = request.meta["download_slot"] = proxy


class SlowMiddleware:
    """Takes .4 s over each request: a token is fetched, a fingerprint computed."""

    async def process_request(self, request: Request) -> None:
        """Wait."""
        await asyncio.sleep(0.4)


class BrowserHandler:
    """Downloads as a browser does: a second and a half a page, four at once, no latency in meta."""

    lazy = False

    def __init__(self) -> None:
        self.pages = asyncio.Semaphore(4)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> BrowserHandler:
        """Scrapy's way to make one."""
        return cls()

    async def download_request(self, request: Request) -> Response:
        """A page, after a while."""
        async with self.pages:
            await asyncio.sleep(1.5)
        return HtmlResponse(request.url, body=b"<title>rendered</title>", request=request)

    async def close(self) -> None:
        """Nothing is open."""
