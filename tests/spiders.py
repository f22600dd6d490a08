"""Spiders of the test crawls: they report every page, got or lost, as an item."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import scrapy
from scrapy.http import Response, TextResponse
from twisted.python.failure import Failure


class UrlsSpider(scrapy.Spider):
    """Asks for each of `urls` once: plain URLs, or dicts of `Request` arguments."""

    name = "urls"

    def __init__(self, urls: list[str | dict[str, Any]], **fields: Any) -> None:
        super().__init__(**fields)
        self.urls = urls

    async def start(self) -> AsyncIterator[Any]:
        for each in self.urls:
            fields: dict[str, Any] = {"url": each} if isinstance(each, str) else each
            yield scrapy.Request(callback=self.parse, errback=self.lose, **fields)

    def parse(self, response: Response) -> Iterator[Any]:
        body_start = response.body[:80].decode("utf-8", "replace")
        yield {"url": response.url, "status": response.status, "body_start": body_start}

    def lose(self, failure: Failure) -> Iterator[Any]:
        error = f"{type(failure.value).__name__}: {failure.value}"
        yield {"url": failure.request.url, "error": error}  # type: ignore[attr-defined]


class FetchingSpider(UrlsSpider):
    """Its first callback asks for all other pages itself, as a media pipeline does: they wait at
    the gate, not in a queue."""

    name = "fetching"

    def __init__(self, urls: list[str | dict[str, Any]], **fields: Any) -> None:
        super().__init__(urls[:1], **fields)
        self.others = urls[1:]

    async def parse(self, response: Response) -> AsyncIterator[Any]:  # type: ignore[override]
        requests = [scrapy.Request(str(url)) for url in self.others]
        for each in await asyncio.gather(*map(self.crawler.engine.download_async, requests)):
            yield {"url": each.url, "status": each.status}


class LinksSpider(UrlsSpider):
    """Also follows every link of every page."""

    name = "links"

    def parse(self, response: Response) -> Iterator[Any]:
        yield from super().parse(response)
        if isinstance(response, TextResponse):
            yield from response.follow_all(css="a", callback=self.parse, errback=self.lose)
