"""The traffic of one crawl: who may pass the gate, who waits, and when it moves.

Laws
----
* Every request past the gate has one permit; whoever has none waits, or goes back.
* After every fact the alarm is armed for the earliest instant at which the slot may move.
* Once the spider is asked to close, nothing more passes.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from scrapy.utils.defer import maybe_deferred_to_future

from scrapy_adaptive.core.facts import Wanted
from scrapy_adaptive.core.governor import Governor

from .gate_queue import GateQueue, Waiter
from .in_flight import InFlight
from .queues.cache_marks import CacheMarks
from .queues.fallback_queue import SideQueue
from .queues.saved_marks import SavedMarks
from .queues.scheduler_proxy import Returns, Room
from .robots import is_robots_txt
from .scrapy_internals import kind_of
from .timers import Timers

if TYPE_CHECKING:
    from collections.abc import Hashable

    from scrapy import Request

    from scrapy_adaptive.core.facts import Hold, Reason

    from .refusal_rules import RefusalRules
    from .reporting import Reporting
    from .robots import CrawlDelays
    from .scrapy_internals import Engine

PARKED = "adaptive_parked"
"""Why a crawl was closed of which only parked slots were left."""

STUCK_FOR = 10.0
"""Seconds, two of the engine's heartbeats, in which nothing else has happened."""

WHOLE_CRAWL = "\0"
"""The alarm's key for what holds every slot at once; no slot has such a name."""


