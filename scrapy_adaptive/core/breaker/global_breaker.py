"""The circuit breaker of the whole crawl.

Laws
----
* Where one slot is enough, any refusal that pauses one opens it. Where several are asked for, it
  stays closed: a limit that slots share is learned, as `crawl_wide` says.
* While it is open nothing leaves for any slot. It closes when all that was in flight is back
  and a cool-down has passed since.
* A trip while it is open starts the cool-down anew.

**Source**: the global circuit breaker of feedback-controlled crawlers, where any 429 stops
everything until the "concurrency lag", the requests already past the limiter, has cleared.
**Departs**: by default it is not used, as one site's limit is no other site's affair.
"""

from __future__ import annotations

import math


class GlobalBreaker:
    """Open or closed, for all slots at once.

    Args:
        slots: distinct slots that must be refused, >= 1.
        window: seconds within which they must, > 0.
        cooldown: seconds to wait once nothing is in flight, >= 0.

    Raises:
        ValueError: a number is out of its range.
    """

    __slots__ = (
        "_closes_at",
        "causes",
        "cooldown",
        "is_open",
        "slots",
        "window",
    )

    def __init__(self, *, slots: int, window: float, cooldown: float) -> None:
        if slots < 1 or not window > 0 or not cooldown >= 0:
            raise ValueError(f"slots = {slots}, window = {window}, cooldown = {cooldown}")
        self.slots = slots
        self.window = window
        self.cooldown = cooldown
        self.is_open = False
        self.causes: tuple[str, ...] = ()
        """Slots whose trouble opened it last."""
        self._closes_at: float | None = None

    def on_trip(self, key: str) -> bool:
        """A slot was refused; returns whether the global breaker opens by it."""
        if self.slots > 1:
            return False
        opens, self.is_open = not self.is_open, True
        self.causes = (key,)
        self._closes_at = None
        return opens

    def hold_until(self, now: float, *, in_flight: int) -> float | None:
        """The instant before which nothing may leave; None when it is closed.

        Infinity while requests are in flight: the cool-down begins when the last is back.
        """
        if not self.is_open:
            return None
        if in_flight:
            return math.inf
        if self._closes_at is None:
            self._closes_at = now + self.cooldown
        if now < self._closes_at:
            return self._closes_at
        self.is_open = False
        return None
