"""The ceiling: the rate a site has taught, as the slot knows it.

Laws
----
* A ceiling is a rate in 1/s; infinity while nothing is known.
* It hears of acceptances, congestion, recovery and rollback; it never reads a clock.
* One decrease per congestion epoch; the slot sees to that.
* A law says what its rate is and what changes it; for the rest the defaults here will do.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from scrapy_adaptive.core.permit import Permit
    from scrapy_adaptive.core.types import Learned, Recovery


class Ceiling(Protocol):
    """What a slot asks of a law that learns a site's limit."""

    __slots__ = ()

    @property
    def rate(self) -> float:
        """Highest rate allowed, 1/s."""

    @property
    def held_rate(self) -> float:
        """The highest rate that has held for a while, 1/s; 0 while none has."""
        return 0.0

    @property
    def best_rate(self) -> float:
        """The best rate that the site was seen to allow, 1/s; 0 while none was."""
        return 0.0

    @property
    def concurrency(self) -> float:
        """Most requests in flight that the site allows; infinity while none is known."""
        return math.inf

    @property
    def noise_ratio(self) -> float:
        """Share of the requests that are refused whatever the rate; 0 while none is known."""
        return 0.0

    @property
    def sure_gap(self) -> float:
        """Seconds between two pages at a rate that the site surely serves."""
        return 1.0 / self.rate

    def debt(self) -> float:
        """Seconds of waiting that repay what was served beyond the pace."""
        return 0.0

    @property
    def learned(self) -> Learned | None:
        """What is worth remembering; None before anything is known."""
        return None

    @property
    def is_taught(self) -> bool:
        """Whether a refusal is known to have taught it anything."""
        return False

    def recall(self, learned: Learned) -> None:
        """Begin with a guess: what an earlier crawl had learned."""

    def on_sent(self, now: float, delay: float) -> None:
        """A request left at `now` while `delay` seconds was the least gap."""

    def on_accepted(
        self, now: float, permit: Permit, latency: float | None, *, binding: bool
    ) -> None:
        """A request was accepted; `binding`: this ceiling set the pace."""

    def on_congestion(
        self, now: float, permit: Permit, *, rate: float, again: bool = False
    ) -> None:
        """A congestion epoch begins; `rate` (1/s) is the pace that was refused. `again`: a rollback
        would take back the one before as well, as the host fails on."""

    def on_refused(self, *, may_be_chance: bool = False) -> None:
        """A refusal of the present epoch, its first one too; or one of a test request that came as
        early as chance may refuse one."""
        return

    def on_recovered(self, now: float, recovery: Recovery) -> None:
        """A test request was accepted: the epoch's pause is over."""

    def on_resumed(self, now: float) -> None:
        """A wait that cut nothing is over: that for a recheck, or the pause of a broken page."""
        return

    def on_rollback(self, now: float) -> None:
        """The last epoch was a broken page's fault: its cut is taken back."""

    def on_doubted(self) -> None:
        """A class of its pages was refused at a pace that the class holds: the rate that has held
        here may not."""
        return

    def on_class_split(self, now: float) -> None:
        """The epochs of late were those of one class of pages: so is their upper bound."""
        self.on_rollback(now)
