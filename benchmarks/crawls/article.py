"""AIMD with a breaker and a bucket, as articles on crawlers describe it.

Follows what is written of "feedback control in asynchronous crawlers": a cold start at a low
rate; additive increase, one request a second more for each window of successes; on a 429 or 503
multiplicative decrease to a half, a token bucket that is drained, and a circuit breaker that
stops everything for a moment. Refused pages go to Scrapy's RetryMiddleware, which gives them up
after `RETRY_TIMES`: the scheme says nothing else of them.

**Departs**: answers to what was sent before a stop do not cut again, in the scheme's favour; a
window of successes is one second's worth of them, as the scheme leaves its length open.
"""

from __future__ import annotations

import asyncio
import time

from scrapy import Request
from scrapy.http import Response

REFUSAL_CODES = frozenset({429, 503})
START_RATE = 1.0
"""Requests a second at first."""
INCREASE = 1.0
"""Requests a second more per window of successes."""
KEPT_RATIO = 0.5
"""Of the rate, on a refusal."""
LEAST_RATE = 0.1
"""Requests a second, whatever was refused."""
STOP = 1.0
"""Seconds for which the breaker stops everything."""
BURST = 5.0
"""Most tokens that the bucket saves up."""


class AimdBreaker:
    """When the next request may leave; times in seconds, none read from a clock."""

    def __init__(self, now: float) -> None:
        self.rate = START_RATE
        self._tokens = 1.0
        self._counted_at = now
        self._stopped_at = -STOP
        self._successes = 0

    def wait(self, now: float) -> float:
        """Seconds to wait; at 0 a token was taken."""
        if now < self._stopped_at + STOP:
            return self._stopped_at + STOP - now
        if now > self._counted_at:
            saved = self._tokens + (now - self._counted_at) * self.rate
            self._tokens, self._counted_at = min(BURST, saved), now
        if self._tokens < 1.0:
            return (1.0 - self._tokens) / self.rate
        self._tokens -= 1.0
        return 0.0

    def on_success(self) -> None:
        """Raise the rate by one step for each second's worth of these."""
        self._successes += 1
        if self._successes >= self.rate:
            self.rate += INCREASE
            self._successes = 0

    def on_refusal(self, now: float, sent_at: float) -> None:
        """Halve the rate, drain the bucket and stop, once per stop."""
        if sent_at <= self._stopped_at:
            return
        self.rate = max(LEAST_RATE, KEPT_RATIO * self.rate)
        self._tokens, self._successes = 0.0, 0
        self._stopped_at, self._counted_at = now, now + STOP


class ArticleMiddleware:
    """Holds each request until its token is there."""

    def __init__(self) -> None:
        self._law = AimdBreaker(time.monotonic())
        self._turn = asyncio.Lock()

    async def process_request(self, request: Request) -> None:
        """Wait, in the order of arrival."""
        async with self._turn:
            while wait := self._law.wait(time.monotonic()):
                await asyncio.sleep(wait)
        request.meta["article_sent_at"] = time.monotonic()

    def process_response(self, request: Request, response: Response) -> Response:
        """Learn from the status."""
        if response.status in REFUSAL_CODES:
            self._law.on_refusal(time.monotonic(), request.meta["article_sent_at"])
        else:
            self._law.on_success()
        return response
