"""Whether the crawler's own line works, as seen from the hosts that do not answer.

Laws
----
* The line is down when `FAILING` hosts that answered lately do not answer any more, and nothing
  has come back from anywhere in between.
* A host that never answered is no evidence. Nor is one that failed while another answered: its
  trouble is its own, until it answers again.
* While the line is down, one test request leaves now and then: the first after `FIRST_TEST`
  seconds. Hosts that are not known to fail are tested first: one answer says that the line is up.
* A test of a host that is known to fail doubles the wait for the next, up to `TEST_EVERY`; so does
  any, once `PROOF` have failed.
* Whatever comes back ends that at once. If fewer than `PROOF` tests had failed by then, the line
  may never have been down, and a few hosts have failed in the same instant.
* After `GIVE_UP` seconds the line counts as up again, so that a crawl without a network ends.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

FAILING = 3
"""Hosts that stop answering together before the crawler's own line is to blame: two may share a
server."""

LATELY = 300.0
"""Seconds since its last answer for which a host is evidence."""

FIRST_TEST = 0.1
"""Seconds until the first test request: a few hosts that fail in the same instant, as if the line
were down, hold the crawl up for no longer."""

TEST_EVERY = 2.0
"""Most seconds between two test requests: the crawl goes on at most so much later than the line."""

HEAD_START = 0.25
"""Seconds by which hosts that are not known to fail are tested first."""

PROOF = 5
"""Test requests that fail before it is certain that the line was down: those of hosts that died in
the same instant may fail one after the other."""

GIVE_UP = 600.0
"""Seconds after which failures are the pages' own again: a router that starts anew takes less."""


@dataclass(slots=True)
class Cut:
    """A time in which the line was down, or seemed to be."""

    failed_tests: int = 0

    @property
    def is_proven(self) -> bool:
        """Whether it was down: else the failures in it may have been the hosts' own."""
        return self.failed_tests >= PROOF


class Uplink:
    """Up or down, for all slots at once. Instants in monotonic seconds."""

    __slots__ = (
        "_answered_at",
        "_failing",
        "_promised_at",
        "_tested_at",
        "_wait",
        "cut",
        "down_at",
    )

    def __init__(self) -> None:
        self.down_at = math.inf
        """The instant at which it was found to be down; infinity while it is up."""
        self.cut = Cut()
        """The present cut, or the last."""
        self._answered_at: dict[str, float] = {}
        """The last answer of each host that is evidence, the oldest first."""
        self._failing: dict[str, None] = {}
        self._tested_at = self._promised_at = -math.inf
        self._wait = FIRST_TEST
        """Seconds from the last test request to the next."""

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
        until = self._next_test_at(queued)
        return until if now < until else None

    def hold_failing_until(self, key: str, now: float, *, queued: bool = False) -> float | None:
        """The instant before which no test of this host may leave, as others may do better; None
        when it may.

        Args:
            queued: ask for a request in a queue.
        """
        if not self.is_down or key not in self._failing:
            return None
        until = self._next_test_at(queued) + HEAD_START
        return until if now < until else None

    def _next_test_at(self, queued: bool) -> float:
        last = max(self._tested_at, self._promised_at) if queued else self._tested_at
        return last + self._wait

    def on_promised(self, now: float) -> None:
        """A place was promised to a queued request."""
        self._promised_at = now

    def on_sent(self, key: str, now: float) -> None:
        """A request left for this host."""
        self._tested_at = now
        if self.is_down and (self.cut.is_proven or key in self._failing):
            self._wait = min(2.0 * self._wait, TEST_EVERY)

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

    def on_unanswered(self, key: str, now: float, sent_at: float = -math.inf) -> bool:
        """Nothing came back for a request; returns whether the line is found to be down by it."""
        if self.is_down:
            self._failing[key] = None
            self.cut.failed_tests += sent_at > self.down_at
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
        self._wait = FIRST_TEST
        self.cut = Cut()
        return True
