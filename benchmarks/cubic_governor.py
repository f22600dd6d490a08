"""Plain CUBIC as a peer in the simulation: what botocore's adaptive mode does, in virtual time.

No pause, no epochs, no memory but of the rate of the last refusal; so many in flight at most. It
begins without a pace, as botocore does, and has one from the first refusal on.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from scrapy_adaptive.core.permit import Permit
from scrapy_adaptive.core.types import (
    Answer,
    Blocked,
    Decision,
    Event,
    Outcome,
    Page,
    Reason,
    Wanted,
)

SCALE = 0.4
KEPT = 0.7
"""Share of the rate that a refusal leaves."""

BUCKET = 0.5
"""Seconds over which the rate is measured."""

SMOOTH = 0.8
"""Weight of the latest of these."""

SLOWEST = 0.5
"""Least rate, 1/s."""

MOST = 2.0
"""The rate is no more than so many times the measured one."""


class CubicGovernor:
    """Answers what a simulated crawl asks of a governor."""

    kinds: Mapping[str, Mapping[str, str]] = {}
    known = None

    def __init__(self, places: float) -> None:
        self._places = max(1.0, places)
        self._in_flight = 0
        self._rate = math.inf
        self._tokens = 1.0
        self._at = 0.0
        self._measured = 0.0
        self._bucket = 0.0
        self._count = 0
        self._last_max = 0.0
        self._refused_at = 0.0

    def slot(self, key: str, now: float) -> CubicGovernor:
        """There is one."""
        return self

    def is_suspected(self, page: Page) -> bool:
        """It suspects none."""
        return False

    def wanted(self, key: str) -> Wanted:
        """Any page will do."""
        return Wanted.ANY

    def take(self, key: str, now: float) -> Permit | Blocked:
        """A token for one request, or when there will be one."""
        if self._in_flight >= self._places:
            return Blocked(math.inf, Reason.CONCURRENCY)
        if self._rate < math.inf:
            burst = max(1.0, self._rate)
            self._tokens = min(burst, self._tokens + (now - self._at) * self._rate)
            self._at = now
            if self._tokens < 1.0 - 1e-9:
                return Blocked(now + (1.0 - self._tokens) / self._rate, Reason.DELAY)
            self._tokens -= 1.0
        self._in_flight += 1
        return Permit(key, now)

    def on_answer(self, permit: Permit, answer: Answer, now: float) -> Decision:
        """Measure the rate; fall, or grow by the cubic."""
        permit.ended = True
        self._in_flight -= 1
        self._measure(now)
        refused = answer.outcome is not Outcome.ACCEPTED
        if refused:
            used = self._measured if self._rate == math.inf else min(self._measured, self._rate)
            self._last_max = used
            self._refused_at = now
            self._pace(KEPT * used, now)
        elif self._rate < math.inf:
            since = now - self._refused_at
            origin = (self._last_max * (1.0 - KEPT) / SCALE) ** (1.0 / 3.0)
            self._pace(SCALE * (since - origin) ** 3 + self._last_max, now)
        event = Event.TRIPPED if refused else Event.ACCEPTED
        return Decision(event, 0.0, 0.0, 0.0, "", again=answer.outcome is Outcome.REFUSED)

    def _measure(self, now: float) -> None:
        self._count += 1
        bucket = math.floor(now / BUCKET) * BUCKET
        if bucket > self._bucket:
            rate = self._count / (bucket - self._bucket)
            self._measured = SMOOTH * rate + (1.0 - SMOOTH) * self._measured
            self._count = 0
            self._bucket = bucket

    def _pace(self, rate: float, now: float) -> None:
        if self._rate == math.inf:
            self._tokens, self._at = 0.0, now
        self._rate = max(SLOWEST, min(rate, MOST * self._measured))
