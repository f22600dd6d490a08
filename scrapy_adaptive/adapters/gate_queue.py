"""Who waits at the gate.

Laws
----
* Requests of a slot go first come, first served, but for test requests and rechecks.
* Whoever waits lends its place in CONCURRENT_REQUESTS to others, where a queue of ours keeps the
  rest or Scrapy never counted it; elsewhere it holds its place, as in Scrapy's own slots.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from twisted.internet.defer import Deferred

from scrapy_adaptive.core.types import Wanted

if TYPE_CHECKING:
    from scrapy import Request


@dataclass(slots=True, eq=False)
class Waiter:
    """A request at the gate."""

    request: Request
    key: str
    """The slot it waits for."""
    scheduled: bool
    """Whether the scheduler gave it out: it goes on only when there is a place for it."""
    lends: bool
    """Whether it lends its place in CONCURRENT_REQUESTS while it waits."""
    done: Deferred[bool] = field(default_factory=Deferred)
    """Fires with whether the request may go."""


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

    def leave(self, waiter: Waiter) -> None:
        """Wait no more."""
        queue = self._waiters.get(waiter.key)
        if queue is not None and waiter in queue:
            queue.remove(waiter)
            if not queue:
                del self._waiters[waiter.key]

    def next(self, key: str, wanted: Wanted, is_suspected: Callable[[Request], bool]) -> Waiter:
        """Whose turn it is of those who wait for this slot.

        Raises:
            KeyError: nobody does.
        """
        queue = self._waiters[key]
        if wanted is Wanted.ANY or len(queue) == 1:
            return queue[0]
        suspected = wanted is Wanted.SUSPECTED
        fitting = (each for each in queue if is_suspected(each.request) is suspected)
        return next(fitting, queue[0])

    def unscheduled(self, key: str) -> Waiter | None:
        """The first of those who wait for this slot and need no place in CONCURRENT_REQUESTS."""
        return next((each for each in self._waiters[key] if not each.scheduled), None)

    def of(self, key: str) -> list[Waiter]:
        """Everybody who waits for this slot."""
        return list(self._waiters.get(key, ()))

    def count(self, key: str) -> int:
        """How many wait for this slot."""
        return len(self._waiters.get(key, ()))
