"""Refusals that no rate causes: a broken backend behind a balancer, a cache that times out.

Laws
----
* Whether refusals depend on the rate is asked by going faster, never by going slower: does a rate
  15 % faster raise the share of refusals? A limit that is exceeded by a seventh shows within a few
  pages.
* Once noise is known, a lone refusal is no evidence; only refusals that cluster are, and those of
  one pause are a cluster.

**Source**: A. Wald, Sequential Tests of Statistical Hypotheses, 1945, for the trial; E. S. Page,
Continuous Inspection Schemes, 1954, for the clusters.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from scrapy_adaptive.core.state.fields import Amount, Count, Range, Seconds, Share

if TYPE_CHECKING:
    from collections.abc import Collection

FASTER = 1.15
"""How much faster a trial goes, as a multiple of the rate that was refused."""

MUCH_FASTER = 2.5
"""The same, where refusals come so often that what the site saves up in their pauses would hide
a smaller difference."""

MOST = 0.35
"""More than this share of refusals is never taken for noise."""

OFTEN = 0.1
"""Share of refusals from which one page that is refused twice tells nothing of that page."""

SURE = 8.0
"""Log likelihood ratio from which a trial is believed that the rate is not to blame."""

BLAMED = 5.0
"""The same, that it is: this costs little if it was wrong."""

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


@dataclass(slots=True)
class Trial:
    """A trial of a faster rate: would refusals come more often?"""

    hits: Annotated[int, Range(1)]
    """Refusals at the slower rate."""
    pages: Annotated[int, Range(1)]
    """Requests at the slower rate."""
    faster: Annotated[float, Range(1.0)]
    """The faster rate, as a multiple of the slower one."""
    saved: Amount
    """Requests for which what the site saves up in a pause may last: they prove nothing."""
    free: Amount
    """Those of them, or at first of a window, that are left."""
    gap: Seconds
    """Mean seconds between two requests at the slower rate: more than it says where the crawler
    was late."""
    wait: Seconds
    """Seconds of the wait after the last refusal at the slower rate."""
    found: int = 0
    """Refusals here."""
    of: int = 0
    """Requests here."""
    evidence: Annotated[float, Range(-SURE, BLAMED)] = 0.0
    """Log likelihood ratio that the rate is to blame."""

    def after_reading(self, names: Collection[str]) -> None:
        """Refuse a pace and a gap that no trial can have.

        Raises:
            ValueError: there is such a one.
        """
        if not (1.0 < self.faster < math.inf and self.gap > 0.0):
            raise ValueError(f"Trial has {self.faster} and {self.gap}")

    @property
    def ratio(self) -> float:
        """Share that was refused at the slower rate, as far as it may be noise."""
        return min(self.hits / self.pages, MOST)

    @property
    def is_excess(self) -> bool:
        """Whether the faster rate was refused more often than the slower one, beyond chance: the
        limit may lie between what both had served."""
        return excess(self.found, self.of, self.hits, self.pages) > CLUSTER

    @classmethod
    def begin(
        cls,
        hits: int,
        pages: int,
        *,
        gap: float,
        wait: float,
        faster: float,
        saved: float,
        window: float,
    ) -> Trial:
        """Go faster.

        Args:
            gap: mean seconds between two requests at the slower rate.
            wait: seconds of the wait after the last refusal at the slower rate.
            faster: the faster rate, as a multiple of the slower one, > 1.
            saved: requests that the site may have saved up in the pause.
            window: requests that a window, known or possible, may serve before it refuses any.
        """
        saved /= 1.0 - 1.0 / faster
        return cls(hits, max(1, pages), faster, saved, max(window, saved), gap, wait)

    def on_served(self, gap: float) -> bool:
        """A request was served at the faster rate; returns whether the trial is over, then.

        It counts by what it took beyond the slower rate, and no more than the trial asks for: one
        that left late proves less, or takes back what others have proven.

        Args:
            gap: seconds since the request before.
        """
        self.of += 1
        beyond = min(1.0, (1.0 - gap / self.gap) / (1.0 - 1.0 / self.faster))
        self.free = min(max(self.free, self.saved), self.free - beyond)
        if self.free < 0.0:
            self.evidence = max(-SURE, self.evidence + self.free * math.log(self.faster))
            self.free = 0.0
        hits, pages = self.hits + self.found, self.pages + self.of
        return self.evidence == -SURE and hits <= MOST * pages

    def on_refused(self, served: int, wait: float, outage: float) -> bool:
        """A request was refused at the faster rate; returns whether the rate is to blame.

        At the limit, the faster rate has what is beyond it refused. It is to blame as well where
        the wait grows by the time that it had saved: the site asks for what is left of a window.

        Args:
            served: requests since the pause before.
            wait: seconds of the wait after this refusal.
            outage: seconds from the refusal to the recovery: what the site saves up in them proves
                nothing.
        """
        saved = served * self.gap * (1.0 - 1.0 / self.faster)
        if wait > self.wait + 0.5 * saved:
            return True
        self.found += 1
        self.of += 1
        self.saved = outage / self.gap / (1.0 - 1.0 / self.faster)
        self.free = max(self.free, self.saved)
        beyond = 1.0 - (1.0 - self.ratio) / self.faster
        self.evidence += math.log(beyond / self.ratio)
        return self.evidence >= BLAMED
