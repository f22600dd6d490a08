"""Whether a refused request is fetched again, or shown to Scrapy as it is.

Laws
----
* A request that is fetched again spends no retry, and goes behind its host's requests of equal
  priority.
* A page found to be broken was fetched again once already, whatever its refusals: RetryMiddleware
  asks for it one time less, so that it is asked for as often as without us.
* Nor is a failure forgotten that was put down to the crawler's own connection, where that turns out
  not to have been down: it counts when the request fails again.
* Its counter of refusals lives in meta as a plain number, tied to the request's fingerprint:
  a spider that copies meta to another request copies no refusals.
* `dont_retry` requests, interactive commands and closing spiders see the refusal itself.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from scrapy_adaptive.core.types import Event, Outcome

from .queues.saved_marks import keep_out, let_in, mark
from .robots import is_robots_txt

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.statscollectors import StatsCollector

    from scrapy_adaptive.core.breaker.uplink import Cut

    from .flight import Flight
    from .reporting import Reporting
    from .traffic import Traffic

logger = logging.getLogger(__name__)

REFUSALS_META_KEY = "adaptive_refusals"
OWNER_META_KEY = "adaptive_refusals_of"

ROBOTS_REFUSALS = 3
"""Refusals of one robots.txt after which its last response goes to Scrapy, which then crawls
as for any robots.txt it cannot read."""


class Requeue:
    """Sends refused requests back.

    Args:
        traffic: the crawl's traffic.
        stats: where `adaptive/requeued` and `adaptive/handed_over` are counted.
        reporting: tells the user.
        fingerprint: identity of a request.
        max_refusals: refusals of one request before RetryMiddleware gets it.
        is_interactive: a user waits for this one answer.
    """

    def __init__(
        self,
        traffic: Traffic,
        stats: StatsCollector,
        reporting: Reporting,
        *,
        fingerprint: Callable[[Request], bytes],
        max_refusals: int,
        is_interactive: bool,
    ) -> None:
        self._traffic = traffic
        self._stats = stats
        self._reporting = reporting
        self._fingerprint = fingerprint
        self._max_refusals = max_refusals
        self._is_interactive = is_interactive
        self._excused: WeakKeyDictionary[Request, Cut] = WeakKeyDictionary()
        """Requests whose last failure was put down to the crawler's own connection."""

    def on_way_back(self, request: Request, *, is_answered: bool = False) -> Request | None:
        """The request, if it is to be fetched again; None if Scrapy is to see what came.

        Args:
            is_answered: somebody else than the site has answered it: the HTTP cache.
        """
        flight = self._traffic.in_flight.end(request)
        if flight is None:
            return None
        again = None if is_answered else self._after(request, flight)
        if again is not None and self._traffic.refusal_rules.has_classifier:
            # The cache may hold what only the classifier knew to be a refusal.
            keep_out(request)
        else:
            let_in(request)
        if again is not None and flight.scheduled:
            mark(request)
        return again

    def _after(self, request: Request, flight: Flight) -> Request | None:
        decision = flight.decision
        if decision is None or not decision.again:
            self._charge(request, flight)
            self._forget(request, flight)
            return None
        if self._is_interactive:
            request.meta["dont_retry"] = True
        if request.meta.get("dont_retry", False):
            return None
        return self._send_back(request, flight)

    def _charge(self, request: Request, flight: Flight) -> None:
        """It fails again: what was put down to a connection that was not down was its own."""
        cut = self._excused.pop(request, None)
        if cut is not None and flight.outcome is Outcome.FAILED and not cut.is_proven:
            request.meta["retry_times"] = request.meta.get("retry_times", 0) + 1

    def _forget(self, request: Request, flight: Flight) -> None:
        """The refusals of a page that was accepted, or found to be broken, count no more."""
        meta = request.meta
        if REFUSALS_META_KEY not in meta:
            return
        broken = flight.decision is not None and flight.decision.event is Event.BROKEN
        if broken and self._owns(request):
            meta["retry_times"] = meta.get("retry_times", 0) + 1
        if broken or flight.outcome is Outcome.ACCEPTED:
            del meta[REFUSALS_META_KEY], meta[OWNER_META_KEY]

    def _send_back(self, request: Request, flight: Flight) -> Request | None:
        traffic = self._traffic
        if traffic.closing.has_begun and not flight.scheduled:
            return None
        is_own = flight.outcome is not Outcome.FAILED  # else the crawler's own connection is down
        if not is_own:
            self._excused[request] = traffic.governor.uplink_cut
        count = self._count(request) if is_own else 0
        if is_robots_txt(request) and count >= ROBOTS_REFUSALS:
            request.meta["dont_retry"] = True
            return None
        if count > self._max_refusals:
            self._hand_over(request, flight.permit.key, count)
            return None
        traffic.governor.slot(flight.permit.key, traffic.clock()).again_count += 1
        self._stats.inc_value("adaptive/requeued")
        self._reporting.on_requeued()
        return request

    def _count(self, request: Request) -> int:
        """One more refusal of this request; returns how many there were."""
        count = (request.meta.get(REFUSALS_META_KEY, 0) if self._owns(request) else 0) + 1
        request.meta[REFUSALS_META_KEY] = count
        request.meta[OWNER_META_KEY] = self._fingerprint(request).hex()
        return int(count)

    def _owns(self, request: Request) -> bool:
        """Whether the refusals in its meta are its own, not copied from another request."""
        return request.meta.get(OWNER_META_KEY) == self._fingerprint(request).hex()

    def _hand_over(self, request: Request, key: str, count: int) -> None:
        self._stats.inc_value("adaptive/handed_over")
        if count == self._max_refusals + 1:
            self._reporting.on_handed_over(key, request)
            logger.error(
                "%(request)s was refused more than %(most)d times (ADAPTIVE_MAX_REFUSALS): "
                "RetryMiddleware decides from here",
                {"request": request, "most": self._max_refusals},
            )
