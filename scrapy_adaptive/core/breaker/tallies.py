"""What a host serves and fails at each of its paces: what its pages fail by themselves.

Laws
----
* A pace is known by the gap between requests, to a doubling: one more is half as fast.
* What fails at slower paces is not the host's own, or less of it is.
* The latest answers at each pace count.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from scrapy_adaptive.core.state.fields import Count

MEMORY = 24
"""Answers at one pace, to a doubling, that are remembered."""

GUESS = 0.1
"""Share of failures that is usual, as long as nothing is known of slower paces."""

WEIGHT = 4.0
"""Answers that this guess is worth."""

START = (0.5, 0.25, 0.125, 0.125)
"""Shares of the requests that were served before the first failure which are taken for served at a
half of its pace, at a quarter, and so on: a start doubles its pace."""

HELPED = 3.0
"""Log likelihood ratio from which less fails at slower paces than at faster ones: twenty to one."""

SHORTEST = 1e-4
"""Seconds from which the gaps between requests are counted in doublings."""


class Tally(NamedTuple):
    """Answers at one pace, the latest of them."""

    served: Count = 0.0
    failed: Count = 0.0

    @property
    def answers(self) -> float:
        """All of them."""
        return self.served + self.failed

    @property
    def share(self) -> float:
        """Of failures."""
        return self.failed / self.answers if self.answers else 0.0

    @property
    def likelihood(self) -> float:
        """Log likelihood of so many failures at that share."""
        terms = ((self.failed, self.share), (self.served, 1.0 - self.share))
        return sum(count * math.log(share) for count, share in terms if count > 0.0 < share)

    def after(self, *, failed: bool) -> Tally:
        """The same and one more."""
        kept = 1.0 - 1.0 / MEMORY if self.answers >= MEMORY else 1.0
        return Tally(kept * self.served + (not failed), kept * self.failed + failed)


def _sum(tallies: Iterable[Tally]) -> Tally:
    """Of several paces."""
    each = list(tallies)
    return Tally(sum(one.served for one in each), sum(one.failed for one in each))


def doublings(gap: float) -> int:
    """Of a gap in seconds, those of `SHORTEST`."""
    return round(math.log2(max(gap, SHORTEST) / SHORTEST))


def begun(served: int, pace: int) -> dict[int, Tally]:
    """What to begin with at the first failure, at that pace, after so many served requests."""
    known = min(served, MEMORY)
    paces = enumerate(START, start=pace + 1)
    return {slower: Tally(share * known) for slower, share in paces} if known else {}


def usual(tallies: Mapping[int, Tally], pace: int) -> float:
    """What pages fail by themselves, as a share: what they did at slower paces and a standard
    error, but no more than at this one too."""
    guess = Tally((1.0 - GUESS) * WEIGHT, GUESS * WEIGHT)
    slower = _sum([guess, *(each for at, each in tallies.items() if at > pace)])
    until = _sum([slower, tallies.get(pace, Tally())])
    error = math.sqrt(slower.share * (1.0 - slower.share) / slower.answers)
    return max(slower.share, min(until.share, slower.share + error))


def is_fewer(tallies: Mapping[int, Tally], pace: int) -> bool:
    """Whether less fails at this pace and slower ones than at faster ones: two shares are much
    likelier than one."""
    slow = _sum(each for at, each in tallies.items() if at >= pace)
    fast = _sum(each for at, each in tallies.items() if at < pace)
    if fast.share <= slow.share:
        return False
    return fast.likelihood + slow.likelihood - _sum((fast, slow)).likelihood > HELPED
