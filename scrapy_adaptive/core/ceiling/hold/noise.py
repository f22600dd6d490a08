"""Refusals that no rate causes: a broken backend behind a balancer, a cache that times out.

Laws
----
* Whether there are any is asked by a trial of a faster rate: see `trial`.
* Once noise is known, a lone refusal is no evidence; only refusals that cluster are, and those of
  one pause are a cluster.

**Source**: E. S. Page, Continuous Inspection Schemes, 1954.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

from scrapy_adaptive.core.state.fields import Count, Range, Share

MOST = 0.35
"""More than this share of refusals is never taken for noise."""

OFTEN = 0.1
"""Share of refusals from which one page that is refused twice tells nothing of that page."""

CLUSTER = 4.0
"""Log likelihood ratio from which refusals at one rate are more than noise explains."""


@dataclass(slots=True)
class Noise:
    """How often refusals come that no rate causes."""

    hits: Count = 0.0
    pages: Annotated[float, Range(1.0, 1e12)] = 1.0
    most: Share = 0.0
    """Most that it is ever taken for, as a share: one standard error more than was found."""
    refused: int = 0
    """Refusals at the present rate."""

    @property
    def ratio(self) -> float:
        """Share of the requests that are refused whatever the rate; 0 while none is known."""
        return self.hits / self.pages

    @classmethod
    def found(cls, hits: int, pages: int) -> Noise:
        """A trial has shown that so many of so many requests were refused by chance."""
        counted = max(float(pages), hits / MOST)
        return cls(float(hits), counted, min(MOST, (hits + math.sqrt(hits)) / counted))

    def on_refused(self, refusals: int, served: int) -> bool:
        """So many were refused at once; returns whether noise explains it, with all that were at
        this rate, at which so many were served."""
        if not self.hits:
            return False
        self.refused += refusals
        here = self.refused + served
        return self.refused < 2 or excess(self.refused, here, self.hits, self.pages) <= CLUSTER

    def unexpected(self, served: int) -> float:
        """Refusals at the present rate, at which so many were served, that noise leaves over."""
        return max(0.0, self.refused - self.ratio * served)

    def on_held(self, served: int) -> None:
        """A stage has passed, or a held rate was refused: what was refused there was noise.

        If stages that passed alone counted, noise would seem ever rarer than it is. Some of it may
        have been the limit's; so it never seems more than what was counted at first allows.
        """
        if self.hits:
            self.pages += served
            self.hits = min(self.hits + self.refused, self.most * self.pages)


NO_NOISE = Noise()
"""What a slot has of which no noise is known; it is shared, and nothing changes it."""


def excess(found: int, of: int, hits: float, pages: float) -> float:
    """Log likelihood ratio that refusals come more often than they did; 0 if they do not.

    Both shares are known as well as their pages tell: where few were counted before, more are
    needed now.

    Args:
        found: refusals now, of so many requests.
        of: those requests.
        hits: refusals before, of so many requests.
        pages: those requests.

    >>> round(excess(4, 40, 30, 1000), 1), round(excess(8, 40, 30, 1000), 1)
    (1.9, 7.7)
    >>> round(excess(8, 40, 3, 100), 1), excess(1, 40, 3, 100)
    (4.6, 0.0)
    """
    if found * pages <= hits * of:
        return 0.0
    both = (found + hits) / (of + pages)
    return found * math.log(found / (of * both)) + hits * math.log(hits / (pages * both))
