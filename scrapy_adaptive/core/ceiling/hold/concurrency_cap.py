"""Limits on what is in flight: they differ from limits on the rate by what each of them cannot see.

Laws
----
* A limiter blind to concurrency refuses at a level (requests in flight) or above it as often as
  that occurs. As long as it refuses nowhere under a level, that level's shares multiply, one by
  epoch; below `BLIND` the limiter was not blind.
* The cap is one less than the level found out. It is tested again, ever more rarely.
* A test that serves long enough raises the cap; after three such no cap is believed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Annotated

from scrapy_adaptive.core.evidence import BLIND, LEAST_SHARE, MEMORY
from scrapy_adaptive.core.state.fields import Amount, Count, Range

RETEST = 400
"""Accepted requests before one more than the cap is tried; doubled after each refusal."""

SERVED = 6
"""So many times its level served at a test, and the test has passed."""

MOST_ERRORS = 3
"""Tests that passed, after which no cap is believed."""


@dataclass(slots=True)
class Cap:
    """The learned limit on concurrency: infinity while there is none."""

    cap: Annotated[float, Range(1.0)] = math.inf
    levels: list[Count] = field(default_factory=list)
    """Requests accepted lately, by how many were in flight. No list is changed in place."""
    evidence: list[Amount] = field(default_factory=list)
    """By level: the chance that a blind limiter would have spared all under it."""
    gap: int = RETEST
    served: int = 0
    """Accepted requests that had as many in flight as the cap allows."""
    is_test: bool = False
    error_count: int = 0

    def share(self, level: int) -> float:
        """Share of the recent accepted requests that had at least `level` in flight."""
        total = sum(self.levels)
        return sum(self.levels[level:]) / total if total else 1.0

    def on_accepted(self, level: int) -> None:
        """A request sent as the `level`-th in flight was accepted."""
        levels = self.levels + [0.0] * (level + 1 - len(self.levels))
        levels[level] += 1.0
        self.levels = levels if levels[level] <= MEMORY else [0.5 * count for count in levels]
        if level >= self.cap:
            self.served += 1
            self._test()

    def on_epoch(self, level: int, *, is_noisy: bool = False) -> bool:
        """A request sent at that level began an epoch; returns whether a cap explains it.

        Args:
            is_noisy: requests are refused by chance: so many epochs need twice the evidence.
        """
        if self.is_test and level >= self.cap:
            self.set(self.cap - 1)
            self.gap *= 2
            return True
        if self.error_count >= MOST_ERRORS:
            return False
        chances = self.evidence + [1.0] * (level + 1 - len(self.evidence))
        self.evidence = [
            chances[each] * max(self.share(each), LEAST_SHARE) for each in range(level + 1)
        ]
        blind = BLIND * BLIND if is_noisy else BLIND
        guilty = [each for each, chance in enumerate(self.evidence) if chance < blind]
        if not guilty:
            return False
        self.evidence = []
        self.set(guilty[-1] - 1)
        self.gap = RETEST
        return True

    def set(self, cap: float) -> None:
        """Allow so many from here."""
        self.cap = max(1, cap)
        self.served = 0
        self.is_test = False

    def _test(self) -> None:
        """Try one more than the cap, after a time; keep what has served long enough."""
        if self.is_test and self.served >= SERVED * self.cap:
            self.error_count += 1
            self.set(self.cap if self.error_count < MOST_ERRORS else math.inf)
        elif not self.is_test and self.served >= self.gap:
            self.set(self.cap + 1)
            self.is_test = True


NO_CAP = Cap()
"""What a slot has of which no two requests were in flight, and none was refused; it is shared, and
nothing changes it."""
