"""Sites that slow down instead of refusing: their queue, seen in the latency.

Laws
----
* The base is the least latency that was sure: noise fakes no low base.
* A mean latency well above the base, beyond its own scatter, is a queue. What is in flight is
  then limited to what the site works on at once, rate times base, and a little more.
* Latency that stays when less is in flight was no queue: it is the new base.

**Source**: L. Brakmo and L. Peterson, TCP Vegas, 1995; J. Little, A Proof for the Queuing
Formula, 1961.
**Departs**: Vegas always limits; here only a site that was slow once is limited.
"""

from __future__ import annotations

import math

from scrapy_adaptive.core.state.fields import LONG_AGO, Amount, Instant, Seconds

SLOW = 1.5
"""Latency, as a multiple of the base, above which a queue is suspected."""

SCATTER = 2.0
"""Mean deviations by which the mean has to be above that, too."""

ROUND = 32
"""Responses between two looks, and in the mean: its own scatter is then a sixth of theirs."""

FEWEST = 1.0
"""Requests in the site's queue below which one more is let in flight: alpha of Vegas."""

MOST = 4.0
"""Requests in the site's queue above which one less is let in flight: beta of Vegas, as Linux has
it. The three of 1995 leave a site idle whose service times scatter."""

MOST_IN_FLIGHT = 10_000.0
"""More than any crawl has: the limit where answers come too close together to be timed."""

STAYED = 0.9
"""Share of a slow mean latency that is left when it was no queue."""


class Slowness:
    """The limit on what is in flight that latency teaches; infinity while the site is not slow.

    Args:
        starts_at: the limit to begin with; one that is finite doubles each round trip, until the
            site is slow.
    """

    __slots__ = (
        "_answered",
        "_answered_at",
        "_answered_before",
        "_before_at",
        "_count",
        "_deviation",
        "_is_growing",
        "_set_at",
        "_since",
        "_slow",
        "base",
        "limit",
        "mean",
    )

    limit: Amount
    mean: Seconds
    base: Amount
    _is_growing: bool
    _deviation: Seconds
    _count: int
    _set_at: Instant
    _slow: Seconds
    _answered_before: int
    _answered: int
    _before_at: Instant
    _since: Instant
    _answered_at: Instant

    def __init__(self, starts_at: float = math.inf) -> None:
        self.limit = starts_at
        self.mean = 0.0
        self.base = math.inf
        self._is_growing = starts_at < math.inf
        self._deviation = 0.0
        self._count = 0
        self._set_at = LONG_AGO
        self._slow = 0.0
        """The mean latency that made the limit, until it is known whether it was a queue."""
        self._answered = self._answered_before = 0
        """Answers of the present round, and of the one before."""
        self._since = self._before_at = self._answered_at = LONG_AGO
        """When these began, and when the last answer came."""

    def on_latency(self, now: float, sent_at: float, seconds: float, level: int) -> None:
        """A request sent as the `level`-th in flight was answered after so many seconds."""
        self._on_answered(now)
        if sent_at < self._set_at:
            return
        self._count += 1
        weight = max(1.0 / ROUND, 1.0 / self._count)
        error = seconds - self.mean
        self.mean += weight * error
        if self._count > 1:
            self._deviation += weight * (abs(error) - self._deviation)
        if self._is_growing and level >= self.limit:
            self.limit += 1.0
        if self._count >= ROUND:
            self._look(now, level)

    def _look(self, now: float, level: int) -> None:
        self.base = min(self.base, self.mean + SCATTER * self._deviation / math.sqrt(ROUND))
        if self._slow:
            if self.mean >= STAYED * self._slow:
                self.base = self.mean
                self.limit = math.inf
            self._slow = 0.0
        if self.limit == math.inf or self._is_growing:
            if self.mean > SLOW * self.base + SCATTER * self._deviation:
                self._slow = self.mean
                self._is_growing = False
                self._set(now, math.ceil(min(self._rate * self.base, MOST_IN_FLIGHT)))
        elif level >= self.limit:
            queued = self.limit * (1.0 - self.base / self.mean) if self.mean else 0.0
            if queued > MOST:
                self._set(now, self.limit - 1.0)
            elif queued < FEWEST:
                self._set(now, self.limit + 1.0)

    def _on_answered(self, now: float) -> None:
        """Count it: answers are looked at in rounds, of which the last two are remembered."""
        if self._answered_at == LONG_AGO:
            self._since = self._before_at = self._answered_at = now
            return
        if self._answered >= ROUND:
            self._answered_before, self._answered = self._answered, 0
            self._before_at, self._since = self._since, self._answered_at
        self._answered += 1
        self._answered_at = now

    @property
    def _rate(self) -> float:
        """Answers a second, of the latest ones."""
        span = self._answered_at - self._before_at
        return (self._answered_before + self._answered) / span if span > 0.0 else math.inf

    def _set(self, now: float, limit: float) -> None:
        self.limit = max(1.0, limit)
        self._set_at = now
        self._count = 0
