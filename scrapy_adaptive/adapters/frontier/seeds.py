"""Seeds of RedisSpider and RedisCrawlSpider, taken so that a kill loses none.

Laws
----
* A seed that was taken belongs to the session until its requests are written down, or have ended
  where they pass by the table; a session that ends before gives it back.
* What becomes of a seed is the spider's own `make_request_from_data`. One that it cannot read is
  named, skipped and counted.
* Seeds are only taken while there is room for their visits.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from scrapy import Request

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

    from scrapy_adaptive.frontier.protocol import Frontier
    from scrapy_adaptive.frontier.redis.frontier import RedisFrontier

    from .tracking import Tracking
    from .visits import OpenVisit

logger = logging.getLogger("scrapy_adaptive")

MOST_TOLD = 10
"""Seeds in trouble that each bring a line."""

EACH = 2.0
"""Seconds between two looks for seeds, where there were none."""


def takes_seeds(spider: object) -> bool:
    """Whether this is a spider of scrapy-redis."""
    return any(
        base.__module__ == "scrapy_redis.spiders" and base.__name__ == "RedisMixin"
        for base in type(spider).__mro__
    )


def seeds_of(crawler: Crawler, tracking: Tracking, frontier: Frontier) -> Seeds | None:
    """The seeds of a crawl; None where its spider is none of scrapy-redis.

    Only a frontier on Redis has a place where they are safe meanwhile.
    """
    if not takes_seeds(crawler.spider):
        return None
    from scrapy_adaptive.frontier.redis.frontier import RedisFrontier

    return Seeds(crawler, tracking, frontier) if isinstance(frontier, RedisFrontier) else None


class Seeds:
    """The seeds of one crawl.

    Args:
        crawler: its spider is one of scrapy-redis.
        tracking: makes rows of requests.
        frontier: takes them.
    """

    def __init__(self, crawler: Crawler, tracking: Tracking, frontier: RedisFrontier) -> None:
        assert crawler.stats is not None
        self._stats = crawler.stats
        spider: Any = crawler.spider
        self._spider = spider
        self._tracking = tracking
        self.frontier = frontier
        self._told = 0
        self._looks_at = -math.inf
        self.key = str(spider.redis_key)
        self.most = int(spider.redis_batch_size)
        """Seeds that are taken at a time, at most."""
        self.written: list[int] = []
        """Those whose requests are written down with the next turn."""
        spider.fetch_data = lambda key, size: []  # they are taken here, in no other way

    def are_due(self, now: float) -> bool:
        """Whether to look for more."""
        if now < self._looks_at:
            return False
        self._looks_at = now + EACH
        return True

    def take(self, most: int) -> list[tuple[int, bytes]]:
        """Up to so many more of them; in the courier's thread."""
        return self.frontier.take_seeds(self.key, most)

    def take_written(self) -> list[int]:
        """Those whose requests are found, and were not told of before."""
        written, self.written = self.written, []
        return written

    def on_taken(self, seeds: Sequence[tuple[int, bytes]]) -> None:
        """Seeds become requests, these become rows."""
        if seeds:
            self._looks_at = -math.inf
        for number, data in seeds:
            self._stats.inc_value("adaptive/frontier/seeds")
            try:
                made = self._spider.make_request_from_data(data)
                requests = [made] if isinstance(made, Request) else list(made or ())
            except Exception as error:  # whatever somebody has pushed, the others must be visited
                self._skip(data, error)
                requests = []
            self._enter(number, requests)

    def _skip(self, data: bytes, error: Exception) -> None:
        self._stats.inc_value("adaptive/frontier/unreadable")
        self._told += 1
        if self._told <= MOST_TOLD:
            logger.warning(
                "a seed of %s is skipped, %r is none: %s", self.key, data[:200], str(error)[:200]
            )

    def _enter(self, number: int, requests: Iterable[Any]) -> None:
        passing = [
            each
            for each in requests
            if isinstance(each, Request) and not self._tracking.seed(each, is_start=False)
        ]
        left = len(passing)

        def ended(visit: OpenVisit) -> None:
            nonlocal left
            left -= 1
            if not left:
                self.written.append(number)

        if not passing:
            self.written.append(number)
        for each in passing:
            self._tracking.pass_by(each, ended)
            self._tracking.crawl(each)
