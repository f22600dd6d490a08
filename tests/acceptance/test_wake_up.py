"""A host is served when its time has come: never earlier, and soon after.

What the governor promised is noted inside the crawl when an answer has been judged, just before
the next request of that host may leave; whether it was kept is read from the site's log.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING, Any

import pytest
from scrapy import Request, signals

from docsite.hits import Hit
from scrapy_adaptive import AdaptiveThrottle
from tests.acceptance.alongside import assert_few_handed_back, hits_at, in_turn, once_quiet
from tests.crawling import Crawl, Crawler, Reactor
from tests.servers.origin import Answer, Origin, Visit, refusal
from tests.spiders import UrlsSpider

if TYPE_CHECKING:
    from scrapy.crawler import Crawler as ScrapyCrawler
    from scrapy.http import Response
    from typing_extensions import Self

HOSTS = [f"127.1.2.{n}" for n in range(1, 7)]

PROMISED, UNHELD = "promised_at", "unheld"

CLOCKS = 0.002
"""Seconds between reading one clock and the other."""

LATE = 0.15
"""Seconds: 20 ms on an idle machine, and what a busy one adds."""

DELAY, SILENCE = 0.5, 1


class Promises:
    """Scrapy extension: notes after each answer when its host may be asked again."""

    def __init__(self, crawler: ScrapyCrawler) -> None:
        self._crawler = crawler
        self.promised: dict[str, float] = {}
        self.unheld: list[float] = []
        """Seconds from the send to the answer, where no wait was left when that was read."""
        self._sent: dict[str, float] = {}

    @classmethod
    def from_crawler(cls, crawler: ScrapyCrawler) -> Self:
        """Keep the notes in the crawl's stats, by the URL that was answered."""
        promises = cls(crawler)
        assert crawler.stats is not None
        crawler.stats.set_value(PROMISED, promises.promised)
        crawler.stats.set_value(UNHELD, promises.unheld)
        crawler.signals.connect(promises.on_sent, signals.request_reached_downloader)
        crawler.signals.connect(promises.on_opened, signals.spider_opened)
        return promises

    def on_opened(self) -> None:
        """Listen from now on: after the throttle, which has listened from the start."""
        self._throttle = AdaptiveThrottle.of(self._crawler).traffic
        self._crawler.signals.connect(self.on_response, signals.response_downloaded)

    def on_sent(self, request: Request) -> None:
        self._sent[request.url] = time.time()

    def on_response(self, request: Request, response: Response) -> None:
        key = self._throttle.names.of(request)
        assert key is not None
        wall, now = time.time(), self._throttle.clock()  # in this order it never seems early
        blocked = self._throttle.governor.blocked_in_queue(key, now)
        if blocked is None:
            self.unheld.append(wall - self._sent[request.url])
        until = now if blocked is None else blocked.until
        self.promised[f"{response.status} {request.url}"] = wall + until - now


SETTINGS: dict[str, Any] = {
    "ADAPTIVE_START_DELAY": 0,
    "ADAPTIVE_TARGET_CONCURRENCY": 1,
    # a busy crawler may read an answer after the next page was due, but not with one at a time
    "CONCURRENT_REQUESTS_PER_DOMAIN": 1,
    "ADAPTIVE_GLOBAL_TRIP_SLOTS": 1000,
    "EXTENSIONS": {Promises: 1000},
    "STATS_DUMP": False,
}


def lateness(site: Origin, done: Crawl) -> list[float]:
    """Seconds after the promised instant of each hit that followed an answer of its host."""
    late = []
    for host in HOSTS:
        hits = hits_at(site, host)
        for before, after in pairwise(hits):
            promised = done.stats[PROMISED][f"{before.status} http://{before.host}{before.path}"]
            late.append(after.start - promised)
    return late


def assert_held(done: Crawl, delay: float) -> None:
    """There was a wait after each answer, but where a busy crawler read it after that was over."""
    print(f"{len(done.stats[UNHELD])} answers were read after their delay")
    assert all(seconds >= delay - CLOCKS for seconds in done.stats[UNHELD])


def assert_in_time(crawl_them: Callable[[], list[float]]) -> None:
    """Each try is early by nothing, one of them is hardly late: a hiccup is over by then.

    Args:
        crawl_them: seconds by which each host was late, in one try.
    """

    def typical() -> float:
        late = crawl_them()
        found = median(late)
        print(f"{len(late)} instants: {found * 1000:.1f} ms late, most {max(late) * 1000:.1f} ms")
        assert min(late) >= -CLOCKS
        return found

    assert once_quiet(typical, lambda late: late <= LATE) <= LATE


@pytest.mark.parametrize("reactor", ["asyncio", "select", "none"])
def test_a_host_is_served_when_its_delay_is_over(
    reactor: Reactor, origin: Callable[..., Origin], crawl: Crawler
) -> None:
    def crawl_them() -> list[float]:
        site = origin(addresses=HOSTS)
        urls = in_turn(site, dict.fromkeys(HOSTS, 8))
        settings = {**SETTINGS, "DOWNLOAD_DELAY": DELAY}
        done = crawl(UrlsSpider, settings, reactor=reactor, arguments={"urls": urls})
        assert sorted(done.urls) == sorted(urls)
        assert_few_handed_back(done, len(urls))
        assert_held(done, DELAY)
        return lateness(site, done)

    assert_in_time(crawl_them)


def refuse_first(visit: Visit) -> Answer:
    """Each page is refused once."""
    return refusal(retry_after=SILENCE) if visit.count == 1 else Answer()


def after_refusals(hits: list[Hit]) -> list[float]:
    """Seconds from each refusal to its host's next hit."""
    pairs = pairwise(hits)
    return [after.start - before.end for before, after in pairs if before.status == 429]


@pytest.mark.parametrize("reactor", ["asyncio", "select", "none"])
def test_a_host_is_asked_again_when_its_retry_after_is_over(
    reactor: Reactor, origin: Callable[..., Origin], crawl: Crawler
) -> None:
    def crawl_them() -> list[float]:
        site = origin(refuse_first, addresses=HOSTS)
        urls = in_turn(site, dict.fromkeys(HOSTS, 3))
        settings = {**SETTINGS, "DOWNLOAD_DELAY": 0.1}
        done = crawl(UrlsSpider, settings, reactor=reactor, arguments={"urls": urls})
        assert sorted(done.urls) == sorted(urls)
        assert_few_handed_back(done, len(urls))
        waits = [wait for host in HOSTS for wait in after_refusals(hits_at(site, host))]
        assert len(waits) == len(urls)
        assert min(waits) >= SILENCE
        assert_held(done, settings["DOWNLOAD_DELAY"])
        return lateness(site, done)

    assert_in_time(crawl_them)
