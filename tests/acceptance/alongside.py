"""A host alone and the same host beside others, crawled at the same time from one server.

Laws
----
* The two crawls run at once, so that a busy machine slows both and their ratio means something.
* A burst of tokens lets a host make up for a hiccup of the machine: its pace decides its time.
* What is too slow is measured again: a hiccup is over by then, a host that starves is not.
* A host's time is from its first page to its last, in the site's log.
* Hand-backs are counted against the pages that were served.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from docsite.hits import Hit
from tests.crawling import Crawl, Crawler, Reactor
from tests.servers.origin import Origin
from tests.spiders import UrlsSpider

ALONE, HEALTHY = "127.1.2.1", "127.1.2.2"
"""Two hosts that do the same; one has a crawl of its own."""

ROBOTS = "/robots.txt"

T = TypeVar("T")

TRIES = 5

HANDED_BACK_SHARE = 0.05
"""Most hand-backs for each page."""


@dataclass(frozen=True, slots=True)
class Both:
    """What came of the two crawls."""

    ratio: float
    """Time of the host beside others over its time alone."""
    alone: Crawl
    beside: Crawl


def hits_at(site: Origin, address: str) -> list[Hit]:
    return [hit for hit in site.hits() if hit.host.partition(":")[0] == address]


def pages_of(site: Origin, address: str) -> list[Hit]:
    """Pages that were served."""
    return [hit for hit in hits_at(site, address) if hit.status == 200 and hit.path != ROBOTS]


def in_turn(site: Origin, counts: Mapping[str, int]) -> list[str]:
    """URLs of so many pages of each host, the hosts taking turns."""
    most = max(counts.values())
    return [f"{site.url_at(host)}/{n}" for n in range(most) for host in counts if n < counts[host]]


def seconds(hits: list[Hit]) -> float:
    """From the first to the last."""
    return hits[-1].start - hits[0].start


def crawl_both(
    site: Origin,
    crawl: Crawler,
    urls: Iterable[Any],
    settings: Mapping[str, Any],
    *,
    pages: int,
    spider: type[UrlsSpider] = UrlsSpider,
    arguments: Mapping[str, Any] | None = None,
    own: Mapping[str, Any] | None = None,
    until: Callable[[], object] | None = None,
    reactor: Reactor = "asyncio",
    companion: str | None = None,
) -> Both:
    """Crawl `pages` pages of `ALONE`, and at the same time `urls`, among them `HEALTHY`'s.

    Args:
        companion: a host that answers at once; the first crawl has as many pages of it, so that a
            busy machine takes as much from that crawl as from one with several hosts.
        urls: of the second crawl, with `pages` pages of `HEALTHY` that are served.
        spider: of the second crawl; `arguments` are its own.
        own: settings of the second crawl alone.
        until: when it is interrupted, once the healthy host's pages are served; without this it
            runs to its end.
    """
    counts = dict.fromkeys([ALONE, *([companion] if companion else [])], pages)
    first = crawl.start(
        UrlsSpider, settings, reactor=reactor, arguments={"urls": in_turn(site, counts)}
    )
    second = crawl.start(
        spider,
        {**settings, **(own or {})},
        reactor=reactor,
        arguments={"urls": list(urls), **(arguments or {})},
    )
    alone = first.wait()
    if until is not None:
        second.until(lambda: len(pages_of(site, HEALTHY)) >= pages and until())
        second.interrupt()
    beside = second.wait()
    return Both(_ratio(site, pages), alone, beside)


def _ratio(site: Origin, pages: int) -> float:
    here, there = pages_of(site, ALONE), pages_of(site, HEALTHY)
    assert len(here) == len(there) == pages
    ratio = seconds(there) / seconds(here)
    print(f"{seconds(here):.2f} s alone, ×{ratio:.3f} beside others")
    return ratio


def at_once() -> bool:
    """Nothing more is waited for."""
    return True


def quietest(crawl: Callable[[], Both], most: float) -> Both:
    """The first of a few tries whose ratio is no more than `most`, else the last of them."""
    return once_quiet(crawl, lambda both: both.ratio <= most)


def once_quiet(crawl: Callable[[], T], is_good: Callable[[T], bool]) -> T:
    """The first of a few tries that is good, else the last of them."""
    for _ in range(TRIES - 1):
        found = crawl()
        if is_good(found):
            return found
    return crawl()


def handed_back(done: Crawl) -> int:
    return int(done.stats.get("adaptive/handed_back", 0))


def assert_few_handed_back(done: Crawl, pages: int) -> None:
    """In a crawl of which so many pages were served."""
    assert handed_back(done) <= HANDED_BACK_SHARE * pages
