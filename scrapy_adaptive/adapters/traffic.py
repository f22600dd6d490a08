"""The traffic of one crawl: who may pass the gate, who waits, and when it moves.

Laws
----
* Every request past the gate has one permit; whoever has none waits.
* After every fact a timer is armed for the earliest instant at which the slot may move.
* Closing is Scrapy's: what is merely paced is served; what a paused slot holds is given up, or
  saved with the job. Nothing leaves for a paused slot once the spider is asked to close.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING
from weakref import WeakSet

from scrapy.exceptions import IgnoreRequest
from scrapy.http.request import NO_CALLBACK
from scrapy.utils.defer import maybe_deferred_to_future
from scrapy.utils.httpobj import urlparse_cached

from scrapy_adaptive.core.breaker.host_load import HostLoad
from scrapy_adaptive.core.facts import Wanted
from scrapy_adaptive.core.governor import Governor

from .gate_queue import GateQueue, Waiter
from .in_flight import InFlight
from .queues.saved_marks import CacheMarks, SavedMarks
from .queues.waiting_room import NoRoom, WaitingRoom
from .robots import is_robots_txt
from .scrapy_internals import WRITTEN_META_KEY, kind_of
from .timers import Timers

if TYPE_CHECKING:
    from collections.abc import Hashable

    from scrapy import Request
    from scrapy.http import Response

    from scrapy_adaptive.core.facts import Hold, Reason

    from .refusal_rules import RefusalRules
    from .reporting import Reporting
    from .robots import CrawlDelays
    from .scrapy_internals import Engine
    from .setting_types import SlotRule

PARKED = "adaptive_parked"
"""Why a crawl was closed of which only parked slots were left."""

STUCK_FOR = 10.0
"""Seconds, two of the engine's heartbeats, in which nothing else has happened."""

PATIENCE = 1.0
"""Seconds of a pause that a closing spider, and a slot chosen after the queue, still wait out."""

PATIENCE_AT_PROMPT = 5.0
"""Seconds of a pause that the user of `scrapy shell` or `scrapy fetch` still waits out."""

STALE_META_KEY = "cached_response"
"""Where HttpCacheMiddleware leaves the stale copy that it asks the site about."""

WHOLE_CRAWL = "\0"
"""The timers' key for what holds every slot at once; no slot has such a name."""


