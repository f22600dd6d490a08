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
    SLOWEST,
    Count,
    Range,
    Rate,
    Seconds,
)

from .bracket import RARER, Bracket, stage
from .concurrency_cap import NO_CAP, Cap
from .history import History
from .noise import NO_NOISE, Noise
from .trial import FASTER, Trial


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
        self.bracket.lift()

    def move(self, now: float, rate: float) -> None:
        """Go on at another rate, 1/s, or with another stage at the same."""
        bracket = self.bracket
        bracket.rate = max(SLOWEST, rate)
        bracket.stage_at = now
        bracket.passed = bracket.served = 0
        self.noise.refused = 0
