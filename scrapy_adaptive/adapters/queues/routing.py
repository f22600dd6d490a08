"""What the host queues of one crawl share, and what the throttle sees of them.

Laws
----
* Scrapy opens two queues, in memory and on disk: what is known of a host is known once.
* A request has one reservation from the pop until it is at the gate or has left the downloader.
* A host whose requests turn out to be sent through another slot is governed by that slot.
* A host with nothing queued is remembered only if something of it was learned.
"""

from __future__ import annotations

import math
from collections import Counter, OrderedDict
from typing import TYPE_CHECKING

from scrapy_adaptive.core.facts import Hold, Reason, Wanted

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.statscollectors import StatsCollector

    from scrapy_adaptive.adapters.scrapy_internals import Engine
    from scrapy_adaptive.adapters.traffic import Traffic

    from .host_queue import HostQueue

OPT_OUT_META_KEY = "adaptive_dont_throttle"

NOBODY = ""
"""Host of requests that have none (`data:`, `file:`): always ready."""

OPTED_OUT = " (adaptive_dont_throttle)"
"""Ends the key under which a host's opted-out requests are stored."""


class Routing:
    """The hosts of one crawl.

    Args:
        traffic: the crawl's traffic.
        engine: Scrapy's private parts.
        stats: where the scheduler's counts are kept whole.
        discount: how much less the kth request taken from a host counts, times k.
        most: hosts of which another slot is remembered.
    """

    def __init__(
        self,
        traffic: Traffic,
        engine: Engine,
        stats: StatsCollector,
        *,
        discount: float,
        most: int,
    ) -> None:
        self.saved_marks = traffic.saved_marks
        self.slot_under = traffic.slot_under
        self._traffic = traffic
        self._governor = traffic.governor
        self._clock = traffic.clock
        self._engine = engine
        self._stats = stats
        self.discount = discount
        self.is_suspect = traffic.is_suspect
        self._most = most
        self._queues: list[HostQueue] = []
        self._taken: Counter[str] = Counter()
        self._learned: OrderedDict[str, str] = OrderedDict()
        """Host to the slot through which its requests are sent, where it is not the host's."""
        self._reserved: dict[Request, tuple[str, str]] = {}
        """Requests on their way to the gate, the host of each, and the slot it has a place of."""
        self.unpaced = {NOBODY}
        """Keys of requests that the governor does not pace."""
        self._opted_out: Counter[str] = Counter()
        """Requests under way that the governor does not pace, by slot."""
        self._popped: Request | None = None
        self._aside: dict[Request, list[Request]] = {}
        """robots.txt under way to the pages that wait for it."""

    # What a queue asks

    def join(self, queue: HostQueue) -> None:
        """The scheduler has opened this queue."""
        self._queues.append(queue)
        self._traffic.room = self

    def host_of(self, request: Request) -> str:
        """The key under which a request is stored."""
        key = self._engine.own_key(request)
        if key and request.meta.get(OPT_OUT_META_KEY):
            return key + OPTED_OUT
        return self.slot_under(key, request) if key else NOBODY

    def on_host(self, host: str) -> None:
        """Requests are stored under this key."""
        if host.endswith(OPTED_OUT):
            self.unpaced.add(host)

    def on_empty(self, host: str) -> None:
        """Nothing is stored under this key any more."""
        is_opted_out = host in self.unpaced and host != NOBODY
        if is_opted_out and not any(host in queue for queue in self._queues):
            self.unpaced.discard(host)

    def slot_of(self, host: str) -> str:
        """The slot through which a host's requests are sent, as far as is known."""
        return self._learned.get(host, host) if self._learned else host

    def has_classes(self, host: str) -> bool:
        """Whether classes of this host's pages have slots of their own."""
        kinds = self._governor.kinds
        return bool(kinds) and host in kinds

    def handicap(self, host: str) -> float:
        """How much less the host's next request counts than its priority says."""
        return self.discount * self._taken[host]

    def hold(self, slot: str) -> Hold | None:
        """Why no request of this slot may leave its queue, the whole crawl aside."""
        if slot not in self.unpaced:
            return self._governor.queue_hold(slot, self._clock())
        most = self._governor.limits_of(slot.removesuffix(OPTED_OUT)).concurrency
        full = slot != NOBODY and self._opted_out[slot] >= most
        return Hold(math.inf, Reason.CONCURRENCY) if full else None

    def reserve(self, slot: str) -> Hold | None:
        """Promise a place to the request that is popped next, or say why not."""
        if self._popped is not None:
            self._look_at_popped()
        if slot not in self.unpaced:
            return self._governor.reserve(slot, self._clock())
        hold = self.hold(slot)
        if hold is None:
            self._opted_out[slot] += 1
        return hold

    def wanted(self, slot: str) -> Wanted:
        """Which request of this slot serves best."""
        return self._governor.wanted(slot)

    def on_popped(self, request: Request | None, host: str, slot: str) -> None:
        """The place is this request's; with None there was no request after all."""
        if request is None:
            self._free(slot)
            return
        self._reserved[request] = (host, slot)
        self._popped = request
        if self.discount:
            self._taken[host] += 1

    def on_asleep(self, slot: str, hold: Hold) -> None:
        """Requests of this slot wait until it may send."""
        self._traffic.rearm(slot, room_at=hold.until)

    def ask_again(self) -> None:
        """Requests may be ready, but looking for one has taken long enough."""
        self._engine.nudge()

    def await_crawl(self, hold: Hold) -> None:
        """Requests are ready, but the whole crawl is held."""
        self._traffic.await_crawl(hold)

    # What the throttle tells

    def on_at_gate(self, request: Request, key: str) -> str | None:
        """The request has reached the gate, and this is its slot.

        Returns:
            The slot of which its reservation held a place.
        """
        reservation = self._reserved.get(request)
        slot = self.on_left(request)
        if reservation is not None and reservation[1] != key:
            host, promised = reservation
            # One page of a host says nothing of the others once a class of them is split off.
            if host == key or self._governor.host_of(key) != promised:
                self._learn(host, key)
        return slot

    def on_left(self, request: Request) -> str | None:
        """The request needs no reservation any more; returns the slot that has a place more."""
        reservation = self._reserved.pop(request, None)
        if request is self._popped:
            self._popped = None
        for page in self._aside.pop(request, ()):
            if page in self._reserved:
                self._engine.step_back(page)
        if reservation is None:
            return None
        self._free(reservation[1])
        return reservation[1]

    def on_robots(self, request: Request, key: str) -> None:
        """A robots.txt is under way: the pages on their way to the gate wait for it."""
        family = self._governor.family(key)
        pages = [page for page, (_, slot) in self._reserved.items() if slot in family]
        self._aside[request] = pages
        for page in pages:
            self._engine.step_aside(page)

    # The throttle's room

    takes_back = True

    @property
    def keys(self) -> list[str]:
        """Slots that must be looked at when the whole crawl goes on: the engine asks for them."""
        return []

    @property
    def is_ripe(self) -> bool:
        """Whether the engine should ask for a request."""
        return any(queue.has_ready for queue in self._queues)

    def ripe_at(self, key: str, now: float) -> float:
        """The instant at which requests that sleep may leave; infinity where none do."""
        at = math.inf
        for queue in self._queues:
            if queue.is_asleep(key):
                hold = self.hold(key)
                queue.on_hold(key, hold)
                at = now if hold is None else hold.until
        return at

    def on_due(self, key: str) -> bool:
        """The instant of this slot has come; returns whether requests may leave by it."""
        woken = False
        for queue in self._queues:
            woken |= queue.wake(key)
        return woken

    def has_suspect(self, key: str) -> bool:
        """Whether a page that was refused waits here."""
        lanes = (lane for queue in self._queues for lane in queue.lanes(key) if lane.host == key)
        return any(self._traffic.is_suspect(page) for lane in lanes for page in lane.back)

    def push_back(self, request: Request) -> None:
        """Keep a request that came back; where there is a job, it will be saved with it."""
        self._queues[-1].push_back(request)
        self._stats.inc_value("scheduler/enqueued")
        where = "disk" if self._queues[-1].is_stored else "memory"
        self._stats.inc_value(f"scheduler/enqueued/{where}")

    def on_freed(self, key: str) -> None:
        """A place of this slot is free: the engine takes as long as the alarm to use it."""
        if self.on_due(key):
            self._engine.nudge()

    def on_close(self) -> None:
        """The queues save what came back."""

    def waiting(self, key: str) -> int:
        """Requests that wait for this slot."""
        return sum(len(lane) for queue in self._queues for lane in queue.lanes(key))

    @property
    def back_count(self) -> int:
        """Requests that came back and wait."""
        return sum(queue.back_count for queue in self._queues)

    @property
    def is_parked(self) -> bool:
        """Whether requests wait and all of them are for parked hosts."""
        return any(self._queues) and all(queue.is_parked for queue in self._queues)

    # Inside

    def _look_at_popped(self) -> None:
        """What was popped last must be on its way by now, or nobody will free its place."""
        request, self._popped = self._popped, None
        if request is None or self._engine.is_active(request):
            return
        if not any(request in pages for pages in self._aside.values()):
            slot = self.on_left(request)
            if slot is not None:
                self._traffic.rearm(slot)

    def _free(self, slot: str) -> None:
        if slot not in self._opted_out:
            self._governor.release(slot)
            return
        self._opted_out[slot] -= 1
        if not self._opted_out[slot]:
            del self._opted_out[slot]

    def _learn(self, host: str, slot: str) -> None:
        old = self.slot_of(host)
        if old == slot or host in self.unpaced:
            return
        self._learned.pop(host, None)
        if host != slot:
            self._learned[host] = slot
        for queue in self._queues:
            queue.move(host, old, slot)
        self._governor.forget_unused(old)
        self._engine.nudge()
        if len(self._learned) > self._most:
            host, old = self._learned.popitem(last=False)
            for queue in self._queues:
                queue.move(host, old, host)
