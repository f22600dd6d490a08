"""What a site has served, and when: what it may have saved up, and what it let through.

Laws
----
* Pages are counted since the crawl began, seconds while there was something to ask for.
* A mark is set where a stage begins and where a silence ends: then the site may have saved up most.
* The first refusal that the rate was blamed for says for good what the site saves up; the last one
  says when it had nothing left.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scrapy_adaptive.core.state.fields import Instant

from .runs import Run, between, saved_up

if TYPE_CHECKING:
    from .epoch import Epoch

LATEST = 1.1
"""Most times longer than asked for that gaps are taken to be: late timers, not idle times."""

MARKS = 30
"""Begins of stages and ends of silences that are kept: a hurry gets from 1/s to 1000/s in twenty,
over 50 ms."""


@dataclass(slots=True)
class Ledger:
    """Requests served and busy seconds, since a crawl began, and at what instants they count."""

    served: int = 0
    """Requests served since the crawl began."""
    busy: float = 0.0
    """Busy seconds until the last recovery."""
    marks: tuple[Run, ...] = (Run(0, 0.0),)
    """What had been served, and the busy seconds, when each of the last stages began, and each of
    the last silences ended."""
    marked_at: Instant = math.inf
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

    # Facts

    def mark(self, now: float, seconds: float) -> None:
        """A stage begins, or a silence is over, so many busy seconds after the last recovery."""
        self.marked_at = now
        self.marks = (*self.marks[1 - MARKS :], Run(self.served, self.busy + seconds))

    def time(self, pages: int, seconds: float, rate: float) -> None:
        """A stage has passed at `rate` (1/s), and took so long; if far too long, there was nothing
        to ask for, or the crawler had no time to."""
        lateness = max(1.0, seconds * rate / max(1, pages))
        self.lateness = lateness if lateness <= LATEST else 0.0

    def close(self, epoch: Epoch) -> None:
        """A silence is over. One that the site asked for is no time in which it saved up."""
        self.rested = 0.0 if epoch.recovery.told else epoch.recovery.waited
        self.busy += epoch.seconds

    def blame(self, epoch: Epoch, *, is_first: bool) -> None:
        """The rate was to blame for this epoch: the site had nothing left when it began."""
        if is_first:
            self.drained = self.runs(epoch)
        self.marks = (Run(self.served, self.busy),)
        self.emptied = Run(self.served - 1, self.busy - epoch.recovery.waited)

    def acquit(self) -> None:
        """The rate was not to blame, after all."""
        self.drained = ()
        self.emptied = None

    # Questions

    def runs(self, epoch: Epoch) -> tuple[Run, ...]:
        """What was served from each mark to the refusal, without the probe."""
        pages, seconds = self.served - 1, self.busy - epoch.outage
        return tuple(Run(pages - mark.pages, seconds - mark.seconds) for mark in self.marks)

    def pace(self, now: float) -> tuple[float, float]:
        """The rate that was served since the last mark, 1/s, and the seconds since.

        Time in which nothing was asked for counts.
        """
        seconds = now - self.marked_at
        served = self.served - self.marks[-1].pages
        return (served / seconds if seconds > 0.0 else 0.0), seconds

    @property
    def stock(self) -> float:
        """Requests that the site can have saved up at most, in a burst or a window: it had not
        served more when it first refused."""
        return saved_up(self.drained[:1], 0.0)

    def since_emptied(self, epoch: Epoch, quiet: float) -> Run | None:
        """What was served from the last refusal to the present one; None where the first run or
        marks since are not known, or a window may have turned.

        A window had turned once at most before it first refused, so it serves half as much again;
        and it is no longer than `quiet`, the seconds of the longest silence met.
        """
        emptied = self.emptied
        if emptied is None or not self.drained:
            return None
        if self.marks[0].pages > emptied.pages + 1:
            return None
        now = self.busy - epoch.recovery.waited
        run = Run(self.served - 1 - emptied.pages, now - emptied.seconds)
        return run if 2.0 * min(run.pages, epoch.rate * quiet) < self.stock else None

    def may_have_turned(self, quiet: float) -> bool:
        """Whether a window as long as `quiet`, the seconds of the longest silence met, had turned
        before the first refusal, as likely as not: then the first run was two windows'."""
        return len(self.drained) > 0 and 0.0 < quiet <= 2.0 * self.drained[0].seconds

    def between(self, epoch: Epoch, emptied: Run | None) -> tuple[float, float]:
        """Between which rates the limit lies, by what was served from each mark to the refusal;
        1/s.

        Runs tell how many requests came; as each leaves a little late, a few more may be asked for.
        """
        least, most = epoch.least, epoch.rate
        low, high = between(self.drained, self.runs(epoch), least=least, most=most, emptied=emptied)
        late = self.lateness or 1.0
        return min(late * low, most), min(late * high, most)

    def refutes_window(self, unit: float, served: int, seconds: float) -> bool:
        """Whether windows of `unit` seconds would not have served so many in so many seconds."""
        return unit * (served - 2.0 * self.stock) > self.stock * seconds
