"""A token bucket that returns the instant of the next send.

Laws
----
* Tokens are in [0, capacity], capacity in [1, burst].
* A send takes one token; one token comes back each `delay` seconds.
* The delay is an argument of every call: a new rate holds from the next dispatch on.
* Chance only lengthens a gap, never shortens it.
* Congestion drains the bucket and cuts its capacity to 1; each accepted request grows it back.
"""

from __future__ import annotations

import math
from typing import Annotated

from scrapy_adaptive.core.state.fields import Amount, Instant, Range

CAPACITY_GROWTH = 0.1
"""Tokens of capacity that one accepted request gives back after congestion: ten for one token."""

JITTER_RATIO = 0.02
"""Most by which chance lengthens a gap, as a share of the delay.

A paced client needs no more to leave a lockstep; each percent costs a percent of speed.
"""


class TokenBucket:
    """Tokens saved up by one slot.

    Args:
        burst: most tokens saved up, at least 1.
        now: monotonic seconds; one token is there from the start.
    """

    __slots__ = ("_stretch", "_tokens", "_updated_at", "burst", "capacity")

    capacity: Amount
    _tokens: Amount
    _updated_at: Instant
    _stretch: Annotated[float, Range(1.0, 1.0 + JITTER_RATIO)]

    def __init__(self, burst: float, now: float) -> None:
        self.burst = burst
        self.capacity = burst
        self._tokens = 1.0
        self._updated_at = now
        self._stretch = 1.0

    def ready_at(self, delay: float, count: int = 1) -> float:
        """The instant from which `count` tokens are there, in monotonic seconds.

        Infinity for more tokens than the bucket can hold, unless there is no delay.

        **Keeps**: waiting until then admits, waiting less does not.
        """
        if count > self.capacity and delay > 0.0:
            return math.inf
        return self._updated_at + max(0.0, count - self._tokens) * delay * self._stretch

    def tokens(self, now: float, delay: float) -> float:
        """Tokens there at `now`, while one comes each `delay` seconds."""
        gap = delay * self._stretch
        if gap <= 0.0:
            return self.capacity
        grown = self._tokens + max(0.0, now - self._updated_at) / gap
        return min(self.capacity, grown)

    def take(self, now: float, delay: float, chance: float) -> float:
        """Spend one token; `chance` in [0, 1) lengthens the next gap by up to `JITTER_RATIO`.

        Returns:
            The instant from which it was there.

        Raises:
            ValueError: no token is there yet.
        """
        ready_at = self.ready_at(delay)
        if now < ready_at:
            raise ValueError(f"no token before {ready_at}, asked at {now}")
        self._tokens = max(0.0, self.tokens(now, delay) - 1.0)
        self._updated_at = now
        self._stretch = 1.0 + JITTER_RATIO * chance
        return ready_at

    def drain(self, now: float, delay: float) -> float:
        """Empty the bucket and cut its capacity to 1; returns the tokens lost."""
        lost = self.tokens(now, delay)
        self.capacity = 1.0
        self._tokens = 0.0
        self._updated_at = now
        return lost

    def begin_here(self) -> None:
        """What was kept of it was read: no more may be saved up than here."""
        self.capacity = max(1.0, min(self.capacity, self.burst))
        self._tokens = min(self._tokens, self.capacity)

    def on_accepted(self) -> None:
        """One more accepted request: the capacity grows back towards `burst`."""
        if self.capacity < self.burst:
            self.capacity = min(self.burst, self.capacity + CAPACITY_GROWTH)
