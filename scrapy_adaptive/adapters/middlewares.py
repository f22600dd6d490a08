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

from scrapy_adaptive.core.types import Outcome

from .extension import JoinsExtension
from .queues.routing import OPT_OUT_META_KEY
from .queues.saved_marks import keep_out, let_in, restore
from .refusal_rules import Verdict
from .robots import is_robots_txt
from .scrapy_internals import answer_in

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.http import Response

    from .frontier.crawl import FrontierCrawl

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

    async def process_request(self, request: Request) -> Request | Response | None:
        """Wait until the request may be sent; it goes back where it would wait in vain.

        Raises:
            IgnoreRequest: its slot is paused, and the spider is closing or a user waits.
        """
        traffic = self._traffic
        restore(request)
        let_in(request)
        traffic.in_flight.end(request)  # it was sent back before it had passed the other middleware
        key = traffic.names.at_gate(request)
        if key is None:
            return None
        is_opted_out = bool(request.meta.get(OPT_OUT_META_KEY))
        if is_opted_out:
            traffic.reservations.on_arrived(request)
        frontier = self._extension.frontier
        if frontier is not None and frontier.rights.are_needed_for(request):
            return await self._admit_held(frontier, request, key)
        if is_opted_out:
            return None
        return await traffic.admit(request, traffic.names.under(key, request))

    async def _admit_held(
        self, frontier: FrontierCrawl, request: Request, key: str
    ) -> Request | Response | None:
        """As without a frontier, once this worker holds the request's host, and while it does.

        Raises:
            IgnoreRequest: also where the request is another worker's.
        """
        traffic, recorder = self._traffic, self._extension.recorder
        while True:
            frontier.note_slot(request, key)
            if recorder is not None and not frontier.rights.holds(request):
                recorder.on_lease_wait(key)
            await frontier.rights.take(request, traffic.standing_by)
            if not request.meta.get(OPT_OUT_META_KEY):
                answer = await traffic.admit(request, traffic.names.under(key, request))
                if answer is not None:
                    return answer
            if frontier.rights.send(request):
                return None
            traffic.in_flight.drop(request)

    def process_response(self, request: Request, response: Response) -> Request | Response:
        """Keep refusals out of the HTTP cache, but let it answer them with a copy of its own."""
        traffic = self._traffic
        flight = traffic.in_flight.get(request)
        if flight is None:  # it was answered on its way to the gate, or was not ours to pace
            restore(request)
            traffic.on_left(request)
            return response
        is_redirect = 300 <= response.status < 400
        if is_redirect:
            traffic.on_received(request)
            # RedirectMiddleware comes before the body is decoded, and would follow it to a ban.
            traffic.in_flight.on_decoded(request, response)
        seen = flight.outcome or (flight.verdict and flight.verdict.outcome)
        if seen is not Outcome.REFUSED:
            let_in(request)
        elif response.status < 500 or "cached_response" not in request.meta:
            keep_out(request)
        if is_redirect:
            return self._extension.requeue.on_way_back(request) or response
        return response

    def process_exception(self, request: Request, exception: Exception) -> None:
        """Note that a download failed, ahead of every other middleware; or was answered after all:
        whoever stops a download has its head, and a refusal that breaks off is one."""
        traffic = self._traffic
        traffic.on_left(request)
        traffic.on_received(request)
        answer = answer_in(exception, request.url)
        if answer is not None and (
            isinstance(exception, StopDownload)
            or traffic.refusal_rules.by_status(answer).outcome is Outcome.REFUSED
        ):
            traffic.in_flight.on_response(request, answer)
        elif not isinstance(exception, OURS):
            traffic.in_flight.on_failed(request, Verdict(Outcome.FAILED))


class AdaptiveRefusals(JoinsExtension):
    """Downloader middleware at 585."""

    def process_response(self, request: Request, response: Response) -> Request | Response:
        """Send a refused request back; let everything else pass."""
        if is_robots_txt(request):
            self._extension.crawl_delays.on_robots_txt(request, response)
        is_cached = "cached" in response.flags
        if not is_cached:
            self._traffic.in_flight.on_decoded(request, response)
        flight = self._traffic.in_flight.get(request)
        again = self._extension.requeue.on_way_back(request, is_answered=is_cached)
        is_refused = flight is not None and flight.outcome is Outcome.REFUSED and not is_cached
        if again is None and is_refused and is_robots_txt(request):
            return self._extension.refused_robots.answer(request, response)
        return again or response

    def process_exception(self, request: Request, exception: Exception) -> Request | None:
        """Send a request back whose failure was not its own; others have seen the failure."""
        return self._extension.requeue.on_way_back(request)
