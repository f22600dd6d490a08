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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from scrapy.http.request import NO_CALLBACK
from scrapy.utils.defer import maybe_deferred_to_future

from scrapy_adaptive.core.breaker.host_load import HostLoad
from scrapy_adaptive.core.governor import Governor
from scrapy_adaptive.core.types import Event, Reason, Wanted

from .closing import PATIENCE, Closing
from .gate_queue import GateQueue, Waiter
from .in_flight import InFlight
from .parking import Parking
from .queues.saved_marks import mark
from .queues.waiting_room import METER, NoRoom, WaitingRoom
from .reporting import Parked
from .reservations import Reservations
from .robots import is_robots_txt
from .slot_names import SlotNames
from .timers import Timers

if TYPE_CHECKING:
    from collections.abc import Container, Hashable, Iterable

    from scrapy import Request
    from scrapy.http import Response

    from scrapy_adaptive.core.permit import Permit
    from scrapy_adaptive.core.slot import Slot
    from scrapy_adaptive.core.types import Blocked, Decision

    from .identities import Identify
    from .refusal_rules import RefusalRules
    from .reporting import Reporting
    from .reservations import Reservation
    from .robots import CrawlDelays
    from .scrapy_internals import Engine
    from .setting_types import SlotRule

MOST_SEND_BACKS = 3
"""Times that a request goes back for another slot: of four that are drawn by chance, one that is
paused is drawn four times in a row by one request of 256."""

STALE_META_KEY = "cached_response"
"""Where HttpCacheMiddleware leaves the stale copy that it asks the site about."""

WHOLE_CRAWL = "\0"
"""The timers' key for what holds every slot at once; no slot has such a name."""

ARRIVALS = "\0arrivals"
"""The same for what is on its way to the gate."""


