"""Servers limited by how much they do at once: by refusing, by queueing, or not at all.

Laws
----
* A page takes its place from arrival to departure; the network's time is not the server's.
"""

from __future__ import annotations

import heapq
import math
import random
from collections import deque

from scrapy_adaptive.core.headers.parse import Quota
from scrapy_adaptive.core.types import Outcome

from .base import REFUSED, Page, Reply
from .ranges import FROM_ZERO, SERVICE, WORKERS
from .rates import ROUNDING, Given, rate_of, whole


class CapServer:
    """At most so many pages at once, each for the same time; more are refused: `limit_conn`.

    Args:
        places: pages at once.
        service: seconds that each takes, > 0.
    """

    def __init__(self, places: Given, service: float) -> None:
        SERVICE.check(service=service)
        self._places = rate_of(places)
        self._served = Reply(Outcome.ACCEPTED, service)
        self._ends: deque[float] = deque()

    def on_arrival(self, now: float, page: Page) -> Reply:
        """Accept the page if a place is free."""
        if self._taken(now) >= whole(self._places(now)):
            return REFUSED
        self._ends.append(now + self._served.service)
        return self._served

    def capacity(self, now: float) -> float:
        """All places taken without a break."""
        return whole(self._places(now)) / self._served.service

    def retry_at(self, now: float, page: Page) -> float:
        """When a place is free."""
        over = self._taken(now) - whole(self._places(now))
        return now if over < 0 else self._ends[int(over)]

    def quota(self, now: float, page: Page) -> Quota:
        """The free places; no passing of time alone promises one."""
        places = whole(self._places(now))
        if places == math.inf:
            return Quota()
        free = max(0, int(places) - self._taken(now))
        return Quota(free, None, int(places), unit="concurrent-requests")

    def _taken(self, now: float) -> int:
        while self._ends and self._ends[0] <= now + ROUNDING:
            self._ends.popleft()
        return len(self._ends)


class QueueServer:
    """Never refuses: pages wait for one of the workers, in the order of their arrival.

    Args:
        workers: pages worked on at once, >= 1.
        service: seconds that a worker takes, on average.
        speed: a factor on the workers' speed, by the instant at which they begin a page.
        chance: makes service exponentially distributed; None makes it constant.
    """

    def __init__(
        self, workers: int, service: float, speed: Given, chance: random.Random | None = None
    ) -> None:
        WORKERS.check(workers=workers)
        SERVICE.check(service=service)
        self._free_at = [0.0] * int(workers)
        self._service = service
        self._speed = rate_of(speed)
        self._chance = chance

    def on_arrival(self, now: float, page: Page) -> Reply:
        """Queue the page; the reply's service is its waiting and its working time."""
        begin = max(now, self._free_at[0])
        work = self._chance.expovariate(1.0 / self._service) if self._chance else self._service
        end = begin + work / self._speed(begin)
        heapq.heapreplace(self._free_at, end)
        return Reply(Outcome.ACCEPTED, end - now)

    def capacity(self, now: float) -> float:
        """All workers busy."""
        return len(self._free_at) / self._service * self._speed(now)


class FreeServer:
    """No limit at all; each page takes the same time."""

    def __init__(self, service: float) -> None:
        FROM_ZERO.check(service=service)
        self._served = Reply(Outcome.ACCEPTED, service)

    def on_arrival(self, now: float, page: Page) -> Reply:
        """Accept the page."""
        return self._served

    def capacity(self, now: float) -> float:
        """Infinity: the site sets no limit."""
        return math.inf
