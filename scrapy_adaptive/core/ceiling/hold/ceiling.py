"""The ceiling that learns a site's limit and holds it.

Laws
----
* The limit lies between `lo`, the highest rate that passed a stage, and `hi`, the lowest refused.
* A refusal is asked what it is evidence of, in this order: noise, a look at noise, a hope,
  a limit on what is in flight, a door that was closed from the first, chance, a rate.
* A held rate that is refused is cut a little; a rate above it that is refused becomes `hi`.
* What a refusal costs decides how long the next rate must pass before one more is risked.
"""

from __future__ import annotations

import math
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, TypeAlias

from scrapy_adaptive.core.ceiling.base import GAPS, SLOWEST
from scrapy_adaptive.core.state.fields import Mark, Rate, Seconds
from scrapy_adaptive.core.types import Learned

from .account import Account
from .bracket import FIRST_CLIMB, NARROW, hurried, step
from .concurrency_cap import Caps
from .epoch import ISOLATED, SETTLING, SHORTEST, Pain
from .noise import LOOK, Look, Noise
from .state import LOST, MARGIN, PRICE, Belief, unit_above

if TYPE_CHECKING:
    from collections.abc import Collection

    from scrapy_adaptive.core.types import Permit, Recovery

    from .epoch import Epoch

DEEP = 0.12
"""Share that such cuts have taken in all, without help, from which the refusals may not be the
rate's."""

KNOWN = 50
"""Requests after which a stage that passed counts for the best rate."""

OUTLAST_MOST = 62.0
"""Most seconds that a stage lasts only to outlast a silence: a minute's window, just over."""

AT_START = 2.0
"""Gaps of the accepted rate in the first silence of the start: it may be twice the limit."""


Remembered: TypeAlias = tuple[Belief, Account, Look | None, Caps, Noise, float, float]


