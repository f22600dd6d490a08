"""The user's bound on the sends of the whole crawl.

Laws
----
* One request each `delay` seconds, over all slots; without a delay there is no bound.
* A promise of a place holds back other promises, never a request at the gate.
"""

from __future__ import annotations

import math

from scrapy_adaptive.core.types import Blocked, Reason

from .token_bucket import TokenBucket


class GlobalRate:
    """The bucket before all slots.

    Args:
        rate: sends a second, >= 0; 0 sets no bound.

    Raises:
        ValueError: the rate is out of its range.
    """

    __slots__ = ("_bucket", "_promised", "_promised_at", "delay")

    def __init__(self, rate: float) -> None:
        if not rate >= 0:
            raise ValueError(f"global_rate = {rate}")
        self.delay = 1.0 / rate if rate else 0.0
        """Seconds between two sends; 0 without a bound."""
        self._bucket = TokenBucket(1.0, -math.inf)
        self._promised = 0
        self._promised_at = -math.inf

    def blocked(self, now: float) -> Blocked | None:
        """Why no request may leave at `now`, and until when; None when one may."""
        return self._until(self._bucket.ready_at(self.delay), now) if self.delay else None

    def blocked_queued(self, now: float) -> Blocked | None:
        """Why none may leave its queue at `now`: places promised count as taken."""
        if not self.delay:
            return None
        at = self._bucket.ready_at(self.delay)
        if self._promised:
            at = max(at, self._promised_at + self.delay)
        return self._until(at, now)

    def reserve(self, now: float) -> None:
        """Promise a place to a queued request."""
        self._promised += 1
        self._promised_at = now

    def release(self) -> None:
        """End one promise."""
        self._promised -= 1

    def take(self, now: float, chance: float) -> None:
        """One request is sent; `blocked` must have said that it may go."""
        if self.delay:
            self._bucket.take(now, self.delay, chance)

    def drain(self, now: float) -> None:
        """Empty the bucket."""
        self._bucket.drain(now, self.delay)

    @staticmethod
    def _until(at: float, now: float) -> Blocked | None:
        return Blocked(at, Reason.GLOBAL_RATE) if now < at else None
