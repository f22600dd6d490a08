"""Servers that ban whoever goes over their limit, as Cloudflare, Fastly and mod_evasive do.

Laws
----
* The hit that goes over the limit is refused and begins the ban; hits during it are refused.
* Once a ban is over nothing of it is remembered, and the bucket is as full as time has made it.
"""

from __future__ import annotations

import math
from enum import Enum

from scrapy_adaptive.core.headers.parse import Quota
from scrapy_adaptive.core.types import Outcome

from .base import Page, Reply
from .ranges import SECONDS
from .rates import ROUNDING
from .token_bucket import BucketServer

BANNED = Reply(Outcome.REFUSED, banned=True)

MOST_DOUBLINGS = 60
"""Doublings of a ban that count: the next would outlast any clock."""


class WhileBanned(Enum):
    """What a hit during a ban does to it."""

    IGNORED = "ignored"
    RESTARTS = "restarted"
    """The ban begins anew: mod_evasive's blocking period."""
    DOUBLES = "doubling"
    """The ban begins anew and is twice as long as before."""


class BanServer:
    """Bans for a time whoever goes over the limit of a bucket.

    Args:
        bucket: the limit.
        seconds: of a ban that nothing hits.
        while_banned: what hits during a ban do.
    """

    def __init__(
        self,
        bucket: BucketServer,
        seconds: float,
        while_banned: WhileBanned = WhileBanned.IGNORED,
    ) -> None:
        SECONDS.check(seconds=seconds)
        self.ban_count = 0
        self._bucket = bucket
        self._seconds = seconds
        self._while_banned = while_banned
        self._until = -math.inf
        self._hits = 0

    def on_arrival(self, now: float, page: Page) -> Reply:
        """Refuse the page during a ban; begin one if the page is over the limit."""
        if now < self._until - ROUNDING:
            self._prolong(now)
            return BANNED
        reply = self._bucket.on_arrival(now, page)
        if reply.outcome is Outcome.REFUSED:
            self.ban_count += 1
            self._hits = 0
            self._until = now + self._seconds
        return reply

    def capacity(self, now: float) -> float:
        """The bucket's rate: who knows it is never banned."""
        return self._bucket.capacity(now)

    def retry_at(self, now: float, page: Page) -> float:
        """When the ban is over and the bucket has a token."""
        return max(self._until, self._bucket.retry_at(now, page))

    def quota(self, now: float, page: Page) -> Quota:
        """The bucket's, or nothing until the ban ends."""
        quota = self._bucket.quota(now, page)
        if now >= self._until:
            return quota
        return Quota(0, self._until - now, quota.limit, quota.window)

    def _prolong(self, now: float) -> None:
        self._hits += 1
        if self._while_banned is WhileBanned.RESTARTS:
            self._until = now + self._seconds
        elif self._while_banned is WhileBanned.DOUBLES:
            self._until = now + self._seconds * 2.0 ** min(self._hits, MOST_DOUBLINGS)
