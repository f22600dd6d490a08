"""One host with all its pages ready does not take every place: its requests leave as it may send.

The engine takes requests in one go and the gate sees them only later, so a host's promises must
count before its permits do. Who is between the two is counted inside the crawl, what comes of it
in the site's log.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from statistics import median
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

import pytest
from scrapy import Request, signals

from docsite.hits import Hit
from tests.acceptance.alongside import ROBOTS, assert_few_handed_back, in_turn, pages_of
from tests.crawling import Crawler, Reactor
from tests.servers.origin import Answer, Origin, Visit, robots_txt
from tests.spiders import LinksSpider, UrlsSpider

if TYPE_CHECKING:
    from scrapy.crawler import Crawler as ScrapyCrawler
    from typing_extensions import Self

GREAT = "127.1.2.1"
OTHERS = [f"127.1.2.{n}" for n in range(2, 9)]
HOSTS = [GREAT, *OTHERS]

EACH = 2
"""Most in flight at one host."""

AHEAD = 2
"""And on their way to the gate: what a busy crawl needs long for sets out as much earlier."""

PAGES, FEW = 100, 15
"""Of the great host, and of each of the others."""

SETTINGS: dict[str, Any] = {
    "ADAPTIVE_START_DELAY": 0.02,
    "ADAPTIVE_TARGET_CONCURRENCY": 8,
    "CONCURRENT_REQUESTS_PER_DOMAIN": EACH,
}

MOST, PAST = "census/most", "census_past"


class Census:
    """Downloader middleware, before all others: most requests of one host under way at once."""

    def __init__(self) -> None:
        self.most: Counter[str] = Counter()
        self._here: dict[Request, str] = {}

    @classmethod
    def from_crawler(cls, crawler: ScrapyCrawler) -> Self:
        """Keep the counts in the crawl's stats."""
        census = cls()
        assert crawler.stats is not None
        crawler.stats.set_value(MOST, census.most)
        for signal in (signals.request_scheduled, signals.request_left_downloader):
            crawler.signals.connect(census.on_back, signal)
        return census

    def process_request(self, request: Request) -> None:
        if urlsplit(request.url).path == ROBOTS or request.url.startswith("data:"):
            return
        self._here[request] = host = urlsplit(request.url).hostname or ""
        under_way = Counter(each for other, each in self._here.items() if PAST not in other.meta)
        self.most[host] = max(self.most[host], under_way[host])

    def on_back(self, request: Request) -> None:
        """It was handed back, or its download has ended: from then on the next one may leave."""
        self._here.pop(request, None)


class PastRobots:
    """Downloader middleware after RobotsTxtMiddleware: the census counts who still waits there."""

    def process_request(self, request: Request) -> None:
        request.meta[PAST] = True


def page_of_links(urls: Iterable[str]) -> str:
    """The URL of a page that links to all of these: they are queued at once, as start requests,
    of which Scrapy takes one at a time, are not."""
    return "data:text/html," + quote("".join(f'<a href="{url}">.</a>' for url in urls))


def most_in_flight(hits: Iterable[Hit]) -> int:
    """Most requests in service at once."""
    edges = sorted(edge for hit in hits for edge in ((hit.start, 1), (hit.end, -1)))
    most = count = 0
    for _, step in edges:
        count += step
        most = max(most, count)
    return most


@pytest.mark.parametrize("reactor", ["asyncio", "select", "none"])
@pytest.mark.parametrize("places", [8, 16])
def test_a_host_with_many_pages_ready_leaves_the_others_their_places(
    places: int, reactor: Reactor, origin: Callable[..., Origin], crawl: Crawler
) -> None:
    """Hardly more of it under way than may be in flight, and all hosts get on together."""
    site = origin(lambda visit: Answer(delay=0.2), addresses=HOSTS)
    great = [f"{site.url}/{n}" for n in range(PAGES)]
    urls = great + in_turn(site, dict.fromkeys(OTHERS, FEW))
    running = crawl.start(
        LinksSpider,
        {
            **SETTINGS,
            "CONCURRENT_REQUESTS": places,
            "URLLENGTH_LIMIT": 0,
            "DOWNLOADER_MIDDLEWARES": {Census: 1},
        },
        reactor=reactor,
        arguments={"urls": [page_of_links(urls)]},
    )
    running.until(lambda: all(len(pages_of(site, host)) == FEW for host in OTHERS))
    running.interrupt()
    done = running.wait()
    hits = site.hits()
    by_host = {host: [hit for hit in hits if hit.host.startswith(f"{host}:")] for host in HOSTS}
    half_end = median(by_host[host][-1].start for host in OTHERS)
    great_count = sum(hit.start <= half_end for hit in by_host[GREAT])
    print(f"{great_count} pages of the great host when half of the others had all of theirs")
    assert max(most_in_flight(each) for each in by_host.values()) <= EACH
    assert most_in_flight(hits) <= places
    assert set(done.stats[MOST]) == set(HOSTS)
    assert max(done.stats[MOST].values()) <= EACH + AHEAD
    assert great_count <= 2 * FEW
    assert_few_handed_back(done, len(hits))


@pytest.mark.parametrize("reactor", ["asyncio", "select", "none"])
def test_one_page_of_each_host_waits_for_its_robots_txt(
    reactor: Reactor, origin: Callable[..., Origin], crawl: Crawler
) -> None:
    """The others of its host stay in the queue."""

    def slow_robots(visit: Visit) -> Answer:
        return Answer(body="", delay=1) if visit.path == ROBOTS else Answer()

    site = origin(slow_robots, addresses=HOSTS)
    urls = in_turn(site, dict.fromkeys(HOSTS, 6))
    settings = {
        **SETTINGS,
        "CONCURRENT_REQUESTS_PER_DOMAIN": 8,
        "ROBOTSTXT_OBEY": True,
        "DOWNLOADER_MIDDLEWARES": {Census: 99, PastRobots: 101},
    }
    done = crawl(UrlsSpider, settings, reactor=reactor, arguments={"urls": urls})
    assert sorted(done.urls) == sorted(urls)
    assert done.stats[MOST] == dict.fromkeys(HOSTS, 1)
    assert Counter(hit.path for hit in site.hits())[ROBOTS] == len(HOSTS)
    assert_few_handed_back(done, len(urls))


@pytest.mark.parametrize("places", [2, 16])
def test_a_slow_robots_txt_keeps_no_other_host_waiting(
    places: int, origin: Callable[..., Origin], crawl: Crawler
) -> None:
    """While it is awaited, the other host gets all its pages, though places are few."""
    slow, quick = HOSTS[:2]

    def handler(visit: Visit) -> Answer:
        if visit.path == ROBOTS:
            return Answer(body="", delay=3) if visit.host.startswith(slow) else robots_txt("")
        return Answer()

    site = origin(handler, addresses=[slow, quick])
    urls = in_turn(site, {slow: 6, quick: 30})
    settings = {**SETTINGS, "CONCURRENT_REQUESTS": places, "ROBOTSTXT_OBEY": True}
    done = crawl(UrlsSpider, settings, arguments={"urls": urls})
    assert sorted(done.urls) == sorted(urls)
    (robots,) = (hit for hit in site.hits() if hit.path == ROBOTS and hit.host.startswith(slow))
    assert all(hit.start < robots.end for hit in pages_of(site, quick))
    assert all(hit.start >= robots.end for hit in pages_of(site, slow))
    assert_few_handed_back(done, len(urls))
