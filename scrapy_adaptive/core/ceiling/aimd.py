"""The plain ceiling: additive increase, multiplicative decrease.

Laws
----
* One cut for each congestion epoch; each accepted request while the ceiling binds gives a little
  back.
* It knows no other limit than a rate, and remembers nothing of where it was refused.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from scrapy_adaptive.core.ceiling.hold.history import History
from scrapy_adaptive.core.state.fields import SLOWEST, Amount, Rate
from scrapy_adaptive.core.types import Learned

from .base import Ceiling

if TYPE_CHECKING:
    from scrapy_adaptive.core.permit import Permit
    from scrapy_adaptive.core.types import Recovery

RECOVERY_COUNT = 200
"""Accepted requests in which additive recovery gives back as much again as a cut left.

Between two refusals lie about this many pages: one refusal in 200 is half a percent.
"""


class Aimd(Ceiling):
    """Additive increase, multiplicative decrease of the rate.

    On congestion the rate falls to `backoff_ratio` of the smaller of the rate in use and the rate
    at which requests were accepted since the last recovery; each accepted request then adds
    1 / `RECOVERY_COUNT` of what was left, so that a slow site is approached as carefully,
    counted in pages, as a quick one.

    Args:
        backoff_ratio: fraction of the rate **kept** on congestion, in (0, 1).

    **Source**: Chiu and Jain, Analysis of the increase and decrease algorithms, 1989.
    **Departs**: the increase is per accepted page, not per second; time in which nothing was
    asked for does not count into the accepted rate.
    """

    __slots__ = ("_backoff_ratio", "_before", "_history", "_rate", "_step")

    _rate: Rate
    _step: Amount
    _history: History
    _before: tuple[Rate, Amount]

    def __init__(self, backoff_ratio: float) -> None:
        self._rate = math.inf
        self._backoff_ratio = backoff_ratio
        self._step = 0.0
        self._history = History()
        self._before = (self.rate, self._step)

    @property
    def rate(self) -> float:
        """Highest rate allowed, 1/s."""
        return self._rate

    def on_sent(self, now: float, delay: float) -> None:
        """Count the time since the last send."""
        self._history.on_sent(now, delay)

    @property
    def held_rate(self) -> float:
        """What the last cut left, 1/s; 0 before the first."""
        return RECOVERY_COUNT * self._step

    @property
    def learned(self) -> Learned | None:
        """The rate, once anything was refused."""
        return None if self.rate == math.inf else Learned(self.rate)

    def recall(self, learned: Learned) -> None:
        """Begin at that rate."""
        self._rate = max(SLOWEST, learned.rate)
        self._step = self.rate / RECOVERY_COUNT

    def on_accepted(
        self, now: float, permit: Permit, latency: float | None, *, binding: bool
    ) -> None:
        """Count it; while this ceiling binds, raise it by one step."""
        self._history.served += 1
        if binding:
            self._rate += self._step

    def on_congestion(
        self, now: float, permit: Permit, *, rate: float, again: bool = False
    ) -> None:
        """Cut the rate once."""
        if not again:
            self._before = (self.rate, self._step)
        seconds = self._history.seconds(now, 1.0 / rate)
        accepted_rate = max(1, self._history.served) / seconds if seconds > 0.0 else 1.0
        self._rate = max(SLOWEST, self._backoff_ratio * min(rate, accepted_rate))
        self._step = self.rate / RECOVERY_COUNT

    def on_recovered(self, now: float, recovery: Recovery) -> None:
        """Count acceptances anew from here."""
        self.on_resumed(now)

    def on_resumed(self, now: float) -> None:
        """Count acceptances anew from here: the pause says nothing of the pace."""
        self._history.on_recovered(now)

    def on_rollback(self, now: float) -> None:
        """Take the last cut back."""
        self._rate, self._step = self._before
