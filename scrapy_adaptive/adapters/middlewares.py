"""The gate and the refusals, in the order in which a request meets them.

Laws
----
* The gate, at 950, is the last middleware before the downloader. What is answered by the cache,
  filtered or opted out never gets there, and costs nothing.
* Nothing that has passed the gate waits again in Scrapy's own slot.
* The gate marks a refusal so that the HTTP cache, which is next on the way back, does not keep it.
* The refusals, at 585, stand between HttpCompression (590) and Retry (550): the classifier sees
  the decoded body, and RetryMiddleware sees only what is not fetched again.
* A cached response has no permit and passes untouched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy.exceptions import (
    DownloadCancelledError,
    IgnoreRequest,
    NotSupported,
    StopDownload,
    UnsupportedURLSchemeError,
)

from scrapy_adaptive.core.facts import Outcome

from .extension import JoinsExtension
from .queues.routing import OPT_OUT_META_KEY
from .refusal_rules import Verdict
from .robots import is_robots_txt

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.http import Response

OURS = (
    DownloadCancelledError,
    IgnoreRequest,
    NotSupported,
    StopDownload,
    UnsupportedURLSchemeError,
)
"""Errors of the crawler's own making: they say nothing of the site."""


class AdaptiveGate(JoinsExtension):
    """Downloader middleware at 950."""

    async def process_request(self, request: Request) -> Request | None:
        """Wait until the request may be sent, or hand it back: it would wait for long."""
        self._extension.attach()
        key = self._extension.engine.claim_key(request)
        if key is None or request.meta.get(OPT_OUT_META_KEY):
            return None
        key = self._traffic.slot_under(key, request)
        if await self._traffic.admit(request, key):
            return None
        returns = self._traffic.returns
        if not returns.is_scheduled(request):
            raise IgnoreRequest("the spider is closing")
        returns.expect(request)
        return request

    def process_response(self, request: Request, response: Response) -> Request | Response:
        """Keep refusals out of the HTTP cache."""
        flight = self._traffic.in_flight.get(request)
        if flight is None:
            return response
        if 300 <= response.status < 400:
            # RedirectMiddleware comes before the body is decoded, and would follow it to a ban.
            self._traffic.in_flight.on_decoded(request, response)
        seen = flight.outcome or (flight.verdict and flight.verdict.outcome)
        if seen is not Outcome.REFUSED:
            self._traffic.cache_marks.let_in(request)
            return response
        self._traffic.cache_marks.keep_out(request)
        if 300 <= response.status < 400:
            return self._extension.requeue.after(request, flight) or response
        return response

    def process_exception(self, request: Request, exception: Exception) -> None:
        """Note that a download failed, ahead of every other middleware."""
        if not isinstance(exception, OURS):
            self._traffic.in_flight.on_failed(request, Verdict(Outcome.FAILED))


class AdaptiveRefusals(JoinsExtension):
    """Downloader middleware at 585."""

    def process_response(self, request: Request, response: Response) -> Request | Response:
        """Send a refused request back; let everything else pass."""
        if is_robots_txt(request):
            self._extension.crawl_delays.on_robots_txt(request, response)
        flight = self._traffic.in_flight.get(request)
        if flight is None:
            return response
        self._traffic.in_flight.on_decoded(request, response)
        again = self._extension.requeue.after(request, flight)
        if again is None and flight.outcome is Outcome.REFUSED and is_robots_txt(request):
            return self._extension.refused_robots.answer(request, response)
        return again or response

    def process_exception(self, request: Request, exception: Exception) -> Request | None:
        """Send a request back whose failure counted as pain; others have seen the failure."""
        flight = self._traffic.in_flight.get(request)
        return None if flight is None else self._extension.requeue.after(request, flight)
