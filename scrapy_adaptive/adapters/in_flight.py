"""Requests past the gate: what came of each, and its permit's end.

Laws
----
* A flight begins with a permit and ends when the request has passed our middlewares on its way
  back; one that went another way is found by a sweep.
* Its answer is judged once: by its status, or, where there is a classifier, once the body is
  decoded. Where a middleware keeps the response meanwhile, and somebody waits for its slot, the
  status decides: the classifier only says whether the request is fetched again.
* No site is charged with the lag of our own event loop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from scrapy_adaptive.core.permit import Permit
from scrapy_adaptive.core.types import Answer, Blocked, Outcome

from .flight import Flight
from .scrapy_internals import kind_of

if TYPE_CHECKING:
    from collections.abc import Container, Hashable, Iterator

    from scrapy import Request
    from scrapy.http import Response

    from scrapy_adaptive.core.governor import Governor
    from scrapy_adaptive.core.slot_config import Limits
    from scrapy_adaptive.core.types import Decision

    from .refusal_rules import RefusalRules, Verdict
    from .reporting import Reporting
    from .timers import Timers

DONT_LEARN_META_KEY = "autothrottle_dont_adjust_delay"

PATIENCE = 1.0
"""Seconds for which a verdict is awaited while somebody waits for its slot."""

NO_ERROR = (404, 410)
"""Statuses of 400 or more with which a site serves a request as well as with a 200."""


class InFlight:
    """Requests of one crawl past the gate.

    Args:
        governor: decides.
        refusal_rules: turns responses into verdicts.
        reporting: tells the user.
        timers: knows the lag of the event loop.
        page_of: identity of a request's page.
        clock: monotonic seconds.
        on_ended: called with each permit that ends.
        on_refused: called with each request that was refused or failed, its slot, and what follows.
    """

    def __init__(
        self,
        governor: Governor,
        refusal_rules: RefusalRules,
        reporting: Reporting,
        timers: Timers,
        *,
        page_of: Callable[[Request], Hashable],
        clock: Callable[[], float],
        on_ended: Callable[[Permit], None],
        on_refused: Callable[[Request, str, Decision], None],
    ) -> None:
        self._governor = governor
        self._refusal_rules = refusal_rules
        self._reporting = reporting
        self._timers = timers
        self._page_of = page_of
        self._clock = clock
        self._on_ended = on_ended
        self._on_refused = on_refused
        self._in_flight: dict[Request, Flight] = {}
        self._recorder = reporting.recorder

    def __len__(self) -> int:
        return len(self._in_flight)

    def __contains__(self, request: Request) -> bool:
        return request in self._in_flight

    def __iter__(self) -> Iterator[Request]:
        return iter(self._in_flight)

    def get(self, request: Request) -> Flight | None:
        """What is known of a request past the gate."""
        return self._in_flight.get(request)

    @property
    def unanswered(self) -> Iterator[Request]:
        """Requests past the gate that have no answer yet."""
        return (request for request, flight in self._in_flight.items() if not flight.is_answered)

    def begin(self, request: Request, key: str, *, scheduled: bool) -> bool:
        """Take a permit of this leaf, if there is one now; returns whether there was."""
        result = self._governor.take(key, self._clock())
        if isinstance(result, Blocked):
            return False
        self.end(request)  # the same object may be under way already
        self._in_flight[request] = Flight(result, scheduled)
        if result.probe:
            self._reporting.on_probe(result.key, request)
        return True

    def is_overtaken(self, request: Request) -> bool:
        """Whether a refusal was read between the grant of its permit and its turn."""
        flight = self._in_flight.get(request)
        return flight is not None and self._governor.is_overtaken(flight.permit, self._clock())

    def drop(self, request: Request) -> None:
        """The request will not be sent: its permit ends, if it has one."""
        flight = self._in_flight.pop(request, None)
        if flight is not None:
            self._governor.on_dropped(flight.permit, self._clock())
            self._on_ended(flight.permit)

    def on_wire(self, request: Request) -> None:
        """The request reached the downloader."""
        flight = self._in_flight.get(request)
        if flight is not None:
            flight.on_wire = True
            if self._recorder is not None:
                self._recorder.on_sent(flight.permit.key)

    def on_response(self, request: Request, response: Response) -> None:
        """The response has arrived; its body may still be compressed."""
        flight = self._in_flight.get(request)
        if flight is None or flight.decision is not None:
            return
        flight.latency = self._latency(request, flight.permit)
        verdict = self._refusal_rules.by_status(response)
        if self._refusal_rules.has_classifier:
            flight.verdict, flight.answered_at = verdict, self._clock()
            if verdict.outcome is Outcome.REFUSED:
                self._governor.on_doubt(flight.permit)
            return
        self._settle(request, flight, verdict, response)

    def on_decoded(self, request: Request, response: Response) -> None:
        """The decoded response is there: the classifier has the last word."""
        flight = self._in_flight.get(request)
        if response.request is None:
            response.request = request  # Scrapy does so later; a classifier wants to see it
        if flight is None or flight.verdict is None:
            return
        verdict = self._refusal_rules.by_body(response, flight.verdict)
        if flight.decision is None:
            self._settle(request, flight, verdict, response)
        elif verdict.outcome is not flight.outcome:
            flight.outcome = verdict.outcome
            again = verdict.outcome is Outcome.REFUSED
            flight.decision = flight.decision._replace(again=again)

    def hurry(self, keys: Container[str] | None) -> None:
        """Somebody waits for these slots, or for all of them: perhaps the middleware that keeps a
        response of them."""
        since = self._clock() - PATIENCE
        for request, flight in list(self._in_flight.items()):
            if flight.verdict is None or flight.decision is not None:
                continue
            is_theirs = keys is None or flight.permit.key in keys
            if flight.answered_at <= since and is_theirs:
                self._settle(request, flight, flight.verdict, None)

    def on_failed(self, request: Request, verdict: Verdict) -> None:
        """The download failed."""
        flight = self._in_flight.get(request)
        if flight is not None and flight.on_wire and flight.decision is None:
            self._settle(request, flight, verdict, None)

    def sweep(self, is_active: Callable[[Request], bool]) -> None:
        """End the flights of requests that went another way than past our middlewares."""
        for request in [each for each in self._in_flight if not is_active(each)]:
            self.end(request)

    def end(self, request: Request) -> Flight | None:
        """The request has passed our middlewares on its way back: whatever is open ends now."""
        flight = self._in_flight.pop(request, None)
        if flight is None or flight.decision is not None:
            return flight
        if flight.verdict is not None:
            self._settle(request, flight, flight.verdict, None)
            return flight
        end = self._governor.on_ignored if flight.on_wire else self._governor.on_dropped
        end(flight.permit, self._clock())
        self._on_ended(flight.permit)
        return flight

    def _settle(
        self, request: Request, flight: Flight, verdict: Verdict, response: Response | None
    ) -> None:
        now = self._clock()
        key = flight.permit.key
        slot = self._governor.slot(key, now)
        accepted = verdict.outcome is Outcome.ACCEPTED
        learns = request.meta.get(DONT_LEARN_META_KEY, False) is not True
        answer = Answer(
            verdict.outcome,
            latency=flight.latency if learns else None,
            may_lower=response is not None and _may_lower(response.status, slot.limits),
            silent=response is None and flight.verdict is None,
            announced=verdict.announced,
            quotas=verdict.quotas,
            page=self._page_of(request) if slot.suspected or not accepted else None,
            kind=kind_of(request) if slot.classes is not None or not accepted else None,
        )
        flight.outcome = verdict.outcome
        flight.decision = self._governor.on_answer(flight.permit, answer, now)
        self._reporting.on_decision(slot, flight, request, response, now)
        if not accepted:
            self._on_refused(request, key, flight.decision)
        self._on_ended(flight.permit)

    def _latency(self, request: Request, permit: Permit) -> float:
        """AutoThrottle's measure, or our own where the handler gives none; never our own lag."""
        latency = request.meta.get("download_latency")
        now = self._clock()
        if latency is None:
            latency = now - permit.sent_at
        return max(0.0, latency - self._timers.lag_since(permit.sent_at))


def _may_lower(status: int, limits: Limits) -> bool:
    """Whether an answer of this status may lower the delay.

    By AutoThrottle's own law only a 200 may. Its reason is that error pages are quick: a redirect,
    a "not modified" and a page that is not there are no errors.
    """
    if limits.only_200_lowers:
        return status == 200
    return status < 400 or status in NO_ERROR
