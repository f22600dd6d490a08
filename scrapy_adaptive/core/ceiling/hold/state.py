"""All that the ceiling knows of a site: plain data, which may be copied whole.

Laws
----
* Rates are requests a second, instants monotonic seconds.
"""

from __future__ import annotations

import math
from copy import copy
from dataclasses import dataclass, field
from typing import Annotated

from scrapy_adaptive.core.state.fields import (
    Amount,
    Count,
    Instant,
    Range,
    Rate,
    Refused,
    Seconds,
    Share,
)

from .bracket import FAR, PRICE, RARER, stage
from .concurrency_cap import NO_CAP, Cap
from .history import History
from .noise import FASTER, NO_NOISE, Noise, Trial


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
    """Share of the last step above an upper bound that was lifted."""
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

    def lift(self, climb: float) -> None:
        """Void the upper bound: the limit may lie above it; the steps begin with that share."""
        self.hi = math.inf
        self.climb = climb / 2.0

    @property
    def is_doubling(self) -> bool:
        """Whether stages are short and prove nothing: the limit is unknown or far."""
        far = FAR * self.rate <= self.hi * (1.0 + 1e-6) < math.inf and self.lo > self.vain
        return (self.is_start or far) and not self.is_window

    @property
    def price(self) -> float:
        """Pages that the next refusal will cost at the present rate."""
        return self.cost + self.rate * self.outage


@dataclass(slots=True)
class State:
    """All of it."""

    bracket: Bracket
    history: History = field(default_factory=History)
    noise: Noise = field(default_factory=lambda: NO_NOISE)
    cap: Cap = field(default_factory=lambda: NO_CAP)
    trial: Trial | None = None
    """The trial of a faster rate that is under way."""
    fallback: Bracket | None = None
    """What to believe if it shows that the rate is to blame, or if the limit is not back."""
    quiet: Seconds = 0.0
    """Seconds that a stage has to last: the longest pause met."""
    series: int = 0
    """Requests served since the lone refusals of late began."""
    hits: int = 0
    """Those refusals."""
    served: int = 0
    """Requests served since the crawl began."""
    peak: Count = 0.0
    """The best rate that was surely served, 1/s. A limit that is lower now may come back to it."""
    returns: Annotated[int, Range(0, 64)] = 0
    """Times in a row that it has not."""
    returned_at: int = 0
    """Requests served until the limit was found lower last."""
    round_trip: Seconds = 0.0
    """Mean seconds from a request to its answer, of late."""
    least: Rate = math.inf
    """The rate that was surely served before the last refusal, 1/s."""

    @property
    def is_returning(self) -> bool:
        """Whether the peak is being tried, and may be refused yet."""
        return self.fallback is not None and self.trial is None

    def until_return(self, served: int) -> float:
        """Requests until the peak is tried again; infinity where no limit is known to be lower.

        As many as the first step under such an upper bound would take, and more after each time
        that it was in vain: a limit that has been lower for long stays lower for long.

        Args:
            served: requests served until now.
        """
        bracket = self.bracket
        if self.peak <= max(FASTER * bracket.rate, bracket.hi) or bracket.rate < bracket.lo:
            return math.inf
        least = max(stage(bracket.rate, self.peak, bracket.price), bracket.rate * self.quiet)
        return least * RARER**self.returns + self.returned_at - served

    def begin_return(self) -> None:
        """Void the upper bound, and double the rate up to the peak. A refusal of the first step, or
        of one that had passed, takes that back."""
        self.returns += 1
        self.returned_at = self.served
        self.fallback = copy(self.bracket)
        self.bracket.lift(1.0)
