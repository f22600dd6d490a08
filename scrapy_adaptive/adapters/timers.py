"""The one wake-up timer of a crawl, and what its lateness tells.

Laws
----
* Each slot has at most one instant at which it wants to be woken; the latest word holds.
* At most one timer is armed, for the earliest of them, and it is re-armed only to an earlier
  instant: one that rings too early finds nothing to do and is armed again.
* Arming costs O(log slots).
* How late it rings is the lag of our own event loop, which no site is charged with.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from scrapy.utils.asyncio import call_later

if TYPE_CHECKING:
    from scrapy.utils.asyncio import CallLaterResult

LAG_NOISE = 0.010
"""Seconds by which timers are late on an idle machine; what is more is our own loop's lag."""

MOST_STALE = 64
"""Instants no longer wanted that the heap may hold, beside as many as are wanted."""

LOOKS = 3
"""Passes of the event loop before ringing: one reads the sockets, the others let what was read
get through the download handler's coroutines."""


class Timers:
    """Wakes slots at the instants they asked for.

    Args:
        ring: called with the keys of the slots whose instant has come.
        clock: monotonic seconds.
    """

    def __init__(self, ring: Callable[[list[str]], None], clock: Callable[[], float]) -> None:
        self._ring = ring
        self._clock = clock
        self._wanted: dict[str, float] = {}
        self._heap: list[tuple[float, str]] = []
        self._timer: CallLaterResult | None = None
        self._at = math.inf
        self._lag = 0.0
        self._lag_at = -math.inf

    def arm(self, key: str, at: float) -> None:
        """Wake this slot at `at` (monotonic seconds), and at no other instant.

        An instant gone by means "as soon as the event loop has read its sockets"; infinity
        means not at all.
        """
        if self._wanted.get(key, math.inf) == at:
            return
        if at == math.inf:
            del self._wanted[key]
            return
        self._wanted[key] = at
        heapq.heappush(self._heap, (at, key))
        if len(self._heap) > MOST_STALE + 2 * len(self._wanted):
            self._heap = [(instant, slot) for slot, instant in self._wanted.items()]
            heapq.heapify(self._heap)
        self._set(at)

    def cancel(self) -> None:
        """Wake nobody any more."""
        self._wanted.clear()
        self._heap.clear()
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._at = None, math.inf

    def lag_since(self, instant: float) -> float:
        """Seconds by which the loop was late, as far as a timer has shown it since then."""
        return self._lag if self._lag_at >= instant else 0.0

    def _set(self, at: float) -> None:
        if at >= self._at:
            return
        if self._timer is not None:
            self._timer.cancel()
        now = self._clock()
        self._at = max(at, now)
        self._timer = call_later(self._at - now, self._on_timer)

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
        try:
            self._ring(self._due(self._clock()))
        finally:
            if self._heap:
                self._set(self._heap[0][0])

    def _due(self, now: float) -> list[str]:
        due = []
        while self._heap and self._heap[0][0] <= now:
            at, key = heapq.heappop(self._heap)
            if self._wanted.get(key) == at:
                del self._wanted[key]
                due.append(key)
        return due
