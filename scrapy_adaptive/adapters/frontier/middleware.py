"""The spider middleware that is nearest the engine: what passes here is final."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from scrapy.exceptions import NotConfigured

from scrapy_adaptive.adapters.extension import AdaptiveThrottle

from .visits import part_of

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from typing_extensions import Self

    from .crawl import FrontierCrawl


class FrontierMiddleware:
    """Spider middleware at 10."""

    def __init__(self, crawl: FrontierCrawl) -> None:
        self._crawl = crawl
        self._tracking = crawl.tracking

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Join the extension of this crawl.

        Raises:
            NotConfigured: it has no frontier.
        """
        crawl = AdaptiveThrottle.of(crawler, cls.__name__).frontier
        if crawl is None:
            raise NotConfigured
        return cls(crawl)

    async def process_start(self, start: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """Start requests are rows; what passes by the table goes on."""
        async for each in self._crawl.seed(start):
            yield each

    def process_spider_input(self, response: Response) -> None:
        """Note what the page's server says of it."""
        self._tracking.on_input(response)

    async def process_spider_output(
        self, response: Response, result: AsyncIterator[Any]
    ) -> AsyncIterator[Any]:
        """Links become rows; items pass."""
        async for each in self._tracking.on_output(response, result):
            yield each

    def process_spider_exception(self, response: Response, exception: Exception) -> None:
        """The callback has raised before it yielded anything."""
        part = part_of(response.request)
        if part is not None:
            self._tracking.on_exception(part, exception)
