"""The same crawl with the add-on and without it, at the same time, each on a site of its own.

Laws
----
* Both sites answer alike; nothing depends on the clock but where a site's answer does.
* A busy machine slows both, so that their ratio means something.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scrapy import Spider

from docsite.hits import Hit
from tests.crawling import Crawl, Crawler, Reactor
from tests.servers.origin import Handler, Origin
from tests.servers.wire import LOCALHOST
from tests.spiders import UrlsSpider


@dataclass(frozen=True, slots=True)
class Arm:
    """One of the two crawls, ended, and its site."""

    site: Origin
    done: Crawl

    @property
    def pages(self) -> list[Hit]:
        """What was served, robots.txt aside."""
        return [hit for hit in self.site.hits() if hit.status == 200 and hit.path != "/robots.txt"]

    @property
    def span(self) -> float:
        """Seconds from the first page to the last, in the site's log."""
        return self.pages[-1].start - self.pages[0].start


def beside_stock(
    origin: Callable[..., Origin],
    crawl: Crawler,
    handler: Handler,
    *,
    arguments: Callable[[Origin], Mapping[str, Any]],
    settings: Callable[[Origin], Mapping[str, Any]],
    spider: type[Spider] = UrlsSpider,
    addresses: Sequence[str] = (LOCALHOST,),
    reactor: Reactor = "asyncio",
) -> tuple[Arm, Arm]:
    """The add-on's crawl and stock Scrapy's; the arguments and settings may name their site."""
    sites = [origin(handler, addresses=addresses) for _ in range(2)]
    running = [
        crawl.start(
            spider,
            settings(site),
            arguments=arguments(site),
            adaptive=adaptive,
            reactor=reactor,
        )
        for site, adaptive in zip(sites, (True, False), strict=True)
    ]
    ours, stock = (Arm(site, each.wait()) for site, each in zip(sites, running, strict=True))
    return ours, stock


def numbered(site: Origin, pages: int, path: str = "/{}") -> dict[str, Any]:
    """The arguments of a spider: so many pages of each host, the hosts taking turns."""
    hosts = [site.url_at(address) for address in site.addresses]
    return {"urls": [host + path.format(n) for n in range(pages) for host in hosts]}
