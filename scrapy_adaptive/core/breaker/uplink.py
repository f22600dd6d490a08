"""Whether the crawler's own line works, told from the hosts that do not answer.

Laws
----
* The line is down when `FAILING` hosts that answered lately do not answer any more, and nothing
  has come back from anywhere in between.
* A host that never answered is no evidence. Nor is one that failed while another answered: its
  trouble is its own, until it answers again.
* While the line is down, one test request leaves each `TEST_EVERY` seconds, of whatever host.
* Whatever comes back ends that at once. After `GIVE_UP` seconds the line counts as up again, so
  that a crawl without a network ends.
"""

from __future__ import annotations

import math

FAILING = 3
"""Hosts that stop answering together before the crawler's own line is to blame: two may share a
server."""

LATELY = 300.0
"""Seconds since its last answer for which a host is evidence."""

TEST_EVERY = 2.0
"""Seconds between two test requests: the crawl goes on at most so much later than the line."""

GIVE_UP = 600.0
"""Seconds after which failures are the pages' own again: a router that starts anew takes less."""


class Uplink:
    """Up or down, for all slots at once. Instants in monotonic seconds."""

    __slots__ = ("_answered_at", "_failing", "_promised_at", "_tested_at", "down_at")

    def __init__(self) -> None:
        self.down_at = math.inf
        """The instant at which it was found to be down; infinity while it is up."""
        self._answered_at: dict[str, float] = {}
        """The last answer of each host that is evidence, the oldest first."""
        self._failing: dict[str, None] = {}
        self._tested_at = self._promised_at = -math.inf

    @property
    def is_down(self) -> bool:
        """Whether it is down."""
        return self.down_at < math.inf

    @property
    def failing(self) -> tuple[str, ...]:
        """The hosts that do not answer, since anything last came back."""
        return tuple(self._failing)

    def hold_until(self, now: float, *, queued: bool = False) -> float | None:
        """The instant before which nothing may leave; None when a test may, or the line is up.

        Args:
            queued: ask for a request in a queue: a place that was promised counts as sent.
        """
        if not self.is_down:
            return None
        last = max(self._tested_at, self._promised_at) if queued else self._tested_at
        return last + TEST_EVERY if now < last + TEST_EVERY else None

    def on_promised(self, now: float) -> None:
        """A place was promised to a queued request."""
        self._promised_at = now

    def on_sent(self, now: float) -> None:
        """A request left."""
        self._tested_at = now

    def on_answer(self, key: str, now: float) -> None:
        """Something came back: the line is up, and the hosts that failed fail on their own."""
        for failing in self._failing:
            self._answered_at.pop(failing, None)
        self._failing.clear()
        self._answered_at.pop(key, None)
        self._answered_at[key] = now
        oldest = next(iter(self._answered_at))
        if self._answered_at[oldest] <= now - LATELY:
            del self._answered_at[oldest]
        self.down_at = math.inf

    def on_silence(self, key: str, now: float) -> bool:
        """Nothing came back for a request; returns whether the line is found to be down by it."""
        if self.is_down:
            if now >= self.down_at + GIVE_UP:
                self.down_at = math.inf
                self._answered_at.clear()
                self._failing.clear()
            return False
        if self._answered_at.get(key, -math.inf) > now - LATELY:
            self._failing[key] = None
        if len(self._failing) < FAILING:
            return False
        self.down_at = self._tested_at = now
        return True
