"""The account of one epoch: what was served, in which time.

Laws
----
* From one recovery to the next, served / time is no more than the site's limit, whatever its
  burst: at the start nothing was saved up. Of a window of time it is exactly the limit.
* What was served beyond a pace is a debt; its silence repays it.
* Time in which nothing was asked for does not count.
"""

from __future__ import annotations

from scrapy_adaptive.core.state.fields import Amount, Instant

IDLE = 1.0
"""Seconds of a gap that always count; what is longer counts up to the delay in use, so that a
crawl which had nothing to ask for is not taken for a slow one."""


class Account:
    """Requests served since the last recovery, and the time that took. Instants in seconds."""

    __slots__ = ("_busy", "_sent_at", "served")

    served: int
    _busy: Amount
    _sent_at: Instant | None

    def __init__(self) -> None:
        self.served = 0
        self._busy = 0.0
        self._sent_at = None

    def on_sent(self, now: float, delay: float) -> None:
        """A request left, `delay` seconds being the least gap."""
        self._busy = self.seconds(now, delay)
        self._sent_at = now

    def on_recovered(self, now: float) -> None:
        """The pause is over: nothing is owed, nothing saved up."""
        self.served = 0
        self._busy = 0.0
        self._sent_at = now

    def seconds(self, now: float, delay: float) -> float:
        """Busy seconds from the last recovery to `now`."""
        if self._sent_at is None:
            return 0.0
        return self._busy + min(now - self._sent_at, max(delay, IDLE))
