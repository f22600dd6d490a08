"""Sites that slow down instead of refusing: their queue, seen in the latency.

Laws
----
* A mean latency well above the base, beyond its own scatter, is a queue. At first the base is the
  least mean that was sure: chance fakes no low base.
* From then on what is in flight is limited: to one more after a round that was quick, to one less
  after one that was not.
* The base is measured, ever more rarely: half as many are in flight for a round, so that nothing
  queues, and what latency is left is the base. One that is low by chance would starve the crawl.
* A limit that does not bind learns nothing.

**Source**: L. Brakmo and L. Peterson, TCP Vegas, 1995; J. Little, A Proof for the Queuing
Formula, 1961; N. Cardwell and others, BBR: Congestion-Based Congestion Control, 2016, for the
rounds that measure.
**Departs**: Vegas always limits; here only a site that was slow once is limited. BBR keeps the
least round trip that it saw; where service times scatter that is no base, and a mean is.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import Annotated

from scrapy_adaptive.core.state.fields import LONG_AGO, Amount, Instant, Range, Seconds

SLOW = 1.33
"""Latency, as a multiple of the base, above which requests queue."""

SCATTER = 2.0
"""Standard errors, of mean deviations, by which the mean has to be above that at first."""

ROUND = 32
"""Responses between two looks, and in the mean: its own scatter is then a sixth of theirs."""

LESS = 0.5
"""Share of what is in flight that is left while the base is measured."""

APART = 4
"""Rounds from the first measure of the base to the second, four times as many to the third, nine
times to the fourth."""

MEASURES = 6
"""Measures of which the base is the mean; later ones are as far apart as the last of them, so that
they cost one page in 300."""


@dataclass(slots=True)
class Slowness:
    """The limit on what is in flight that latency teaches; infinity while the site is not slow."""

    limit: Annotated[float, Range(1.0)] = math.inf
    """One to begin with that is finite doubles each round trip, until the site is slow."""
    mean: Seconds = 0.0
    base: Amount = math.inf
    _deviation: Seconds = 0.0
    _count: int = 0
    _set_at: Instant = LONG_AGO
    _slow: Seconds = 0.0
    """The mean latency that showed it to be slow; 0 where it never was."""
    _rounds: int = 0
    """Rounds since the base was measured."""
    _measures: int = 0
    _restores: int = 0
    """The limit after the present measure; 0 where there is none."""

    def on_latency(self, now: float, sent_at: float, seconds: float, level: int) -> None:
        """A request sent as the `level`-th in flight was answered after so many seconds."""
        if sent_at < self._set_at:
            return
        self._count += 1
        weight = max(1.0 / ROUND, 1.0 / self._count)
        error = seconds - self.mean
        self.mean += weight * error
        if self._count > 1:
            self._deviation += weight * (abs(error) - self._deviation)
        if not self._slow and level >= self.limit:
            self.limit += 1.0
        if self._count >= ROUND:
            self._look(now, level)

    def _look(self, now: float, level: int) -> None:
        if self._restores:
            self._on_measured(now)
        elif not self._slow:
            sure = SCATTER * self._deviation / math.sqrt(ROUND)
            self.base = min(self.base, self.mean + sure)
            if self.mean > SLOW * self.base + sure:
                self._slow = self.mean
                self._measure(now, level, self.base / self.mean)
        elif level >= self.limit:
            self._rounds += 1
            if self._rounds >= APART * self._measures * self._measures:
                self._measure(now, int(self.limit), 1.0)
            else:
                self._set(now, self.limit + (1.0 if self.mean < SLOW * self.base else -1.0))

    def _measure(self, now: float, restores: int, served: float) -> None:
        """Let less in flight for a round.

        Args:
            restores: the limit to return to.
            served: share of so many that the site works on, as far as is known.
        """
        self._rounds = 0
        self._restores = restores
        self._set(now, math.floor(LESS * served * restores))

    def _on_measured(self, now: float) -> None:
        """Nothing queued in this round: its latency is the base, or its share of it."""
        self._measures = min(MEASURES, self._measures + 1)
        if self._measures == 1:
            if self.mean < self._slow:
                self._restores = math.ceil(self._restores * self.mean / self._slow)
            self.base = self.mean
        else:
            self.base += (self.mean - self.base) / self._measures
        self._set(now, self._restores)
        self._restores = 0

    def _set(self, now: float, limit: float) -> None:
        self.limit = max(1.0, limit)
        self._set_at = now
        self._count = 0

    def after_reading(self, names: Collection[str]) -> None:
        """Refuse what no latency can have taught.

        Raises:
            ValueError: the site was slow, but its limit or its base is infinite.
        """
        if self._slow and math.inf in (self.limit, self.base):
            raise ValueError(f"Slowness.base is {self.base}, though its limit is {self.limit}")
