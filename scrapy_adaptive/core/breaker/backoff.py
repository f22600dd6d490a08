"""How long to be silent after a refusal.

Laws
----
* What the site asked for is kept whole, never shortened.
* Without a word from the site: at least 1.2 gaps of the rate in use, at least 0.25 s, and until
  what was served beyond the pace is repaid.
* When that was too short: a debt once more as long, then the silence that worked before, then
  just over the units in which people write limits: ten seconds, a minute, a quarter of an hour,
  an hour.
* Where refusals come by chance, the first probe refused is no news: the same silence again.
* Where a host fails instead of refusing, the silence begins at 0.25 s and doubles, up to a minute.
* Chance only lengthens a silence.
"""

from __future__ import annotations

from scrapy_adaptive.core.state.fields import Seconds
from scrapy_adaptive.core.types import Recovery

BREATH = 0.25
"""Least seconds of silence after any refusal: a refusal is never answered at once."""

GAPS = 1.2
"""Gaps in the first silence: one lets a token come back, the rest is margin. Those of the rate
that is in use once the refusal was felt."""

CREDIT = 2
"""Times in a row that a debt may be too short, and twice a debt too, before neither is believed any
more."""

LADDER = (11.0, 62.0, 1000.0, 3620.0)
"""Seconds, just over 10 s, 1 min, 15 min and 1 h, with the time a window needs to turn."""

LONGEST_TEST = 1.0
"""Most seconds between two tests of a host that fails."""

JITTER_RATIO = 0.02
"""Most by which chance lengthens a silence, as a share of it."""


class Silence:
    """The waits of one slot's present pause, and the one that ended an earlier pause."""

    __slots__ = (
        "_excused",
        "_failed_debts",
        "_is_doubled",
        "_is_told",
        "_last",
        "_owed",
        "_tries",
        "worked",
    )

    worked: Seconds
    _last: Seconds
    _tries: int
    _excused: bool
    _failed_debts: int
    _owed: bool
    _is_doubled: bool
    _is_told: bool

    def __init__(self) -> None:
        self.worked = 0.0
        """Seconds of the last silence that ended a pause whose first wait had failed."""
        self._last = 0.0
        self._tries = 0
        self._excused = False
        """Whether one refused probe of this pause was put down to chance."""
        self._failed_debts = 0
        """Debts in a row that were too short a silence."""
        self._owed = False
        """Whether it is a debt that is slept off, where a longer silence was needed before."""
        self._is_doubled = False
        """Whether it was slept off once more in this pause."""
        self._is_told = False

    def first(
        self, *, rate: float, told: float | None, debt: float = 0.0, failed: bool = False
    ) -> float:
        """Seconds to wait at the start of a pause.

        Args:
            rate: the pace from here, 1/s.
            told: seconds that the site asked for.
            debt: seconds that repay what was served beyond the pace.
            failed: the host is in trouble, no pace is refused.
        """
        self._tries = 0
        self._excused = False
        self._is_told = told is not None
        if told is not None or failed:
            wait = told or 0.0
        elif self._failed_debts >= CREDIT and self.worked:
            wait = self.worked
        else:
            wait = max(GAPS / rate, min(GAPS * debt, self.worked or GAPS * debt))
        has_credit = self.worked > 0.0 and self._failed_debts < CREDIT
        self._owed = debt * rate > 1.0 and told is None and has_credit and not failed
        self._is_doubled = False
        self._last = max(wait, BREATH)
        return self._last

    def recall(self, worked: float) -> None:
        """An earlier crawl had to be silent for so many seconds: the first wait is as long."""
        self.worked = worked
        self._failed_debts = CREDIT if worked else 0

    def lengthen(self, seconds: float) -> None:
        """The present wait turned out to be at least so long: a late refusal asked for it."""
        self._last = max(self._last, seconds)

    def longer(
        self, *, rate: float, told: float | None, failed: bool = False, by_chance: bool = False
    ) -> float:
        """Seconds to wait after a probe was refused.

        A probe that `failed` met a host in trouble, not a limit that people wrote in human
        units: the wait doubles, up to `LONGEST_TEST`. One that may be refused `by_chance`, whatever
        the silence, tells nothing once. A debt is slept off a second time before longer waits.
        """
        if by_chance and not (failed or self._excused or told is not None):
            self._excused = True
            return self._last
        is_first = not (self._tries or self._is_doubled)
        if self._owed and is_first and told is None and not failed:
            self._is_doubled = True
            self._last *= 2.0
            return self._last
        self._tries += 1
        self._failed_debts += self._tries == 1 and self._owed
        self._is_told |= told is not None
        if told is not None:
            self._last = max(told, BREATH, self.worked if self.worked > self._last else 0.0)
        elif failed:
            self._last = max(self._last, min(2.0 * self._last, LONGEST_TEST))
        else:
            steps = (max(GAPS / rate, BREATH), self.worked, *LADDER)
            self._last = next((step for step in steps if step > self._last), self._last)
        return self._last

    def on_recovered(self) -> Recovery:
        """The probe was accepted; the silence is remembered where the first wait had failed."""
        recovery = Recovery(self._tries, self._last, self._is_told)
        if self._tries:
            self.worked = self._last
        elif self._owed:
            self._failed_debts = 0
        self._tries = 0
        return recovery


NO_SILENCE = Silence()
"""What a slot has that was never refused; it is shared, and nothing is told to it."""
