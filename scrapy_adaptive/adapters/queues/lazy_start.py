"""When a spider's `start()` is read on that waits while the engine has enough to do.

Laws
----
* Such a `start()` asks `engine.needs_backout()`, or awaits `scheduler_empty`. In Scrapy it waits
  because requests that may not leave yet fill CONCURRENT_REQUESTS. Here they hold no place, so the
  engine is held back instead, once `AHEAD` times CONCURRENT_REQUESTS wait and none may leave.
* An engine that is held back would get nothing. It asks again as soon as it would: a host wakes,
  the pause of the whole crawl ends, somebody at the gate awaits its asking, or fewer wait.
* Requests of hosts that sleep for long, or that a rule pauses, count only beyond `ASIDE`: the hosts
  behind them in `start()` need not wait for them.
* A `start()` that asks nobody is read as ever, and stops nothing else meanwhile.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scrapy_adaptive.adapters.scrapy_internals import Engine

    from .host_queue import HostQueue

AHEAD = 100
"""Requests that may wait for each place in CONCURRENT_REQUESTS: places stay busy where each start
request is another host's, a page takes 0.3 s and its host then sleeps for half a minute."""

ASIDE = 10_000
"""Requests that do not count, of hosts that sleep for long: some 20 MB."""

LONG = 60.0
"""Seconds after which a host's sleep is long: the delay of no ordinary host, but many a pause."""

EACH = 5.0
"""Seconds between two looks at who sleeps for long, which takes time with many hosts."""

UNHEARD = 100
"""Requests that come while the engine is held back, after which it asks nevertheless: it would read
all of a `start()` that does not wait in one go, and do nothing else."""


class LazyStart:
    """Holds the engine back.

    Args:
        engine: Scrapy's engine.
        queues: of the crawl; more may come.
        places: CONCURRENT_REQUESTS; 0 for no limit, with which Scrapy reads on too.
        is_awaited: whether somebody at the gate goes on when the engine next asks.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        engine: Engine,
        queues: Sequence[HostQueue],
        *,
        places: int,
        is_awaited: Callable[[], bool],
        clock: Callable[[], float],
    ) -> None:
        self._engine = engine
        self._queues = queues
        self._most = AHEAD * places or math.inf
        self._is_awaited = is_awaited
        self._clock = clock
        self._is_read = False
        """Whether all of `start()` was read."""
        self._aside = 0
        """Requests of hosts that sleep for long, when that was looked at last."""
        self._looks_at = -math.inf
        self._unheard = 0
        """Requests that have come since the engine was held back."""
        self._is_looking = False

    def on_asked_in_vain(self) -> None:
        """The engine has asked and got nothing: hold it back if it would get nothing more."""
        if self._is_read:
            return
        self._is_read = not self._engine.is_starting
        if not self._is_read and self._is_enough() and not self._may_give():
            self._unheard = 0
            self._engine.hold_back(held=True)

    def look(self) -> None:
        """Something has changed, or time has passed: an engine that is held back may go on."""
        engine = self._engine
        if not engine.is_held or self._is_looking:
            return
        self._is_looking = True  # a host that goes to sleep may wake another
        try:
            if not (engine.is_starting and self._is_enough()) or self._may_give():
                engine.hold_back(held=False)
        finally:
            self._is_looking = False

    def on_push(self) -> None:
        """A request has come."""
        if self._engine.is_held:
            self._unheard += 1
            if self._unheard >= UNHEARD:
                self._engine.hold_back(held=False)

    def _may_give(self) -> bool:
        return self._is_awaited() or any(queue.settle() for queue in self._queues)

    def _is_enough(self) -> bool:
        """Whether enough requests wait."""
        count = sum(map(len, self._queues))
        if count < self._most:
            return False
        now = self._clock()
        if now >= self._looks_at:
            self._looks_at = now + EACH
            until = now + LONG
            self._aside = sum(queue.count_asleep_beyond(until) for queue in self._queues)
        return count - min(self._aside, ASIDE) >= self._most
