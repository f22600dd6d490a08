"""Who waits at the gate.

Laws
----
* Requests of a slot go first come, first served, but for probes and rechecks.
* A request that cannot go back holds no place in CONCURRENT_REQUESTS while it waits.
* One that can go back waits for about a second at most.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from twisted.internet.defer import Deferred

from scrapy_adaptive.core.breaker.breaker import Phase
from scrapy_adaptive.core.facts import Hold, Wanted

if TYPE_CHECKING:
    from scrapy import Request

    from scrapy_adaptive.core.slot import Slot

PATIENCE = 1.0
"""Seconds for which a request that can go back waits at the gate."""


@dataclass(slots=True, eq=False)
class Waiter:
    """A request at the gate."""

    request: Request
    key: str
    """The slot it waits for."""
    goes_back: bool
    """Whether it can go back to a queue that keeps it until it may be sent."""
    since: float
    """Monotonic seconds."""
    done: Deferred[bool] = field(default_factory=Deferred)
    """Fires with whether the request may go."""

    def is_too_long(self, hold: Hold, slot: Slot, now: float) -> bool:
        """Whether it would wait too long for what holds its slot."""
        if not self.goes_back:
            return False
        if hold.until == math.inf and slot.phase is Phase.CLOSED:
            return now >= self.since + PATIENCE
        return hold.until > self.since + PATIENCE


class GateQueue:
    """Requests that wait at the gate, by slot."""

    def __init__(self) -> None:
        self._waiters: dict[str, deque[Waiter]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._waiters.values()))

    def __bool__(self) -> bool:
        return bool(self._waiters)

    def __contains__(self, key: str) -> bool:
        return key in self._waiters

    def __iter__(self) -> Iterator[str]:
        return iter(self._waiters)

    def join(self, key: str, waiter: Waiter, *, first: bool) -> None:
        """Wait for this slot, ahead of all others or behind them."""
        waiter.key = key
        queue = self._waiters.setdefault(key, deque())
        queue.insert(0 if first else len(queue), waiter)

    def leave(self, key: str, waiter: Waiter) -> None:
        """Wait no more."""
        queue = self._waiters.get(key)
        if queue is not None and waiter in queue:
            queue.remove(waiter)
            if not queue:
                del self._waiters[key]

    def next(self, key: str, wanted: Wanted, is_suspect: Callable[[Request], bool]) -> Waiter:
        """Whose turn it is of those who wait for this slot.

        Raises:
            KeyError: nobody does.
        """
        queue = self._waiters[key]
        if wanted is Wanted.ANY or len(queue) == 1:
            return queue[0]
        suspected = wanted is Wanted.SUSPECTED
        fitting = (each for each in queue if is_suspect(each.request) is suspected)
        return next(fitting, queue[0])

    def of(self, key: str) -> list[Waiter]:
        """Everybody who waits for this slot."""
        return list(self._waiters.get(key, ()))

    def patience_until(self, key: str) -> float:
        """The instant at which the first of those who can go back will; infinity if none can."""
        queue = self._waiters.get(key, ())
        return min((each.since + PATIENCE for each in queue if each.goes_back), default=math.inf)
