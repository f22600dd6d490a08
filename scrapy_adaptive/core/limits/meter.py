"""A meter: what was sent under one rule in one scope, and when the next may be.

Laws
----
* A site counts a hit somewhere between its send and its answer. So a hit is taken to be new until
  its answer is there, and ages from then on: whatever the window of the site, and however the
  network jitters, no more than the rule allows fall into it.
* Hits are spread by a token bucket (GCRA) whose debt is counted in hits: a new rate holds at once.
* A meter has no numbers of its own: it is asked with the rule, so that hits outlive a change of
  their rule.
* A meter that is full again, as if nothing had been sent, may be forgotten.

**Source**: ATM Forum, Traffic Management 4.0, the generic cell rate algorithm.
**Departs**: hits age from their answer; the debt is in hits, not in seconds.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from .hit_stack import HitStack

if TYPE_CHECKING:
    from .rule import Rule

NEVER = math.inf

SLACK = 1e-9
"""Share of a hit by which arithmetic may be wrong."""


class Meter:
    """What one rule counts in one scope."""

    __slots__ = ("answered_at", "debt", "debt_at", "hits", "in_flight")

    def __init__(self) -> None:
        self.debt = 0.0
        """Hits not yet paid for by time, at `debt_at`."""
        self.debt_at = -NEVER
        self.answered_at = -NEVER
        """The latest answer."""
        self.in_flight = 0
        self.hits: HitStack | None = None

    def ready_at(self, rule: Rule, burst: float, now: float, promised: int = 0) -> float:
        """The instant from which one more may leave; infinity where only an event can tell.

        Args:
            burst: hits at once where the rule says nothing of it.
            promised: requests that have a promise, and count as sent.
        """
        busy = self.in_flight + promised
        if rule.paused or (rule.concurrency and busy >= rule.concurrency):
            return NEVER
        return max(self.spread_at(rule, burst), self.window_at(rule, now, promised))

    def spread_at(self, rule: Rule, burst: float) -> float:
        """The instant from which the bucket that spreads hits lets one more leave."""
        spacing = rule.spacing
        if not spacing:
            return -NEVER
        over = self.debt + 1.0 - (rule.burst or burst + rule.leeway) - SLACK
        return self.debt_at + over * spacing if over > 0.0 else -NEVER

    def window_at(self, rule: Rule, now: float, promised: int = 0) -> float:
        """The instant from which its interval and its window have room for one more."""
        busy, at = self.in_flight + promised, -NEVER
        if rule.interval:
            if busy:
                return NEVER
            at = self.answered_at + rule.interval
        if rule.max_hits:
            if busy >= rule.max_hits:
                return NEVER
            if self.hits is not None:
                at = max(at, self.hits.room_at(rule.max_hits - busy, rule.window, now))
        return at

    def room(self, rule: Rule, burst: float, now: float) -> float:
        """Hits that the bucket lets leave at once."""
        return (rule.burst or burst + rule.leeway) + SLACK - self._debt(rule.spacing, now)

    def take(self, rule: Rule, now: float) -> None:
        """One hit leaves; `ready_at` must have said that it may."""
        self.in_flight += 1
        spacing = rule.spacing
        if spacing:
            self.debt = self._debt(spacing, now) + 1.0
            self.debt_at = now

    def end(self, rule: Rule | None, now: float, *, is_hit: bool) -> None:
        """It is answered, or was never sent."""
        self.in_flight -= 1
        if not is_hit:
            return
        self.answered_at = now
        if rule is not None and rule.max_hits:
            self.note(rule, now)

    def note(self, rule: Rule, now: float, count: int = 1) -> None:
        """So many hits of its window were answered now."""
        if self.hits is None:
            self.hits = HitStack()
        self.hits.add(rule.max_hits, rule.window, now, count)

    def lasting(self, rule: Rule, now: float) -> list[tuple[float, int]]:
        """What the next crawl has to know of a meter that is not full: instants, in monotonic
        seconds, and the hits that were answered by then. Where there is no window the last instant
        tells all."""
        if self.hits is None or not rule.max_hits:
            owed = max(1, self.in_flight, math.ceil(self.debt - 10.0 * SLACK))
            return [(now if self.in_flight else max(self.answered_at, self.debt_at), owed)]
        return self.hits.times() + [(now, self.in_flight)] * (self.in_flight > 0)

    def recall(self, rule: Rule, at: float, count: int) -> None:
        """So many hits of an earlier crawl were answered at that instant, in monotonic seconds."""
        self.answered_at = max(self.answered_at, at)
        if rule.max_hits:
            self.note(rule, at, count)
        if rule.spacing:  # of a window's hits many may have one instant: the last counts
            most = max(1.0, rule.burst) if rule.max_hits else NEVER
            self.debt = min(most, self._debt(rule.spacing, at) + count)
            self.debt_at = at

    def is_full(self, rule: Rule | None, now: float) -> bool:
        """Whether it remembers nothing that matters."""
        if self.in_flight:
            return False
        if rule is None:
            return True
        if now < self.answered_at + rule.interval or self._debt(rule.spacing, now) > SLACK:
            return False
        return self.hits is None or not rule.max_hits or not self.hits.count(rule.window, now)

    def _debt(self, spacing: float, now: float) -> float:
        if not spacing or not self.debt:
            return 0.0
        return max(0.0, self.debt - (now - self.debt_at) / spacing)
