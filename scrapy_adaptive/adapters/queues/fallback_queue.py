"""Where refused requests wait before a scheduler whose queue is not ours.

Laws
----
* A request leaves when its slot may send, one place of the slot reserved for it. A probe asks
  about the host, so another request of the host is preferred for it.
* Whatever else waits for the slot waits at the gate: that queue cannot be told to keep it.
* At close everything that waits goes to the scheduler, and so into the JOBDIR.
"""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from scrapy_adaptive.core.breaker.breaker import Phase
from scrapy_adaptive.core.facts import Wanted

if TYPE_CHECKING:
    from scrapy import Request

    from scrapy_adaptive.adapters.traffic import Traffic

logger = logging.getLogger(__name__)

PATIENCE = 1.0
"""Seconds for which a host that may be probed waits for a request that was not refused."""


class SideQueue:
    """Refused requests of one crawl, by slot.

    Args:
        traffic: the crawl's traffic.
    """

    takes_back = False

    enqueue: Callable[[Request], Any]
    """Gives a request to the scheduler."""

    def __init__(self, traffic: Traffic) -> None:
        self._traffic = traffic
        self._waiting: dict[str, deque[Request]] = {}
        self._ripe: dict[str, None] = {}
        """Slots whose instant has come, who waited longest first."""
        self._reserved: dict[Request, str] = {}
        self._closing = False

    @property
    def back_count(self) -> int:
        """Requests that wait here."""
        return sum(map(len, self._waiting.values()))

    @property
    def is_ripe(self) -> bool:
        """Whether the engine should ask for one of these requests."""
        return bool(self._ripe)

    @property
    def is_parked(self) -> bool:
        """What waits in the scheduler behind is not known."""
        return False

    @property
    def keys(self) -> list[str]:
        """Slots that have requests waiting here."""
        return list(self._waiting)

    def waiting(self, key: str) -> int:
        """Requests of this slot that wait here."""
        return len(self._waiting.get(key, ()))

    def has_suspect(self, key: str) -> bool:
        """Whether a page that was refused waits here; it comes to the gate by itself."""
        return False

    def push_back(self, request: Request) -> None:
        """Keep a request that came back."""
        if self._closing:
            self._give_back(request)
            return
        key = self._traffic.key_of(request)
        assert key is not None
        self._waiting.setdefault(key, deque()).append(request)
        self._traffic.rearm(key)

    def ripe_at(self, key: str, now: float) -> float:
        """The instant at which this slot's requests may leave.

        Infinity where none wait, where they may leave already, and in a pause that another
        request of the host, one at the gate, will probe.
        """
        if key not in self._waiting or key in self._ripe:
            return math.inf
        if self._traffic.has_waiting(key):
            return now if self._is_closed(key) else math.inf
        if self._awaits_recheck(key):
            return now
        hold = self._traffic.governor.queue_hold(key, now)
        hold = self._traffic.governor.crawl_hold(now) if hold is None else hold
        return now if hold is None else hold.until

    def on_due(self, key: str) -> bool:
        """The instant of this slot has come; returns whether requests may leave."""
        if key in self._waiting:
            self._ripe[key] = None
        return bool(self._ripe)

    def on_freed(self, key: str) -> None:
        """The place that has just become free is for a page of these."""
        now = self._traffic.clock()
        if self.ripe_at(key, now) <= now:
            self.on_due(key)

    def on_close(self) -> None:
        """From now on everything goes to the scheduler."""
        self._closing = True
        self._ripe.clear()
        while self._waiting:
            _, queue = self._waiting.popitem()
            for request in queue:
                self._give_back(request)

    def on_at_gate(self, request: Request, key: str) -> str | None:
        """The request has reached the gate; returns the slot whose reservation it ended."""
        return self.on_left(request)

    def on_left(self, request: Request) -> str | None:
        """The request needs no reservation any more; returns the slot that has a place more."""
        key = self._reserved.pop(request, None)
        if key is not None:
            self._traffic.governor.release(key)
        return key

    def on_robots(self, request: Request, key: str) -> None:
        """Pages that wait for a robots.txt cannot be told from others."""

    def pop(self, *, may_probe: bool) -> Request | None:
        """A request whose slot may send now.

        Args:
            may_probe: the scheduler has nothing better to probe with.
        """
        for key in list(self._ripe):
            queue = self._waiting[key]
            if not self._may_leave(key, queue[0], may_probe=may_probe):
                continue
            request = queue.popleft()
            del self._ripe[key]
            if not queue:
                del self._waiting[key]
            self._traffic.rearm(key)
            return request
        return None

    def _may_leave(self, key: str, request: Request, *, may_probe: bool) -> bool:
        traffic = self._traffic
        if traffic.has_waiting(key):
            # Where others of its host wait at the gate for their turn, so may this one.
            leaves = self._is_closed(key)
        elif self._awaits_recheck(key):
            leaves = True
        elif self._is_closed(key) or may_probe or self._is_overdue(key):
            leaves = self._reserve(key, request)
        else:
            return False
        if not leaves:
            del self._ripe[key]
            traffic.rearm(key)
        return leaves

    def _reserve(self, key: str, request: Request) -> bool:
        if self._traffic.governor.reserve(key, self._traffic.clock()) is not None:
            return False
        self._reserved[request] = key
        return True

    def _awaits_recheck(self, key: str) -> bool:
        """Whether its page is asked about next: it must be at hand then."""
        slot = self._traffic.governor.slot(key, self._traffic.clock())
        return slot.wanted is Wanted.SUSPECTED and not slot.in_flight

    def _is_closed(self, key: str) -> bool:
        traffic = self._traffic
        return traffic.governor.slot(key, traffic.clock()).phase is Phase.CLOSED

    def _is_overdue(self, key: str) -> bool:
        """Whether the pause has been over for a while and nothing else has come to probe."""
        now = self._traffic.clock()
        return now >= self._traffic.governor.slot(key, now).pause.until + PATIENCE

    def _give_back(self, request: Request) -> None:
        self._traffic.saved_marks.mark(request, past_filter=True)
        try:
            self.enqueue(request)
        except Exception:  # a full disk, a lost connection: the others must still go back
            logger.error(
                "%(request)s is lost: the scheduler failed", {"request": request}, exc_info=True
            )
