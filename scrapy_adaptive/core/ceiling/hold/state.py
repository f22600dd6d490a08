"""What is thought of a site's limit.

Laws
----
* A belief is what a pardon takes back, so a copy shares nothing with it.
* Rates are requests a second, instants monotonic seconds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from scrapy_adaptive.core.ceiling.base import SLOWEST
from scrapy_adaptive.core.state.fields import Amount, Instant, Rate

from .bracket import FAR, HOPE, LIFT, NARROW, is_closed, search, stage
from .epoch import ISOLATED, Epoch
from .history import Ledger
from .runs import saved_up

if TYPE_CHECKING:
    from .noise import Noise

PRICE = 9.5
"""Pages that one refusal costs: by the formula of a stage, one request in 950 is refused
on a limit that stands still."""

MARGIN = 0.01
"""Share by which the held rate stays under what the account says: an account of a hundred pages
is off by one."""

DEEPER = 0.01
"""First cut, as a share, of a held rate that is refused in isolation; each next is twice it."""

WINDOWS = (1.0, 10.0, 60.0, 300.0, 900.0, 3600.0, 86_400.0)
"""Seconds in which people write limits."""

TURN = 1.2
"""Seconds by which the time from one recovery to the next may differ from the window that turned at
both, as the site told: it tells whole seconds, and a probe takes its time."""

ENOUGH = 20
"""Requests served, from which a window's count is worth a trial."""

UNLIKELY = 0.5
"""Share of a rate that was seen to be allowed, under which one refusal alone is put down to chance
once. Without, three of them in a row cost a crawl most of two hours."""

LOST = 0.75
"""Share of the best rate ever held under which the limit has fallen, or chance has misled: one cut
is enough to ask, and a rate to hope for later. So low a bound needs more than one refusal."""