class Traffic:
    """One crawl's traffic.

    Args:
        governor: decides.
        engine: Scrapy's private parts.
        refusal_rules: turns responses into verdicts.
        reporting: tells the user.
        crawl_delays: what robots.txt files asked for.
        page_of: identity of a request's page.
        may_end_parked: whether the crawl can be resumed, and need not wait for parked slots.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        governor: Governor,
        engine: Engine,
        refusal_rules: RefusalRules,
        reporting: Reporting,
        crawl_delays: CrawlDelays,
        *,
        page_of: Callable[[Request], Hashable],
        may_end_parked: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.governor = governor
        self.refusal_rules = refusal_rules
        self.clock = clock
        self.cache_marks = CacheMarks()
        self.saved_marks = SavedMarks(self.cache_marks)
        self.room: Room = SideQueue(self)
        self.returns = Returns(self)
        self.is_closing = False
        self._stopped: Reason | None = None
        self._engine = engine
        self._reporting = reporting
        self._crawl_delays = crawl_delays
        self._page_of = page_of
        self._may_end_parked = may_end_parked
        self._stuck_at = math.inf
        self._gate_queue = GateQueue()
        self._robots: dict[Request, str] = {}
        """robots.txt files under way, and their slots."""
        self._timers = Timers(self._on_alarm, clock)
        self.in_flight = InFlight(
            governor,
            refusal_rules,
            reporting,
            self._timers,
            page_of=page_of,
            clock=clock,
            on_ended=self._on_ended,
        )

    # Questions

    def key_of(self, request: Request) -> str | None:
        """The request's slot; None where there is no host."""
        key = self._engine.slot_key(request)
        return None if key is None else self.slot_under(key, request)

    def slot_under(self, key: str, request: Request) -> str:
        """The slot of the request's class under the slot `key`, if it has one; else `key`."""
        kinds = self.governor.kinds
        return kinds[key].get(kind_of(request), key) if kinds and key in kinds else key

    @property
    def waiting_count(self) -> int:
        """Requests that wait at the gate or after a refusal."""
        return len(self._gate_queue) + self.room.back_count

    @property
    def is_holding(self) -> bool:
        """Whether any request waits at the gate."""
        return bool(self._gate_queue)

    def has_waiting(self, key: str) -> bool:
        """Whether requests of that slot wait at the gate."""
        return key in self._gate_queue

    def is_suspect(self, request: Request) -> bool:
        """Whether the request's page was refused before, and the pace may not be to blame."""
        key = self.key_of(request)
        return (
            key is not None
            and key in self.governor
            and self.governor.slot(key, self.clock()).is_suspect(self._page_of(request))
        )

    # The way in

    async def admit(self, request: Request, key: str) -> bool:
        """Wait until this request may be sent; False when it has to go back instead."""
        if self._closed():
            return False
        self._engage(request, key)
        if key in self._gate_queue or not self.in_flight.begin(request, key):
            first = False
            while await self._wait(request, key, first=first) and self._is_overtaken(request):
                self.in_flight.drop(request)
                key = self.slot_under(self.governor.host_of(key), request)
                first = True
        if self._closed():
            self.in_flight.drop(request)
        self.rearm(key)
        return request in self.in_flight

    def _is_overtaken(self, request: Request) -> bool:
        return not self.is_closing and self.in_flight.is_overtaken(request)

    def _closed(self) -> bool:
        return self.is_closing

    def _engage(self, request: Request, key: str) -> None:
        now = self.clock()
        slot = self.governor.slot(key, now)
        if slot.is_new:
            self._reporting.on_new_slot(key)
        if self._crawl_delays:
            pace = slot.pace
            pace.crawl_delay = max(pace.crawl_delay, self._crawl_delays.of(request))
        promised = self.room.on_at_gate(request, key)
        if promised is not None and promised != key:
            self._rearm_family(promised)
        if is_robots_txt(request):
            slot.robots_count += 1
            self._robots[request] = key
            self.room.on_robots(request, key)

    async def _wait(self, request: Request, key: str, *, first: bool) -> bool:
        """Wait for a permit; returns whether there is one."""
        scheduled = self.returns.is_scheduled(request)
        waiter = Waiter(request, key, scheduled and self.room.takes_back, self.clock())
        self._gate_queue.join(key, waiter, first=first)
        self._stuck_at = math.inf
        if not scheduled:
            self._engine.step_aside(request)
        self._send_back(key)
        self.rearm(key)
        try:
            return await maybe_deferred_to_future(waiter.done)
        finally:  # whoever awaits the download may have cancelled it
            self._gate_queue.leave(waiter.key, waiter)
            if not scheduled:
                self._engine.step_back(request)

    def _serve(self, key: str) -> None:
        """Let go whoever may go of those who wait for this slot."""
        while key in self._gate_queue:
            wanted = self.governor.wanted(key)
            waiter = self._gate_queue.next(key, wanted, self.is_suspect)
            if self._is_better_elsewhere(key, wanted, waiter):
                self._hand_back(key, waiter)
            elif self.in_flight.begin(waiter.request, key):
                self._end_wait(key, waiter, may_go=True)
            else:
                return

    def _is_better_elsewhere(self, key: str, wanted: Wanted, waiter: Waiter) -> bool:
        """Whether the page that alone was refused is asked for now, and waits in the queue."""
        if wanted is not Wanted.SUSPECTED or not waiter.goes_back:
            return False
        return self.room.has_suspect(key) and not self.is_suspect(waiter.request)

    def _send_back(self, key: str) -> None:
        """Send those back who would wait too long."""
        waiters = self._gate_queue.of(key)
        now = self.clock()
        hold = self.governor.ready_at(key, now) if waiters else None
        if hold is None or self.is_closing:
            return
        slot = self.governor.slot(key, now)
        for waiter in waiters:
            if waiter.is_too_long(hold, slot, now):
                self._hand_back(key, waiter)

    def _hand_back(self, key: str, waiter: Waiter) -> None:
        self._reporting.on_handed_back()
        self._end_wait(key, waiter, may_go=False)

    def _end_wait(self, key: str, waiter: Waiter, *, may_go: bool) -> None:
        self._gate_queue.leave(key, waiter)
        self._engine.step_back(waiter.request)
        waiter.done.callback(may_go)

    # The way out

    def on_left(self, request: Request) -> None:
        """The request has left all downloader middlewares: whatever it held is free."""
        self.returns.on_left(request)
        promised = self.room.on_left(request)
        robots = self._robots.pop(request, None)
        if robots is not None:
            self.governor.slot(robots, self.clock()).robots_count -= 1
        if promised is not None:
            self._rearm_family(promised)
        if robots is not None:
            self._rearm_family(robots)
        flight = self.in_flight.end(request)
        if flight is not None and not flight.again:
            self.cache_marks.let_in(request)

    # Time

    def rearm(self, key: str, *, room_at: float | None = None) -> None:
        """Have the alarm wake this slot at the earliest instant at which anything may move.

        What may move at once moves when the loop has read its sockets: a refusal that has
        arrived, but was not read yet, must come first.

        Args:
            room_at: the instant at which queued requests may leave, if it is known already.
        """
        if self.is_closing:
            return
        now = self.clock()
        at = self.room.ripe_at(key, now) if room_at is None else room_at
        if key in self._gate_queue:
            at = min(
                at, self.governor.next_wakeup((key,), now), self._gate_queue.patience_until(key)
            )
        self._timers.arm(key, at)

    def _rearm_family(self, key: str) -> None:
        """What frees a slot may free those under it, and those beside it."""
        for each in self.governor.family(key):
            self.rearm(each)

    def await_crawl(self, hold: Hold) -> None:
        """Requests are ready, but the whole crawl is held: have the engine ask again."""
        if not self.is_closing:
            self._timers.arm(WHOLE_CRAWL, hold.until)

    def _on_ended(self, key: str) -> None:
        """A permit of this slot has ended: it may free the slot, or the whole crawl."""
        self._look_at_global()
        if self.governor.kinds:
            self._sort(key)
        for each in self.governor.family(key):
            self._send_back(each)
            self.room.on_freed(each)
            self.rearm(each)

    def _sort(self, key: str) -> None:
        """Who waits for a host, and whose class was split off since, waits for that."""
        for waiter in self._gate_queue.of(key) if key in self.governor.kinds else ():
            slot = self.slot_under(key, waiter.request)
            if slot != key:
                self._gate_queue.leave(key, waiter)
                self._gate_queue.join(slot, waiter, first=False)

    def _look_at_global(self) -> None:
        """While the whole crawl is stopped, and when it goes on, every slot's instant moves."""
        governor, now = self.governor, self.clock()
        was_stopped, self._stopped = self._stopped, governor.stopped_by(now)
        hold = governor.stop_hold(now)
        if self._stopped is not None and self._stopped is not was_stopped:
            self._reporting.on_stopped(self._stopped, governor.stop_causes)
        elif was_stopped is not None and self._stopped is None:
            self._reporting.on_resumed(was_stopped)
            self._engine.nudge()
        if hold is not None:
            self.await_crawl(hold)
        if self._stopped or was_stopped:
            for key in {*self._gate_queue, *self.room.keys}:
                self._send_back(key)
                self.rearm(key)

    def _on_alarm(self, keys: list[str]) -> None:
        self._look_at_global()
        asks = WHOLE_CRAWL in keys and self.room.is_ripe
        if self.governor.kinds:  # a class is held by its own pace too: it goes first when it may
            keys.sort(key=lambda key: self.governor.host_of(key) == key)
        for key in keys:
            if key != WHOLE_CRAWL:
                self._serve(key)
                self._send_back(key)
                asks |= self.room.on_due(key)
                self.rearm(key)
        if asks:
            self._engine.nudge()

    def on_close(self) -> None:
        """The spider is asked to close: nothing leaves any more, who waits goes back."""
        if self.is_closing:
            return
        self.is_closing = True
        self._timers.cancel()
        for key in list(self._gate_queue):
            for waiter in self._gate_queue.of(key):
                self._end_wait(key, waiter, may_go=False)
        self.room.on_close()

    # Parking

    @property
    def may_end_parked(self) -> bool:
        """Whether nothing but parked slots is left, of a crawl that can be resumed."""
        return self._may_end_parked and not self.is_closing and self.room.is_parked

    def on_nothing_to_send(self, *, has_pending: bool) -> None:
        """The engine asked in vain: close a crawl of which only parked slots are left.

        Where images of a parked slot, or its robots.txt, are awaited, Scrapy itself never gets
        idle. What else the pages are busy with is given `STUCK_FOR` seconds to go on.
        """
        now = self.clock()
        stuck = (
            self._may_end_parked
            and not self.is_closing
            and bool(self._gate_queue)
            and not (self.in_flight or self._engine.has_active or self._engine.is_starting)
            and (self.room.is_parked or not has_pending)
            and all(self.governor.is_parked(key, now) for key in self._gate_queue)
        )
        self._stuck_at = min(self._stuck_at, now) if stuck else math.inf
        if now >= self._stuck_at + STUCK_FOR:
            self._engine.close(PARKED)

    def waiting(self, key: str) -> int:
        """Requests that wait for this slot, at the gate or in its queue."""
        return len(self._gate_queue.of(key)) + self.room.waiting(key)
