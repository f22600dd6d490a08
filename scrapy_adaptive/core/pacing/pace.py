"""How far apart the requests of one slot leave.

Laws
----
* `delay = max(latency delay, 1 / ceiling, floors, quota)`; the bucket turns it into instants.
* Towards a dead host only floors and quota hold.
* A promise of a place counts against the bucket as a send does.
* Where the user's own delay alone holds the pace, gaps are scattered as the user asked, and are
  never shorter than what the site asks for or what was learned.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy_adaptive.core.breaker.pause import NEVER
from scrapy_adaptive.core.state.fields import LONG_AGO, Seconds

from . import latency
from .quota import NO_QUOTAS, Quotas
from .token_bucket import JITTER_RATIO, TokenBucket

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrapy_adaptive.core.ceiling.base import Ceiling
    from scrapy_adaptive.core.headers.parse import Quota
    from scrapy_adaptive.core.slot_config import Limits

ON_TIME = 0.5
"""Share of a gap by which a request may leave late and still count as paced by the delay."""

LAG = 0.02
"""Seconds by which it may leave late in any case: timers of an event loop are late by some."""


class Pace:
    """The delay of one slot, and the instants it gives.

    Args:
        limits: the user's own bounds.
        ceiling: the law that learns the site's limit.
        now: monotonic seconds.
    """

    __slots__ = (
        "_bucket",
        "_ceiling",
        "_floor",
        "_limits",
        "_promised_at",
        "_scatter",
        "crawl_delay",
        "is_dead",
        "latency_delay",
        "quotas",
    )

    latency_delay: Seconds
    crawl_delay: Seconds
    is_dead: bool
    quotas: Quotas
    _bucket: TokenBucket

    def __init__(self, limits: Limits, ceiling: Ceiling, now: float) -> None:
        self.latency_delay = max(limits.floor, limits.start_delay)
        """Seconds between sends that AutoThrottle's law asks for."""
        self.crawl_delay = 0.0
        """Seconds between sends that the site's robots.txt asks for."""
        self.is_dead = False
        """Whether the host does not answer: there is nobody to be polite to."""
        self.quotas = NO_QUOTAS
        self._limits = limits
        self._floor = limits.floor
        self._ceiling = ceiling
        self._bucket = TokenBucket(limits.burst, now)
        self._promised_at = LONG_AGO
        self._scatter = 1.0
        """Length of the present gap, as a share of the user's own delay."""

    # Questions

    @property
    def delay(self) -> float:
        """Least seconds between two sends."""
        floor, asked, quota = self._floor, self.crawl_delay, self.quotas.delay
        if self.is_dead:
            return max(floor, asked, quota)
        return max(floor, asked, quota, self.latency_delay, 1.0 / self._ceiling.rate)

    @property
    def _gap(self) -> float:
        """Seconds between the last send and the next: the delay, or what chance makes of it."""
        delay = self.delay
        if not self._is_scattered(delay):
            return delay
        asked = max(1.0 / self._ceiling.rate, self.crawl_delay, self.quotas.delay)
        return max(asked, delay * self._scatter)

    def _is_scattered(self, delay: float) -> bool:
        """Whether the user's own delay holds the pace, and the user said how to scatter it."""
        return self._limits.jitter >= 0.0 and delay <= self._floor

    @property
    def rate(self) -> float:
        """Most sends a second: one each `delay`; infinity without a delay."""
        delay = self.delay
        return 1.0 / delay if delay else NEVER

    @property
    def bound(self) -> str:
        """What sets the delay just now."""
        bounds = {
            "ceiling": 1.0 / self._ceiling.rate,
            "crawl-delay": self.crawl_delay,
            "floor": self._floor,
            "latency": self.latency_delay,
            "quota": self.quotas.delay,
        }
        return max(bounds, key=bounds.__getitem__)

    @property
    def is_ceiling(self) -> bool:
        """Whether the ceiling sets the delay."""
        return self.delay * self._ceiling.rate <= 1.0 + 1e-9

    def tokens(self, now: float) -> float:
        """Tokens saved up by then."""
        return self._bucket.tokens(now, self.delay)

    def ready_at(self) -> float:
        """The instant from which one request may leave."""
        return self._bucket.ready_at(self._gap)

    def room_at(self, promised: int, lead: float = 0.0) -> float:
        """The instant from which one more may set out beside so many with a promise.

        When there are tokens for all of them, or as far behind the last one as the bucket will
        want them to be apart: what takes long on its way to the gate must not be waited for.
        """
        if not promised:
            return self.ready_at() - lead
        delay = self.delay
        apart = self._promised_at + delay * (1.0 + JITTER_RATIO)
        return min(apart, self._bucket.ready_at(delay, 1 + promised) - lead)

    # Facts

    def on_promised(self, now: float) -> None:
        """A place was promised to a queued request."""
        self._promised_at = now

    def on_sent(self, now: float, chance: float) -> bool:
        """Spend a token; returns whether the request left as early as the delay let it.

        Raises:
            ValueError: no token is there yet.
        """
        delay = self.delay
        is_scattered = self._is_scattered(delay)
        due_at = self._bucket.take(now, self._gap, 0.0 if is_scattered else chance)
        if is_scattered:
            self._scatter = max(0.0, 1.0 + self._limits.jitter * (2.0 * chance - 1.0))
        self._ceiling.on_sent(now, delay)
        self.quotas.on_sent()
        return now <= due_at + max(ON_TIME * delay, LAG)

    def on_latency(self, seconds: float, *, may_lower: bool, is_strange: bool = False) -> None:
        """One more response took so long.

        Args:
            may_lower: whether it is no error.
            is_strange: an error of a host that has served nothing yet: it is asked for one page
                after the other.
        """
        wanted = self._limits.target_concurrency
        self.latency_delay = latency.next_delay(
            self.latency_delay,
            seconds,
            target_concurrency=min(1.0, wanted) if is_strange else wanted,
            floor=self._floor,
            most=self._limits.max_delay,
            may_lower=may_lower or is_strange,
        )

    def on_quotas(self, now: float, quotas: Sequence[Quota], sent_since: int) -> None:
        """A response announced its quotas; `sent_since` requests had left after its own."""
        if self.quotas is NO_QUOTAS:
            self.quotas = Quotas()
        self.quotas.on_announced(now, quotas, sent_since)

    def on_accepted(self) -> None:
        """One more was accepted: the bucket grows back."""
        self._bucket.on_accepted()

    def begin_here(self, ceiling: Ceiling) -> None:
        """What was kept of it was read: here the user may allow other delays; one may be longer
        than the most, that of a new slot."""
        self._ceiling = ceiling
        most = max(self._limits.max_delay, self._limits.start_delay)
        self.latency_delay = min(self.latency_delay, most)
        self._bucket.begin_here()

    def take_up(self, ceiling: Ceiling) -> None:
        """Another ceiling holds from here."""
        self._ceiling = ceiling

    def lift_floor(self, *, lifted: bool) -> None:
        """A rule says how fast requests may go, in place of the user's own delay; or does not."""
        self._floor = 0.0 if lifted else self._limits.floor

    def drain(self, now: float) -> float:
        """Empty the bucket; returns the tokens lost."""
        return self._bucket.drain(now, self.delay)
