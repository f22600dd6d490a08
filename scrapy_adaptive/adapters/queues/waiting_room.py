"""Where requests wait that are not at the gate, as the traffic sees it.

Laws
----
* The traffic knows this protocol and nothing else of the queues; a crawl whose priority queue is
  not ours has `NoRoom`: there everything waits at the gate.
* A host queue finds the routing of its crawl here: neither imports the extension.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple, Protocol
from weakref import ReferenceType, WeakKeyDictionary, ref

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy import Request
    from scrapy.crawler import Crawler

    from scrapy_adaptive.core.types import Blocked

    from .routing import Routing


METER = "\0meter "
"""Begins the timers' keys of meters: no slot has such a name."""


class Reservation(NamedTuple):
    """A place promised to a request on its way to the gate."""

    queue_key: str
    """The queue that it comes from."""
    slot: str
    at: float
    """Monotonic seconds of the pop."""
    leaf: str = ""
    """What was reserved: the slot, and the meters."""
    meters: tuple[str, ...] = ()
    """Keys of the meters in which it has a place."""
    holds: bool = True
    """Whether it still keeps others from that place."""
    has_arrived: bool = False
    """Whether the request is at the gate, or past it, and keeps its place there."""


class WaitingRoom(Protocol):
    """The queues of one crawl."""

    keeps: bool
    """Whether it keeps requests until their slot may send."""

    @property
    def is_ripe(self) -> bool:
        """Whether the engine should ask for a request."""

    @property
    def is_parked(self) -> bool:
        """Whether every request that waits here is for a parked slot."""

    @property
    def has_requests(self) -> bool:
        """Whether any request waits here."""

    @property
    def count(self) -> int:
        """Requests that wait here."""

    @property
    def back_count(self) -> int:
        """Refused requests that wait here."""

    def waiting(self, key: str) -> int:
        """Requests that wait for this slot."""

    def has_suspect(self, key: str) -> bool:
        """Whether a page of this slot waits that was refused."""

    def gave_out(self, request: Request) -> bool:
        """Whether this request comes from here and is not at the gate yet."""

    def blocked(self, slot: str) -> Blocked | None:
        """Why no request of this slot may leave; None where one may."""

    def ripe_at(self, key: str, now: float) -> float:
        """The instant at which this slot's requests may leave; infinity where none wait."""

    def on_due(self, key: str) -> bool:
        """That instant has come; returns whether the engine should ask."""

    def on_freed(self, key: str) -> float:
        """A permit of this slot has ended; returns the instant at which to wake it."""

    def on_at_gate(self, request: Request, key: str) -> Reservation | None:
        """A request has reached the gate; returns the reservation that ends by it."""

    def on_arrived(self, request: Request) -> None:
        """A request has reached the gate and keeps its reservation until it is back."""

    def on_left(self, request: Request) -> str | None:
        """A request needs no reservation any more; returns the slot that has a place more."""

    def under_way(self, key: str) -> int:
        """Requests between this slot's queue and the gate."""

    def look_again(self) -> None:
        """Whatever sleeps may go to other slots, or wait for other meters, than was thought."""

    def withdraw(self, is_meant: Callable[[Request], bool]) -> None:
        """Requests that wait and are meant are dropped."""

    def sweep(self) -> list[str]:
        """End the reservations of requests that went another way; returns their slots."""

    def look_for_late(self) -> list[str]:
        """Requests that are late at the gate hold nobody back any more; returns their slots."""

    def look_at_start(self) -> None:
        """Requests may leave that might not before: an engine that was held back may ask."""


class NoRoom:
    """Nothing waits here: the crawl's priority queue is not ours."""

    keeps = False
    is_ripe = False
    is_parked = True
    has_requests = False
    count = 0
    back_count = 0

    def waiting(self, key: str) -> int:
        """None that is known."""
        return 0

    def has_suspect(self, key: str) -> bool:
        """None that is known."""
        return False

    def gave_out(self, request: Request) -> bool:
        """Nothing came from here."""
        return False

    def blocked(self, slot: str) -> Blocked | None:
        """Nothing is held here."""
        return None

    def ripe_at(self, key: str, now: float) -> float:
        """Never."""
        return math.inf

    def on_due(self, key: str) -> bool:
        """Nothing wakes."""
        return False

    def on_freed(self, key: str) -> float:
        """Nobody takes the place."""
        return math.inf

    def on_at_gate(self, request: Request, key: str) -> None:
        """It had no reservation."""

    def on_arrived(self, request: Request) -> None:
        """It has no reservation."""

    def on_left(self, request: Request) -> str | None:
        """It had no reservation."""
        return None

    def under_way(self, key: str) -> int:
        """None that is known."""
        return 0

    def look_again(self) -> None:
        """Nothing sleeps."""

    def withdraw(self, is_meant: Callable[[Request], bool]) -> None:
        """They are met at the gate."""

    def sweep(self) -> list[str]:
        """There is nothing to end."""
        return []

    def look_for_late(self) -> list[str]:
        """None is expected."""
        return []

    def look_at_start(self) -> None:
        """The engine is not held back: requests that wait hold their places."""


_ROUTINGS: WeakKeyDictionary[Crawler, ReferenceType[Routing]] = WeakKeyDictionary()


def provide(crawler: Crawler, routing: Routing) -> None:
    """The host queues of this crawl will use this routing, as long as its owner keeps it."""
    _ROUTINGS[crawler] = ref(routing)


def routing_of(crawler: Crawler) -> Routing | None:
    """The routing of this crawl; None while the extension is not switched on."""
    found = _ROUTINGS.get(crawler)
    return None if found is None else found()
