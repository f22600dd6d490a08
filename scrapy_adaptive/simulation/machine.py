"""The machine that crawls: at times it has other things to do, and whatever is due waits.

Laws
----
* It works and stalls in turn; nothing is done in a stall, and all that is due is done after it.
* How long stalls last changes from spell to spell, as other programs come and go.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from typing import TYPE_CHECKING

from .servers.ranges import SECONDS, Number

if TYPE_CHECKING:
    import random

SCATTER = Number("SCATTER", least=0.0, most=10.0)


class BusyMachine:
    """When a crawler on a busy machine does what is due at an instant.

    Args:
        chance: draws how long it works and stalls.
        work: mean seconds between two stalls, > 0.
        stall: mean seconds of a stall, in a spell like any other, > 0.
        spell: seconds for which stalls are as long, > 0.
        scatter: standard deviation of the logarithm of their length, from spell to spell, 0 to 10.

    Raises:
        ValueError: a number is out of its range.

    >>> import random
    >>> awake = BusyMachine(random.Random(1), work=0.02, stall=0.01, spell=10.0)
    >>> awake(5.0) >= 5.0, awake(4.0) >= 4.0
    (True, True)
    """

    def __init__(
        self,
        chance: random.Random,
        *,
        work: float,
        stall: float,
        spell: float,
        scatter: float = 1.0,
    ) -> None:
        SECONDS.check(work=work, stall=stall, spell=spell)
        SCATTER.check(scatter=scatter)
        self._chance = chance
        self._work, self._stall, self._spell, self._scatter = work, stall, spell, scatter
        self._begins: list[float] = [0.0]
        self._ends: list[float] = [0.0]
        self._spell_ends_at = 0.0
        self._present = stall

    def __call__(self, instant: float) -> float:
        """The instant at which it does what is due at this one: the same, or the end of a stall."""
        while self._ends[-1] <= instant < math.inf:
            self._go_on()
        index = bisect_right(self._begins, instant) - 1
        return max(instant, self._ends[index])

    def _go_on(self) -> None:
        """One more stall."""
        chance, begins = self._chance, self._ends[-1] + self._chance.expovariate(1.0 / self._work)
        if begins >= self._spell_ends_at:
            self._spell_ends_at = begins + self._spell
            self._present = self._stall * math.exp(chance.gauss(0.0, self._scatter))
        self._begins.append(begins)
        self._ends.append(begins + chance.expovariate(1.0 / self._present))
