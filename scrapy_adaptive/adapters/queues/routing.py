"""From which queue a request goes to which slot, and the places it has there.

Laws
----
* A request's queue is known when it is queued: that of its slot, as Scrapy, its meta or
  ADAPTIVE_SLOT names it. A slot that a middleware chooses later is learned at the gate.
* A host whose requests go to several slots has a place in each; none moves the others.
* A request has one reservation from the pop until it is at the gate or has gone another way; where
  it takes long, others do not wait for it, but as many wait at the gate as may be in flight.
* Scrapy opens two queues, in memory and on disk: what is known of a host is known once.
* Requests that known limits count apart wait apart, by their leaf: a spent one holds up no other.
"""

from __future__ import annotations

import math
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from scrapy_adaptive.adapters.scrapy_internals import Copy
from scrapy_adaptive.core.limits.leaf import FIELD
from scrapy_adaptive.core.types import Blocked, Reason, Wanted

from .lazy_start import LazyStart
from .waiting_room import METER, Reservation

if TYPE_CHECKING:
    from scrapy import Request

    from scrapy_adaptive.adapters.scrapy_internals import Engine
    from scrapy_adaptive.adapters.traffic import Traffic

    from .host_queue import HostQueue
    from .host_requests import HostRequests

OPT_OUT_META_KEY = "adaptive_dont_throttle"

NOBODY = ""
"""Queue of requests that have no host (`data:`, `file:`): always ready."""

OPTED_OUT = " (adaptive_dont_throttle)"
"""Ends the key of a host's opted-out requests."""

CACHED = " (cached)"
"""Ends the key of a host's requests that the HTTP cache answers."""

STALE = " (stale copy)"
"""Ends the key of a host's requests that the HTTP cache answers while the site is silent."""

SILENT = frozenset({Reason.PARKED, Reason.PAUSED, Reason.QUOTA})
"""What a site that is silent is held by."""

MOST_ROUTES = 64
"""Slots remembered of one queue; the one not used for longest is forgotten first."""

MISSES = 8
"""Times the number of routes: requests in a row that were to go to a slot and went to another,
after which it is no route any more. Chance passes over one of n so often in 1 of 3,000 cases."""

LATE = 0.1
"""Seconds, or twice what others take, after which a request that has not come to the gate is late:
the middleware that keeps it may answer it itself, or wait for one that is still queued, as for a
login. It holds nobody back, nor do those that follow it while it is on its way."""

LEADS = 8
"""Latest requests of which the quickest tells how long the way from the queue to the gate is: slow
middlewares slow them all, a busy processor some."""


