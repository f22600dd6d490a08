"""The one wake-up timer of a crawl, and what its lateness tells.

Laws
----
* At most one timer is armed; it is re-armed only to an earlier instant. One that rings too
  early finds nothing to do and is armed again.
* How late it rings is the lag of our own event loop, which no site is charged with.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from scrapy.utils.asyncio import call_later

if TYPE_CHECKING:
    from scrapy.utils.asyncio import CallLaterResult

LAG_NOISE = 0.010
"""Seconds by which timers are late on an idle machine; what is more is our own loop's lag."""


LOOKS = 3
"""Passes of the event loop before ringing: one reads the sockets, the others let what was read
get through the download handler's coroutines."""


class Alarm:
    """Calls `ring` at the earliest instant asked for.

    Args:
        ring: called without arguments.
        clock: monotonic seconds.
    """

    def __init__(self, ring: Callable[[], None], clock: Callable[[], float]) -> None:
        self._ring = ring
        self._clock = clock
        self._timer: CallLaterResult | None = None
        self._at = math.inf
        self._lag = 0.0
        self._lag_at = -math.inf

    def arm(self, at: float) -> None:
        """Ring at `at` (monotonic seconds) or earlier; an instant gone by means "as soon as the
        event loop has read its sockets"."""
        if at >= self._at:
            return
        self.cancel()
        now = self._clock()
        self._at = max(at, now)
        self._timer = call_later(self._at - now, self._on_timer)

    def cancel(self) -> None:
        """Ring no more, until armed again."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._at = None, math.inf

    def lag_since(self, instant: float) -> float:
        """Seconds by which the loop was late, as far as a timer has shown it since then."""
        return self._lag if self._lag_at >= instant else 0.0

    def _on_timer(self) -> None:
        now = self._clock()
        lag = now - self._at
        self._lag, self._lag_at = (lag if lag > LAG_NOISE else 0.0), now
        self._look(LOOKS)

    def _look(self, looks: int) -> None:
        """Let the loop read its sockets so often before ringing."""
        if looks:
            self._timer = call_later(0, self._look, looks - 1)
            return
        self._timer, self._at = None, math.inf
        self._ring()
