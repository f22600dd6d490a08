"""A plugin of pytest: HostQueue in the crawls of these tests and in their mocks of crawlers.

Scrapy's mocks lack what an extension needs, and send nothing: what a mock downloader is given never
reaches a site, so the host may send at once again.
"""

from __future__ import annotations

from contextlib import suppress
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

from scrapy import Request
from scrapy.core.downloader import Downloader
from scrapy.crawler import Crawler
from scrapy.utils.httpobj import urlparse_cached

from scrapy_adaptive import AdaptiveThrottle, HostQueue


def slot_key(request: Request) -> str:
    """What a downloader would say."""
    slot: str | None = request.meta.get(Downloader.DOWNLOAD_SLOT)
    return slot or urlparse_cached(request).hostname or ""


def init(self: Crawler, *args: Any, **options: Any) -> None:
    """Switch the add-on on."""
    crawler_init(self, *args, **options)
    self.settings.set("ADDONS", {"scrapy_adaptive.Addon": 500})


def from_crawler(cls: type[HostQueue], crawler: Any, *args: Any, **options: Any) -> HostQueue:
    """Give a mock of a crawler what the queue needs of a real one."""
    if not crawler.settings.frozen:  # it is a mock
        crawler._apply_settings()
    engine = None
    with suppress(RuntimeError):  # Scrapy 2.19: it is not set yet
        engine = crawler.engine
    if engine is None:
        downloader = SimpleNamespace(slots={}, active=set(), get_slot_key=slot_key)
        crawler.engine = engine = Mock(downloader=downloader)
    queue: HostQueue = queue_from_crawler(crawler, *args, **options)
    if isinstance(engine, Mock):
        engine.downloader.active = set()
        answer_at_once(queue, AdaptiveThrottle.of(crawler))
    return queue


def answer_at_once(queue: HostQueue, adaptive: AdaptiveThrottle) -> None:
    """Have each request that was popped leave the downloader."""

    def pop() -> Request | None:
        request = type(queue).pop(queue)
        if request is not None:
            freed = adaptive.traffic.reservations.on_left(request)
            assert freed is not None
            adaptive.routing.on_due(freed)
        return request

    queue.pop = pop  # type: ignore[method-assign]


crawler_init = Crawler.__init__
Crawler.__init__ = init  # type: ignore[method-assign]
queue_from_crawler = HostQueue.from_crawler
HostQueue.from_crawler = classmethod(from_crawler)  # type: ignore[assignment,method-assign]
