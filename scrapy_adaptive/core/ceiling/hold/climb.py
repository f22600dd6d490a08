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

from scrapy_adaptive.core.state.fields import SLOWEST

from .bracket import FIRST_CLIMB, is_closed, search, stage, step
from .epoch import SHORTEST
from .explanations import blame
from .noise import FASTER, Noise

if TYPE_CHECKING:
    from .noise import Trial
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
        move(state, now, 2.0 * rate)
        return
    bracket.is_window = False
    bracket.lo = max(bracket.lo, rate)
    if state.history.waited:
        bracket.best = max(bracket.best, state.history.rate)
    if FASTER * bracket.lo >= state.peak:
        state.returns = 0
    if state.is_returning and (rate >= state.peak or bracket.hi < math.inf):
        state.fallback = None  # it is back, or has come some way
        bracket.climb = 0.5 * FIRST_CLIMB
    if state.until_return(state.served) <= 0.0:
        state.begin_return()
    elif rate >= bracket.hi:
        bracket.lift(FIRST_CLIMB)
    if bracket.hi < math.inf:
        move(state, now, step(rate, bracket.hi))
        return
    bracket.climb = min(1.0, 2.0 * bracket.climb)
    above = rate * (1.0 + bracket.climb)
    move(state, now, min(above, state.peak) if rate < state.peak else above)


def move(state: State, now: float, rate: float) -> None:
    """Another rate, 1/s, or another stage at the same."""
    bracket = state.bracket
    bracket.rate = max(SLOWEST, rate)
    bracket.stage_at = now
    bracket.passed = bracket.served = 0
    state.noise.refused = 0


def end_trial(state: State, now: float, trial: Trial) -> None:
    """It has lasted long enough: the faster rate was refused more often, or it is noise."""
    bracket, before = state.bracket, state.fallback
    if before is not None and trial.is_excess:
        move(state, now, blame(state, before).rate)
        return
    state.noise = Noise.found(trial.hits + trial.found, trial.pages + trial.of)
    state.trial = state.fallback = None
    bracket.cuts = 0
    bracket.lift(1.0)
    move(state, now, bracket.rate)