class Hold:
    """The learned ceiling of one slot.

    Args:
        start_rate: the first rate, 1/s.
        grows_in_flight: whether what is in flight has a limit that grows by itself, so that a
            doubled rate does not send more at once than it allows.

    **Keeps**: `SLOWEST` <= lo <= rate once anything was refused.
    **Departs** from AIMD, which forgets where it was refused, and from BBR, which takes the
    delivered rate for the limit: see the documentation.
    """

    __slots__ = (
        "_account",
        "_fallback",
        "_grows_in_flight",
        "_has_recovered",
        "_least_rate",
        "_look",
        "_pain",
        "_pardon",
        "_quiet",
        "_quiet_again",
        "_round_trip",
        "_since_pardon",
        "belief",
        "caps",
        "noise",
    )

    belief: Belief
    caps: Caps
    noise: Noise
    _account: Account
    _look: Look | None
    _fallback: Annotated[Belief | None, Mark.SPARE]
    _quiet: Seconds
    _quiet_again: Seconds
    _round_trip: Seconds
    _pain: Pain
    _has_recovered: bool
    _since_pardon: int
    _least_rate: Rate
    _pardon: Annotated[Remembered | None, Mark.SPARE]

    def __init__(self, start_rate: float, *, grows_in_flight: bool = False) -> None:
        self.belief = Belief(start_rate)
        self._grows_in_flight = grows_in_flight
        self.caps = Caps()
        self.noise = Noise()
        self._account = Account()
        self._look = None
        self._fallback = None
        """What to believe if a look shows that the rate is to blame, or a hope is refused."""
        self._quiet = 0.0
        """Seconds that a stage has to last: the longest silence met."""
        self._quiet_again = 0.0
        """Seconds of the longest silence but one: chance makes one, a window more."""
        self._round_trip = 0.0
        self._pain = Pain(0.0, start_rate, 1, 0, 0.0)
        self._has_recovered = False
        self._since_pardon = ISOLATED
        """Requests served since the last pardon."""
        self._least_rate = math.inf
        """The rate that was surely served before the last refusal, 1/s."""
        self._pardon = None
        """What a pardon takes back; None before anything was refused."""

    def after_reading(self, names: Collection[str]) -> None:
        """These fields were read of another one's state."""
        if "_fallback" not in names:
            self._fallback = copy(self.belief)
        if "_pardon" not in names:
            self._pardon = self._remembered()

    # Questions

    @property
    def rate(self) -> float:
        """Highest rate allowed, 1/s."""
        return self.belief.rate

    @property
    def held_rate(self) -> float:
        """The highest rate that has passed a stage, 1/s; 0 while none has."""
        return self.belief.lo

    @property
    def best_rate(self) -> float:
        """The best rate that was held, or served from one recovery to the next, 1/s."""
        return self.belief.seen

    @property
    def concurrency(self) -> float:
        """Most requests in flight that the site allows; infinity while none is known."""
        return self.caps.cap

    @property
    def noise_ratio(self) -> float:
        """Share of the requests that are refused whatever the rate; 0 while none is known."""
        return self.noise.ratio

    @property
    def recheck(self) -> float:
        """One gap of the rate that was surely served, and some margin.

        More while the rate itself is in doubt, and where one page after the other seems broken.
        A shorter one would call a page broken that a limit refuses.
        """
        gap = 1.0 / min(self.rate, self._least_rate)
        is_doubted = self.belief.is_doubted or self._since_pardon < ISOLATED
        return GAPS * gap * (SETTLING if is_doubted else 1.0)

    def debt(self, now: float) -> float:
        """Seconds of silence that repay what was served beyond the held pace.

        For a window of time, just what is left of it; nothing where no window explains what was
        served. Before a rate was held, two gaps of the rate that was served.
        """
        if self.noise.ratio or self._look is not None:
            return 0.0
        if not self.belief.lo:
            served = self._account.served
            return AT_START * self._pain.busy / served if served > 1 else 0.0
        if self.belief.refutes_window(self._account.served, self._pain.busy):
            return 0.0
        owed = self._account.served / self.belief.lo
        return max(0.0, owed - self._pain.busy - (now - self._pain.at))

    @property
    def learned(self) -> Learned | None:
        """The bracket, and what a refusal costs; None before a rate was held."""
        belief = self.belief
        rate = belief.lo or belief.best
        if belief.is_start and belief.spacing >= KNOWN and belief.rate < math.inf:
            rate = max(rate, 0.5 * belief.rate)
        if not rate:
            return None
        if belief.hi < math.inf:
            rate = min(rate, belief.hi)
        return Learned(rate, belief.hi, self.caps.cap, belief.price)

    def recall(self, learned: Learned) -> None:
        """Begin at the rate that was held; it has to pass a stage before it is believed."""
        self.belief.rate = max(SLOWEST, learned.rate)
        self.caps.recall(learned.concurrency)
        self._quiet = min(learned.silence, OUTLAST_MOST)
        if learned.refused_rate < math.inf:
            self.belief.hi = max(self.belief.rate, learned.refused_rate)
            self.belief.cost = max(PRICE, learned.price)
            self.belief.is_start = False

    # Facts

    def on_sent(self, now: float, delay: float) -> None:
        """Count the time since the last send."""
        self._account.on_sent(now, delay)

    def on_accepted(
        self, now: float, permit: Permit, latency: float | None, *, binding: bool
    ) -> None:
        """Count it; at the end of a stage, go up."""
        belief = self.belief
        belief.ledger.served += 1
        self._since_pardon += 1
        belief.spacing += 1
        self._account.served += 1
        self.noise.on_served()
        self.caps.on_accepted(permit.level)
        if latency is not None:
            self._round_trip += (latency - self._round_trip) / (8.0 if self._round_trip else 1.0)
        if permit.sent_at < belief.stage_at:
            return
        if not binding or not permit.paced:
            belief.passed = max(0, belief.passed - 1)
        elif self._look is not None:
            if self._look.on_served():
                self._end_look(now, is_noise=True)
        else:
            belief.passed += 1
            if belief.passed >= self._needed:
                self._go_up(now)

    def on_pain(self, now: float, permit: Permit, *, rate: float) -> None:
        """A congestion epoch begins; what it means is thought over when it ends."""
        self._pardon = self._remembered()
        busy = self._account.seconds(now, 1.0 / rate)
        if self.belief.lo and not self.belief.passed:
            self.belief.hold_served(now, OUTLAST_MOST)
        self._pain = Pain(now, rate, permit.level, self.belief.passed, busy)

    def on_refused(self) -> None:
        """One more refusal of the present epoch."""
        self._pain.refusals += 1

    def on_recovered(self, now: float, recovery: Recovery) -> None:
        """Ask what explains the refusal, and go on by that."""
        epoch = self._close(now, recovery)
        self._account.on_recovered(now)
        if recovery.tries or recovery.told:
            silence = min(epoch.outage, OUTLAST_MOST)
            self._quiet_again = max(self._quiet_again, min(silence, self._quiet))
            self._quiet = max(self._quiet, silence)
        explained = (
            self._as_noise(epoch)
            or self._as_looked_at(now, epoch)
            or self._as_hope(now)
            or self._as_cap(now, epoch)
            or self._as_closed_door(now, epoch)
            or self._as_chance(now, epoch)
        )
        self._has_recovered = True
        if not explained:
            self._believe_rate(now, epoch)
        self.belief.ledger.mark(now, 0.0)

    def on_resumed(self, now: float) -> None:
        """A silence that cut nothing is over: it counts as time in which nothing was served."""
        self.belief.ledger.mark(now, self._account.seconds(now, 1.0 / self.belief.rate))

    def on_pardon(self, now: float) -> None:
        """The last epoch was a broken page's fault: go on as before."""
        self._since_pardon = 0
        if self._pardon is None:
            return
        self.belief, self._account, self._look, self.caps, self.noise, *silences = self._pardon
        self._quiet, self._quiet_again = silences
        self._pardon = self._remembered()

    def _remembered(self) -> Remembered:
        return (
            copy(self.belief),
            copy(self._account),
            copy(self._look),
            copy(self.caps),
            copy(self.noise),
            self._quiet,
            self._quiet_again,
        )

    def on_acquittal(self, now: float) -> None:
        """The epochs of late were one class's: void the lid, and what else they taught."""
        self.on_pardon(now)
        self.noise = Noise()
        self._look = None
        self._quiet = self._quiet_again = 0.0
        self.belief.cuts = 0
        self.belief.is_trial = False
        self.belief.cost = PRICE
        self.belief.outage = 0.0
        self.belief.acquit(1.0)

    # Up

    @property
    def _needed(self) -> float:
        """Requests that the rate has to pass before the next step."""
        belief = self.belief
        two_trips = 2.0 * self._round_trip
        least = max(1.0, belief.rate * max(SHORTEST, two_trips))
        if belief.hurries:
            return least
        return max(2.0, least, belief.rate * self._quiet, belief.stage)

    def _go_up(self, now: float) -> None:
        belief = self.belief
        rate = belief.rate
        self.noise.on_held()
        belief.is_doubted = False
        if belief.passed >= KNOWN:
            seconds = now - belief.stage_at - self._round_trip
            belief.ledger.time(belief.passed, seconds, rate)
        if belief.hurries:
            self._move(now, hurried(rate, 0.0 if self._grows_in_flight else self._round_trip))
            return
        hoped = belief.hoped
        belief.is_unit_known = belief.unit > 0.0
        belief.is_trial = belief.is_hope = False
        if rate >= LOST * belief.lost:
            belief.lost = 0.0
        if rate > belief.lo:
            belief.before, belief.lo = belief.lo, rate
        if belief.passed >= KNOWN:
            belief.best = max(belief.best, rate)
        if rate >= belief.hi:
            belief.lift(FIRST_CLIMB)
        if belief.hi < math.inf:
            self._move(now, step(rate, belief.hi))
        else:
            belief.climb = min(1.0, 2.0 * belief.climb)
            self._move(now, rate * (1.0 + belief.climb))
        if hoped:
            self._begin_hope(now, hoped)

    def _move(self, now: float, rate: float) -> None:
        self.belief.ledger.mark(now, self._account.seconds(now, 1.0 / self.belief.rate))
        self.belief.rate = max(SLOWEST, rate)
        self.belief.stage_at = now
        self.belief.passed = 0
        self.noise.on_rate()

    # What a refusal is evidence of

    def _close(self, now: float, recovery: Recovery) -> Epoch:
        belief, served = self.belief, self._account.served
        idle = max(belief.carried, recovery.waited)
        self._least_rate = max(served / (self._pain.busy + idle), SLOWEST)
        spacing, belief.spacing = belief.spacing, 0
        belief.series += spacing
        belief.hits += 1
        epoch = self._pain.close(
            now,
            recovery,
            served=served,
            spacing=spacing,
            rate=belief.rate,
            held=belief.lo,
            rested=belief.carried,
        )
        belief.ledger.close(epoch)
        return epoch

    # Each takes the epoch for its own, and returns True, or leaves it to the next.

    def _as_noise(self, epoch: Epoch) -> bool:
        """No more refusals at this rate than come by chance."""
        is_open = self.belief.hi == math.inf
        return self.noise.on_refused(is_open=is_open) and not epoch.recovery.tries

    def _as_looked_at(self, now: float, epoch: Epoch) -> bool:
        """It came while a faster rate was looked at."""
        look = self._look
        if look is None:
            return False
        if not epoch.is_alone or look.on_refused():
            self._end_look(now, is_noise=False)
        return True

    def _as_hope(self, now: float) -> bool:
        """It came at a rate that was only hoped for."""
        if not self.belief.is_hope:
            return False
        if self._fallback is not None:
            self.belief = copy(self._fallback)
        self._move(now, self.belief.rate)
        return True

    def _as_cap(self, now: float, epoch: Epoch) -> bool:
        """It came where more were in flight than usual, once too often."""
        if epoch.recovery.tries or not self.caps.on_epoch(self._pain.level):
            return False
        self.belief.acquit(1.0)  # what is in flight binds now
        self._move(now, self.belief.rate)
        return True

    def _as_closed_door(self, now: float, epoch: Epoch) -> bool:
        """Nothing was served before the first pause: that tells nothing of a rate."""
        if self._has_recovered or epoch.served > 1:
            return False
        self._move(now, self.belief.rate)
        return True

    def _as_chance(self, now: float, epoch: Epoch) -> bool:
        """The first at the start, or far under what was allowed: the rate is looked at twice."""
        if not self.belief.is_chance(epoch):
            return False
        self.belief.is_doubted = True
        self._move(now, self.belief.rate)
        return True

    def _believe_rate(self, now: float, epoch: Epoch) -> None:
        belief = self.belief
        if belief.is_window(epoch):
            epoch = replace(epoch, rate=(1.0 + NARROW) * epoch.least, is_alone=False)
            belief.settle(epoch.least)
        least = epoch.allowed(belief.last)
        belief.last = epoch
        if epoch.rate < LOST * belief.best and belief.lost != belief.best:
            belief.lose()
        if belief.is_trial and not belief.is_unit_known:
            belief.unit = 0.0
        is_slow = LOOK * epoch.rate <= belief.seen and not belief.unit
        low, high = belief.limits(epoch, self._quiet)
        epoch = replace(epoch, rate=high)
        if not (epoch.was_held or belief.is_start):
            least = max(least, belief.shown_by_gap(epoch))
        if epoch.was_held:
            self.noise.on_held()
            belief.cuts = belief.cuts if epoch.is_alone else 0
        if (epoch.was_held or is_slow) and epoch.is_alone and epoch.spacing >= ISOLATED:
            least = belief.cut(epoch, least)
            if is_slow or belief.cut_share > DEEP:
                self._begin_look(now, epoch)
                return
        if high < belief.lo or epoch.was_held or (belief.is_start and epoch.recovery.tries):
            belief.fall_back(epoch.rate)
        elif belief.is_burst(epoch):
            belief.fall_back(epoch.least)
        belief.enclose(epoch, least, self.noise, low)
        rate = belief.window(epoch)
        belief.is_trial = rate is not None
        self._move(now, rate or belief.lo)

    # Looks at a faster rate

    def _begin_hope(self, now: float, rate: float) -> None:
        """The limit may be what it was: ask for that at once, instead of climbing there."""
        fallback = self._fallback = copy(self.belief)
        fallback.spacing = 0
        fallback.hope_again()
        self.belief.is_hope = True
        self.belief.lift(FIRST_CLIMB)
        self._move(now, rate)

    def _begin_look(self, now: float, epoch: Epoch) -> None:
        belief = self.belief
        rate = max(LOOK * epoch.rate, belief.seen)
        told = unit_above(self._quiet) if epoch.recovery.told else 0.0
        window = belief.unit or told or self._quiet_again
        belief.best = belief.shown = epoch.rate
        fallback = self._fallback = copy(belief)
        fallback.lo = 0.0
        fallback.enclose(epoch, (1.0 - MARGIN) * epoch.rate, self.noise)
        self._look = Look(
            belief.hits / belief.series,
            saved=epoch.outage * epoch.rate + 1.0 + GAPS,
            faster=rate / epoch.rate,
            window=window * epoch.rate,
        )
        self._move(now, rate)

    def _end_look(self, now: float, *, is_noise: bool) -> None:
        self._look = None
        belief = self.belief
        if is_noise:
            self.noise.on_found(belief.hits, belief.series)
            belief.acquit(FIRST_CLIMB)
            self._move(now, belief.rate)
        else:
            belief = self.belief = self._fallback or belief
            self._move(now, belief.lo)
        belief.cuts = 0