class Traffic:
    """One crawl's traffic.

    Args:
        governor: decides.
        engine: Scrapy's private parts.
        refusal_rules: turns responses into verdicts.
        reporting: tells the user.
        crawl_delays: what robots.txt files asked for.
        page_of: identity of a request's page.
        slot_rule: names a request's slot, or returns None for Scrapy's own.
        most_hosts: hosts remembered whose requests go to other slots than their own.
        may_end_parked: whether the crawl can be resumed, and need not wait for parked slots.
        is_interactive: a user waits for this one answer.
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
        slot_rule: SlotRule | None = None,
        most_hosts: int = 10_000,
        may_end_parked: bool = False,
        is_interactive: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.governor = governor
        self.refusal_rules = refusal_rules
        self.clock = clock
        self.cache_marks = CacheMarks()
        self.saved_marks = SavedMarks(self.cache_marks)
        self.room: WaitingRoom = NoRoom()
        self.is_closing = False
        self.is_interactive = is_interactive
        self._given_up: Counter[str] = Counter()
        """Requests given up as the spider closed, by slot."""
        self._stopped: Reason | None = None
        self._engine = engine
        self._reporting = reporting
        self._crawl_delays = crawl_delays
        self._page_of = page_of
        self._slot_rule = slot_rule
        self._may_end_parked = may_end_parked
        self._patience = PATIENCE_AT_PROMPT if is_interactive else math.inf
        self._sent_back: WeakSet[Request] = WeakSet()
        self._stuck_since: float | None = None
        self._gate_queue = GateQueue()
        self._awaits_pop: dict[str, None] = {}
        """Slots that may send, and whose requests at the gate go on when the engine next asks:
        they have no place in CONCURRENT_REQUESTS, or a better one waits in the queue."""
        self._unscheduled_count = 0
        """Requests at the gate that the scheduler did not give out: media, robots.txt."""
        self._robots: dict[Request, tuple[str, int]] = {}
        """robots.txt files under way, their slots, and the places lent of pages that wait."""
        self._host_load = HostLoad(most_hosts)
        self._timers = Timers(self._on_due, clock)
        self.in_flight = InFlight(
            governor,
            refusal_rules,
            reporting,
            self._timers,
            page_of=page_of,
            clock=clock,
            on_ended=self._on_ended,
            on_paused=self._on_paused,
        )

    # Questions

    def own_key(self, request: Request) -> str | None:
        """The slot of a request on its way in, classes of pages aside; None without a host."""
        chosen = None if self._slot_rule is None else self._slot_rule(request)
        return self._engine.own_key(request) if chosen is None else chosen

    def key_of(self, request: Request) -> str | None:
        """The request's slot; None where there is no host."""
        key = self._engine.slot_key(request)
        return None if key is None else self.slot_under(key, request)

    def gate_key(self, request: Request) -> str | None:
        """The slot of a request that has reached the gate; None where there is no host."""
        chosen = None if self._slot_rule is None else self._slot_rule(request)
        return self._engine.claim_key(request, chosen)

    def slot_under(self, key: str, request: Request) -> str:
        """The slot of the request's class under the slot `key`, if it has one; else `key`."""
        kinds = self.governor.kinds
        return kinds[key].get(kind_of(request), key) if kinds and key in kinds else key

    @property
    def waiting_count(self) -> int:
        """Requests that wait at the gate, or after a refusal."""
        return len(self._gate_queue) + self.room.back_count

    def waiting(self, key: str) -> int:
        """Requests that wait for this slot, at the gate or in its queue."""
        return self._gate_queue.count(key) + self.room.waiting(key)

    def is_suspect(self, request: Request) -> bool:
        """Whether the request's page was refused before, and the pace may not be to blame."""
        key = self.key_of(request)
        return (
            key is not None
            and key in self.governor
            and self.governor.slot(key, self.clock()).is_suspect(self._page_of(request))
        )

    def is_scheduled(self, request: Request) -> bool:
        """Whether the scheduler gave this request out, as far as can be known before the gate."""
        if self.room.keeps:
            return self.room.gave_out(request)
        return request.callback is not NO_CALLBACK and not is_robots_txt(request)

    # The way in

    async def admit(self, request: Request, key: str) -> Request | Response | None:
        """Wait until this request may be sent; returns it where it goes back instead.

        A stale copy in the HTTP cache is the answer while its site is silent.

        Raises:
            IgnoreRequest: its slot is paused, and nobody will wait for it.
        """
        scheduled = self.is_scheduled(request)
        promised = self._engage(request, key)
        if promised not in (None, key) and self._waits_long(key):
            return self._send_back(request)
        if (copy := self._stale_copy(request, key)) is not None:
            return copy
        if key in self._gate_queue or not self.in_flight.begin(request, key, scheduled=scheduled):
            first = False
            while True:
                if not await self._wait(request, key, scheduled=scheduled, first=first):
                    return self._give_up(request, key, scheduled=scheduled)
                if not self.in_flight.is_overtaken(request):
                    break
                self.in_flight.drop(request)
                key = self.slot_under(self.governor.host_of(key), request)
                first = True
        self.rearm(key)
        return None

    def _engage(self, request: Request, key: str) -> str | None:
        """The request is at the gate; returns the slot of which its queue had reserved a place."""
        slot = self.governor.slot(key, self.clock())
        if slot.is_new:
            self._reporting.on_new_slot(key)
        if self._crawl_delays:
            pace = slot.pace
            pace.crawl_delay = max(pace.crawl_delay, self._crawl_delays.of(request))
        host = self._host_of_other_slot(request, key)
        if host is not None:
            self._host_load.on_sent(host, key)
        promised = self.room.on_at_gate(request, key)
        if promised is not None and promised != key:
            self._rearm_family(promised)
        if is_robots_txt(request) and request not in self._robots:
            slot.robots_count += 1
            pages = sum(map(self.room.under_way, self.governor.family(key)))
            self._robots[request] = key, pages
            self._engine.lend(pages)
        return promised

    def _waits_long(self, key: str) -> bool:
        """Whether a request that the queue did not expect in this slot would hold it up."""
        now = self.clock()
        hold = self.governor.ready_at(key, now)
        return hold is not None and (
            now + PATIENCE < hold.until < math.inf or self._gate_queue.count(key) > 1
        )

    def _stale_copy(self, request: Request, key: str) -> Response | None:
        """What the HTTP cache has of a request whose slot is paused, if it may stand for it."""
        copy = request.meta.get(STALE_META_KEY)
        if copy is None or not self._is_paused(key, self.clock()):
            return None
        return copy if self._engine.may_serve_stale(request, copy) else None

    async def _wait(self, request: Request, key: str, *, scheduled: bool, first: bool) -> bool:
        """Wait for a permit; returns whether there is one."""
        lends = self.room.keeps or not scheduled
        waiter = Waiter(request, key, scheduled, lends)
        self._gate_queue.join(key, waiter, first=first)
        self._unscheduled_count += not scheduled
        self._engine.widen_scraper(wide=self._unscheduled_count > 0)
        self._engine.lend(lends)
        self._turn_away(key)
        self.rearm(key)
        try:
            return await maybe_deferred_to_future(waiter.done)
        finally:  # whoever awaits the download may have cancelled it
            self._end_wait(waiter)
            self._unscheduled_count -= not scheduled
            self._engine.widen_scraper(wide=self._unscheduled_count > 0)

    def _end_wait(self, waiter: Waiter) -> None:
        """It waits no more; its place is its own again."""
        self._gate_queue.leave(waiter)
        if waiter.lends:
            self._engine.lend(-1)
            waiter.lends = False

    def _serve(self, key: str) -> None:
        """Let go whoever may go of those who wait for this slot."""
        while key in self._gate_queue:
            wanted = self.governor.wanted(key)
            waiter = self._gate_queue.next(key, wanted, self.is_suspect)
            if self._is_better_elsewhere(key, wanted, waiter):
                self._awaits_pop[key] = None
                self._engine.nudge()
                return
            if waiter.scheduled and waiter.lends and not self._engine.has_place:
                self._awaits_pop[key] = None
                return
            if not self.in_flight.begin(waiter.request, key, scheduled=waiter.scheduled):
                return
            self._end_wait(waiter)
            waiter.done.callback(True)

    def serve_waiting(self) -> bool:
        """The engine asks: the place is for who waits at the gate, if anyone; returns whether."""
        if not self._awaits_pop:
            return False
        key = next(iter(self._awaits_pop))
        del self._awaits_pop[key]
        count = self._gate_queue.count(key)
        self._serve(key)
        self.rearm(key)
        return self._gate_queue.count(key) < count

    def _is_better_elsewhere(self, key: str, wanted: Wanted, waiter: Waiter) -> bool:
        """Whether the page that alone was refused is asked for now, and waits in the queue."""
        if wanted is not Wanted.SUSPECTED or self.is_closing or self.is_suspect(waiter.request):
            return False
        return self.room.has_suspect(key)

    # The way back

    def _send_back(self, request: Request) -> Request:
        """The request goes to the queue of the slot that it has."""
        self._reporting.on_handed_back()
        self.saved_marks.mark(request)
        return request

    def _turn_away(self, key: str) -> None:
        """Nobody waits for a paused slot once the spider closes, or at a prompt for long."""
        patience = PATIENCE if self.is_closing else self._patience
        if patience < math.inf and self._is_paused(key, self.clock() + patience):
            for waiter in self._gate_queue.of(key):
                self._end_wait(waiter)
                waiter.done.callback(False)

    def _is_paused(self, key: str, instant: float) -> bool:
        """Whether the slot, or the whole crawl, will still be silent at that instant."""
        stop = self.governor.stop_hold(self.clock())
        if stop is not None and stop.until > instant:
            return True
        keys = {key, self.governor.host_of(key)}
        return any(self.governor.slot(each, instant).silent_until > instant for each in keys)

    def _give_up(self, request: Request, key: str, *, scheduled: bool) -> Request:
        """The slot is paused, and the spider closes or a user waits."""
        if not self.is_closing:
            raise IgnoreRequest(f"{key} is paused: it refused an earlier request")
        goes_back = scheduled and request not in self._sent_back
        if not (goes_back and self._may_end_parked):
            self._given_up[key] += 1
        if not goes_back:
            raise IgnoreRequest(f"{key} is paused, and the spider is closing")
        if not self.room.keeps:
            self._sent_back.add(request)
        self.saved_marks.mark(request)
        return request

    def on_left(self, request: Request) -> None:
        """The request is on its way back, or went another way: its reservation ends."""
        promised = self.room.on_left(request)
        if promised is not None:
            self._rearm_family(promised)

    def on_received(self, request: Request) -> None:
        """The request has its answer: pages that wait for a robots.txt go on."""
        if request in self._robots:
            key, pages = self._robots.pop(request)
            self._engine.lend(-pages)
            self.governor.slot(key, self.clock()).robots_count -= 1
            self._rearm_family(key)

    # Time

    def rearm(self, key: str, *, room_at: float | None = None) -> None:
        """Have a timer wake this slot at the earliest instant at which anything may move.

        What may move at once moves when the loop has read its sockets: a refusal that has
        arrived, but was not read yet, must come first.

        Args:
            room_at: the instant at which queued requests may leave, if it is known already.
        """
        now = self.clock()
        at = self.room.ripe_at(key, now) if room_at is None else room_at
        if key in self._gate_queue and key not in self._awaits_pop:
            hold = self.governor.ready_at(key, now)
            at = min(at, now if hold is None else hold.until)
        self._timers.arm(key, at)

    def _rearm_family(self, key: str) -> None:
        """What frees a slot may free those under it, and those beside it."""
        for each in self.governor.family(key):
            self.rearm(each)

    def await_crawl(self, hold: Hold) -> None:
        """Requests are ready, but the whole crawl is held: have the engine ask again."""
        self._timers.arm(WHOLE_CRAWL, hold.until)

    def _on_ended(self, key: str) -> None:
        """A permit of this slot has ended: it may free the slot, or the whole crawl."""
        self._look_at_global()
        if self.governor.kinds:
            self._sort(key)
        for each in self.governor.family(key):
            self._turn_away(each)
            self.rearm(each, room_at=self.room.on_freed(each))
        for each in self._awaits_pop:
            self._timers.arm(each, self.clock())

    def _on_paused(self, request: Request, key: str, wait: float) -> None:
        """A refusal pauses this slot; the host's others too, if most are refused at once."""
        host = self._host_of_other_slot(request, key) if self._host_load else None
        if host is None:
            return
        now = self.clock()
        for slot in self._host_load.on_refused(host, key, now):
            self.governor.slot(slot, now).resume_pause(now, wait)
            self._turn_away(slot)
            self.rearm(slot)

    def _host_of_other_slot(self, request: Request, key: str) -> str | None:
        """The request's host, where somebody has chosen another slot for it."""
        if self._slot_rule is None and WRITTEN_META_KEY in request.meta:
            return None
        host = urlparse_cached(request).hostname or ""
        return None if self.governor.host_of(key) == host else host

    def _sort(self, key: str) -> None:
        """Who waits for a host, and whose class was split off since, waits for that."""
        for waiter in self._gate_queue.of(key) if key in self.governor.kinds else ():
            slot = self.slot_under(key, waiter.request)
            if slot != key:
                self._gate_queue.leave(waiter)
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
        if self._stopped is not None or was_stopped is not None:
            for key in list(self._gate_queue):
                self._turn_away(key)
                self.rearm(key)

    def _on_due(self, keys: list[str]) -> None:
        self._look_at_global()
        asks = WHOLE_CRAWL in keys and self.room.is_ripe
        if self.governor.kinds:  # a class is held by its own pace too: it goes first when it may
            keys.sort(key=lambda key: self.governor.host_of(key) == key)
        for key in keys:
            if key != WHOLE_CRAWL:
                self._awaits_pop.pop(key, None)
                self._serve(key)
                asks |= self.room.on_due(key)
                self.rearm(key)
        if asks:
            self._engine.nudge()

    def tick(self) -> None:
        """Once a second: find what went another way, and notice that the spider closes."""
        self.sweep()
        while self._awaits_pop and self._engine.has_place and self.serve_waiting():
            pass
        self.is_closing = self.is_closing or self._engine.is_closing
        if self.is_closing:
            for key in list(self._gate_queue):
                self._turn_away(key)
        else:
            self._end_if_parked()

    def sweep(self) -> None:
        """Requests that a middleware replaced, or lost, hold nothing."""
        self.in_flight.sweep(self._engine.is_active)
        for request in [each for each in self._robots if not self._engine.is_active(each)]:
            self.on_received(request)
        for key in self.room.sweep():
            self._rearm_family(key)

    def on_closed(self) -> None:
        """The spider has closed."""
        self._timers.cancel()
        self.in_flight.sweep(lambda request: False)
        if self._given_up:
            self._reporting.on_given_up(self._given_up)

    # Parking

    def _end_if_parked(self) -> None:
        """Close a crawl that can be resumed, of which nothing but parked slots is left.

        What else its items and callbacks are busy with is given `STUCK_FOR` seconds to go on:
        where they await a parked slot's media, Scrapy itself never gets idle.
        """
        now = self.clock()
        if not (self._may_end_parked and self._is_only_parked(now)):
            self._stuck_since = None
            return
        if self._stuck_since is None:
            self._stuck_since = now
        if not self._engine.is_scraping or now >= self._stuck_since + STUCK_FOR:
            self._engine.close(PARKED)

    def _is_only_parked(self, now: float) -> bool:
        engine, keys = self._engine, list(self._gate_queue)
        if not (keys or self.room.has_requests) or engine.is_starting or self.in_flight:
            return False
        waiting = len(self._gate_queue) + sum(pages for _, pages in self._robots.values())
        if engine.active_count != waiting or (not self.room.keeps and engine.may_pop):
            return False
        return self.room.is_parked and all(self.governor.is_parked(key, now) for key in keys)
