"""What is thought of a site's limit, and what one congestion epoch told of it.

Laws
----
* A belief is all that a pardon takes back; an epoch is never changed.
* Rates are requests a second, instants monotonic seconds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .bracket import FAR, FIRST_CLIMB

if TYPE_CHECKING:
    from .facts import Recovery

PRICE = 8.0
"""Pages that one refusal costs: with it, one request in about 750 is refused on a limit that
stands still."""


@dataclass(slots=True)
class Belief:
    """What is thought of the limit; all that a pardon takes back."""

    rate: float
    """The rate in use, 1/s."""
    lo: float = 0.0
    """The highest rate that passed a stage, 1/s; 0 while none has."""
    hi: float = math.inf
    """The lowest rate that was refused since, 1/s; infinity while none was."""
    climb: float = 1.0
    """Share of the last step above a lid that was lifted."""
    price: float = PRICE
    """Pages that the next refusal will cost."""
    is_start: bool = True
    """Nothing was refused yet, or nothing that was believed."""
    is_doubted: bool = False
    """One refusal at the start was put down to chance: this rate is looked at twice."""
    is_trial: bool = False
    """The rate is a window's count over a human unit of time."""
    is_settled: bool = False
    """The bracket has been closed once."""
    passed: int = 0
    """Requests served at this rate while it bound."""
    stage_at: float = -math.inf
    """The instant since which this rate is in use."""
    spacing: int = 0
    """Requests served since the last refusal."""
    cuts: int = 0
    """Cuts in a row of a held rate, each after a refusal in isolation."""
    series: int = 0
    """Requests served in the course of these cuts."""
    best: float = 0.0
    """The best rate that was held, 1/s."""

    def lift(self) -> None:
        """Void the lid: the limit may lie above it; the steps begin small."""
        self.hi = math.inf
        self.climb = FIRST_CLIMB / 2.0

    @property
    def hurries(self) -> bool:
        """Whether the rate doubles without proving anything."""
        far = FAR * self.rate <= self.hi < math.inf
        return (self.is_start or far) and not self.is_trial


@dataclass(frozen=True, slots=True)
class Epoch:
    """One congestion epoch, from the refusal to the recovery."""

    rate: float
    """The rate that was refused, 1/s."""
    least: float
    """The rate that was served from recovery to recovery, 1/s: the limit is no less."""
    served: int
    """Requests served since the recovery before."""
    spacing: int
    """Requests served since the refusal before."""
    outage: float
    """Seconds from the refusal to the recovery."""
    span: float
    """Seconds from the recovery before to the last probe that was refused."""
    recovery: Recovery
    is_short: bool
    """Whether a silence of a few gaps ended it."""
    is_alone: bool
    """Whether it is short, and one request alone was refused."""
    was_held: bool
    """Whether the rate had passed a stage before."""