def _nobody_to_tell(request: Request, seconds: float) -> None:
    """Nobody but this process has to know."""


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
        identify: tells whom a request is sent as, for known limits.
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
        identify: Identify = lambda request, wanted: {},
        most_hosts: int = 10_000,
        may_end_parked: bool = False,
        is_interactive: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.governor = governor
        self.refusal_rules = refusal_rules
        self.clock = clock
        self.room: WaitingRoom = NoRoom()
        self.is_interactive = is_interactive
        self.on_paused: Callable[[Request, float], None] = _nobody_to_tell
        """Called with each request whose refusal pauses its slot, or goes on with that, and the
        seconds that are left."""
        self.closing = Closing(
            governor,
            is_saved=may_end_parked,
            is_interactive=is_interactive,
            clock=clock,
        )
        self.names = SlotNames(governor, engine, slot_rule, identify)
        self._stopped: Reason | None = None
        self._has_shared = False
        self._engine = engine
        self._reporting = reporting
        self._crawl_delays = crawl_delays
        self._page_of = page_of
        self.reservations = Reservations(self, engine)
        self._parking = Parking(self, engine, may_end=may_end_parked)
        self._gate_queue = GateQueue()
        self._awaits_pop: dict[str, None] = {}
        """Slots that may send, and whose requests at the gate go on when the engine next asks:
        they have no place in CONCURRENT_REQUESTS, or no connection, or a better one waits in the
        queue."""
        self._unscheduled_count = 0
        """Requests that the scheduler did not give out (media, robots.txt), and that wait at the
        gate or for a lease."""
        self._standing: Counter[str] = Counter()
        """Requests that wait for something else than their slot, and robots.txt files under way, by
        their host's slot."""
        self._robots: dict[Request, tuple[str, int]] = {}
        """robots.txt files under way, their slots, and the places lent of pages that wait."""
        self._host_load = HostLoad(most_hosts)
        self._send_backs: WeakKeyDictionary[Request, int] = WeakKeyDictionary()
        """Requests whose slot, chosen since they were queued, was paused; and how often."""
        self._timers = Timers(self._on_due, clock)
        self._awaits_arrivals = False
        self.in_flight = InFlight(
            governor,
            refusal_rules,
            reporting,
            self._timers,
            page_of=page_of,
            clock=clock,
            on_ended=self._on_ended,
            on_refused=self._on_refused,
        )

    # Questions

    @property
    def keys_at_gate(self) -> list[str]:
        """Leaves for which requests wait at the gate."""
        return list(self._gate_queue)

    def _leaves_at_gate(self, slot: str, meters: Container[str] = ()) -> list[str]:
        """Those of this slot, or counted in one of these meters."""
        known = self.governor.known
        if known is None:
            return [slot]
        leaves = [(key, known.leaf(key)) for key in self._gate_queue]
        return [
            key
            for key, leaf in leaves
            if leaf.slot == slot or any(each in meters for each, _ in leaf.meters)
        ]

    @property
    def awaits_pop(self) -> bool:
        """Whether somebody at the gate goes on when the engine next asks."""
        return bool(self._awaits_pop)

    @property
    def standing_count(self) -> int:
        """Requests that wait at the gate, and pages that wait for a robots.txt."""
        return len(self._gate_queue) + sum(pages for _, pages in self._robots.values())

    @property
    def waiting_count(self) -> int:
        """Requests that wait at the gate, or after a refusal."""
        return len(self._gate_queue) + self.room.back_count

    @property
    def queued_count(self) -> int:
        """Requests that wait, at the gate or in their queues."""
        return len(self._gate_queue) + self.room.count

    def waiting(self, key: str) -> int:
        """Requests that wait for this slot, at the gate or in its queue."""
        return self.count_at_gate(key) + self.room.waiting(key)

    def parked(self) -> list[Parked]:
        """Slots that are parked, for how many seconds yet, and how many requests wait for them; of
        a slot that rules park, for the first, and how many of its requests they park."""
        governor, now = self.governor, self.clock()
        sites = governor.parked(now)
        found = {key: Parked(key, at - now, self.waiting(key)) for key, at in sites.items()}
        if governor.known is None:
            return list(found.values())
        at_gate = (((key,), self._gate_queue.count(key)) for key in self._gate_queue)
        for leaves, count in chain(self.room.leaves(), at_gate):
            at = min(governor.parked_by_rule_until(leaf, now) for leaf in leaves)
            slot = governor.slot_key(leaves[0])
            if at and slot not in sites:
                _, seconds, waiting = found.get(slot, (slot, math.inf, 0))
                found[slot] = Parked(slot, min(seconds, at - now), waiting + count)
        return list(found.values())

    def is_parked_by_rule(self, key: str) -> bool:
        """Whether rules park all that waits for this slot, and something does."""
        governor, now = self.governor, self.clock()
        held = None if governor.known is None else governor.known.held(key, now)
        if held is None or not now + governor.limits_of(key).max_pause < held.until < math.inf:
            return False
        leaves = {*self.room.leaves_of(key), *self._leaves_at_gate(key)}
        return bool(leaves) and all(governor.parked_by_rule_until(each, now) for each in leaves)

    def count_at_gate(self, key: str) -> int:
        """Requests that wait at the gate for this slot."""
        return sum(map(self._gate_queue.count, self._leaves_at_gate(key)))

    def has_standing(self, key: str) -> bool:
        """Whether requests of this slot's host have reached the gate, and wait there for something
        else than the slot; or wait for its robots.txt."""
        return bool(self._standing) and self.governor.host_of(key) in self._standing

    def is_suspected(self, request: Request) -> bool:
        """Whether the request's page was refused before, and the pace may not be to blame; while
        one such page is to be asked for, whether it is that one."""
        slot = self._suspecting(request)
        return slot is not None and slot.is_suspected(self._page_of(request))

    def was_refused(self, request: Request) -> bool:
        """Whether the request's page was refused before, and has not failed; asked of each that is
        queued."""
        if not self.governor.counts.refusals:
            return False
        slot = self._suspecting(request)
        return slot is not None and slot.suspected.was_refused(self._page_of(request))

    def _suspecting(self, request: Request) -> Slot | None:
        """The request's slot, if it suspects any page."""
        key = self.names.of(request)
        if key is None or key not in self.governor:
            return None
        slot = self.governor.slot(key, self.clock())
        return slot if slot.suspected else None

    def is_scheduled(self, request: Request) -> bool:
        """Whether the scheduler gave this request out, as far as can be known before the gate."""
        if self.room.keeps:
            return request in self.reservations
        return request.callback is not NO_CALLBACK and not is_robots_txt(request)

    # The way in

    async def admit(self, request: Request, key: str) -> Request | Response | None:
        """Wait until this request may be sent; returns it where it goes back instead.

        A stale copy in the HTTP cache is the answer while its site is silent.

        Raises:
            IgnoreRequest: its slot is paused, and nobody will wait for it.
        """
        scheduled = self.is_scheduled(request)
        leaf = self.names.leaf(key, request)
        is_late = self._engage(request, key, leaf)
        if is_late and self._waits_long(leaf):
            self.on_freed(key)
            return self._send_back(request)
        if self._stale_copy(request) is not None and self.closing.is_paused(key):
            self.on_freed(key)
            return self._take_stale_copy(request)
        waits = leaf in self._gate_queue or not self._has_connection(request)
        waits = waits or not self.in_flight.begin(request, leaf, scheduled=scheduled)
        for each in self.governor.family(key):  # its reservation is over, whether it waits or not
            if each != leaf:
                self.rearm(each)
        if not waits:
            self.rearm(leaf)
            return None
        first = False
        while True:
            if not await self._wait(request, leaf, scheduled=scheduled, first=first):
                return self._take_stale_copy(request) or self.closing.give_up(
                    request, key, scheduled=scheduled, is_kept=self.room.keeps
                )
            if not self.in_flight.is_overtaken(request):
                return None
            self.in_flight.drop(request)
            key = self.names.under(self.governor.host_of(key), request)
            leaf, first = self.names.leaf(key, request), True

    def _engage(self, request: Request, key: str, leaf: str) -> bool:
        """The request is at the gate; returns whether its slot, or what it is counted under, was
        chosen since it was queued, or a rule holds it that did not then."""
        slot = self.governor.slot(key, self.clock())
        if slot.is_new:
            self._reporting.on_new_slot(key)
        host, host_key = self.names.host_elsewhere(request, key), self.governor.host_of(key)
        if self._crawl_delays:
            delay = self._crawl_delays.of(request)
            for each in (slot, self.governor.slot(host_key, self.clock())):
                each.pace.crawl_delay = max(each.pace.crawl_delay, delay)
        if host is not None:
            self._host_load.on_sent(host, key)
        reservation = self._end_reservation(request, key)
        is_late, may_go_back = False, self._send_backs.get(request, 0) < MOST_SEND_BACKS
        if reservation is not None:
            queue_slot = self.governor.slot_key(reservation.queue_key)
            is_late = queue_slot not in (key, host_key)
            if is_late and may_go_back:
                self._engine.forget_choice(request)
            if self.governor.known is not None:
                is_late |= self._is_ruled_otherwise(reservation, leaf) and may_go_back
        if is_robots_txt(request) and request not in self._robots:
            self._await_robots(request, slot, host_key)
        return is_late

    def _end_reservation(self, request: Request, key: str) -> Reservation | None:
        """The request has reached the gate; returns the place that it had, if it is paced."""
        reservation = self.reservations.on_at_gate(request, key)
        if reservation is not None:
            self.room.learn(reservation, key)
            if reservation.slot != key:
                self.on_freed(reservation.slot)
        return reservation

    def _await_robots(self, request: Request, slot: Slot, host: str) -> None:
        """A robots.txt is to be fetched: pages of its host that are on their way wait for it."""
        slot.robots_count += 1
        pages = sum(map(self.reservations.under_way, self.governor.family(slot.key)))
        self._robots[request] = slot.key, pages
        self._standing[host] += 1
        self._engine.lend(pages)

    def _is_ruled_otherwise(self, reservation: Reservation, leaf: str) -> bool:
        """Whether rules say something else of a request than when it left its queue."""
        known, now = self.governor.known, self.clock()
        assert known is not None
        self._rearm_meters(reservation.meters)
        blocked = known.blocked(known.leaf(leaf), now)
        return reservation.queue_key != leaf or (
            blocked is not None and now + PATIENCE < blocked.until
        )

    def _waits_long(self, key: str) -> bool:
        """Whether a request that the queue did not expect in this slot would hold it up."""
        now = self.clock()
        blocked = self.governor.blocked(key, now)
        return blocked is not None and (
            now + PATIENCE < blocked.until < math.inf
            or blocked.reason is Reason.RULE
            or self._gate_queue.count(key) > 1
        )

    def _stale_copy(self, request: Request) -> Response | None:
        """What the HTTP cache has of a request, if it may stand for it while its site is silent."""
        copy = request.meta.get(STALE_META_KEY)
        is_good = copy is not None and self._engine.may_serve_stale(request, copy)
        return copy if is_good else None

    def _take_stale_copy(self, request: Request) -> Response | None:
        """The same, as the answer: a spider that passes its meta on must not pass on the copy."""
        copy = self._stale_copy(request)
        if copy is not None:
            del request.meta[STALE_META_KEY]
        return copy

    async def _wait(self, request: Request, key: str, *, scheduled: bool, first: bool) -> bool:
        """Wait for a permit; returns whether there is one."""
        lends = (self.room.keeps and self._has_connection(request)) or not scheduled
        waiter = Waiter(request, key, scheduled, lends)
        self._gate_queue.join(key, waiter, first=first)
        self._stand_by(not scheduled)
        self._engine.lend(lends)
        self._turn_away(key)
        if not scheduled:  # it needs no place: those before it may wait for one
            self._awaits_pop.pop(key, None)
        self.rearm(key)
        try:
            return await maybe_deferred_to_future(waiter.done)
        finally:  # whoever awaits the download may have cancelled it
            self._end_wait(waiter)
            self._stand_by(-(not scheduled))

    @contextmanager
    def standing_by(self, request: Request) -> Iterator[None]:
        """It waits for something else than its slot: one that the scheduler did not give out keeps
        no place meanwhile. Others of its host would only wait beside it."""
        key = self.governor.host_of(self.names.of(request) or "")
        lends = int(not self.is_scheduled(request))
        self._standing[key] += 1
        self._stand_by(lends)
        self._engine.lend(lends)
        try:
            yield
        finally:
            self._end_standing(key)
            self._stand_by(-lends)
            self._engine.lend(-lends)

    def _end_standing(self, host: str) -> None:
        self._standing[host] -= 1
        if not self._standing[host]:
            del self._standing[host]

    def _stand_by(self, count: int) -> None:
        """So many more wait that items may wait for: these must not keep responses out."""
        self._unscheduled_count += count
        self._engine.widen_scraper(wide=self._unscheduled_count > 0)

    def _end_wait(self, waiter: Waiter) -> None:
        """It waits no more; its place is its own again."""
        self._gate_queue.leave(waiter)
        if waiter.lends:
            self._engine.lend(-1)
            waiter.lends = False

    def _serve(self, key: str) -> bool:
        """Let go whoever may go of those who wait for this slot; returns whether the engine should
        ask for another instead."""
        while key in self._gate_queue:
            slot = self.governor.slot_key(key)
            wanted = self.governor.wanted(slot)
            waiter = self._gate_queue.next(key, wanted, self.is_suspected)
            if self._is_better_elsewhere(slot, wanted, waiter):
                self._await_pop(key)
                return True
            if waiter.scheduled and waiter.lends and not self._engine.has_place:
                # Whoever has the place may await one of these: a robots.txt, a token.
                beside = self._gate_queue.unscheduled(key)
                if beside is None:
                    self._await_pop(key)
                    break
                waiter = beside
            if not self._has_connection(waiter.request):
                self._await_pop(key)
                break
            if not self.in_flight.begin(waiter.request, key, scheduled=waiter.scheduled):
                break
            self._end_wait(waiter)
            waiter.done.callback(True)
        return False

    def _has_connection(self, request: Request) -> bool:
        """Whether it would leave at once: what waits past the gate leaves after a refusal, too."""
        return self._engine.has_connection(request, self.in_flight.unanswered)

    def _await_pop(self, key: str) -> None:
        """Who waits for this slot goes on when the engine next asks."""
        self._awaits_pop[key] = None
        self.room.look_at_start()

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
        """Whether the suspected page is asked for now, and waits in the queue."""
        if (
            wanted is not Wanted.SUSPECTED
            or self.closing.has_begun
            or self.is_suspected(waiter.request)
        ):
            return False
        if not (self._engine.has_place and self.room.has_suspect(key)):
            return False
        blocked = self.room.blocked(key)
        return blocked is None or blocked.until < math.inf  # else it waits for who waits here

    # The way back

    def _send_back(self, request: Request) -> Request:
        """The request goes back to its queue, where another slot may be chosen for it; after
        `MOST_SEND_BACKS` times to the queue of the slot that it has."""
        self._send_backs[request] = self._send_backs.get(request, 0) + 1
        self._reporting.on_handed_back()
        mark(request)
        return request

    def _turn_away(self, key: str) -> None:
        """Nobody waits for a paused slot once the spider closes, or at a prompt for long; nor does
        who has a stale copy."""
        if self.closing.is_too_long(key):
            self.turn_away(key)
        elif self._engine.has_cache and self.closing.is_paused(key):
            self.turn_away(key, lambda request: self._stale_copy(request) is not None)

    def turn_away(
        self, key: str, is_meant: Callable[[Request], bool] = lambda request: True
    ) -> None:
        """Nobody sends to this slot from here any more: who waits for it at the gate goes."""
        for waiter in self._gate_queue.of(key):
            # The end of another's wait may have ended this one's already.
            if not waiter.done.called and is_meant(waiter.request):
                self._end_wait(waiter)
                waiter.done.callback(False)

    def on_wire(self, request: Request) -> None:
        """The request has reached the downloader."""
        self._engine.free_of_delay(request)
        self.in_flight.on_wire(request)

    def on_left(self, request: Request) -> None:
        """The request is on its way back, or went another way: its reservation ends."""
        promised = self.reservations.on_left(request)
        if promised is not None:
            self.on_freed(promised)

    def on_received(self, request: Request) -> None:
        """The request has its answer: pages that wait for a robots.txt go on."""
        if request in self._robots:
            key, pages = self._robots.pop(request)
            self._end_standing(self.governor.host_of(key))
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
            blocked = self.governor.blocked(key, now)
            at = min(at, now if blocked is None else blocked.until)
        self._timers.arm(key, at)

    def _rearm_family(self, key: str) -> None:
        """What frees a slot may free those under it, and those beside it."""
        for each in self.governor.family(key):
            self.rearm(each)
            for leaf in self._leaves_at_gate(each):
                self.rearm(leaf)

    def await_arrivals(self, seconds: float) -> None:
        """Requests are on their way to the gate: look so much later whether they have arrived."""
        if not self._awaits_arrivals:
            self._awaits_arrivals = True
            self._timers.arm(ARRIVALS, self.clock() + seconds)

    def await_crawl(self, blocked: Blocked) -> None:
        """Requests are ready, but the whole crawl is held: have the engine ask again."""
        self._timers.arm(WHOLE_CRAWL, blocked.until)

    def _on_ended(self, permit: Permit) -> None:
        """A permit has ended: it may free its slot, its meters, or the whole crawl."""
        key = permit.key
        self._look_at_global()
        if self.governor.kinds:
            self._sort(key)
        for each in self.governor.family(key):
            self._turn_away(each)
        self.on_freed(key)
        if self.governor.known is not None:
            self._free_meters(permit)
        for each in self._awaits_pop:
            self._timers.arm(each, self.clock())
        self.room.look_at_start()  # it may have freed a place of the whole crawl

    def on_freed(self, key: str) -> None:
        """A place of this slot is free: it is for who waits, under it and beside it too."""
        for each in self.governor.family(key):
            self.rearm(each, room_at=self.room.on_freed(each))

    def _free_meters(self, permit: Permit) -> None:
        """Known limits count one less under way: who waits for that, or for the slot, may go."""
        meters = [each.key for each in permit.meters]
        self._rearm_meters(meters)
        family = self.governor.family(permit.key)
        for each in {leaf: None for slot in family for leaf in self._leaves_at_gate(slot, meters)}:
            self._turn_away(each)
            self.rearm(each)

    def on_tokens(self, meters: Iterable[str]) -> None:
        """Quotas have got tokens, or an instant at which there may be some."""
        keys = list(meters)
        self._rearm_meters(keys)
        for each in self._leaves_at_gate(WHOLE_CRAWL, keys):
            self.rearm(each)

    def _rearm_meters(self, meters: Iterable[str]) -> None:
        for each in meters:
            self.rearm(METER + each, room_at=self.room.on_freed(METER + each))

    def on_book(self) -> None:
        """Other rules hold from here: whatever waits is asked about again."""
        self.room.look_again()
        for each in [waiter for leaf in self._gate_queue for waiter in self._gate_queue.of(leaf)]:
            slot = self.governor.slot_key(each.key)
            self._gate_queue.leave(each)
            self._gate_queue.join(self.names.leaf(slot, each.request), each, first=False)
        for leaf in list(self._gate_queue):
            self._turn_away(leaf)
            self.rearm(leaf)
        self._engine.nudge()

    def _on_refused(self, request: Request, key: str, decision: Decision) -> None:
        """Others may pause with this slot; tell of it, if it is paused."""
        if decision.event is Event.TRIPPED:
            self._pause_others(request, key)
        if decision.again and decision.wait > 0.0:
            later = self._engine.later_key(request)
            if later is not None:
                self._pause_with(later, key)
            self.on_paused(request, decision.wait)

    def _pause_others(self, request: Request, key: str) -> None:
        """A refusal pauses this slot; the host's others too, if most are refused at once."""
        host = self.names.host_elsewhere(request, key) if self._host_load else None
        if host is None:
            return
        for slot in self._host_load.on_refused(host, key, self.clock()):
            self._pause_with(slot, key)

    def _pause_with(self, slot: str, key: str) -> None:
        """Pause one slot as long as another."""
        now = self.clock()
        self.governor.slot(slot, now).pause_with(self.governor.slot(key, now), now)
        self._turn_away(slot)
        self.rearm(slot)

    def _sort(self, key: str) -> None:
        """Who waits for a host, and whose class was split off since, waits for that."""
        if key not in self.governor.kinds:
            return
        for waiter in [w for each in self._leaves_at_gate(key) for w in self._gate_queue.of(each)]:
            slot = self.names.under(key, waiter.request)
            if slot != key:
                self._gate_queue.leave(waiter)
                leaf = self.names.leaf(slot, waiter.request)
                self._gate_queue.join(leaf, waiter, first=False)

    def _look_at_global(self) -> None:
        """While the whole crawl is stopped, and when it goes on, every slot's instant moves."""
        governor, now = self.governor, self.clock()
        was_stopped, self._stopped = self._stopped, governor.stopped_by(now)
        was_shared, self._has_shared = self._has_shared, governor.has_shared_limit
        blocked = governor.blocked_by_stop(now)
        if self._stopped is not None and self._stopped is not was_stopped:
            self._reporting.on_stopped(self._stopped, governor.stop_causes)
        elif was_stopped is not None and self._stopped is None:
            self._reporting.on_resumed(was_stopped)
        if blocked is not None:
            self.await_crawl(blocked)
        is_over = was_stopped is not None and self._stopped is None
        if is_over or was_shared is not self._has_shared:
            self.room.look_again()  # some pauses are over as well
            self._engine.nudge()
        is_stopped = self._stopped is not None or was_stopped is not None
        if is_stopped or was_shared or self._has_shared:
            for key in list(self._gate_queue):
                self._turn_away(key)
                self.rearm(key)

    def _on_due(self, keys: list[str]) -> None:
        self._look_at_global()
        if ARRIVALS in keys:
            keys.remove(ARRIVALS)
            self._awaits_arrivals = False
            for key in self.reservations.look_for_late():
                self.on_freed(key)
        asks = WHOLE_CRAWL in keys and self.room.is_ripe
        if self.governor.kinds:  # a class is held by its own pace too: it goes first when it may
            keys.sort(key=lambda key: self.governor.host_of(key) == key)
        for key in keys:
            if key != WHOLE_CRAWL:
                self._awaits_pop.pop(key, None)
                asks |= self._serve(key)
                asks |= self.room.on_due(key)
                self.rearm(key)
        if WHOLE_CRAWL in keys:
            self.room.look_at_start()
        if asks:
            self._engine.nudge()

    def tick(self) -> None:
        """Once a second: find what went another way, and notice that the spider closes."""
        self.sweep()
        self.room.look_at_start()
        self._hurry()
        for each in self._awaits_pop:
            self._timers.arm(each, self.clock())
        self.closing.has_begun = self.closing.has_begun or self._engine.is_closing
        if self.closing.has_begun:
            for key in list(self._gate_queue):
                self._turn_away(key)
        else:
            self._parking.look()

    def _hurry(self) -> None:
        """Who waits at the gate may be awaited by a middleware that keeps a response meanwhile."""
        if not self.refusal_rules.has_classifier:
            return
        for key in self.keys_at_gate:
            # In a queue of Scrapy's nobody knows who was not given out by the scheduler.
            if not self.room.keeps or any(not each.scheduled for each in self._gate_queue.of(key)):
                blocked = self.governor.blocked(key, self.clock())
                is_common = blocked is not None and blocked.reason.is_common
                slots = self.governor.family(self.governor.slot_key(key))
                self.in_flight.hurry(None if is_common else slots)

    def sweep(self) -> None:
        """Requests that a middleware replaced, or lost, hold nothing."""
        self.in_flight.sweep(self._engine.is_active)
        for request in [each for each in self._robots if not self._engine.is_active(each)]:
            self.on_received(request)
        for key in self.reservations.sweep():
            self.on_freed(key)

    def on_closed(self, *, has_frontier: bool) -> None:
        """The spider has closed; what waits in queues is kept by the frontier, if it has one."""
        if not has_frontier:
            self.closing.count_unsaved(self.room.leaves(unsaved=True))
        self._timers.cancel()
        self.in_flight.sweep(lambda request: False)
        self.governor.end(self.clock())
        self.closing.tell(self._reporting)
