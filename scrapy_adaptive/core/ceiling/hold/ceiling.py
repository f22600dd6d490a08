"""The ceiling that learns a site's limit and holds it: events in, rate out.

Laws
----
* The limit lies between `lo`, the highest rate that passed a stage, and `hi`, the lowest refused.
* What goes up after what was served: see `climb`. What a refusal is evidence of is asked once its
  pause is over: see `explanations`.
"""

from __future__ import annotations

import math
from copy import deepcopy
from typing import TYPE_CHECKING, Annotated

from scrapy_adaptive.core.ceiling.base import Ceiling
from scrapy_adaptive.core.evidence import MEMORY
from scrapy_adaptive.core.state.fields import SLOWEST, Mark
from scrapy_adaptive.core.types import Learned

from .bracket import PRICE, Bracket
from .climb import go_up, needed
from .concurrency_cap import NO_CAP, Cap
from .epoch import BURST, ISOLATED, MINUTE, NO_CONGESTION, SHORTEST, Congestion
from .explanations import explain
from .noise import NO_NOISE, OFTEN
from .state import State
from .trial import end_trial

if TYPE_CHECKING:
    from scrapy_adaptive.core.permit import Permit
    from scrapy_adaptive.core.types import Recovery

AT_START = 2.0
"""Gaps of the accepted rate in the first wait at the start: that rate may be twice the limit."""


