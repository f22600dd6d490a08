"""Two ways to give each proxy a slot, and a classifier that knows the proxy's own errors."""

from __future__ import annotations

import os
from collections.abc import Iterable
from itertools import cycle
from urllib.parse import urlsplit

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.http import Response
from scrapy.utils.httpobj import urlparse_cached

from scrapy_adaptive import Outcome


def slot_name(request: Request, proxy: str) -> str:
    """One slot for each host and proxy, without the proxy's password."""
    address = urlsplit(proxy)
    return f"{urlparse_cached(request).hostname} via {address.hostname}:{address.port}"


class RotatingProxies:
    """Downloader middleware: each request goes through the next proxy."""

    def __init__(self, proxies: Iterable[str]) -> None:
        self.proxies = cycle(proxies)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> RotatingProxies:
        return cls(crawler.settings.getlist("PROXIES"))

    def process_request(self, request: Request) -> None:
        proxy = next(self.proxies)
        request.meta["proxy"] = proxy
        request.meta["download_slot"] = slot_name(request, proxy)


PROXIES = os.environ.get("PROXIES", "").split()


def sticky_proxy(request: Request) -> str:
    """The proxy of the request's session: always the same one."""
    session = int(request.meta.get("cookiejar", 0))
    return PROXIES[session % len(PROXIES)]


def sticky_slot(request: Request) -> str:
    """ADAPTIVE_SLOT: the slot of the request, before it is queued."""
    return slot_name(request, sticky_proxy(request))


class StickyProxies:
    """Downloader middleware: each session goes through its own proxy."""

    def process_request(self, request: Request) -> None:
        request.meta["proxy"] = sticky_proxy(request)


def proxy_or_site(response: Response) -> Outcome | None:
    """What the proxy says of itself is a failure on the way, not a refusal of the site."""
    if response.status == 407 or "X-Proxy-Error" in response.headers:
        return Outcome.FAILED
    return None
