"""Refusals that no rate causes: a broken backend behind a balancer, a cache that times out.

Laws
----
* Whether refusals depend on the rate is asked by going faster, never by going slower: a limit
  that is exceeded by a seventh shows within a few pages.
* Once noise is known, a lone refusal is no evidence; only refusals that cluster are. More is asked
  of them where no faster rate was refused before.
* Noise that is not seen any more is forgotten.

**Source**: A. Wald, Sequential Tests of Statistical Hypotheses, 1945, for the look; E. S. Page,
Continuous Inspection Schemes, 1954, for the clusters.
"""

from __future__ import annotations

import math

from scrapy_adaptive.core.state.fields import Amount, Rate, Share

LOOK = 1.15
"""How much faster a look goes, as a multiple of the rate that was refused."""

MOST = 0.02
"""More than this share of refusals is never taken for noise."""

RATIO = 4.0
"""How many times as often a rate that causes them would be refused at a look, at least."""

IS_REAL = 4.0
"""Log likelihood ratio from which refusals are believed to be the rate's, at a look or where no
faster one was refused."""

IS_NOISE = -4.0
"""Log likelihood ratio from which they are believed to be noise."""

CLUSTER = 2.5
"""Log likelihood ratio from which refusals at one rate are more than noise explains."""

FEWEST = 2
"""Refusals at one rate that may be a cluster."""

DEVIATIONS = 1.0
"""Standard deviations of what was counted by which noise may be more common than it seemed."""

GONE = 10.0
"""Spacings without a refusal after which noise is forgotten."""


class Noise:
    """How often refusals come that no rate causes."""

    __slots__ = ("_hits", "_most", "_pages", "_refused", "_served", "_since")

    _hits: Amount
    _pages: Rate
    _most: Share
    _refused: int
    _served: int
    _since: int

    def __init__(self) -> None:
        self._hits = 0.0
        self._pages = 1.0
        self._most = 0.0
        """Most that it is ever taken for, as a share."""
        self._refused = 0
        self._served = 0
        self._since = 0

    @property
    def ratio(self) -> float:
        """Share of the requests that are refused whatever the rate; 0 while none is known."""
        return self._hits / self._pages

    def on_served(self) -> None:
        """A request was served."""
        self._served += 1
        self._since += 1
        if self._since * self._hits > GONE * self._pages:
            self._hits = 0.0

    def on_refused(self, *, is_open: bool = False) -> bool:
        """An epoch began; returns whether noise explains it, with all that were at this rate.

        Args:
            is_open: whether no faster rate is known to be refused.
        """
        self._since = 0
        if not self._hits:
            return False
        self._refused += 1
        expected = self.ratio * max(1, self._served)
        enough = IS_REAL if is_open else CLUSTER
        return self._refused < FEWEST or excess(self._refused, expected) <= enough

    @property
    def _upto(self) -> float:
        """Most that noise is likely to be, as a share, by what was counted of it."""
        return (self._hits + DEVIATIONS * math.sqrt(self._hits)) / self._pages

    @property
    def unexpected(self) -> float:
        """Refusals at the present rate beyond those that noise explains."""
        return max(0.0, self._refused - self.ratio * self._served)

    def on_held(self) -> None:
        """A stage has passed, or a held rate was refused: what was refused there was noise.

        If stages that passed alone counted, noise would seem ever rarer than it is. Some of it may
        have been the limit's; so it never seems more than what was counted before allows.
        """
        if self._hits:
            self._pages += self._served
            self._hits = min(self._hits + self._refused, self._most * self._pages)
            self._most = min(self._most, self._upto)

    def on_rate(self) -> None:
        """The rate changes: refusals are counted anew."""
        self._refused = self._served = 0

    def on_found(self, hits: int, pages: int) -> None:
        """A look has shown that so many of so many requests were refused by chance."""
        self._hits = float(hits)
        self._pages = max(float(pages), hits / MOST)
        self._most = min(MOST, self._upto)
        self._refused = self._served = 0


def excess(found: int, expected: float) -> float:
    """Log likelihood ratio of so many refusals against so many expected; 0 for fewer.

    >>> round(excess(1, 0.03), 1), round(excess(4, 1.0), 1), excess(1, 2.0)
    (2.5, 2.5, 0.0)
    """
    if found <= expected:
        return 0.0
    return found * math.log(found / expected) - found + expected


class Look:
    """A look at a faster rate: would refusals come more often?

    Args:
        ratio: share of the requests that was refused at the slower rate.
        saved: requests that the site may have saved up in the pause: they prove nothing.
        faster: the faster rate, as a multiple of the slower one, > 1.
        window: requests that a window, known or possible, may serve before it refuses any.
    """

    __slots__ = ("_beyond", "_evidence", "_free", "_ratio", "_saved")

    _ratio: Share
    _beyond: Rate
    _saved: Amount
    _free: float
    _evidence: float

    def __init__(self, ratio: float, *, saved: float, faster: float, window: float = 0.0) -> None:
        self._ratio = min(ratio, MOST)
        self._beyond = max(1.0 - 1.0 / faster, RATIO * self._ratio)
        """Share that is refused at the faster rate, if the slower one was at the limit."""
        self._saved = self._free = max(window, saved / (1.0 - 1.0 / faster))
        self._evidence = 0.0

    def on_served(self) -> bool:
        """A request was served at the faster rate; returns whether it is noise, then."""
        self._free -= 1.0
        if self._free < 0.0:
            self._evidence -= self._beyond - self._ratio
        return self._evidence <= IS_NOISE

    def on_refused(self) -> bool:
        """A request was refused at the faster rate; returns whether the rate is to blame."""
        self._free = self._saved
        self._evidence += math.log(self._beyond / self._ratio)
        return self._evidence >= IS_REAL
