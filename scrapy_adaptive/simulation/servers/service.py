"""How long a page takes on its server, and servers that take that long.

Laws
----
* A service time is drawn at each page; its mean is known beforehand.
"""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Callable
from dataclasses import dataclass, replace

from scrapy_adaptive.core.types import Outcome

from .base import REFUSED, Page, Reply, Server
from .ranges import FROM_ZERO, PLACES, WORKERS, Number
from .rates import ROUNDING

SIGMA = 0.7
"""Standard deviation of the logarithm of a lognormal service time: now and then three times the
mean, as where some pages need the database and others do not."""

MEAN = Number("MEAN", least=1e-9)
"""Seconds of a service: a page may take as good as none."""

SERVICES = ("fixed", "exponential", "lognormal")


@dataclass(frozen=True, slots=True)
class Service:
    """Seconds that pages take: their mean, and one drawn at each call."""

    mean: float
    draw: Callable[[], float]


def service(name: str, mean: float, chance: random.Random) -> Service:
    """Service times of that name, of so many seconds on average.

    Raises:
        ValueError: there are no such service times, or the mean is not allowed.
    """
    if name not in SERVICES:
        raise ValueError(f"service = {name!r}: allowed is {', '.join(SERVICES)}")
    MEAN.check(mean=mean)

    def fixed() -> float:
        return mean

    def exponential() -> float:
        return chance.expovariate(1.0 / mean)

    def lognormal() -> float:
        return chance.lognormvariate(math.log(mean) - SIGMA**2 / 2, SIGMA)

    draws = {"fixed": fixed, "exponential": exponential, "lognormal": lognormal}
    return Service(mean, draws[name])


class SlowServer:
    """Answers what the server behind it answers, later; as many at once as come.

    Args:
        inner: the server.
        service: seconds that an accepted page takes.
        refusal: seconds that a refusal takes.
    """

    def __init__(self, inner: Server, service: Service, refusal: float = 0.0) -> None:
        FROM_ZERO.check(refusal=refusal)
        self.inner = inner
        self._service = service
        self._refusal = refusal

    def on_arrival(self, now: float, page: Page) -> Reply:
        """What the server says, and how long that takes."""
        reply = self.inner.on_arrival(now, page)
        served = reply.outcome is Outcome.ACCEPTED
        return replace(reply, service=self._service.draw() if served else self._refusal)

    def capacity(self, now: float) -> float:
        """The server's."""
        return self.inner.capacity(now)


class PlacesServer:
    """At most so many pages at once, each for a time of its own; more are refused.

    Args:
        places: pages at once, >= 1.
        service: seconds that each takes.
    """

    def __init__(self, places: int, service: Service) -> None:
        PLACES.check(places=places)
        self._places = places
        self._service = service
        self._ends: list[float] = []

    def on_arrival(self, now: float, page: Page) -> Reply:
        """Accept the page if a place is free."""
        if self.retry_at(now, page) > now:
            return REFUSED
        seconds = self._service.draw()
        heapq.heappush(self._ends, now + seconds)
        return Reply(Outcome.ACCEPTED, seconds)

    def capacity(self, now: float) -> float:
        """All places taken without a break."""
        return self._places / self._service.mean

    def retry_at(self, now: float, page: Page) -> float:
        """When a place is free."""
        while self._ends and self._ends[0] <= now + ROUNDING:
            heapq.heappop(self._ends)
        return now if len(self._ends) < self._places else self._ends[0]


class WorkersServer:
    """Never refuses: pages wait for one of the workers, in the order of their arrival.

    Args:
        workers: pages worked on at once, >= 1.
        service: seconds that each takes.
    """

    def __init__(self, workers: int, service: Service) -> None:
        WORKERS.check(workers=workers)
        self._free_at = [0.0] * int(workers)
        self._service = service

    def on_arrival(self, now: float, page: Page) -> Reply:
        """Queue the page; the reply's service is its waiting and its working time."""
        end = max(now, self._free_at[0]) + self._service.draw()
        heapq.heapreplace(self._free_at, end)
        return Reply(Outcome.ACCEPTED, end - now)

    def capacity(self, now: float) -> float:
        """All workers busy."""
        return len(self._free_at) / self._service.mean
