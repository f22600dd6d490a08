"""Requests on their way from a queue to the gate, and the places promised to them.

Laws
----
* A request has one reservation from the pop until it is at the gate or has gone another way; one
  that is not paced keeps it until it is back.
* A request that takes long is late: others do not wait for it, but as many wait at the gate as may
  be in flight.
* One that a middleware replaced, or keeps for ever, is found by a sweep.
"""

from __future__ import annotations

import math
from collections import Counter, OrderedDict, deque
from typing import TYPE_CHECKING, NamedTuple

from scrapy_adaptive.core.types import Blocked, Reason

from .queues.waiting_room import METER

if TYPE_CHECKING:
    from scrapy import Request

    from .scrapy_internals import Engine
    from .traffic import Traffic

LATE = 0.1
"""Seconds, or twice what others take, after which a request that has not come to the gate is late:
the middleware that keeps it may answer it itself, or wait for one that is still queued, as for a
login. It holds nobody back, nor do those that follow it while it is on its way."""

LEADS = 8
"""Latest requests of which the quickest tells how long the way from the queue to the gate is: slow
middlewares slow them all, a busy processor some."""


class Reservation(NamedTuple):
    """A place promised to a request on its way to the gate."""

    queue_key: str
    """The queue that it comes from."""
    slot: str
    at: float
    """Monotonic seconds of the pop."""
    leaf: str
    """What was reserved: the slot, and the meters."""
    meters: tuple[str, ...]
    """Keys of the meters in which it has a place."""
    is_paced: bool
    """Whether the governor promised the place; else it is one of the queue's own."""
    holds: bool = True
    """Whether it still keeps others from that place."""
    has_arrived: bool = False
    """Whether the request is at the gate, or past it, and keeps its place there."""


class Reservations:
    """Who is on the way to the gate.

    Args:
        traffic: of the crawl.
        engine: Scrapy's private parts.
    """

    def __init__(self, traffic: Traffic, engine: Engine) -> None:
        self._traffic = traffic
        self._governor = traffic.governor
        self._clock = traffic.clock
        self._engine = engine
        self._reserved: OrderedDict[Request, Reservation] = OrderedDict()
        self._unpaced: Counter[str] = Counter()
        """Requests under way that the governor does not pace, by queue."""
        self._late: Counter[str] = Counter()
        """Requests on their way that hold nobody back, by slot."""
        self.lead = 0.0
        """Seconds that requests take from their queue to the gate, but for a busy processor."""
        self._leads: deque[float] = deque([0.0], maxlen=LEADS)

    # Questions

    def __contains__(self, request: Request) -> bool:
        return request in self._reserved

    def slot_of(self, request: Request) -> str:
        """The slot of which a request on its way has a place.

        Raises:
            KeyError: it is not on its way.
        """
        return self._reserved[request].slot

    def under_way(self, slot: str) -> int:
        """Requests between this slot's queue and the gate."""
        return sum(each.slot == slot for each in self._reserved.values())

    def count_unpaced(self, queue_key: str) -> int:
        """Requests of this queue under way that the governor does not pace."""
        return self._unpaced[queue_key]

    def has_late(self, slot: str) -> bool:
        """Whether requests of this slot are on their way that hold nobody back."""
        return slot in self._late

    def crowded(self, slot: str) -> Blocked | None:
        """While those on their way hold nobody back, as many wait at the gate as may be in flight,
        and no more."""
        if slot not in self._late:
            return None
        most = self._governor.limits_of(slot).concurrency
        is_crowded = self._traffic.count_at_gate(slot) >= most
        return Blocked(math.inf, Reason.CONCURRENCY) if is_crowded else None

    # Facts

    def promise_unpaced(self, queue_key: str) -> None:
        """A place of the queue's own is promised to its next request."""
        self._unpaced[queue_key] += 1

    def begin(self, request: Request, reservation: Reservation) -> None:
        """The request sets out, and the place is its own."""
        former = self._reserved.pop(request, None)
        if former is not None:  # the same object was queued twice: one of it has a place
            self._end(former)
        self._reserved[request] = reservation
        if reservation.slot in self._late and not self._traffic.has_standing(reservation.slot):
            self._let_others(request, reservation)
        elif reservation.is_paced:
            self._traffic.await_arrivals(LATE)

    def on_at_gate(self, request: Request, key: str) -> Reservation | None:
        """The request has reached the gate, and this is its slot.

        Returns:
            Its reservation, which ends; None where it had none, or needed none.
        """
        reservation = self._reserved.pop(request, None)
        if reservation is None:
            return None
        self._end(reservation)
        if not reservation.is_paced:
            return None
        self._note_lead(reservation, key)
        return reservation

    def on_arrived(self, request: Request) -> None:
        """The request has reached the gate and keeps its reservation until it is back."""
        reservation = self._reserved.get(request)
        if reservation is not None:
            self._reserved[request] = reservation._replace(has_arrived=True)

    def on_left(self, request: Request) -> str | None:
        """The request needs no reservation any more; returns the slot that has a place more."""
        reservation = self._reserved.pop(request, None)
        return None if reservation is None else self._vacate(reservation)

    def free(self, leaf: str, *, is_paced: bool) -> None:
        """A place of this slot, and of its meters if it is a leaf, is promised to nobody."""
        if is_paced:
            self._governor.release(leaf)
            return
        self._unpaced[leaf] -= 1
        if not self._unpaced[leaf]:
            del self._unpaced[leaf]

    # Time

    def sweep(self) -> list[str]:
        """End the reservations of requests that went another way; returns their slots."""
        gone = [request for request in self._reserved if not self._engine.is_active(request)]
        return [slot for request in gone if (slot := self.on_left(request)) is not None]

    def look_at_oldest(self) -> str | None:
        """What set out longest ago must be on its way, or nobody will free its place; returns its
        slot if it is not."""
        if not self._reserved:
            return None
        request = next(iter(self._reserved))
        if self._engine.is_active(request):
            self._reserved.move_to_end(request)
            return None
        return self.on_left(request)

    def look_for_late(self) -> list[str]:
        """Requests that are late hold nobody back any more; returns their slots."""
        paced = {
            request: each
            for request, each in self._reserved.items()
            if each.holds and not each.has_arrived and each.is_paced
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

    # Inside

    def _let_others(self, request: Request, reservation: Reservation) -> None:
        """It is on its way, and holds nobody back."""
        self._vacate(reservation)
        self._reserved[request] = reservation._replace(holds=False)
        self._late[reservation.slot] += 1

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
            self.free(reservation.leaf, is_paced=reservation.is_paced)
            return
        self._late[slot] -= 1
        if not self._late[slot]:
            del self._late[slot]

    def _note_lead(self, reservation: Reservation, key: str) -> None:
        """How long requests take from the queue to the gate; the first, which waits for
        robots.txt, aside."""
        if not self._governor.slot(key, reservation.at).is_new:
            self._leads.append(self._clock() - reservation.at)
            self.lead = min(self._leads)
