"""What a refusal is evidence of: the explanations, in the order in which they are asked.

Laws
----
* Each takes the epoch for its own, and says how to go on, or leaves it to the next: a limit on
  what is in flight, noise, a trial of a faster rate, chance, the rate.
* A held rate that is refused is cut a little; a rate above it that is refused becomes `hi`.
* What is inferred raises `lo` or names a rate to try; only a refusal sets `hi`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .bracket import MARGIN
from .epoch import ISOLATED, Verdict
from .noise import OFTEN
from .trial import FASTER, MUCH_FASTER, begin_trial, by_trial
from .windows import explained

if TYPE_CHECKING:
    from collections.abc import Callable

    from .epoch import Epoch
    from .state import State

CUTS = 3
"""Cuts of a held rate in a row, without help, from which the refusals may not be the rate's."""


def by_cap(state: State, epoch: Epoch) -> Verdict | None:
    """It came where more were in flight than usual, once too often: that binds now, no rate."""
    is_noisy = state.noise.ratio > 0.0
    if epoch.recovery.tries or state.is_returning:
        return None
    if not state.cap.on_epoch(epoch.level, is_noisy=is_noisy):
        return None
    state.trial = state.fallback = None
    state.bracket.lift()
    return Verdict(state.bracket.rate)


def by_noise(state: State, epoch: Epoch) -> Verdict | None:
    """No more refusals at this rate than come by chance."""
    refusals = epoch.refusals + epoch.by_chance
    is_explained = state.noise.on_refused(refusals, state.bracket.served)
    is_noise = is_explained and not epoch.recovery.tries
    return Verdict(state.bracket.rate, is_new=False) if is_noise else None


def by_return(state: State, epoch: Epoch) -> Verdict | None:
    """It came while the limit was asked whether it is back. It is not, unless this is a step above
    one that has passed. To ask again will cost as long a pause."""
    if not state.is_returning or (before := state.fallback) is None:
        return None
    has_come = state.bracket.lo > before.lo
    if has_come and epoch.rate > state.bracket.lo * (1.0 + 1e-9):
        return None
    if not epoch.is_short:
        before.outage = max(before.outage, epoch.outage)
    state.bracket, state.fallback = before, None
    return Verdict(before.rate)


def by_chance(state: State, epoch: Epoch) -> Verdict | None:
    """The first at the start: the rate is looked at twice.

    A site that refuses from the first request on has said nothing of a rate.
    """
    bracket = state.bracket
    if state.served <= 1:
        return Verdict(bracket.rate)
    is_first = bracket.is_start and epoch.is_alone and not epoch.recovery.announced
    if bracket.is_doubted or not is_first:
        return None
    bracket.is_doubted = True
    return Verdict(bracket.rate)


def by_rate(state: State, epoch: Epoch) -> Verdict:
    """The site allows less than this rate."""
    bracket, least = state.bracket, epoch.allowed
    state.returned_at = state.served
    was_held = epoch.rate <= bracket.lo * (1.0 + 1e-9)
    is_held = was_held or bracket.is_window  # the latter by what was served, over a human unit
    if bracket.is_window:
        bracket.unit = 0.0
    if was_held:
        state.noise.on_held(bracket.served)
    if not epoch.is_alone:
        bracket.cuts = state.series = state.hits = 0
    is_isolated = epoch.served >= ISOLATED
    faster = FASTER if is_isolated else MUCH_FASTER
    is_often = state.hits > max(1.0, OFTEN * state.series)
    seen = 1.0 if is_often and not is_isolated else faster  # no limit refuses often what it served
    is_slow = seen * epoch.rate <= bracket.best and not bracket.unit
    if epoch.is_alone and (is_held or is_slow):
        if is_isolated:
            least = _cut(state, epoch, least)
        bracket.cuts += 1
        if is_slow or bracket.cuts > CUTS:
            return begin_trial(state, epoch, faster, least)
    if was_held or not bracket.best:
        bracket.lo = 0.0
    bracket.enclose(epoch, least, state.noise.unexpected(bracket.served))
    unit, rate = explained(epoch, bracket.unit)
    if bracket.lo < rate < bracket.hi:
        bracket.unit, bracket.is_window = unit, True
        return Verdict(rate)
    return Verdict(bracket.lo)


EXPLANATIONS: tuple[Callable[[State, Epoch], Verdict | None], ...] = (
    by_cap,
    by_noise,
    by_trial,
    by_return,
    by_chance,
    by_rate,
)
"""In the order in which they are asked; the last one takes what is left."""


def explain(state: State, epoch: Epoch) -> Verdict:
    """How to go on after this epoch."""
    verdicts = (explanation(state, epoch) for explanation in EXPLANATIONS)
    return next(verdict for verdict in verdicts if verdict is not None)


def _cut(state: State, epoch: Epoch, least: float) -> float:
    """One more cut of a held rate, twice as deep as the last; 1/s."""
    bracket = state.bracket
    depth = MARGIN * 2.0**bracket.cuts
    least = min(epoch.rate, max(least, epoch.rate * (1.0 - 2.0 * depth)))
    return least * (1.0 + MARGIN - depth)
