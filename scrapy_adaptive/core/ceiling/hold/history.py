"""What was served since the last recovery, and in which time.

Laws
----
* From one refusal to the next, served / time is no more than the site's limit, whatever its burst:
  when it refuses nothing is saved up. From one recovery to the next it is exactly the limit of a
  window of time. The longer of the two pauses, before and after, counts: it is no more than either.
* What was served beyond a pace is a debt; the wait that follows repays it.
* Time in which nothing was asked for does not count.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from scrapy_adaptive.core.state.fields import Amount, Instant, Range, Seconds

IDLE = 1.0
"""Seconds of a gap that always count; what is longer counts up to the delay in use, so that a
crawl which had nothing to ask for is not taken for a slow one."""

LATELY = 32
"""Sends over which a gap is averaged."""


@dataclass(slots=True)
class History:
    """Pages over seconds. Instants are monotonic seconds."""

    served: int = 0
    """Requests served since the last recovery."""
    before: int = 0
    """Requests served before that, since the last pause that was not short."""
    before_seconds: Annotated[float, Range(0.0, 1e12)] = 0.0
    """Seconds that they took, and the short pauses among them."""
    waited: Amount = 0.0
    """Seconds of the wait that ended with the last recovery: the site may have saved up in them."""
    busy: Annotated[float, Range(0.0, 1e12)] = 0.0
    """Seconds from the last recovery to the last send."""
    sent_at: Instant | None = None
    """The instant of the last send; None before the first."""
    gap: Seconds = 0.0
    """Mean seconds between two sends of late, pauses aside, from 0 at first: each counts as no less
    than the delay, and as more where the crawler was late."""

    def on_sent(self, now: float, delay: float) -> None:
        """A request left, `delay` seconds being the least gap."""
        busy = self.seconds(now, delay)
        self.gap += (max(delay, busy - self.busy) - self.gap) / LATELY
        self.busy = busy
        self.sent_at = now

    def on_recovered(self, now: float, waited: float = 0.0, *, lasted: float | None = None) -> None:
        """The pause is over: nothing is owed, and no more saved up than in so many seconds.

        Args:
            waited: those of its last wait.
            lasted: seconds since the recovery before; None where a window of time may have ended.
        """
        self.before = 0 if lasted is None else self.before + self.served
        self.before_seconds = 0.0 if lasted is None else self.before_seconds + lasted
        self.waited = waited
        self.served = 0
        self.busy = 0.0
        self.sent_at = now

    @property
    def rate(self) -> float:
        """What was served, over the time since the wait before it began; 1/s."""
        return self.served / (self.busy + self.waited)

    def seconds(self, now: float, delay: float) -> float:
        """Busy seconds from the last recovery to `now`."""
        if self.sent_at is None:
            return 0.0
        return self.busy + min(now - self.sent_at, max(delay, IDLE))
