"""The ceiling: the rate a site has taught, and how it is found.

Laws
----
* A ceiling is a rate in 1/s; infinity while nothing is known.
* It hears of acceptances, pain, recovery and pardon; it never reads a clock.
* One decrease per congestion epoch; the slot sees to that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from .facts import Learned

if TYPE_CHECKING:
    from .facts import Permit, Recovery

RECOVERY_COUNT = 200
"""Accepted requests in which additive recovery gives back as much again as a cut left.

Between two refusals lie about this many pages: one refusal in 200 is half a percent.
"""

IDLE = 1.0
"""Seconds of a gap that always count as busy; what is longer counts up to the delay in use,
so that a crawl which had nothing to ask for is not taken for a slow one."""

GAPS = 1.2
"""Gaps at the new rate before a page is asked again: one for a token, the rest is margin."""

SLOWEST = 1.0 / 3600.0
"""Least rate a ceiling falls to, 1/s: one request an hour."""


class Ceiling(Protocol):
    """What a slot asks of a law that learns a site's limit."""

    @property
    def rate(self) -> float:
        """Highest rate allowed, 1/s."""

    @property
    def concurrency(self) -> float:
        """Most requests in flight that the site allows; infinity while none is known."""

    @property
    def recheck(self) -> float:
        """Least seconds of silence after which the page that alone was refused is asked again."""

    def debt(self, now: float) -> float:
        """Seconds of silence that repay what was served beyond the pace."""

    @property
    def learned(self) -> Learned | None:
        """What is worth remembering; None before anything is known."""

    def recall(self, learned: Learned) -> None:
        """Begin with a guess: what an earlier crawl had learned."""

    def on_sent(self, now: float, delay: float) -> None:
        """A request left at `now` while `delay` seconds was the least gap."""

    def on_accepted(
        self, now: float, permit: Permit, latency: float | None, *, binding: bool
    ) -> None:
        """A request was accepted; `binding`: this ceiling set the pace."""

    def on_pain(self, now: float, permit: Permit, *, rate: float) -> None:
        """A congestion epoch begins; `rate` (1/s) is the pace that was refused."""

    def on_refused(self) -> None:
        """A refusal of the present epoch, its first one too."""

    def on_recovered(self, now: float, recovery: Recovery) -> None:
        """A probe was accepted: the epoch's pause is over."""

    def on_resumed(self, now: float) -> None:
        """A silence that cut nothing is over: a recheck's, or a broken page's."""

    def on_pardon(self, now: float) -> None:
        """The last epoch was a broken page's fault: its cut is taken back."""

    def on_acquittal(self, now: float) -> None:
        """The epochs of late were those of one class of pages: so is their lid."""


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

    __slots__ = ("_accepted", "_backoff_ratio", "_busy", "_pardon", "_sent_at", "_step", "rate")

    concurrency = float("inf")
    """AIMD of the rate knows no other limit."""

    def __init__(self, backoff_ratio: float) -> None:
        self.rate = float("inf")
        self._backoff_ratio = backoff_ratio
        self._step = 0.0
        self._accepted = 0
        self._busy = 0.0
        self._sent_at: float | None = None
        self._pardon = (self.rate, self._step)

    def on_sent(self, now: float, delay: float) -> None:
        """Count the time since the last send as busy, unless nothing was asked for in it."""
        self._busy += self._gap(now, delay)
        self._sent_at = now

    def _gap(self, now: float, delay: float) -> float:
        if self._sent_at is None:
            return 0.0
        return min(now - self._sent_at, max(delay, IDLE))

    @property
    def recheck(self) -> float:
        """One gap of the new rate, and some margin."""
        return GAPS / self.rate

    @property
    def learned(self) -> Learned | None:
        """The rate, once anything was refused."""
        return None if self.rate == float("inf") else Learned(self.rate)

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
        self._accepted += 1
        if binding:
            self.rate += self._step

    def on_pain(self, now: float, permit: Permit, *, rate: float) -> None:
        """Cut the rate once."""
        self._pardon = (self.rate, self._step)
        busy = self._busy + self._gap(now, 1.0 / rate)
        accepted_rate = max(1, self._accepted) / busy if busy > 0.0 else 1.0
        self.rate = max(SLOWEST, self._backoff_ratio * min(rate, accepted_rate))
        self._step = self.rate / RECOVERY_COUNT

    def on_refused(self) -> None:
        """One decrease an epoch is enough."""

    def on_recovered(self, now: float, recovery: Recovery) -> None:
        """Count acceptances anew from here."""
        self.on_resumed(now)

    def on_resumed(self, now: float) -> None:
        """Count acceptances anew from here: the silence was no lack of pace."""
        self._accepted = 0
        self._busy = 0.0
        self._sent_at = now

    def on_pardon(self, now: float) -> None:
        """Take the last cut back."""
        self.rate, self._step = self._pardon

    def on_acquittal(self, now: float) -> None:
        """Take the last cut back; there is no lid."""
        self.on_pardon(now)
