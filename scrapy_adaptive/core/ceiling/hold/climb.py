"""The way up: how much has to be served at a rate, and which rate is tried next.

Laws
----
* What a refusal costs decides how much a rate has to pass before the next one is risked.
* A rate that has passed a stage is `lo`; above `hi` it voids that.
* Where a limit may be back, the best rate so far comes before the steps.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from .bracket import NARROW, is_closed, search, stage, step
from .epoch import SHORTEST
from .trial import FASTER

if TYPE_CHECKING:
    from .state import State


def needed(state: State) -> float:
    """Requests that the rate has to pass before the next step."""
    bracket = state.bracket
    rate, hi = bracket.rate, bracket.hi
    least = max(1.0, rate * max(SHORTEST, 2.0 * state.round_trip))
    if bracket.is_doubling:
        return least
    least = max(2.0, least, rate * state.quiet)
    before = state.served - bracket.passed
    if hi == math.inf:
        aim = rate * (1.0 + bracket.climb)
        pages = 0.5 * stage(rate, aim, bracket.price)
    elif not bracket.outage or rate > hi or is_closed(rate, hi):
        pages = stage(rate, hi, bracket.price)
    else:
        searched = search(rate, hi, bracket.price, before)
        pages = max(stage(rate, hi, bracket.cost), searched)
    return max(least, min(pages, state.until_return(before)))


def go_up(state: State, now: float) -> None:
    """A stage has passed: the next rate."""
    bracket = state.bracket
    rate = bracket.rate
    state.noise.on_held(bracket.served)
    bracket.is_doubted = False
    if bracket.is_doubling:
        state.move(now, 2.0 * rate)
        return
    bracket.is_window = False
    bracket.lo = max(bracket.lo, rate)
    if state.history.waited:
        bracket.best = max(bracket.best, state.history.rate)
    if FASTER * bracket.lo >= state.peak:
        state.returns = 0
    if state.is_returning and (rate >= state.peak or bracket.hi < math.inf):
        state.fallback = None  # it is back, or has come some way
        bracket.climb = NARROW
    if state.until_return(state.served) <= 0.0:
        state.begin_return()
    elif rate >= bracket.hi:
        bracket.lift(NARROW)
    if bracket.hi < math.inf:
        state.move(now, step(rate, bracket.hi))
        return
    bracket.climb = min(1.0, 2.0 * bracket.climb)
    above = rate * (1.0 + bracket.climb)
    state.move(now, min(above, state.peak) if rate < state.peak else above)
