"""The sites that several workers crawl at once, and how they refuse.

Laws
----
* One site serves one crawl, of however many workers, and has one limit for all of them.
* With a scale all limits are so much smaller, for a machine that is busy otherwise.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.crawls.limiters import Ban, Limiter, TokenBucket, Unlimited, Window
from tests.servers.nginx import Nginx, limit_req
from tests.servers.origin import Answer, Origin, Visit, refusal

LIMIT, BURST = 50, 20

SERVICE = 0.05
"""Seconds until an answer leaves."""

CAP, SLOW = 4, 0.2
"""Requests in flight that `cap` lets be, and its seconds until an answer leaves."""

FILES = 100
"""Files of nginx; a page's number is in its query."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A site's rule, and what it comes to."""

    rate: float
    """Pages a second that it serves."""
    most: float
    """Pages that it serves in any ten seconds."""
    rule: Callable[[float], Limiter] | None
    """By the scale; None for nginx's own."""


KINDS = {
    "nginx": Kind(LIMIT, 10 * LIMIT + BURST, None),
    "bucket": Kind(LIMIT, 10 * LIMIT + BURST, lambda of: TokenBucket(LIMIT * of, BURST * of)),
    "window": Kind(30, 300, lambda of: Window(round(300 * of), 10.0)),
    "cap": Kind(CAP / SLOW, 10 * CAP / SLOW, lambda _: Unlimited()),
    "ban": Kind(20, 220, lambda of: Ban(20.0 * of, 20.0 * of, 10.0)),
}


class Limited:
    """Answers after `SERVICE` seconds, and refuses by a rule."""

    def __init__(self, name: str, rule: Limiter, scale: float) -> None:
        self._rule = rule
        self._service = SLOW / scale if name == "cap" else SERVICE
        self._most = CAP if name == "cap" else 10**9
        self.in_ban = 0
        """Hits in a ban, but for those of the second in which it began."""
        self._banned_at = -math.inf

    async def __call__(self, visit: Visit) -> Answer:
        now = time.monotonic()
        verdict = self._rule.hit(now)
        served = verdict.served and visit.in_flight <= self._most
        if not served and not verdict.banned:
            self._banned_at = now
        self.in_ban += verdict.banned and now > self._banned_at + 1.0
        await asyncio.sleep(self._service)
        return Answer() if served else refusal()


class Served:
    """A site that runs: its URLs, its log, and its bans."""

    def __init__(self, name: str, scale: float, folder: Path) -> None:
        rule = KINDS[name].rule
        self._limited: Limited | None = None
        self.site: Nginx | Origin
        if rule is None:
            limit = limit_req(f"{round(60 * LIMIT * scale)}r/m", max(1, round(BURST * scale)))
            self.site = Nginx(folder, limit, pages=FILES)
        else:
            self._limited = Limited(name, rule(scale), scale)
            self.site = Origin(self._limited)

    @property
    def in_ban(self) -> int:
        """Hits in a ban, but for those of the second in which it began."""
        return 0 if self._limited is None else self._limited.in_ban

    def urls(self, count: int) -> list[str]:
        """So many pages."""
        return [f"{self.site.url}/page/{n % FILES}.html?n={n}" for n in range(count)]
