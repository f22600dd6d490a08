"""The traffic of one crawl: permits, waits and verdicts.

Laws
----
* Every request past the gate has one permit; it ends when its answer is judged, or at the
  latest when the request has left all downloader middlewares.
* Requests of a slot that wait go first come, first served, but for probes and rechecks.
* After every fact the alarm is armed for the earliest instant at which the slot may move.
* Once the spider is asked to close, nothing more passes.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from scrapy.utils.defer import maybe_deferred_to_future
from twisted.internet.defer import Deferred

from scrapy_adaptive.core.facts import Answer, Hold, Outcome, Permit, Wanted
from scrapy_adaptive.core.governor import Governor

from .alarm import Alarm
from .cache_marks import CacheMarks
from .flight import Flight
from .returns import Returns

if TYPE_CHECKING:
    from collections.abc import Hashable

    from scrapy import Request
    from scrapy.http import Response

    from .engine import Engine
    from .judge import Judge, Verdict
    from .robots import CrawlDelays
    from .watch import Watch

OPT_OUT_META_KEY = "adaptive_dont_throttle"
DONT_LEARN_META_KEY = "autothrottle_dont_adjust_delay"


class Throttle:
    """One crawl's traffic.

    Args:
        governor: decides.
        engine: Scrapy's private parts.
        judge: turns responses into verdicts.
        watch: tells the user.
        crawl_delays: what robots.txt files asked for.
        page_of: identity of a request's page.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        governor: Governor,
        engine: Engine,
        judge: Judge,
        watch: Watch,
        crawl_delays: CrawlDelays,
        *,
        page_of: Callable[[Request], Hashable],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.governor = governor
        self.judge = judge
        self.clock = clock
        self.cache_marks = CacheMarks()
        self.returns = Returns(self)
        self.is_closing = False
        self._stopped = False
        self._engine = engine
        self._watch = watch
        self._crawl_delays = crawl_delays
        self._page_of = page_of
        self._flights: dict[Request, Flight] = {}
        self._waiting: dict[str, deque[tuple[Request, Deferred[None]]]] = {}
        self._reserved: dict[Request, str] = {}
        self._alarm = Alarm(self._on_alarm, clock)

    # Questions

    def key_of(self, request: Request) -> str | None:
        """The request's slot; None where there is no host."""
        return self._engine.slot_key(request)

    def flight(self, request: Request) -> Flight | None:
        """What is known of a request past the gate."""
        return self._flights.get(request)

    @property
    def waiting_count(self) -> int:
        """Requests that wait at the gate or after a refusal."""
        return sum(map(len, self._waiting.values())) + len(self.returns)

    @property
    def is_holding(self) -> bool:
        """Whether any request waits at the gate."""
        return bool(self._waiting)

    def has_waiting(self, key: str) -> bool:
        """Whether requests of that slot wait at the gate."""
        return key in self._waiting

    # The way in

    async def admit(self, request: Request, key: str) -> bool:
        """Wait until this request may be sent; False when the spider is closing instead."""
        if self._closed():
            return False
        self._engage(request, key)
        if key in self._waiting or not self._try(request, key):
            await self._wait(request, key)
            while not self._closed() and self._is_overtaken(request):
                self._drop(request)
                await self._wait(request, key, first=True)
        if self._closed():
            self._drop(request)
            return False
        if self.returns.keys:
            self.rearm(key)
        return True

    def _is_overtaken(self, request: Request) -> bool:
        """Whether a refusal was read between the grant of a permit and this coroutine's turn."""
        flight = self._flights.get(request)
        return flight is not None and self.governor.is_overtaken(flight.permit, self.clock())

    def _closed(self) -> bool:
        return self.is_closing

    def reserve(self, key: str, request: Request) -> Hold | None:
        """Promise a place of the slot to a request that is about to set out."""
        hold = self.governor.reserve(key, self.clock())
        if hold is None:
            self._reserved[request] = key
        return hold

    def _engage(self, request: Request, key: str) -> None:
        self._release(request)
        now = self.clock()
        if key not in self.governor:
            self._watch.on_new_slot(key)
        slot = self.governor.slot(key, now)
        if self._crawl_delays:
            slot.crawl_delay = max(slot.crawl_delay, self._crawl_delays.of(request))

    def _try(self, request: Request, key: str) -> bool:
        result = self.governor.take(key, self.clock())
        if isinstance(result, Hold):
            return False
        self._flights[request] = Flight(result)
        if result.probe:
            self._watch.on_probe(key, request)
        return True

    async def _wait(self, request: Request, key: str, *, first: bool = False) -> None:
        scheduled = self.returns.is_scheduled(request)
        deferred: Deferred[None] = Deferred()
        queue = self._waiting.setdefault(key, deque())
        queue.insert(0 if first else len(queue), (request, deferred))
        if not scheduled:
            self._engine.step_aside(request)
        self.rearm(key)
        try:
            await maybe_deferred_to_future(deferred)
        except BaseException:  # whoever awaits the download has cancelled it
            self._forget_waiting(request, key)
            raise
        finally:
            if not scheduled:
                self._engine.step_back(request)

    def _forget_waiting(self, request: Request, key: str) -> None:
        left = [entry for entry in self._waiting.pop(key, ()) if entry[0] is not request]
        if left:
            self._waiting[key] = deque(left)

    def _serve(self, key: str) -> None:
        """Let go whoever may go of those who wait for this slot."""
        queue = self._waiting.get(key)
        while queue:
            index = self._choose(key, queue)
            request, deferred = queue[index]
            if not self._try(request, key):
                return
            del queue[index]
            if not queue:
                del self._waiting[key]
            self._engine.step_back(request)
            deferred.callback(None)

    def _choose(self, key: str, queue: deque[tuple[Request, Deferred[None]]]) -> int:
        slot = self.governor.slot(key, self.clock())
        wanted = slot.wanted
        if wanted is Wanted.ANY or len(queue) == 1 or not slot.suspects:
            return 0
        suspected = wanted is Wanted.SUSPECTED
        for index, (request, _) in enumerate(queue):
            if (self._page_of(request) in slot.suspects) is suspected:
                return index
        return 0

    # The way out

    def on_wire(self, request: Request) -> None:
        """The request reached the downloader."""
        flight = self._flights.get(request)
        if flight is not None:
            flight.on_wire = True

    def on_response(self, request: Request, response: Response) -> None:
        """The response has arrived; its body may still be compressed."""
        flight = self._flights.get(request)
        if flight is None or flight.decision is not None:
            return
        flight.latency = self._latency(request, flight.permit)
        verdict = self.judge.by_status(response)
        if self.judge.has_classifier:
            flight.verdict = verdict
            if verdict.outcome is Outcome.REFUSED:
                self.governor.on_doubt(flight.permit)
            return
        self._settle(request, flight, verdict, response)

    def on_decoded(self, request: Request, response: Response) -> None:
        """The decoded response is there: the classifier has the last word."""
        flight = self._flights.get(request)
        if response.request is None:
            response.request = request  # Scrapy does so later; a classifier wants to see it
        if flight is not None and flight.verdict is not None and flight.decision is None:
            self._settle(request, flight, self.judge.by_body(response, flight.verdict), response)

    def on_failed(self, request: Request, verdict: Verdict) -> None:
        """The download failed."""
        flight = self._flights.get(request)
        if flight is not None and flight.on_wire and flight.decision is None:
            self._settle(request, flight, verdict, None)

    def on_left(self, request: Request) -> None:
        """The request has left all downloader middlewares: whatever is open ends now."""
        self._release(request)
        self.returns.on_left(request)
        flight = self._flights.pop(request, None)
        if flight is None:
            return
        if not flight.again:
            self.cache_marks.let_in(request)
        if flight.decision is not None:
            return
        if flight.verdict is not None:
            self._settle(request, flight, flight.verdict, None)
            return
        end = self.governor.on_ignored if flight.on_wire else self.governor.on_dropped
        end(flight.permit, self.clock())
        self._on_ended(flight.permit.key)

    def _drop(self, request: Request) -> None:
        flight = self._flights.pop(request, None)
        if flight is not None:
            self.governor.on_dropped(flight.permit, self.clock())
            self._on_ended(flight.permit.key)

    def _release(self, request: Request) -> None:
        key = self._reserved.pop(request, None)
        if key is not None:
            self.governor.release(key)
            self.rearm(key)

    def _settle(
        self, request: Request, flight: Flight, verdict: Verdict, response: Response | None
    ) -> None:
        now = self.clock()
        key = flight.permit.key
        slot = self.governor.slot(key, now)
        accepted = verdict.outcome is Outcome.ACCEPTED
        learns = request.meta.get(DONT_LEARN_META_KEY, False) is not True
        answer = Answer(
            verdict.outcome,
            latency=flight.latency if learns else None,
            may_lower=response is not None and response.status == 200,
            told=verdict.told,
            page=self._page_of(request) if slot.suspects or not accepted else None,
        )
        flight.outcome = verdict.outcome
        flight.decision = self.governor.on_answer(flight.permit, answer, now)
        self._watch.on_decision(slot, flight, request, response, now)
        self._on_ended(key)

    def _latency(self, request: Request, permit: Permit) -> float:
        """AutoThrottle's measure, or our own where the handler gives none; never our own lag."""
        latency = request.meta.get("download_latency")
        now = self.clock()
        if latency is None:
            latency = now - permit.sent_at
        return max(0.0, latency - self._alarm.lag_since(permit.sent_at))

    # Time

    def rearm(self, key: str) -> None:
        """Have the alarm wake this slot at the earliest instant at which anything may move.

        What may move at once moves when the loop has read its sockets: a refusal that has
        arrived, but was not read yet, must come first.
        """
        if self.is_closing:
            return
        now = self.clock()
        at = self.returns.ripe_at(key, now)
        if key in self._waiting:
            at = min(at, self.governor.next_wakeup((key,), now))
        self._alarm.arm(key, at)

    def _on_ended(self, key: str) -> None:
        """A permit of this slot has ended: it may free the slot, or the whole crawl."""
        self._look_at_global()
        self.rearm(key)
        if self.returns.ripe_at(key, self.clock()) <= self.clock():
            self.returns.on_due(key)  # the place that has just become free is for a page of these

    def _look_at_global(self) -> None:
        """While the whole crawl is stopped, and when it goes on, every slot's instant moves."""
        was_stopped, self._stopped = self._stopped, self.governor.is_stopped(self.clock())
        if self._stopped and not was_stopped:
            self._watch.on_stopped(self.governor.stop_causes)
        elif was_stopped and not self._stopped:
            self._watch.on_resumed()
        if self._stopped or was_stopped:
            for key in {*self._waiting, *self.returns.keys}:
                self.rearm(key)

    def _on_alarm(self, keys: list[str]) -> None:
        self._look_at_global()
        for key in keys:
            self._serve(key)
            self.returns.on_due(key)
            self.rearm(key)
        if self.returns.is_ripe:
            self._engine.nudge()

    def on_close(self) -> None:
        """The spider is asked to close: nothing leaves any more, who waits goes back."""
        if self.is_closing:
            return
        self.is_closing = True
        self._alarm.cancel()
        waiting, self._waiting = self._waiting, {}
        for queue in waiting.values():
            for _, deferred in queue:
                deferred.callback(None)
        self.returns.give_back_all()