class Routing:
    """The routes of one crawl.

    Args:
        traffic: the crawl's traffic.
        engine: Scrapy's private parts.
        cached: what the HTTP cache has of a request; None without a cache.
        discount: how much less the kth request taken from a host counts, times k.
        most: queues of which other slots are remembered.
        places: CONCURRENT_REQUESTS.
    """

    keeps = True

    def __init__(
        self,
        traffic: Traffic,
        engine: Engine,
        *,
        cached: Callable[[Request], Copy] | None,
        discount: float,
        most: int,
        places: int,
    ) -> None:
        self.is_suspected = traffic.is_suspected
        self.was_refused = traffic.was_refused
        self.discount = discount
        self._traffic = traffic
        self._governor = traffic.governor
        self._clock = traffic.clock
        self._engine = engine
        self._cached = cached
        self._most = most
        self._queues: list[HostQueue] = []
        self._lazy_start = LazyStart(
            engine,
            self._queues,
            places=places,
            is_awaited=lambda: traffic.awaits_pop,
            clock=traffic.clock,
        )
        self._taken: Counter[str] = Counter()
        self._routes: OrderedDict[str, OrderedDict[str, int]] = OrderedDict()
        """Queue to the slots through which its requests are sent, and how often in a row each was
        passed over; only where they are not the queue's own."""
        self._reserved: OrderedDict[Request, Reservation] = OrderedDict()
        self._opted_out: Counter[str] = Counter()
        """Requests under way that the governor does not pace, by queue."""
        self.unpaced = {NOBODY}
        """Queues of requests that the governor does not pace."""
        self.lead = 0.0
        """Seconds that requests take from their queue to the gate, but for a busy processor."""
        self._leads: deque[float] = deque([0.0], maxlen=LEADS)
        self._late: Counter[str] = Counter()
        """Requests on their way that hold nobody back, by slot."""

    # What a queue asks

    def join(self, queue: HostQueue) -> None:
        """The scheduler has opened this queue."""
        self._queues.append(queue)
        self._traffic.room = self

    def queue_key(self, request: Request) -> str:
        """The key under which a request is queued."""
        key = self._traffic.names.of_queued(request)
        if not key:
            return NOBODY
        if request.meta.get(OPT_OUT_META_KEY):
            return key + OPTED_OUT
        copy = Copy.NONE if self._cached is None else self._cached(request)
        if copy is Copy.FRESH:
            return key + CACHED
        names = self._traffic.names
        key = names.leaf(names.under(key, request), request)
        return key + STALE if copy is Copy.STALE else key

    @property
    def naming(self) -> int:
        """Counts the changes of rules after which a request's key may be another; at least 1."""
        known = self._governor.known
        return 1 if known is None else 1 + known.naming

    def class_key(self, request: Request, requests: HostRequests) -> str:
        """The key under which a request belongs that was queued before its class was split off, or
        before a rule was changed."""
        queue_key, kinds = requests.host, self._governor.kinds
        if requests.naming == self.naming and not kinds:
            return queue_key
        names = self._traffic.names
        if self._governor.known is not None:
            if queue_key in self.unpaced or queue_key.endswith(STALE):
                return queue_key
            host = self._governor.host_of(self._governor.slot_key(queue_key))
            return names.leaf(names.under(host, request), request)
        return names.under(queue_key, request)

    def on_queue(self, queue_key: str) -> None:
        """Requests are queued under this key; at a prompt they wait at the gate, where their user
        is told of a pause."""
        if self._traffic.is_interactive or queue_key.endswith((OPTED_OUT, CACHED)):
            self.unpaced.add(queue_key)

    def on_empty(self, queue_key: str) -> None:
        """Nothing is queued under this key any more."""
        is_used = queue_key == NOBODY or any(queue_key in queue for queue in self._queues)
        if not is_used:
            self.unpaced.discard(queue_key)

    def slots_of(self, queue_key: str) -> Sequence[str]:
        """The slots through which a queue's requests are sent, as far as is known."""
        if queue_key in self._routes:
            return tuple(self._routes[queue_key])
        return (self.slot_of(queue_key),)

    def slot_of(self, queue_key: str) -> str:
        """The slot that the queue's key names."""
        return self._governor.slot_key(queue_key.removesuffix(STALE))

    def waits_for(self, queue_key: str, blocked: Blocked) -> Sequence[str]:
        """What a queue waits for that is held by this: a meter, or any of its slots."""
        return (METER + blocked.meter,) if blocked.meter else self.slots_of(queue_key)

    def counted(self, queue_key: str) -> Sequence[str]:
        """The meters in which the queue's requests are counted, as the timers name them."""
        known = self._governor.known
        if known is None or queue_key in self.unpaced:
            return ()
        return [METER + key for key, _ in known.leaf(queue_key.removesuffix(STALE)).meters]

    def handicap(self, queue_key: str) -> float:
        """How much less the next request of this queue counts than its priority says."""
        return self.discount * self._taken[queue_key]

    def blocked(self, slot: str) -> Blocked | None:
        """Why no request of this slot, or meter, may leave its queue, the whole crawl aside."""
        if slot.startswith(METER):
            return self._blocked_by_meter(slot)
        if slot not in self.unpaced:
            blocked = self._governor.blocked_in_queue(slot, self._clock(), self.lead)
            return blocked or self._crowded(slot)
        if not slot.endswith(OPTED_OUT):
            return None
        most = self._governor.limits_of(slot.removesuffix(OPTED_OUT)).concurrency
        return Blocked(math.inf, Reason.CONCURRENCY) if self._opted_out[slot] >= most else None

    def _crowded(self, slot: str) -> Blocked | None:
        """While those on their way hold nobody back, as many wait at the gate as may be in flight,
        and no more."""
        if slot not in self._late:
            return None
        most = self._governor.limits_of(slot).concurrency
        is_crowded = self._traffic.count_at_gate(slot) >= most
        return Blocked(math.inf, Reason.CONCURRENCY) if is_crowded else None

    def _blocked_by_meter(self, key: str) -> Blocked | None:
        known, now = self._governor.known, self._clock()
        meter = key.removeprefix(METER)
        at = now if known is None else known.meter_at(meter, now, self.lead)
        return Blocked(at, Reason.RULE, meter) if at > now else None

    def reserve(self, queue_key: str) -> tuple[str, Blocked | None]:
        """Promise a place to the queue's next request: in which slot, or why in none."""
        if queue_key in self.unpaced:
            blocked = self.blocked(queue_key)
            if blocked is None:
                self._opted_out[queue_key] += 1
            return queue_key, blocked
        found: tuple[str, Blocked | None] | None = None
        for slot in self.slots_of(queue_key):
            leaf = self._leaf_of(queue_key, slot)
            blocked = self._crowded(slot)
            blocked = blocked or self._governor.reserve(leaf, self._clock(), self.lead)
            if blocked is None:
                if queue_key in self._routes:
                    self._routes[queue_key].move_to_end(slot)
                return slot, None
            if found is None or found[1] is None or blocked.until < found[1].until:
                found = slot, blocked
        assert found is not None
        if queue_key.endswith(STALE) and found[1] is not None and found[1].reason in SILENT:
            self._opted_out[queue_key] += 1
            return queue_key, None
        return found

    def blocked_of(self, queue_key: str) -> Blocked | None:
        """Why the queue's next request may not leave, by the slot that may be first to let it.

        Nothing is promised.
        """
        if queue_key in self.unpaced:
            return self.blocked(queue_key)
        governor, now = self._governor, self._clock()
        found = governor.blocked_by_crawl(now)
        if found is not None:
            return found
        for slot in self.slots_of(queue_key):
            blocked = governor.blocked_in_queue(slot, now, self.lead)
            if governor.known is not None:
                leaf = governor.known.leaf(self._leaf_of(queue_key, slot))
                blocked = governor.known.blocked_queued(leaf, now, self.lead) or blocked
            if blocked is None:
                return None
            if found is None or blocked.until < found.until:
                found = blocked
        is_copy = queue_key.endswith(STALE) and found is not None and found.reason in SILENT
        return None if is_copy else found

    def _leaf_of(self, queue_key: str, slot: str) -> str:
        """What requests of this queue are counted under, in that slot."""
        _, sign, meters = queue_key.removesuffix(STALE).partition(FIELD)
        return f"{slot}{sign}{meters}" if sign else slot

    def wanted(self, slot: str) -> Wanted:
        """Which request of this slot serves best; where one may be awaited, Scrapy's order does."""
        return Wanted.ANY if slot in self._late else self._governor.wanted(slot)

    def on_popped(self, request: Request | None, queue_key: str, slot: str) -> None:
        """The place is this request's; with None there was no request after all."""
        is_counted = slot not in self.unpaced and not slot.endswith(STALE)
        leaf = self._leaf_of(queue_key, slot) if is_counted else slot
        if request is None:
            self._free(leaf)
            return
        meters = tuple(leaf.split(FIELD)[1:]) if leaf != slot else ()
        former = self._reserved.pop(request, None)
        if former is not None:  # the same object was queued twice: one of it has a place
            self._end(former)
        reservation = Reservation(queue_key, slot, self._clock(), leaf, meters)
        self._reserved[request] = reservation
        if slot in self._late and not self._traffic.has_standing(slot):
            self._let_others(request, reservation)
        elif is_counted:
            self._traffic.await_arrivals(LATE)
        if self.discount:
            self._taken[queue_key] += 1

    def on_asleep(self, slots: Sequence[str], blocked: Blocked) -> None:
        """Requests wait until one of these slots, or a meter, may; the earliest is held by this."""
        for slot in slots:
            self._traffic.rearm(slot, room_at=blocked.until if len(slots) == 1 else None)

    def before_pop(self) -> bool:
        """The engine has a place: whether somebody at the gate takes it."""
        self._look_at_oldest()
        is_served = self._traffic.serve_waiting()
        if is_served:  # with None the engine stops asking; there may be more places
            self._engine.nudge()
        return is_served

    def on_asked_in_vain(self) -> None:
        """The engine has asked a queue and got nothing."""
        self._lazy_start.on_asked_in_vain()

    def on_pushed(self) -> None:
        """A request has come."""
        self._lazy_start.on_push()

    def look_at_start(self) -> None:
        """Requests may leave that might not before: an engine that was held back may ask."""
        self._lazy_start.look()

    def ask_again(self) -> None:
        """Requests may be ready, but looking for one has taken long enough."""
        self._engine.nudge()

    def await_crawl(self, blocked: Blocked) -> None:
        """Requests are ready, but the whole crawl is held."""
        self._traffic.await_crawl(blocked)

    # What the traffic tells and asks

    def gave_out(self, request: Request) -> bool:
        """Whether this request comes from here and is not at the gate yet."""
        return request in self._reserved

    def promised(self, request: Request) -> str:
        """The slot of which a request on its way to the gate has a place.

        Raises:
            KeyError: it is not on its way.
        """
        return self._reserved[request].slot

    def on_at_gate(self, request: Request, key: str) -> Reservation | None:
        """The request has reached the gate, and this is its slot.

        Returns:
            Its reservation, which ends; None where it had none, or needed none.
        """
        reservation = self._reserved.pop(request, None)
        if reservation is None:
            return None
        self._end(reservation)
        if reservation.slot in self.unpaced or reservation.slot.endswith(STALE):
            return None
        self._note_lead(reservation, key)
        # One page of a host says nothing of the others once a class of them is split off.
        is_class = self._governor.host_of(key) == reservation.slot != key
        if not is_class:
            self._learn(reservation.queue_key, reservation.slot, key)
        return reservation

    def on_arrived(self, request: Request) -> None:
        """The request has reached the gate and keeps its reservation until it is back."""
        reservation = self._reserved.get(request)
        if reservation is not None:
            self._reserved[request] = reservation._replace(has_arrived=True)

    def on_left(self, request: Request) -> str | None:
        """The request needs no reservation any more; returns the slot that has a place more."""
        reservation = self._reserved.pop(request, None)
        if reservation is None:
            return None
        return self._vacate(reservation)

    def under_way(self, key: str) -> int:
        """Requests between this slot's queue and the gate."""
        return sum(each.slot == key for each in self._reserved.values())

    def sweep(self) -> list[str]:
        """End the reservations of requests that a middleware replaced, or keeps."""
        gone = [request for request in self._reserved if not self._engine.is_active(request)]
        return [slot for request in gone if (slot := self.on_left(request)) is not None]

    def look_for_late(self) -> list[str]:
        """Requests that are late hold nobody back any more; returns their slots."""
        paced = {
            request: each
            for request, each in self._reserved.items()
            if each.holds and not each.has_arrived and each.leaf not in self._opted_out
        }
        since = self._clock() - max(LATE, 2.0 * self.lead)
        late = {
            request: each
            for request, each in paced.items()
            if each.at < since and not self._traffic.has_standing(each.slot)
        }
        for request, each in late.items():
            self._let_others(request, each)
        if len(paced) > len(late):
            self._traffic.await_arrivals(LATE)
        return [each.slot for each in late.values()]

    def _let_others(self, request: Request, reservation: Reservation) -> None:
        """It is on its way, and holds nobody back."""
        self._vacate(reservation)
        self._reserved[request] = reservation._replace(holds=False)
        self._late[reservation.slot] += 1

    def withdraw(self, is_meant: Callable[[Request], bool]) -> None:
        """Requests that wait and are meant are dropped."""
        for queue in self._queues:
            queue.withdraw(is_meant)

    @property
    def is_ripe(self) -> bool:
        """Whether the engine should ask for a request."""
        return any(queue.has_ready for queue in self._queues)

    @property
    def has_requests(self) -> bool:
        """Whether any request waits here."""
        return any(map(len, self._queues))

    @property
    def count(self) -> int:
        """Requests that wait here."""
        return sum(map(len, self._queues))

    @property
    def back_count(self) -> int:
        """Refused requests that wait here."""
        return sum(queue.back_count for queue in self._queues)

    @property
    def is_parked(self) -> bool:
        """Whether every request that waits here is for a parked slot."""
        now = self._clock()

        def is_parked(queue_key: str) -> bool:
            if queue_key in self.unpaced:
                return False
            slots = self.slots_of(queue_key)
            leaves = [self._leaf_of(queue_key, slot) for slot in slots]
            return all(self._governor.is_parked(leaf, now) for leaf in leaves)

        return all(is_parked(key) for queue in self._queues for key in queue.keys)

    def ripe_at(self, key: str, now: float) -> float:
        """The instant at which requests that sleep may leave; infinity where none do."""
        if not self._is_awaited(key):
            return math.inf
        blocked = self.blocked(key)
        return now if blocked is None else blocked.until

    def on_due(self, key: str) -> bool:
        """The instant of this slot has come; returns whether requests may leave by it."""
        return self._is_awaited(key) and self._wake(key, self.blocked(key))

    def on_freed(self, key: str) -> float:
        """A place of this slot is free: the engine takes as long as a timer to use it."""
        if not self._is_awaited(key):
            return math.inf
        blocked = self.blocked(key)
        if self._wake(key, blocked):
            self._engine.nudge()
            return self.ripe_at(key, self._clock())
        return math.inf if blocked is None else blocked.until

    def _is_awaited(self, slot: str) -> bool:
        return any(queue.awaits(slot) for queue in self._queues)

    def _wake(self, slot: str, blocked: Blocked | None) -> bool:
        """Wake one queue of those that wait for this slot, if it may send; returns whether."""
        if blocked is None:
            return sum(queue.wake(slot) for queue in self._queues) > 0
        is_silent = self._cached is not None and blocked.reason in SILENT
        return is_silent and sum(queue.look_at_copies(slot) for queue in self._queues) > 0

    def may_leave(self, queue_key: str) -> bool:
        """Whether no rule holds this queue's requests."""
        known = self._governor.known
        if known is None or queue_key in self.unpaced:
            return True
        leaf = known.leaf(queue_key.removesuffix(STALE))
        return known.blocked_queued(leaf, self._clock(), self.lead) is None

    def is_stopped(self, queue_key: str) -> bool:
        """Whether a rule holds this queue's requests, and nobody knows for how long."""
        leaf = queue_key.removesuffix(STALE)
        return self._governor.is_stopped_by_rule(leaf, self._clock())

    def has_suspect(self, key: str) -> bool:
        """Whether a page that was refused waits here, and may leave."""
        backs = (queue.back(key) for queue in self._queues)
        return any(self._traffic.is_suspected(page) for back in backs for page in back)

    def waiting(self, key: str) -> int:
        """Requests that wait for this slot."""
        return sum(queue.waiting(key) for queue in self._queues)

    # Inside

    def _look_at_oldest(self) -> None:
        """What was popped longest ago must be on its way, or nobody will free its place."""
        if not self._reserved:
            return
        request = next(iter(self._reserved))
        if self._engine.is_active(request):
            self._reserved.move_to_end(request)
            return
        slot = self.on_left(request)
        if slot is not None:
            self._traffic.on_freed(slot)

    def _vacate(self, reservation: Reservation) -> str:
        """The place is for who waits for it, or for a meter; returns its slot."""
        self._end(reservation)
        for each in reservation.meters:
            self._traffic.rearm(METER + each)
        return reservation.slot

    def _end(self, reservation: Reservation) -> None:
        """The place is promised to nobody any more."""
        slot = reservation.slot
        if reservation.holds:
            self._free(reservation.leaf)
            return
        self._late[slot] -= 1
        if not self._late[slot]:
            del self._late[slot]

    def _free(self, slot: str) -> None:
        """A place of this slot, and of its meters if it is a leaf, is promised to nobody."""
        if slot not in self._opted_out:
            self._governor.release(slot)
            return
        self._opted_out[slot] -= 1
        if not self._opted_out[slot]:
            del self._opted_out[slot]

    def _note_lead(self, reservation: Reservation, key: str) -> None:
        """How long requests take from the queue to the gate; the first, which waits for
        robots.txt, aside."""
        if not self._governor.slot(key, reservation.at).is_new:
            self._leads.append(self._clock() - reservation.at)
            self.lead = min(self._leads)

    def _learn(self, queue_key: str, promised: str, slot: str) -> None:
        routes = self._routes.get(queue_key)
        if routes is None:
            if slot == self.slot_of(queue_key):
                return
            routes = self._routes[queue_key] = OrderedDict()
            if len(self._routes) > self._most:
                forgotten, _ = self._routes.popitem(last=False)
                self._reroute(forgotten)
        is_new = slot not in routes
        routes[slot] = 0
        if promised in routes and promised != slot:
            routes[promised] += 1
            if routes[promised] >= MISSES * len(routes):
                del routes[promised]
                is_new = True
        if len(routes) > MOST_ROUTES:
            routes.popitem(last=False)
        if is_new:
            self._reroute(queue_key)
            self._governor.forget_unused(promised, self._clock())

    def look_again(self) -> None:
        """Whatever sleeps may go to other slots, or wait for other meters, than was thought."""
        for queue in self._queues:
            queue.look_again_at_all()

    def _reroute(self, queue_key: str) -> None:
        """The queue's requests go to other slots than was thought: look at them again."""
        if sum(queue.look_again(queue_key) for queue in self._queues):
            self._engine.nudge()
