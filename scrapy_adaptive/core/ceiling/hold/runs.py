"""Runs: what a site served until it refused, and what two of them tell.

Laws
----
* A site that saves up `b` requests and lets through `x` a second serves `b + x seconds` in a run
  that begins with all saved up and ends with a refusal, and less in any other.
* So two such runs differ by just what it let through in the time by which they differ.
* Which run began with all saved up need not be known: of several that end together it is the one
  that says most.
* From one refusal to the next it serves no more than it lets through, and saves up the rest, as far
  as it can; so a limit that explains the second refusal leaves nothing of that, or nothing of all
  saved up before some run.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from .epoch import ROUGH

if TYPE_CHECKING:
    from collections.abc import Sequence


class Run(NamedTuple):
    """Requests served, and the busy seconds that took."""

    pages: int
    seconds: float


def saved_up(drained: Sequence[Run], rate: float) -> float:
    """Most requests that a site with a limit of `rate` (1/s) saves up; infinity if unknown.

    Args:
        drained: runs that end with the same refusal, one of which began with all saved up.

    >>> saved_up([Run(30, 10.0), Run(24, 1.0)], 2.0), saved_up([], 2.0)
    (24.0, inf)
    """
    if not drained:
        return math.inf
    return ROUGH + max(0.0, *(run.pages - rate * run.seconds for run in drained))


def between(
    drained: Sequence[Run],
    runs: Sequence[Run],
    *,
    least: float,
    most: float,
    emptied: Run | None = None,
) -> tuple[float, float]:
    """Between which rates the limit lies, 1/s: (low, high); low is 0 where that shows nothing.

    Args:
        drained: runs that end with the same refusal, one of which began with all saved up.
        runs: others; if any began with all saved up, it is among them.
        least: a rate that is allowed, 1/s.
        most: one that is refused, 1/s.
        emptied: what was served since a refusal, if one of `runs` began whenever most was saved up
            since.

    A site that had saved up 20 requests, with a limit of 10/s:

    >>> low, high = between([Run(40, 2.0)], [Run(120, 10.0)], least=5.0, most=12.0)
    >>> round(low, 2), round(high, 2)
    (9.75, 10.25)

    It was found empty, and again 50 s later:

    >>> between([Run(40, 2.0)], [Run(30, 2.0)], least=5.0, most=15.0, emptied=Run(500, 50.0))
    (9.96, 10.04)
    """
    excluded = [_drains(drained, run, -ROUGH) for run in runs]
    low = max((upto for above, upto in excluded if above <= least < upto), default=0.0)
    if emptied is not None:
        low = max(low, (emptied.pages - ROUGH) / emptied.seconds)
    possible = [_drains(drained, run, ROUGH) for run in runs]
    if emptied is not None:
        possible.append((0.0, (emptied.pages + ROUGH) / emptied.seconds))
    floor = max(low, least)
    high = max((upto for above, upto in possible if above < most and floor < upto), default=most)
    return low, min(high, most)


def _drains(drained: Sequence[Run], run: Run, rough: float) -> tuple[float, float]:
    """Between which limits the site would save up no more than `run` and `rough` pages use up."""
    above, upto = 0.0, math.inf
    for other in (Run(0, 0.0), *drained):
        pages, seconds = run.pages + rough - other.pages, run.seconds - other.seconds
        if seconds > 0.0:
            upto = min(upto, pages / seconds)
        elif seconds < 0.0:
            above = max(above, pages / seconds)
        elif pages < 0.0:
            return 0.0, 0.0
    return above, max(above, upto)
