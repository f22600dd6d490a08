"""What is thought of a site's limit.

Laws
----
* A belief is what a pardon takes back.
* Rates are requests a second, instants monotonic seconds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .bracket import FAR, HOPE, LIFT, is_closed, search, stage
from .ceiling import SLOWEST
from .epoch import ISOLATED
from .runs import Run, between, saved_up

if TYPE_CHECKING:
    from .epoch import Epoch
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

ENOUGH = 20
"""Requests served, from which a window's count is worth a trial."""

UNLIKELY = 0.5
"""Share of a rate that was seen to be allowed, under which one refusal alone is put down to chance
once. Without, three of them in a row cost a crawl most of two hours."""

LOST = 0.75
"""Share of the best rate ever held under which the limit has fallen, or chance has misled: one cut
is enough to ask, and a rate to hope for later. So low a bound needs more than one refusal."""

LATEST = 1.1
"""Most times longer than asked for that gaps are taken to be: late timers, not idle times."""

MARKS = 30
"""Begins of stages and ends of silences that are kept: rates that double get from 1/s to 1000/s
in ten."""


@dataclass(slots=True)
class Belief:
    """What is thought of the limit; all that a pardon takes back."""

    rate: float
    """The rate in use, 1/s."""
    lo: float = 0.0
    """The highest rate that passed a stage, 1/s; 0 while none has."""
    before: float = 0.0
    """The one that passed before it, 1/s; 0 once that was fallen back to."""
    hi: float = math.inf
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
    stage_at: float = -math.inf
    """The instant since which this rate is in use."""
    served: int = 0
    """Requests served since the crawl began."""
    busy: float = 0.0
    """Busy seconds until the last recovery."""
    marks: tuple[Run, ...] = (Run(0, 0.0),)
    """What had been served, and the busy seconds, when each of the last stages began, and each of
    the last silences ended."""
    marked_at: float = math.inf
    """The instant of the last of them; infinity before the first."""
    lateness: float = 1.0
    """How many times longer than asked for the gaps of the last long stage were; 0 where that is
    far too long."""
    rested: float = 0.0
    """Seconds of the silence before the last recovery: what the site saved up in them may have
    been served since."""
    emptied: Run | None = None
    """What had been served, and the busy seconds, at the last refusal that the rate was blamed
    for; None while there was none."""
    drained: tuple[Run, ...] = ()
    """The runs that ended with the first refusal."""
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

    def fall_back(self, rate: float) -> None:
        """Believe no more than the rate that passed before, once, if it is slower than `rate`."""
        self.lo = self.before if self.before < rate else 0.0
        self.before = 0.0

    def acquit(self, climb: float) -> None:
        """The refusals of late were not the rate's: what they taught of it is void."""
        self.drained = ()
        self.emptied = self.last = None
        self.lift(climb)

    def lift(self, climb: float) -> None:
        """Void the lid: the limit may lie above it; the steps begin with that share."""
        self.hi = math.inf
        self.climb = climb / 2.0

    def mark(self, now: float, seconds: float) -> None:
        """A stage begins, or a silence is over, so many busy seconds after the last recovery."""
        self.marked_at = now
        self.marks = (*self.marks[1 - MARKS :], Run(self.served, self.busy + seconds))

    def time(self, seconds: float) -> None:
        """The stage has passed, and took so long; if far too long, there was nothing to ask for, or
        the crawler had no time to."""
        lateness = max(1.0, seconds * self.rate / max(1, self.passed))
        self.lateness = lateness if lateness <= LATEST else 0.0

    def runs(self, epoch: Epoch) -> tuple[Run, ...]:
        """What was served from the begin of each stage to the refusal, without the probe."""
        pages, seconds = self.served - 1, self.busy - epoch.outage
        return tuple(Run(pages - mark.pages, seconds - mark.seconds) for mark in self.marks)

    def hold_served(self, now: float, least: float) -> None:
        """The rate did not bind: what was served for over `least` seconds has passed all the same.

        Without, it would be owed: a limit that comes back would be met by hours of silence. Time
        in which nothing was asked for counts, as it proves nothing.
        """
        seconds = now - self.marked_at
        if seconds <= least:
            return
        served = min(self.rate, (self.served - self.marks[-1].pages) / seconds)
        if served > self.lo:
            self.before, self.lo = self.lo, served

    @property
    def seen(self) -> float:
        """The best rate that the site was seen to allow, 1/s."""
        return max(self.best, self.shown)

    @property
    def stock(self) -> float:
        """Requests that the site can have saved up at most, in a burst or a window: it had not
        served more when it first refused."""
        return saved_up(self.drained[:1], 0.0)

    @property
    def hurries(self) -> bool:
        """Whether the rate doubles without proving anything."""
        far = FAR * self.rate <= self.hi < math.inf
        return (self.is_start or far) and not self.is_trial

    @property
    def carried(self) -> float:
        """Seconds of silence before the last recovery, of which the savings may have been served
        since; none where a window's count had begun anew."""
        return 0.0 if self.unit and not self.is_trial else self.rested

    def is_burst(self, epoch: Epoch) -> bool:
        """Whether the first account was a burst's: the second is slower, and no faster rate than
        that of the first has passed since."""
        is_second = len(self.drained) > 0 and not (self.shown or self.before)
        return is_second and epoch.least < self.lo

    def is_chance(self, epoch: Epoch) -> bool:
        """Whether one refusal is more likely chance's than this rate's."""
        if self.is_doubted:
            return False
        is_first = self.is_start and epoch.is_alone and not epoch.recovery.told
        return is_first or (epoch.refusals == 1 and epoch.rate < UNLIKELY * self.shown)

    @property
    def price(self) -> float:
        """Pages that the next refusal will cost at the present rate."""
        return self.cost + self.rate * self.outage if self.outage else self.cost

    @property
    def hoped(self) -> float:
        """The rate to hope for when this one has passed its stage, 1/s; 0 for none."""
        rate = LOST * self.lost
        is_due = self.served >= self.hope_at or self.rate > self.hi
        is_known = self.hi < math.inf and self.rate * self.outage <= self.cost
        return rate if is_due and is_known and self.rate < rate else 0.0

    def lose(self) -> None:
        """The limit has fallen: it is hoped for after as many pages as a closed bracket's stage."""
        self.lost, self.lost_at = self.best, self.served
        self.hope_at = self.served + stage(1.0, 1.0, PRICE)

    def hope_again(self) -> None:
        """A hope was vain: the next has to wait for longer."""
        self.hope_at = self.served + HOPE * (self.served - self.lost_at)

    @property
    def stage(self) -> float:
        """Requests that the rate has to pass, as far as the price says."""
        rate, hi = self.rate, self.hi
        if hi == math.inf:
            return LIFT * stage(1.0, 1.0 + self.climb, self.price) if self.climb < 1.0 else 0.0
        needed = stage(rate, hi, self.price)
        if not self.outage or rate > hi or is_closed(rate, hi):
            return needed
        return max(
            stage(rate, hi, self.cost), search(rate, hi, self.price, self.served - self.passed)
        )

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
        where it moves the bracket a little. Runs tell how many requests came; as each leaves a
        little late, a few more may be asked for. Where they are far too late, only long silences
        show something.

        Args:
            quiet: seconds of the longest silence met.
        """
        least, most = epoch.least, epoch.rate
        emptied = self.since(epoch, quiet)
        was_full = self.outage * least >= saved_up(self.drained, least)
        is_window = self.unit > 0.0 and not self.refutes_window(
            epoch.served, epoch.seconds - epoch.outage
        )
        if epoch.was_held or is_window or not (was_full or emptied):
            return 0.0, most
        low, high = (
            min((self.lateness or 1.0) * limit, most)
            for limit in between(
                self.drained, self.runs(epoch), least=least, most=most, emptied=emptied
            )
        )
        is_lone = epoch.is_alone and epoch.spacing >= ISOLATED and not self.outage
        is_near = is_lone and self.lateness > 0.0 and high >= LOST * self.lo
        return (low, high) if was_full or epoch.recovery.tries or is_near else (0.0, most)

    def since(self, epoch: Epoch, quiet: float) -> Run | None:
        """What was served from the last refusal to the present one; None where the first run or
        marks since are not known, or a window may have turned.

        A window had turned once at most before it first refused, so it serves half as much again;
        and it is no longer than the longest silence met.
        """
        emptied = self.emptied
        if emptied is None or not self.drained:
            return None
        if self.marks[0].pages > emptied.pages + 1:
            return None
        now = self.busy - epoch.recovery.waited
        run = Run(self.served - 1 - emptied.pages, now - emptied.seconds)
        return run if 2.0 * min(run.pages, epoch.rate * quiet) < self.stock else None

    def refutes_window(self, served: int, seconds: float) -> bool:
        """Whether windows of `unit` would not have served so many in so many seconds."""
        return self.unit * (served - 2.0 * self.stock) > self.stock * seconds

    def enclose(self, epoch: Epoch, least: float, noise: Noise, low: float = 0.0) -> None:
        """Close the bracket from above, and say what the next refusal will cost."""
        refusals = 1 if self.is_start else epoch.refusals
        if self.is_start:
            self.drained = self.runs(epoch)
        self.marks = (Run(self.served, self.busy),)
        self.emptied = Run(self.served - 1, self.busy - epoch.recovery.waited)
        if not self.is_start:  # the first account may be a burst's
            is_known = epoch.rate >= UNLIKELY * self.shown
            self.shown = max(self.shown, epoch.least) if is_known else epoch.least
        self.hi = epoch.rate
        self.is_start = self.is_doubted = self.is_trial = False
        self.lo = max(self.lo, min(least, epoch.rate) * (1.0 - MARGIN), low, SLOWEST)
        self.cost = PRICE * (refusals + max(0.0, noise.unexpected - 1.0))
        self.outage = 0.0 if epoch.is_short else epoch.outage
        if not self.outage:
            self.cost = max(self.cost, self.lo * epoch.outage)

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