@dataclass(slots=True)
class Belief:
    """What is thought of the limit; all that a pardon takes back."""

    rate: Rate
    """The rate in use, 1/s."""
    lo: Amount = 0.0
    """The highest rate that passed a stage, 1/s; 0 while none has."""
    before: Amount = 0.0
    """The one that passed before it, 1/s; 0 once that was fallen back to."""
    hi: Rate = math.inf
    """The lowest rate that was refused since, 1/s; infinity while none was."""
    climb: float = 1.0
    """Share of the last step above a lid that was lifted."""
    cost: float = PRICE
    """Pages that the next refusal will cost, a long silence aside."""
    outage: float = 0.0
    """Seconds of long silence that it will cost; 0 where a short one is enough."""
    last: Epoch | None = None
    """The last epoch that the rate was blamed for."""
    is_start: bool = True
    """Nothing was refused yet, or nothing that was believed."""
    is_doubted: bool = False
    """One refusal was put down to chance: this rate is looked at twice."""
    is_trial: bool = False
    """The rate is a window's count over a human unit of time."""
    unit: float = 0.0
    """That unit, in seconds; 0 where none explained a silence."""
    is_unit_known: bool = False
    """Such a rate passed its stage: a later one that fails does not refute the unit."""
    is_hope: bool = False
    """The rate is one that was lost, and may be allowed again."""
    passed: int = 0
    """Requests served at this rate while it bound."""
    stage_at: Instant = -math.inf
    """The instant since which this rate is in use."""
    spacing: int = 0
    """Requests served since the last refusal."""
    shown: float = 0.0
    """The highest rate that was served from one recovery to the next, 1/s."""
    cuts: int = 0
    """Cuts in a row of a held rate, each after a refusal in isolation."""
    hits: int = 0
    """Epochs in the course of these cuts."""
    series: int = 0
    """Requests served in the course of these cuts."""
    best: float = 0.0
    """The best rate that was held, 1/s."""
    lost: float = 0.0
    """The one that was held before the limit fell, 1/s; 0 where it did not."""
    lost_at: int = 0
    """Requests that had been served by then."""
    hope_at: float = 0.0
    """Requests served from which it is hoped for."""
    ledger: Ledger = field(default_factory=Ledger)
    """What was served, and when."""

    def __copy__(self) -> Belief:
        return replace(self, ledger=replace(self.ledger))

    def fall_back(self, rate: float) -> None:
        """Believe no more than the rate that passed before, once, if it is slower than `rate`."""
        self.lo = self.before if self.before < rate else 0.0
        self.before = 0.0

    def acquit(self, climb: float) -> None:
        """The refusals of late were not the rate's: what they taught of it is void."""
        self.ledger.acquit()
        self.last = None
        self.lift(climb)

    def lift(self, climb: float) -> None:
        """Void the lid: the limit may lie above it; the steps begin with that share."""
        self.hi = math.inf
        self.climb = climb / 2.0

    def hold_served(self, now: float, least: float) -> None:
        """The rate did not bind: what was served for over `least` seconds has passed all the same.

        Without, it would be owed: a limit that comes back would be met by hours of silence. Time
        in which nothing was asked for counts, as it proves nothing.
        """
        pace, seconds = self.ledger.pace(now)
        served = min(self.rate, pace)
        if seconds > least and served > self.lo:
            self.before, self.lo = self.lo, served

    @property
    def seen(self) -> float:
        """The best rate that the site was seen to allow, 1/s."""
        return max(self.best, self.shown)

    @property
    def hurries(self) -> bool:
        """Whether stages are short and prove nothing: the limit is unknown or far."""
        far = FAR * self.rate <= self.hi < math.inf
        return (self.is_start or far) and not self.is_trial

    @property
    def carried(self) -> float:
        """Seconds of silence before the last recovery, of which the savings may have been served
        since; none where a window's count had begun anew."""
        return 0.0 if self.unit and not self.is_trial else self.ledger.rested

    def is_burst(self, epoch: Epoch) -> bool:
        """Whether the first account was a burst's: the second is slower, and no faster rate than
        that of the first has passed since."""
        is_second = len(self.ledger.drained) > 0 and not (self.shown or self.before)
        return is_second and epoch.least < self.lo

    def is_chance(self, epoch: Epoch) -> bool:
        """Whether one refusal is more likely chance's than this rate's."""
        if self.is_doubted:
            return False
        is_first = self.is_start and epoch.is_alone and not epoch.recovery.told
        return is_first or (epoch.refusals == 1 and epoch.rate < UNLIKELY * self.shown)

    def is_window(self, epoch: Epoch) -> bool:
        """Whether a window of human units turned at this recovery and at the two before it, as the
        site told each time, and serves less than this rate asks for.

        From one turn to the next it serves the same number, so chance is ruled out.
        """
        last = self.last
        if last is None or not (last.recovery.told and epoch.recovery.told):
            return False
        is_turn = any(
            max(abs(epoch.seconds - unit), abs(last.seconds - unit)) <= TURN
            for unit in WINDOWS
            if unit > 2.0 * TURN
        )
        is_same = abs(epoch.least - last.least) <= NARROW * last.least
        return is_turn and is_same and (1.0 + NARROW) * epoch.least < epoch.rate

    def settle(self, limit: float) -> None:
        """A window serves so much, 1/s: what was faster has passed within one."""
        self.lo, self.best = min(self.lo, (1.0 - MARGIN) * limit), min(self.best, limit)
        self.before = self.lost = 0.0

    @property
    def price(self) -> float:
        """Pages that the next refusal will cost at the present rate."""
        return self.cost + self.rate * self.outage if self.outage else self.cost

    @property
    def hoped(self) -> float:
        """The rate to hope for when this one has passed its stage, 1/s; 0 for none."""
        rate = LOST * self.lost
        is_due = self.ledger.served >= self.hope_at or self.rate > self.hi
        is_known = self.hi < math.inf and self.rate * self.outage <= self.cost
        return rate if is_due and is_known and self.rate < rate else 0.0

    def lose(self) -> None:
        """The limit has fallen: it is hoped for after as many pages as a closed bracket's stage."""
        self.lost, self.lost_at = self.best, self.ledger.served
        self.hope_at = self.lost_at + stage(1.0, 1.0, PRICE)

    def hope_again(self) -> None:
        """A hope was vain: the next has to wait for longer."""
        served = self.ledger.served
        self.hope_at = served + HOPE * (served - self.lost_at)

    @property
    def stage(self) -> float:
        """Requests that the rate has to pass, as far as the price says."""
        rate, hi = self.rate, self.hi
        if hi == math.inf:
            return LIFT * stage(1.0, 1.0 + self.climb, self.price) if self.climb < 1.0 else 0.0
        needed = stage(rate, hi, self.price)
        if not self.outage or rate > hi or is_closed(rate, hi):
            return needed
        before = self.ledger.served - self.passed
        return max(stage(rate, hi, self.cost), search(rate, hi, self.price, before))

    @property
    def cut_share(self) -> float:
        """What the cuts before the last one have taken, as a share of the rate."""
        return DEEPER * (2.0 ** (self.cuts - 1) - 1.0)

    def cut(self, epoch: Epoch, least: float) -> float:
        """One more cut of a held rate, twice as deep as the last; 1/s."""
        if not self.cuts:
            self.series, self.hits = epoch.spacing, 1
        depth = DEEPER * 2.0**self.cuts
        self.cuts += 1
        least = min(epoch.rate, max(least, epoch.rate * (1.0 - 2.0 * depth)))
        return least * (1.0 + DEEPER - depth)

    def shown_by_gap(self, epoch: Epoch) -> float:
        """A rate that a step shows to be allowed by being refused at once, 1/s; else 0.

        The site saves up nothing, so the silence that ended it is a gap that the site allows.
        """
        return 0.0 if epoch.passed or epoch.recovery.tries else 1.0 / epoch.recovery.waited

    def limits(self, epoch: Epoch, quiet: float) -> tuple[float, float]:
        """Between which rates the limit lies, if runs show that of a step; 1/s.

        It takes a silence before it in which the site saved up all it can, or what was served since
        the refusal before it. As chance may have refused, a refusal alone shows something only
        where it moves the bracket a little, and requests left about when they should. Where those
        left far too late, only long silences show something.

        Args:
            quiet: seconds of the longest silence met.
        """
        ledger, least, most = self.ledger, epoch.least, epoch.rate
        emptied = ledger.since_emptied(epoch, quiet)
        was_full = self.outage * least >= saved_up(ledger.drained, least)
        was_full &= self.unit > 0.0 or not ledger.may_have_turned(quiet)
        is_window = self.unit > 0.0 and not self.refutes_window(
            epoch.served, epoch.seconds - epoch.outage
        )
        if epoch.was_held or is_window or not (was_full or emptied):
            return 0.0, most
        low, high = ledger.between(epoch, emptied)
        is_lone = epoch.is_alone and epoch.spacing >= ISOLATED and not self.outage
        is_near = is_lone and ledger.lateness > 0.0 and high >= LOST * self.lo
        return (low, high) if was_full or epoch.recovery.tries or is_near else (0.0, most)

    def refutes_window(self, served: int, seconds: float) -> bool:
        """Whether windows of `unit` would not have served so many in so many seconds."""
        return self.ledger.refutes_window(self.unit, served, seconds)

    def enclose(self, epoch: Epoch, least: float, noise: Noise, low: float = 0.0) -> None:
        """Close the bracket from above, and say what the next refusal will cost."""
        refusals = 1 if self.is_start else epoch.refusals
        self.ledger.blame(epoch, is_first=self.is_start)
        if not self.is_start:  # the first account may be a burst's
            is_known = epoch.rate >= UNLIKELY * self.shown
            self.shown = max(self.shown, epoch.least) if is_known else epoch.least
        self.hi = epoch.rate
        self.is_start = self.is_doubted = self.is_trial = False
        self.lo = max(self.lo, min(least, epoch.rate) * (1.0 - MARGIN), low, SLOWEST)
        self.cost = PRICE * (refusals + max(0.0, noise.unexpected - 1.0))
        self.outage = 0.0 if epoch.is_short else epoch.outage
        if not self.outage:
            self.cost = max(self.cost, self.lo * epoch.usual_outage)

    def window(self, epoch: Epoch) -> float | None:
        """The rate of a window of human units that explains the long silence; None without.

        A unit that explained one before may have passed several times since.
        """
        if epoch.served < ENOUGH or epoch.is_short or epoch.recovery.told:
            return None
        if not self.unit and not epoch.recovery.tries:
            return None
        unit = self.unit or unit_above(epoch.span)
        windows = max(1, math.ceil(epoch.span / unit))
        rate = (1.0 - MARGIN) * epoch.served / (windows * unit)
        if not self.lo < rate < self.hi:
            return None
        self.unit = unit
        return rate


def unit_above(seconds: float) -> float:
    """The shortest human unit of time that is longer, in seconds; infinity beyond a day.

    >>> unit_above(8.4), unit_above(10.0)
    (10.0, 60.0)
    """
    return next((unit for unit in WINDOWS if unit > seconds), math.inf)
