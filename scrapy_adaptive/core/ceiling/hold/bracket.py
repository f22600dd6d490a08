"""The bracket: between which rates a site's limit lies, and what it costs to know it better.

Laws
----
* `lo` is the highest rate that passed a whole stage, `hi` the lowest that was refused since.
* A step goes a third of the way from `lo` to `hi`, in logarithms: with a belief that is uniform
  there, it is refused once in three times.
* A stage lasts until the expected loss of the step that follows is half its expected gain.
* A rate that passes above `hi` voids it; steps then double until one is refused, from twice the
  width of a closed bracket.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from scrapy_adaptive.core.state.fields import (
    SLOWEST,
    Amount,
    Instant,
    Range,
    Rate,
    Refused,
    Seconds,
    Share,
)

if TYPE_CHECKING:
    from .epoch import Epoch

PRICE = 9.5
"""Pages that one refusal costs: `stage` then has one request in 950 refused on a steady limit."""

STEP = 1.0 / 3.0
"""Share of the bracket that one step takes, in logarithms: bisection costs more for its gain."""

NARROW = 0.03
"""Width, in logarithms, at which a bracket counts as closed: the limit is known to 3 %."""

MARGIN = 0.01
"""Share by which the held rate stays under what the history says: one of a hundred pages is off
by one. Also the first cut of a held rate that is refused in isolation; and a closed bracket is
probed half of it above `hi`."""

FAR = 8.0
"""A rate is doubled while this multiple of it is still under `hi`: stages are short then, and prove
nothing."""

RARER = 1.5
"""How much longer it takes until a rate that a limit may come back to is tried again, each time
that this was in vain. Of a limit that was lower for so long, so long again is expected."""


@dataclass(slots=True)
class Bracket:
    """Between which rates the limit lies, 1/s, and what it costs to ask."""

    rate: Rate
    """The rate in use."""
    lo: Amount = 0.0
    """The highest rate that passed a stage; 0 while none has."""
    hi: Refused = math.inf
    """The lowest rate that was refused since; infinity while none was."""
    vain: Amount = 0.0
    """The `lo` that the last doubling far below `hi` did not raise: not repeated from there."""
    best: Amount = 0.0
    """The best rate that was held, or served from one recovery to the next."""
    climb: Share = 1.0
    """Share of the last step above an upper bound that was lifted; each is twice as long as the one
    before, up to 1."""
    cost: Amount = PRICE
    """Pages that the next refusal will cost, a long pause aside."""
    outage: Seconds = 0.0
    """Seconds of the long pause that it will cost; 0 where a short one is enough."""
    is_start: bool = True
    """Nothing was refused yet, or nothing that was believed."""
    is_doubted: bool = False
    """One refusal was put down to chance: this rate is looked at twice."""
    is_window: bool = False
    """The rate in use is a window's count over a human unit of time."""
    unit: Seconds = 0.0
    """That unit, in seconds; 0 where none explained a pause."""
    passed: int = 0
    """Requests served at this rate while it bound."""
    stage_at: Instant = -math.inf
    """The instant since which this rate is in use."""
    served: int = 0
    """Requests served since then, whether it bound or not."""
    cuts: Annotated[int, Range(0, 64)] = 0
    """Cuts in a row of a held rate, each after a refusal that stood alone."""

    def lift(self, climb: float = 0.5) -> None:
        """Void the upper bound: the limit may lie above it.

        Args:
            climb: half of the next step above it, which doubles the rate if it is not given.
        """
        self.hi = math.inf
        self.climb = climb

    def enclose(self, epoch: Epoch, least: float, unexpected: float) -> None:
        """Close it from above, and say what the next refusal will cost.

        Args:
            epoch: what was refused.
            least: a rate that the site allows, 1/s.
            unexpected: refusals at this rate beyond those that noise explains.
        """
        held, refusals = self.lo, 1 if self.is_start else epoch.refusals
        if not self.is_start:  # the first history may be a burst's
            self.best = max(self.best, epoch.least)
        self.hi = epoch.rate
        self.is_start = self.is_doubted = self.is_window = False
        self.lo = max(self.lo, min(least, epoch.rate) * (1.0 - MARGIN), SLOWEST)
        self.vain = self.lo if self.lo <= held * (1.0 + MARGIN) else 0.0
        self.cost = PRICE * (refusals + max(0.0, unexpected - 1.0))
        self.outage = 0.0 if epoch.is_short else epoch.outage
        if not self.outage:
            self.cost = max(self.cost, self.lo * epoch.outage)

    @property
    def is_doubling(self) -> bool:
        """Whether stages are short and prove nothing: the limit is unknown or far."""
        far = FAR * self.rate <= self.hi * (1.0 + 1e-6) < math.inf and self.lo > self.vain
        return (self.is_start or far) and not self.is_window

    @property
    def price(self) -> float:
        """Pages that the next refusal will cost at the present rate."""
        return self.cost + self.rate * self.outage


def step(x: float, hi: float) -> float:
    """The next rate to try above `x`, under a finite `hi`; above it once the bracket is closed.

    >>> round(step(1.0, 8.0), 3), round(step(1.0, 100.0), 3), round(step(1.0, 1.02), 4)
    (2.0, 2.0, 1.0251)
    """
    width = math.log(hi / x)
    return (1.0 + 0.5 * MARGIN) * hi if is_closed(x, hi) else x * min(2.0, math.exp(STEP * width))


def stage(x: float, hi: float, price: float) -> float:
    """Requests that have to pass at `x` before the next step.

    Args:
        hi: the lowest refused rate, or what the next step aims at; 1/s.
        price: what a refused step costs, in pages.

    The step that follows is refused once in three times: an expected loss of a third of the
    price. It gains a third of the bracket's width, over as many pages as the stage has. The loss
    is half the gain at `n = 2 price / ln(hi/x)`. Above `hi` half of that is enough: upper bounds
    are rarely wrong.

    >>> round(stage(1.0, 2.0, 8.0)), round(stage(1.0, 1.03, 8.0)), round(stage(1.1, 1.0, 8.0))
    (23, 533, 267)
    """
    if x > hi:
        return price / NARROW
    return 2.0 * price / max(NARROW, math.log(hi / x))


def is_closed(x: float, hi: float) -> bool:
    """Whether no rate between the two is worth a step."""
    return math.log(hi / x) <= NARROW


def search(x: float, hi: float, price: float, before: int) -> float:
    """Requests that have to pass at `x` before the next step, where a long pause is the price.

    What a step finds is of use for the rest of the crawl, and a crawl of which nobody knows the
    length will last as long again, as likely as not. So the gain counts over all that was served,
    and the step is due once it is as large as the loss.

    Args:
        hi: the lowest refused rate, 1/s, above `x`: the bracket is open.
        price: what a refused step costs, in pages.
        before: requests that were served before this rate was tried.

    **Source**: Gott, Implications of the Copernican principle for our future prospects, 1993.

    >>> round(search(1.0, 2.0, 208.0, 0)), round(search(1.0, 2.0, 208.0, 250))
    (300, 50)
    """
    return price / math.log(hi / x) - before
