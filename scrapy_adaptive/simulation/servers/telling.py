"""Servers that tell their limit in headers, truly or not.

Laws
----
* Headers tell whole seconds, rounded up: who waits them out is accepted.
* A lie comes with every answer; the limit behind it stays what it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeAlias

from scrapy_adaptive.core.headers.parse import Hints, Quota
from scrapy_adaptive.core.types import Outcome

from .base import Page, Reply, Server
from .limiter import Limiter
from .rates import ROUNDING

Telling: TypeAlias = Callable[[Quota, Page], Quota]
"""What a server makes of its quota before it tells it."""

YEAR = 366 * 86_400.0
MANY = 10**12


def truth(quota: Quota, page: Page) -> Quota:
    """Nothing but the truth."""
    return quota


def _all_remains(quota: Quota, page: Page) -> Quota:
    """As if nothing had been fetched."""
    return replace(quota, remaining=quota.limit)


def _reset_is_past(quota: Quota, page: Page) -> Quota:
    """The reset lies behind on even pages; on odd ones it is missing."""
    return replace(quota, reset=0.0 if page.number % 2 == 0 else None)


def _absurd(quota: Quota, page: Page) -> Quota:
    """A million million pages in a millisecond for even pages; one in a year for odd ones."""
    if page.number % 2 == 0:
        return Quota(MANY, 0.001, MANY, 0.001)
    return Quota(1, YEAR, 1, YEAR)


LIES: Mapping[str, Telling] = {
    "remaining": _all_remains,
    "reset": _reset_is_past,
    "absurd": _absurd,
}
"""Lies by name."""


class TellingServer:
    """Adds headers to the answers of a server.

    Args:
        inner: the server.
        limiter: the one in it that knows the limit.
        retry_after: tell Retry-After with each refusal.
        wait: seconds that are announced each time; None for what the limiter knows.
        quota: tell RateLimit with each answer, by this; None tells none.
    """

    def __init__(
        self,
        inner: Server,
        limiter: Limiter,
        *,
        retry_after: bool,
        wait: float | None,
        quota: Telling | None,
    ) -> None:
        self.inner = inner
        self._limiter = limiter
        self._retry_after = retry_after
        self._wait_announced = wait
        self._quota = quota

    def on_arrival(self, now: float, page: Page) -> Reply:
        """What the server says, and its headers."""
        reply = self.inner.on_arrival(now, page)
        return replace(reply, hints=Hints(self._wait(reply, now, page), self._quotas(now, page)))

    def capacity(self, now: float) -> float:
        """The server's."""
        return self.inner.capacity(now)

    def _wait(self, reply: Reply, now: float, page: Page) -> float | None:
        if not self._retry_after or reply.outcome is Outcome.ACCEPTED:
            return None
        if self._wait_announced is not None:
            return self._wait_announced
        return _whole_seconds(self._limiter.retry_at(now, page) - now)

    def _quotas(self, now: float, page: Page) -> tuple[Quota, ...]:
        if self._quota is None:
            return ()
        quota = self._limiter.quota(now, page)
        if quota.reset is not None:
            quota = replace(quota, reset=_whole_seconds(quota.reset))
        return (self._quota(quota, page),)


def _whole_seconds(seconds: float) -> float:
    return float(max(0, math.ceil(seconds - ROUNDING)))
