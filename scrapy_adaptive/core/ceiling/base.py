"""The ceiling: the rate a site has taught, as the slot knows it.

Laws
----
* A ceiling is a rate in 1/s; infinity while nothing is known.
* It hears of acceptances, pain, recovery and pardon; it never reads a clock.
* One decrease per congestion epoch; the slot sees to that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from scrapy_adaptive.core.types import Learned, Permit, Recovery

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
    def held_rate(self) -> float:
        """The highest rate that has held for a while, 1/s; 0 while none has."""

    @property
    def best_rate(self) -> float:
        """The best rate that the site was seen to allow, 1/s; 0 while none was."""

    @property
    def concurrency(self) -> float:
        """Most requests in flight that the site allows; infinity while none is known."""

    @property
    def noise_ratio(self) -> float:
        """Share of the requests that are refused whatever the rate; 0 while none is known."""

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
