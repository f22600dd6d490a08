"""The plain ceiling: additive increase, multiplicative decrease.

Laws
----
* One cut on each pain; each accepted request while the ceiling binds gives a little back.
* It knows no other limit than a rate, and remembers nothing of where it was refused.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from scrapy_adaptive.core.ceiling.hold.account import Account
from scrapy_adaptive.core.state.fields import Amount, Rate
from scrapy_adaptive.core.types import Learned

from .base import GAPS, SLOWEST

if TYPE_CHECKING:
    from scrapy_adaptive.core.types import Permit, Recovery

RECOVERY_COUNT = 200
"""Accepted requests in which additive recovery gives back as much again as a cut left.

Between two refusals lie about this many pages: one refusal in 200 is half a percent.
"""


class Aimd:
    """Additive increase, multiplicative decrease of the rate.

    On pain the rate falls to `backoff_ratio` of the smaller of the rate in use and the rate
    at which requests were accepted since the last recovery; each accepted request then adds
    1 / `RECOVERY_COUNT` of what was left, so that a slow site is approached as carefully,
    counted in pages, as a quick one.

    Args:
        backoff_ratio: fraction of the rate **kept** on pain, in (0, 1).

    **Source**: Chiu and Jain, Analysis of the increase and decrease algorithms, 1989.
    **Departs**: the increase is per accepted page, not per second; time in which nothing was
    asked for does not count into the accepted rate.
    """

    __slots__ = ("_account", "_backoff_ratio", "_pardon", "_step", "rate")

    rate: Rate
    _step: Amount
    _account: Account
    _pardon: tuple[Rate, Amount]

    concurrency = math.inf
    """AIMD of the rate knows no other limit."""

    noise_ratio = 0.0
    """It takes every refusal for the rate's."""

    def __init__(self, backoff_ratio: float) -> None:
        self.rate = math.inf
        self._backoff_ratio = backoff_ratio
        self._step = 0.0
        self._account = Account()
        self._pardon = (self.rate, self._step)

    def on_sent(self, now: float, delay: float) -> None:
        """Count the time since the last send."""
        self._account.on_sent(now, delay)

    @property
    def held_rate(self) -> float:
        """What the last cut left, 1/s; 0 before the first."""
        return RECOVERY_COUNT * self._step

    @property
    def best_rate(self) -> float:
        """It remembers none."""
        return 0.0

    @property
    def recheck(self) -> float:
        """One gap of the new rate, and some margin."""
        return GAPS / self.rate

    @property
    def learned(self) -> Learned | None:
        """The rate, once anything was refused."""
        return None if self.rate == math.inf else Learned(self.rate)

    def recall(self, learned: Learned) -> None:
        """Begin at that rate."""
        self.rate = max(SLOWEST, learned.rate)
        self._step = self.rate / RECOVERY_COUNT

    def debt(self, now: float) -> float:
        """None: a cut is deep enough to repay it."""
        return 0.0

    def on_accepted(
        self, now: float, permit: Permit, latency: float | None, *, binding: bool
    ) -> None:
        """Count it; while this ceiling binds, raise it by one step."""
        self._account.served += 1
        if binding:
            self.rate += self._step

    def on_pain(self, now: float, permit: Permit, *, rate: float) -> None:
        """Cut the rate once."""
        self._pardon = (self.rate, self._step)
        seconds = self._account.seconds(now, 1.0 / rate)
        accepted_rate = max(1, self._account.served) / seconds if seconds > 0.0 else 1.0
        self.rate = max(SLOWEST, self._backoff_ratio * min(rate, accepted_rate))
        self._step = self.rate / RECOVERY_COUNT

    def on_refused(self) -> None:
        """One decrease an epoch is enough."""

    def on_recovered(self, now: float, recovery: Recovery) -> None:
        """Count acceptances anew from here."""
        self.on_resumed(now)

    def on_resumed(self, now: float) -> None:
        """Count acceptances anew from here: the silence was no lack of pace."""
        self._account.on_recovered(now)

    def on_pardon(self, now: float) -> None:
        """Take the last cut back."""
        self.rate, self._step = self._pardon

    def on_acquittal(self, now: float) -> None:
        """Take the last cut back; there is no lid."""
        self.on_pardon(now)
