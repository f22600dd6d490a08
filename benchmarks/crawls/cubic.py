"""botocore's adaptive retry mode as a downloader middleware.

Its rate limiter is used as it comes: CUBIC growth, ×0.7 on a throttle, a token bucket that never
fills slower than 0.5/s, and the clock of the measured rate. Only the wait is another: where
botocore blocks its thread until a token is there, the wait is computed and awaited. A refused
page is asked for again through the limiter, without end, where botocore gives up after some
attempts; the pause per attempt of its standard mode is left out, as it does not pace the crawl.
"""

from __future__ import annotations

import asyncio
from typing import Any

from botocore.exceptions import CapacityNotAvailableError
from botocore.retries.adaptive import ClientRateLimiter, RateClocker
from botocore.retries.bucket import Clock, TokenBucket
from botocore.retries.throttling import CubicCalculator
from scrapy import Request
from scrapy.http import Response

REFUSAL_CODES = frozenset({429, 503})
LEAST_WAIT = 0.001
"""Seconds."""


class RefusalDetector:
    """Tells a throttle by the status."""

    def is_throttling_error(self, *, status: int, **_: Any) -> bool:
        """Whether it is a refusal."""
        return status in REFUSAL_CODES


class CubicMiddleware:
    """Holds each request until the limiter's bucket has a token, and sends refused ones again."""

    def __init__(self) -> None:
        clock = Clock()
        self._bucket = TokenBucket(max_rate=1, clock=clock)
        self._limiter = ClientRateLimiter(
            rate_adjustor=CubicCalculator(starting_max_rate=0, start_time=clock.current_time()),
            rate_clocker=RateClocker(clock),
            token_bucket=self._bucket,
            throttling_detector=RefusalDetector(),
            clock=clock,
        )
        self._enabled = False
        self._turn = asyncio.Lock()

    async def process_request(self, request: Request) -> None:
        """Wait, in the order of arrival; like botocore not before the first refusal."""
        async with self._turn:
            while self._enabled and (wait := self._wait()):
                await asyncio.sleep(wait)

    def _wait(self) -> float:
        """Seconds until a token is there; at 0 it was taken."""
        try:
            self._bucket.acquire(block=False)
        except CapacityNotAvailableError:
            missing = 1.0 - float(self._bucket.available_capacity)
            return max(LEAST_WAIT, missing / float(self._bucket.max_rate))
        return 0.0

    def process_response(self, request: Request, response: Response) -> Request | Response:
        """Learn from the status; ask again for a refused page, before the next one."""
        self._limiter.on_receiving_response(status=response.status)
        if response.status not in REFUSAL_CODES:
            return response
        self._enabled = True
        return request.replace(dont_filter=True, priority=request.priority + 1)
