"""How long to wait after a refusal.

Laws
----
* What the site asked for is kept whole, never shortened.
* Without a word from the site: at least 1.2 gaps of the rate in use, at least 0.25 s, and until
  what was served beyond the pace is repaid.
* When that was too short: once more, up to 5.5 s or for a debt, as chance may have refused. Then
  the wait that worked before. Then until the whole pause is just over one of the units in which
  people write limits. Each of these waits is longer than the last, and in the end twice as long as
  all before it.
* What the site asked for, and was too short twice, grows the same way. From then on what is owed is
  slept off all the same.
* Where refusals come by chance, as many test requests may be refused as chance explains, after the
  same wait each.
* Where a host fails instead of refusing, the wait begins at 0.25 s and doubles, up to a second.
  So it does where a site asks for a wait of 0 s: then no window of time must end.
* Chance only lengthens a wait.
"""

from __future__ import annotations

from dataclasses import dataclass

from scrapy_adaptive.core.evidence import UNLIKELY
from scrapy_adaptive.core.state.fields import Seconds
from scrapy_adaptive.core.types import Recovery

BREATH = 0.25
"""Least seconds to wait after any refusal: no request follows a refusal at once."""

GAPS = 1.2
"""Gaps in the first wait: one lets a token come back, the rest is margin. They are gaps of the
rate that is in use after the refusal, or of the pages before a recheck."""

CREDIT = 2
"""Times in a row that a debt may be too short before it is not believed any more, and that a site
may ask for a wait that is too short."""

RUNGS = (5.5, 16.0, 32.0, 62.0, 124.0, 305.0, 610.0, 1525.0, 3660.0)
"""Seconds of the whole pause, from the first refusal: just over the units in which people write
limits. Each wait is longer than the one before: a ban that each test request restarts lasts until
a wait is longer than the ban."""

LONGEST = 86_400.0
"""Most seconds of a wait that nobody asked for."""

LONGEST_TEST = 1.0
"""Most seconds between two tests of a host that fails, or asks for a wait of 0 s."""

JITTER_RATIO = 0.02
"""Most by which chance lengthens a wait, as a share of it."""


@dataclass(slots=True)
class Backoff:
    """The waits of one slot's present pause, and the one that ended an earlier pause."""

    worked: Seconds = 0.0
    """Seconds of the last wait that ended a pause whose first wait had failed."""
    last: Seconds = 0.0
    """Seconds of the present wait."""
    waited: Seconds = 0.0
    """Seconds waited before it, in this pause."""
    tries: int = 0
    """Test requests of this pause that were refused after a wait that should have sufficed."""
    by_chance: int = 0
    """Those that chance explains."""
    failed_debts: int = 0
    """Debts in a row that were too short a wait."""
    is_owed: bool = False
    """Whether the first wait of this pause is to repay a debt."""
    is_repeated: bool = False
    """Whether the first wait was kept once more in this pause."""
    is_announced: bool = False
    """Whether the site itself said how long, in this pause."""
    announced_count: int = 0
    """Test requests of this pause that were refused after what the site had asked for."""

    def first(
        self, *, rate: float, announced: float | None, debt: float = 0.0, failed: bool = False
    ) -> float:
        """Seconds to wait at the start of a pause.

        Args:
            rate: the pace from here, 1/s.
            announced: seconds that the site asked for.
            debt: seconds that repay what was served beyond the pace.
            failed: the host is in trouble, no pace is refused.
        """
        is_free = (announced is None or 0.0 < announced < self.worked) and not failed
        self.tries = self.by_chance = self.announced_count = 0
        self.waited = 0.0
        self.is_repeated = False
        self.is_announced = announced is not None
        if not is_free:
            wait = announced or 0.0
        elif self.failed_debts >= CREDIT and self.worked:
            wait = self.worked
        else:
            wait = max(GAPS / rate, min(GAPS * debt, self.worked or GAPS * debt))
        has_credit = self.worked > 0.0 and self.failed_debts < CREDIT
        self.is_owed = is_free and has_credit and debt * rate > 1.0
        self.last = max(wait, announced or 0.0, BREATH)
        return self.last

    def recall(self, worked: float) -> None:
        """An earlier crawl had to wait for so many seconds: the first wait is as long."""
        self.worked = worked
        self.failed_debts = CREDIT if worked else 0

    def lengthen(self, seconds: float) -> None:
        """The present wait turned out to be at least so long: a late refusal asked for it."""
        self.last = max(self.last, seconds)

    def longer(
        self, *, rate: float, announced: float | None, failed: bool = False, noise: float = 0.0
    ) -> float:
        """Seconds to wait after a test request was refused.

        Args:
            rate: the pace from here, 1/s.
            announced: seconds that the site asked for.
            failed: it met a host in trouble, not a limit that people wrote in human units: the
                wait doubles, up to `LONGEST_TEST`.
            noise: share of the requests that are refused by chance.
        """
        self.is_announced |= announced is not None
        self.waited += self.last
        if noise ** (1 + self.by_chance) > UNLIKELY and not failed:
            self.by_chance += 1
            self.last = max(self.last, announced or 0.0)
            return self.last
        is_free = not (self.tries or self.is_repeated or self.is_announced or failed)
        if is_free and (self.is_owed or self.last <= RUNGS[0]):
            self.is_repeated = True
            return self.last
        self.tries += 1
        self.failed_debts += self.tries == 1 and self.is_owed
        if announced == 0.0 or (failed and announced is None):
            self.last = max(self.last, min(2.0 * self.last, LONGEST_TEST))
        elif announced is None:
            self.last = self._next(rate)
        else:
            self.announced_count += 1
            asked = max(announced, BREATH, self.worked if self.worked > self.last else 0.0)
            self.last = asked if self.announced_count < CREDIT else max(asked, self._next(rate))
        return self.last

    @property
    def seconds(self) -> float:
        """Seconds of this pause, the present wait included."""
        return self.waited + self.last

    def _next(self, rate: float) -> float:
        """The next wait that is longer than the last."""
        left = (rung - self.waited for rung in RUNGS)
        rungs = (max(GAPS / rate, BREATH), self.worked, *left)
        longer = (rung for rung in rungs if rung > self.last)
        return next(longer, max(self.last, min(2.0 * self.waited, LONGEST)))

    def on_recovered(self) -> Recovery:
        """The test request was accepted; the last wait is remembered where the first had failed."""
        recovery = Recovery(self.tries, max(self.last, BREATH), self.is_announced)
        if self.tries:
            self.worked = self.last
        elif self.is_owed:
            self.failed_debts = 0
        self.tries, self.is_owed = 0, False
        return recovery


NO_BACKOFF = Backoff()
"""What a slot has that was never refused; it is shared, and nothing changes it."""
