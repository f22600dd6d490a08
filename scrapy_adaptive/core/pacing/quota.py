"""The pace that a site's RateLimit headers ask for.

Laws
----
* A quota allows `remaining` requests until its reset; they are spread over that time.
* Requests that left after the one that announced the quota count against it.
* A quota only ever slows a slot down: what is more than true does hardly any harm.
* What cannot be (no reset, one that is past, one beyond a day) is not looked at.

**Source**: draft-ietf-httpapi-ratelimit-headers-10, Client Behavior.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scrapy_adaptive.core.state.fields import Due, Seconds

if TYPE_CHECKING:
    from scrapy_adaptive.core.headers.parse import Quota

FARTHEST = 86_400.0
"""Seconds beyond which no reset is believed: limits are written for a day at most."""

ROUNDED = 1.0
"""Seconds by which a reset, given in whole seconds, may be too long. What is left is spread over
the rest at most: once nothing is left, the reset is awaited whole."""


@dataclass(slots=True)
class Quotas:
    """What one slot may send until the next reset. Instants in monotonic seconds."""

    until: Due = 0.0
    """The instant of the reset; 0 where no quota is known."""
    wait: Seconds = 0.0
    """Seconds until then, when it was announced."""
    delay: Seconds = 0.0
    """Seconds between sends that spread what is left until then."""
    _left: int = 0

    def on_announced(self, now: float, quotas: Iterable[Quota], sent_since: int) -> None:
        """A response announced its quotas; `sent_since` requests had left after its own.

        The slowest of them counts, and of those that are spent the last to be there again. Where
        none can be, what was announced before still holds.
        """
        usable = [found for quota in quotas if (found := _usable(quota)) is not None]
        slowest = (False, 0.0, 0.0, 0)
        for remaining, reset in usable:
            left = max(0, remaining - sent_since)
            delay = max(reset - ROUNDED, 0.5 * reset) / max(1, left)
            slowest = max(slowest, (not left, delay, reset, left))
        if usable:
            _, self.delay, self.wait, self._left = slowest
            self.until = now + self.wait

    def on_sent(self) -> None:
        """One request less is left."""
        self._left = max(0, self._left - 1)

    @property
    def is_spent(self) -> bool:
        """Whether nothing is left until the reset."""
        return self.until > 0.0 and not self._left

    @property
    def spent_until(self) -> float:
        """The instant of the reset that is awaited; 0 where something is left."""
        return self.until if self.is_spent else 0.0

    def forget(self, now: float) -> None:
        """Forget a quota whose reset has come."""
        if 0.0 < self.until <= now:
            self.until, self.delay, self._left = 0.0, 0.0, 0


def _usable(quota: Quota) -> tuple[int, float] | None:
    """Requests that are left, and seconds until the reset; None for what cannot be."""
    if quota.unit != "requests" or quota.remaining is None or not quota.reset:
        return None
    reset = min(quota.reset, quota.window or quota.reset)
    return None if reset > FARTHEST else (quota.remaining, reset)


NO_QUOTAS = Quotas()
"""What a slot has whose site has announced none; it is shared, and nothing changes it."""
