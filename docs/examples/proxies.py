"""A slot for each proxy, and a classifier that knows the proxy's own answers."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import cycle
from urllib.parse import urlsplit

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.http import Response
from scrapy.utils.httpobj import urlparse_cached

from scrapy_adaptive import Outcome


class ProxySlots:
    """Downloader middleware: the proxies take turns, and each has a slot for each host."""

    def __init__(self, proxies: Iterable[str]) -> None:
        self.proxies = cycle(proxies)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> ProxySlots:
        return cls(crawler.settings.getlist("PROXIES"))

    def process_request(self, request: Request) -> None:
        if "proxy" not in request.meta:
            request.meta["proxy"] = next(self.proxies)
        proxy = urlsplit(request.meta["proxy"])
        host = urlparse_cached(request).hostname
        request.meta["download_slot"] = f"{host} via {proxy.hostname}:{proxy.port}"


def proxy_or_site(response: Response) -> Outcome | None:
    """What the proxy says of itself is a failure on the way, not a refusal of the site."""
    if response.status == 407 or "X-Proxy-Error" in response.headers:
        return Outcome.FAILED
    return None
