"""From which queue a request goes to which slot.

Laws
----
* A request's queue is known when it is queued: that of its slot, as Scrapy, its meta or
  ADAPTIVE_SLOT names it. A slot that a middleware chooses later is learned at the gate.
* A host whose requests go to several slots has a place in each; none moves the others.
* Scrapy opens two queues, in memory and on disk: what is known of a host is known once.
* Requests that known limits count apart wait apart, by their leaf: a spent one holds up no other.
"""

from __future__ import annotations

import math
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from scrapy_adaptive.adapters.reservations import Reservation
from scrapy_adaptive.adapters.scrapy_internals import Copy
from scrapy_adaptive.core.limits.leaf import FIELD
from scrapy_adaptive.core.types import Blocked, Reason, Wanted

from .lazy_start import LazyStart
from .waiting_room import METER

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
        self._reservations = traffic.reservations
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
        self.unpaced = {NOBODY}
        """Queues of requests that the governor does not pace."""

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
            blocked = self._governor.blocked_in_queue(slot, self._clock(), self._reservations.lead)
            return blocked or self._reservations.crowded(slot)
        if not slot.endswith(OPTED_OUT):
            return None
        most = self._governor.limits_of(slot.removesuffix(OPTED_OUT)).concurrency
        is_full = self._reservations.count_unpaced(slot) >= most
        return Blocked(math.inf, Reason.CONCURRENCY) if is_full else None

    def _blocked_by_meter(self, key: str) -> Blocked | None:
        known, now = self._governor.known, self._clock()
        meter = key.removeprefix(METER)
        at = now if known is None else known.meter_at(meter, now, self._reservations.lead)
        return Blocked(at, Reason.RULE, meter) if at > now else None

    def reserve(self, queue_key: str) -> tuple[str, Blocked | None]:
        """Promise a place to the queue's next request: in which slot, or why in none."""
        if queue_key in self.unpaced:
            blocked = self.blocked(queue_key)
            if blocked is None:
                self._reservations.promise_unpaced(queue_key)
            return queue_key, blocked
        found: tuple[str, Blocked | None] | None = None
        lead = self._reservations.lead
        for slot in self.slots_of(queue_key):
            leaf = self._leaf_of(queue_key, slot)
            blocked = self._reservations.crowded(slot)
            blocked = blocked or self._governor.reserve(leaf, self._clock(), lead)
            if blocked is None:
                if queue_key in self._routes:
                    self._routes[queue_key].move_to_end(slot)
                return slot, None
            if found is None or found[1] is None or blocked.until < found[1].until:
                found = slot, blocked
        assert found is not None
        if queue_key.endswith(STALE) and found[1] is not None and found[1].reason in SILENT:
            self._reservations.promise_unpaced(queue_key)
            return queue_key, None
        return found

    def blocked_of(self, queue_key: str) -> Blocked | None:
        """Why the queue's next request may not leave, by the slot that may be first to let it.

        Nothing is promised.
        """
        if queue_key in self.unpaced:
            return self.blocked(queue_key)
        governor, now, lead = self._governor, self._clock(), self._reservations.lead
        found = governor.blocked_by_crawl(now)
        if found is not None:
            return found
        for slot in self.slots_of(queue_key):
            blocked = governor.blocked_in_queue(slot, now, lead)
            if governor.known is not None:
                leaf = governor.known.leaf(self._leaf_of(queue_key, slot))
                blocked = governor.known.blocked_queued(leaf, now, lead) or blocked
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

    def _leaves_of(self, queue_key: str) -> list[str]:
        """The leaves by which requests of this queue may be sent."""
        return [self._leaf_of(queue_key, slot) for slot in self.slots_of(queue_key)]

    def wanted(self, slot: str) -> Wanted:
        """Which request of this slot serves best; where one may be awaited, Scrapy's order does."""
        return Wanted.ANY if self._reservations.has_late(slot) else self._governor.wanted(slot)

    def on_popped(self, request: Request | None, queue_key: str, slot: str) -> None:
        """The place is this request's; with None there was no request after all."""
        is_paced = slot not in self.unpaced and not slot.endswith(STALE)
        leaf = self._leaf_of(queue_key, slot) if is_paced else slot
        if request is None:
            self._reservations.free(leaf, is_paced=is_paced)
            return
        meters = tuple(leaf.split(FIELD)[1:]) if leaf != slot else ()
        self._reservations.begin(
            request, Reservation(queue_key, slot, self._clock(), leaf, meters, is_paced)
        )
        if self.discount:
            self._taken[queue_key] += 1

    def on_asleep(self, slots: Sequence[str], blocked: Blocked) -> None:
        """Requests wait until one of these slots, or a meter, may; the earliest is held by this."""
        for slot in slots:
            self._traffic.rearm(slot, room_at=blocked.until if len(slots) == 1 else None)

    def before_pop(self) -> bool:
        """The engine has a place: whether somebody at the gate takes it."""
        freed = self._reservations.look_at_oldest()
        if freed is not None:
            self._traffic.on_freed(freed)
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

    def learn(self, reservation: Reservation, slot: str) -> None:
        """A request that had this reservation has reached the gate, and goes to this slot."""
        promised = reservation.slot
        # One page of a host says nothing of the others once a class of them is split off.
        if not self._governor.host_of(slot) == promised != slot:
            self._learn(reservation.queue_key, promised, slot)

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
            leaves = self._leaves_of(queue_key)
            return all(self._governor.is_parked(leaf, now) for leaf in leaves)

        return all(is_parked(key) for queue in self._queues for key, _ in queue.counts)

    def leaves(self, *, unsaved: bool = False) -> Iterator[tuple[Sequence[str], int]]:
        """How many requests wait, and the leaves by which they may go: all that are paced, or those
        that end with the process."""
        for queue in self._queues:
            for queue_key, count in () if unsaved and queue.is_stored else queue.counts:
                if queue_key not in self.unpaced:
                    yield self._leaves_of(queue_key), count

    def leaves_of(self, slot: str) -> Iterator[str]:
        """The leaves of this slot for which requests wait; of very many some."""
        hosts = (host for queue in self._queues for host in queue.hosts_of(slot))
        return (host.removesuffix(STALE) for host in hosts)

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
        return known.blocked_queued(leaf, self._clock(), self._reservations.lead) is None

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
