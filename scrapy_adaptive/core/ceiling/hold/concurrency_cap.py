"""Limits on what is in flight, told from limits on the rate by what each of them cannot see.

Laws
----
* A limiter blind to concurrency refuses at a level (requests in flight) or above it as often as
  that occurs. As long as it refuses nowhere under a level, that level's shares multiply, one by
  epoch; below `BLIND` the limiter was not blind.
* The cap is one less than the level found out. It is tested again, ever more rarely.
* A trial that serves long enough raises the cap; after three such no cap is believed.
"""

from __future__ import annotations

import math

from scrapy_adaptive.core.state.fields import Amount

BLIND = 0.0001
"""Chance of calling a rate limit a cap: one in ten thousand."""

LEAST_SHARE = 0.1
"""No single epoch counts for more than this: five are needed."""

COMMON = 0.75
"""A level that three in four of the accepted requests had tells nothing: its evidence begins anew.
Under a limit on the rate, the level of the rate held is as common."""

MEMORY = 512
"""Accepted requests whose levels are remembered, the older ones fading."""

RETEST = 400
"""Accepted requests before one more than the cap is tried; doubled after each refusal."""

SERVED = 6
"""So many times its level served at a trial, and the trial has passed."""

MOST_ERRORS = 3
"""Trials that passed, after which no cap is believed."""


class Caps:
    """The learned limit on concurrency: infinity while there is none."""

    __slots__ = (
        "_errors",
        "_evidence",
        "_gap",
        "_is_trial",
        "_levels",
        "_served",
        "cap",
    )

    cap: Amount
    _levels: list[Amount]
    _evidence: list[Amount]
    _gap: int
    _served: int
    _is_trial: bool
    _errors: int

    def __init__(self) -> None:
        self.cap = math.inf
        self._levels = []
        self._evidence = []
        """By level: the chance that a blind limiter would have spared all under it."""
        self._gap = RETEST
        self._served = 0
        """Accepted requests that had as many in flight as the cap allows."""
        self._is_trial = False
        self._errors = 0

    def share(self, level: int) -> float:
        """Share of the recent accepted requests that had at least `level` in flight."""
        total = sum(self._levels)
        return sum(self._levels[level:]) / total if total else 1.0

    def on_accepted(self, level: int) -> None:
        """A request sent as the `level`-th in flight was accepted."""
        levels = self._levels
        if level >= len(levels):
            levels.extend([0.0] * (level + 1 - len(levels)))
        levels[level] += 1.0
        if levels[level] > MEMORY:
            self._levels = [0.5 * count for count in levels]
        if level >= self.cap:
            self._served += 1
            self._test()

    def on_epoch(self, level: int) -> bool:
        """A request sent at that level began an epoch; returns whether a cap explains it."""
        if self._is_trial and level >= self.cap:
            return self._end_trial()
        if self._errors >= MOST_ERRORS:
            return False
        chances = self._evidence + [1.0] * (level + 1 - len(self._evidence))
        self._evidence = [self._updated(each, chances[each]) for each in range(level + 1)]
        guilty = [each for each, chance in enumerate(self._evidence) if chance < BLIND]
        if not guilty:
            return False
        self._evidence = []
        self._set(guilty[-1] - 1)
        self._gap = RETEST
        return True

    def _updated(self, level: int, chance: float) -> float:
        """That chance, after one epoch more at that level or above it."""
        share = self.share(level)
        return chance * max(share, LEAST_SHARE) if share < COMMON else 1.0

    def recall(self, cap: float) -> None:
        """Begin with the cap that an earlier crawl had found; infinity for none."""
        if cap < math.inf:
            self._set(cap)

    def _set(self, cap: float) -> None:
        self.cap = max(1, cap)
        self._served = 0
        self._is_trial = False

    def _test(self) -> None:
        """Try one more than the cap, after a time; keep what has served long enough."""
        if self._is_trial and self._served >= SERVED * self.cap:
            self._errors += 1
            self._set(self.cap if self._errors < MOST_ERRORS else math.inf)
        elif not self._is_trial and self._served >= self._gap:
            self._set(self.cap + 1)
            self._is_trial = True

    def _end_trial(self) -> bool:
        self._set(self.cap - 1)
        self._gap *= 2
        return True