class Hold(Ceiling):
    """The learned ceiling of one slot.

    Args:
        start_rate: the first rate, 1/s.

    **Keeps**: 0 <= lo <= rate, and `SLOWEST` <= rate.
    **Departs** from AIMD, which forgets where it was refused, and from BBR, which takes the
    delivered rate for the limit: see the documentation.
    """

    __slots__ = ("_before", "_congestion", "state")

    state: State
    _congestion: Congestion
    _before: Annotated[State | None, Mark.SPARE]

    def __init__(self, start_rate: float) -> None:
        self.state = State(Bracket(start_rate))
        self._before = None
        """What was known before the last refusal: what a rollback goes back to."""
        self._congestion = NO_CONGESTION

    # Questions

    @property
    def rate(self) -> float:
        """Highest rate allowed, 1/s."""
        return self.state.bracket.rate

    @property
    def held_rate(self) -> float:
        """The highest rate that has passed a stage, 1/s; 0 while none has."""
        return self.state.bracket.lo

    @property
    def best_rate(self) -> float:
        """The best rate that was held, or served from one recovery to the next, 1/s."""
        return self.state.bracket.best

    @property
    def concurrency(self) -> float:
        """Most requests in flight that the site allows; infinity while none is known."""
        return self.state.cap.cap

    @property
    def noise_ratio(self) -> float:
        """Share of the requests that are refused whatever the rate; 0 while none is known. While a
        trial asks whether so many are that a page tells nothing, they are taken to be."""
        state = self.state
        tried = 0.0 if state.trial is None else state.trial.ratio
        return state.noise.ratio or (tried if tried > OFTEN else 0.0)

    @property
    def sure_gap(self) -> float:
        """Seconds between two pages at the rate in use, or at that which was served before the last
        refusal, where this was less."""
        return 1.0 / min(self.rate, self.state.least)

    def debt(self) -> float:
        """Seconds of waiting that repay what was served beyond the held pace.

        For a window of time, just what is left of it. Before a rate was held, two gaps of the rate
        that was served, but no more than of the one in use, or `SHORTEST`: where page after page is
        refused for itself, pauses are most of that time, and longer ones would be more of it.
        """
        state, congestion = self.state, self._congestion
        if state.noise.ratio or state.trial is not None:
            return 0.0
        served, held = state.history.served, state.bracket.lo
        if not held:
            in_use = min(self.rate, congestion.rate or self.rate)  # a delay of the user's may bind
            most = max(SHORTEST, AT_START / in_use)
            return min(most, AT_START * congestion.busy / served) if served > 1 else 0.0
        return max(0.0, served / held - congestion.busy)

    @property
    def learned(self) -> Learned | None:
        """The bracket, and what a refusal costs; None before a rate was held, here or in the run
        that this one goes on from."""
        bracket = self.state.bracket
        rate = bracket.lo or bracket.best or (bracket.rate if bracket.hi < math.inf else 0.0)
        if bracket.is_start and self.state.history.served >= ISOLATED and bracket.rate < math.inf:
            rate = max(rate, 0.5 * bracket.rate)
        if not rate:
            return None
        return Learned(min(rate, bracket.hi), bracket.hi, self.concurrency, bracket.price)

    @property
    def is_taught(self) -> bool:
        """Whether a refusal was believed."""
        return not self.state.bracket.is_start

    def recall(self, learned: Learned) -> None:
        """Begin at the rate that was held; it has to pass a stage before it is believed."""
        bracket = self.state.bracket
        bracket.rate = max(SLOWEST, learned.rate)
        bracket.lo = min(bracket.lo, bracket.rate)
        if learned.concurrency < math.inf:
            self._own_cap().set(learned.concurrency)
        self.state.quiet = max(self.state.quiet, learned.silence)
        if learned.refused_rate < math.inf:
            bracket.hi = max(bracket.rate, learned.refused_rate)
            bracket.cost = max(PRICE, learned.price)
            bracket.is_start = False

    # Facts

    def on_sent(self, now: float, delay: float) -> None:
        """Count the time since the last send."""
        self.state.history.on_sent(now, delay)

    def on_accepted(
        self, now: float, permit: Permit, latency: float | None, *, binding: bool
    ) -> None:
        """Count it; at the end of a stage, go up.

        A request that something else held back tells nothing of the rate.
        """
        state, bracket = self.state, self.state.bracket
        if permit.level > 1 or state.cap is not NO_CAP:
            self._own_cap().on_accepted(permit.level)
        state.history.served += 1
        state.served += 1
        state.series += 1
        bracket.served += 1
        if latency is not None:
            weight = 1.0 / 8.0 if state.round_trip else 1.0
            state.round_trip += weight * (latency - state.round_trip)
        if permit.sent_at < bracket.stage_at or not binding:
            return
        if state.trial is not None:
            if state.trial.on_served(permit.gap):
                end_trial(state, now, state.trial)
        elif permit.paced:
            bracket.passed += 1
            if bracket.passed >= needed(state):
                go_up(state, now)

    def on_congestion(
        self, now: float, permit: Permit, *, rate: float, again: bool = False
    ) -> None:
        """A congestion epoch begins; what it means is thought over when it ends."""
        state, bracket = self.state, self.state.bracket
        self._own_cap()
        if not again or self._before is None:  # it is left out of a state that would be too large
            self._before = deepcopy(state)
        seconds = now - bracket.stage_at
        if bracket.lo and not bracket.passed and seconds > MINUTE:
            # The rate did not bind: what was served all the same has passed, and is not owed.
            bracket.lo = max(bracket.lo, min(bracket.rate, bracket.served / seconds))
        busy = state.history.seconds(now, 1.0 / rate)
        self._congestion = Congestion(now, rate, permit.level, busy, state.history.gap)

    def _own_cap(self) -> Cap:
        """What was served until two were in flight, or one was refused, was alone in flight."""
        state = self.state
        if state.cap is NO_CAP:
            state.cap = Cap(levels=[0.0, min(float(state.served), MEMORY)])
        return state.cap

    def on_refused(self, *, may_be_chance: bool = False) -> None:
        """One more refusal of the present epoch.

        Args:
            may_be_chance: it is that of a test request which chance may explain: where noise is
                known it counts for as much, elsewhere for nothing.
        """
        if self._congestion is NO_CONGESTION:
            return  # it is late, in a pause that another slot began
        if may_be_chance:
            self._congestion.by_chance += 1
        else:
            self._congestion.refusals += 1

    def on_recovered(self, now: float, recovery: Recovery) -> None:
        """Ask what explains the refusal, and go on by that."""
        state = self.state
        epoch = self._congestion.close(now, recovery, state.history, state.bracket.rate)
        lasted = self._congestion.busy + recovery.waited if epoch.is_short else None
        state.history.on_recovered(now, recovery.waited, lasted=lasted)
        state.least = max(epoch.least, SLOWEST)
        state.hits += epoch.refusals
        state.peak = max(state.peak, epoch.surely(BURST if state.bracket.is_start else 0))
        if recovery.tries or recovery.announced:
            state.quiet = max(state.quiet, epoch.outage)
        verdict = explain(state, epoch)
        if verdict.is_new:
            state.move(now, verdict.rate)

    def on_rollback(self, now: float) -> None:
        """The last epoch was a broken page's fault: go on as before."""
        least = self.state.least
        if self._before is not None:
            self.state = deepcopy(self._before)
        self.state.least = least

    def on_doubted(self) -> None:
        """No rate has held: the next stage begins here."""
        self.state.bracket.lo = 0.0
        self.state.bracket.passed = 0

    def on_class_split(self, now: float) -> None:
        """The epochs of late were one class's: void the upper bound, and what else they taught."""
        self.on_rollback(now)
        state = self.state
        state.noise, state.quiet = NO_NOISE, 0.0
        state.trial = state.fallback = None
        bracket = state.bracket
        bracket.cuts, bracket.cost, bracket.outage = 0, PRICE, 0.0
        bracket.is_window = False
        bracket.lift()
