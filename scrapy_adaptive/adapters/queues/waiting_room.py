"""Where requests wait that are not at the gate, as the traffic sees it.

Laws
----
* The traffic knows this protocol and nothing else of the queues; a crawl whose priority queue is
  not ours has `NoRoom`: there everything waits at the gate.
* A host queue finds the routing of its crawl here: neither imports the extension.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Protocol
from weakref import ReferenceType, WeakKeyDictionary, ref

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from scrapy import Request
    from scrapy.crawler import Crawler

    from scrapy_adaptive.adapters.reservations import Reservation
    from scrapy_adaptive.core.types import Blocked

    from .routing import Routing


METER = "\0meter "
"""Begins the timers' keys of meters: no slot has such a name."""


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

    def blocked(self, slot: str) -> Blocked | None:
        """Why no request of this slot may leave; None where one may."""

    def ripe_at(self, key: str, now: float) -> float:
        """The instant at which this slot's requests may leave; infinity where none wait."""

    def on_due(self, key: str) -> bool:
        """That instant has come; returns whether the engine should ask."""

    def on_freed(self, key: str) -> float:
        """A permit of this slot has ended; returns the instant at which to wake it."""

    def learn(self, reservation: Reservation, slot: str) -> None:
        """A request that had this reservation has reached the gate, and goes to this slot."""

    def look_again(self) -> None:
        """Whatever sleeps may go to other slots, or wait for other meters, than was thought."""

    def leaves(self, *, unsaved: bool = False) -> Iterable[tuple[Sequence[str], int]]:
        """How many requests wait, and the leaves by which they may go: all that are paced, or those
        that end with the process."""

    def leaves_of(self, slot: str) -> Iterable[str]:
        """The leaves of this slot for which requests wait; of very many some."""

    def withdraw(self, is_meant: Callable[[Request], bool]) -> None:
        """Requests that wait and are meant are dropped."""

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

    def learn(self, reservation: Reservation, slot: str) -> None:
        """Nothing came from here."""

    def look_again(self) -> None:
        """Nothing sleeps."""

    def leaves(self, *, unsaved: bool = False) -> Iterable[tuple[Sequence[str], int]]:
        """None that are known."""
        return ()

    def leaves_of(self, slot: str) -> Iterable[str]:
        """None that are known."""
        return ()

    def withdraw(self, is_meant: Callable[[Request], bool]) -> None:
        """They are met at the gate."""

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
