"""Sites with more than one limit at once.

Laws
----
* A page has to pass every limit; refused by one of them, it costs none of the others anything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from scrapy_adaptive.core.types import Outcome

from .base import ACCEPTED, REFUSED, Page, Reply, Server
from .ranges import EVERY
from .rates import ROUNDING


class Gate(Server, Protocol):
    """A limit that knows when it would accept a page."""

    def retry_at(self, now: float, page: Page) -> float:
        """The earliest instant at which this page would be accepted, if no other came before."""


class NestedServer:
    """Several limits on the same pages: 10 a second and 300 a minute, or a rate and a cap.

    Args:
        limits: all of them, one at least; a page takes as long as the slowest of their answers.
    """

    def __init__(self, limits: Sequence[Gate]) -> None:
        if not limits:
            raise ValueError("limits: allowed is one or more, and there are none")
        self._limits = limits

    def on_arrival(self, now: float, page: Page) -> Reply:
        """Accept the page if all of them do."""
        if any(limit.retry_at(now, page) > now + ROUNDING for limit in self._limits):
            return REFUSED
        replies = [limit.on_arrival(now, page) for limit in self._limits]
        return max(replies, key=lambda reply: reply.service)

    def capacity(self, now: float) -> float:
        """The slowest one's."""
        return min(limit.capacity(now) for limit in self._limits)

    def retry_at(self, now: float, page: Page) -> float:
        """When all of them would accept it."""
        return max(limit.retry_at(now, page) for limit in self._limits)


class ClassesServer:
    """A limit for each class of pages, and none for the host.

    Args:
        kinds: class to its limit; pages of other classes are served.
    """

    def __init__(self, kinds: Mapping[str, Gate]) -> None:
        self._kinds = dict(kinds)

    def on_arrival(self, now: float, page: Page) -> Reply:
        """What the limit of its class says."""
        limit = self._kinds.get(page.kind)
        return ACCEPTED if limit is None else limit.on_arrival(now, page)

    def capacity(self, now: float) -> float:
        """All classes' together."""
        return sum(limit.capacity(now) for limit in self._kinds.values())

    def retry_at(self, now: float, page: Page) -> float:
        """When the limit of its class would accept it."""
        limit = self._kinds.get(page.kind)
        return now if limit is None else limit.retry_at(now, page)


class HiddenBackendServer:
    """One page in so many is behind a backend with a limit of its own, and no path tells which.

    Args:
        site: what the others are behind.
        backend: its pages are those whose number can be divided by `every`.
        every: > 1.
    """

    def __init__(self, site: Server, backend: Server, every: int) -> None:
        EVERY.check(every=every)
        self._site = site
        self._backend = backend
        self._every = every

    def on_arrival(self, now: float, page: Page) -> Reply:
        """What the one or the other answers."""
        return (self._site if page.number % self._every else self._backend).on_arrival(now, page)

    def capacity(self, now: float) -> float:
        """Pages of both a second, where no page is put off for the others."""
        others = self._every / (self._every - 1.0)
        return min(others * self._site.capacity(now), self._every * self._backend.capacity(now))


class FirstVisitServer:
    """Refuses each page's first visit, as a cold cache does, and serves it from then on.

    Args:
        inner: the server.
        since: from when on, in seconds; the cache is warm until then.
    """

    def __init__(self, inner: Server, since: float = 0.0) -> None:
        self.inner = inner
        self._since = since
        self._seen: set[int] = set()

    def on_arrival(self, now: float, page: Page) -> Reply:
        """What the server says, but at the first visit."""
        if now >= self._since and page.number not in self._seen:
            self._seen.add(page.number)
            return REFUSED
        return self.inner.on_arrival(now, page)

    def capacity(self, now: float) -> float:
        """Once the cache is cold, half of the server's: each page needs two visits."""
        return self.inner.capacity(now) / (2.0 if now >= self._since else 1.0)


class FailingServer:
    """Fails for a time now and then: a deployment, a database that is gone.

    Args:
        inner: the server.
        bursts: from when until when it answers 500 to everything, in seconds.
    """

    def __init__(self, inner: Server, bursts: Sequence[tuple[float, float]]) -> None:
        self.inner = inner
        self._bursts = bursts

    def on_arrival(self, now: float, page: Page) -> Reply:
        """What the server says, or a failure."""
        if self._fails(now):
            return Reply(Outcome.FAILED)
        return self.inner.on_arrival(now, page)

    def capacity(self, now: float) -> float:
        """The server's; nothing while it fails."""
        return 0.0 if self._fails(now) else self.inner.capacity(now)

    def _fails(self, now: float) -> bool:
        return any(begin <= now < end for begin, end in self._bursts)
