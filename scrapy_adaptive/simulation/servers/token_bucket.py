"""Token buckets, as in nginx (`limit_req … nodelay`), Traefik and most libraries.

Laws
----
* A page costs one token; tokens come at the rate and are saved up to the burst.
* A refused page costs nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from scrapy_adaptive.core.headers.parse import Quota

from .base import ACCEPTED, REFUSED, Page, Reply
from .ranges import BURST
from .rates import ROUNDING, Given, allowed, rate_of


class BucketServer:
    """Refuses what is above a rate, but for a burst; full at the beginning.

    Args:
        rate: pages a second.
        burst: most tokens saved up, >= 1.
    """

    def __init__(self, rate: Given, burst: float) -> None:
        BURST.check(burst=burst)
        self._rate = rate_of(rate)
        self._burst = burst
        self._tokens = burst
        self._at = 0.0

    def on_arrival(self, now: float, page: Page) -> Reply:
        """Accept the page if there is a token for it."""
        if not self.has_token(now):
            return REFUSED
        self.spend()
        return ACCEPTED

    def capacity(self, now: float) -> float:
        """The rate."""
        return self._rate(now)

    def has_token(self, now: float) -> bool:
        """Whether one more page may come at `now`."""
        return self._filled(now) >= 1.0 - ROUNDING

    def spend(self) -> None:
        """One page has come."""
        self._tokens = max(0.0, self._tokens - 1.0)

    def retry_at(self, now: float, page: Page) -> float:
        """When the next token is whole, at the rate of this instant."""
        missing = max(0.0, 1.0 - self._filled(now))
        return now + missing / self._rate(now)

    def quota(self, now: float, page: Page) -> Quota:
        """The tokens; the window is the time in which an empty bucket fills."""
        tokens, rate = self._filled(now), self._rate(now)
        rest = math.floor(tokens + ROUNDING)
        reset = 0.0 if tokens >= self._burst else max(0.0, rest + 1.0 - tokens) / rate
        return Quota(rest, reset, int(self._burst), self._burst / rate if rate < math.inf else None)

    def _filled(self, now: float) -> float:
        self._tokens = min(self._burst, self._tokens + allowed(self._rate, self._at, now))
        self._at = max(self._at, now)
        return self._tokens


class EndpointServer:
    """Limits some kinds of pages more than the rest of the host.

    A page must pass the bucket of its kind and that of the host; refused, it costs neither.
    """

    def __init__(self, host: BucketServer, kinds: Mapping[str, BucketServer]) -> None:
        self._host = host
        self._kinds = dict(kinds)

    def on_arrival(self, now: float, page: Page) -> Reply:
        """Accept the page if both buckets have a token for it."""
        buckets = self._buckets(page)
        if not all(bucket.has_token(now) for bucket in buckets):
            return REFUSED
        for bucket in buckets:
            bucket.spend()
        return ACCEPTED

    def capacity(self, now: float) -> float:
        """The host's rate: who knows the kinds' rates fills up with the other pages."""
        return self._host.capacity(now)

    def retry_at(self, now: float, page: Page) -> float:
        """When both buckets have a token."""
        return max(bucket.retry_at(now, page) for bucket in self._buckets(page))

    def quota(self, now: float, page: Page) -> Quota:
        """That of the bucket with less left."""
        quotas = [bucket.quota(now, page) for bucket in self._buckets(page)]
        return min(quotas, key=lambda quota: quota.remaining or 0)

    def _buckets(self, page: Page) -> list[BucketServer]:
        own = self._kinds.get(page.kind)
        return [self._host] if own is None else [self._host, own]
