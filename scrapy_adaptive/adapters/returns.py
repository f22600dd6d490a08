"""Where refused requests wait: a side queue before the scheduler.

Laws
----
* A request that goes back passes neither the duplicate filter nor the offsite filter again,
  and keeps its own `dont_filter`: a later redirect is filtered as ever.
* Known by object identity, never by a meta flag: spiders copy meta.
* It leaves when its slot may send, one place of the slot reserved for it. A probe asks about
  the host, so another request of the host is preferred for it.
* At close everything that waits goes to the scheduler, and so into the JOBDIR.
"""

from __future__ import annotations

import logging
import math
from collections import deque
from typing import TYPE_CHECKING, Any

from scrapy_adaptive.core.breaker import Phase

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.core.scheduler import BaseScheduler

    from .throttle import Throttle

logger = logging.getLogger(__name__)

PATIENCE = 1.0
"""Seconds for which a host that may be probed waits for a request that was not refused."""

TRIP_META_KEY = "adaptive_trip"
"""Marks a request that waits in the scheduler with a `dont_filter` (or `dont_cache`) of ours."""


class Returns:
    """Refused requests of one crawl, by slot, and the scheduler behind them."""

    def __init__(self, throttle: Throttle) -> None:
        self._throttle = throttle
        self._waiting: dict[str, deque[Request]] = {}
        self._ripe: dict[str, None] = {}
        """Slots whose instant has come, who waited longest first."""
        self._expected: set[Request] = set()
        self._scheduled: set[Request] = set()
        self._closing = False
        self._scheduler: BaseScheduler

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    @property
    def is_ripe(self) -> bool:
        """Whether the engine should ask for one of these requests."""
        return bool(self._ripe)

    @property
    def keys(self) -> list[str]:
        """Slots that have requests waiting here."""
        return list(self._waiting)

    def wrap(self, scheduler: BaseScheduler) -> None:
        """Stand before this scheduler from now on."""
        self._scheduler = scheduler
        self._enqueue, self._next = scheduler.enqueue_request, scheduler.next_request
        self._has_pending = scheduler.has_pending_requests
        self._close = scheduler.close
        scheduler.enqueue_request = self.enqueue_request  # type: ignore[method-assign]
        scheduler.next_request = self.next_request  # type: ignore[method-assign]
        scheduler.has_pending_requests = self.has_pending_requests  # type: ignore[method-assign]
        scheduler.close = self.close  # type: ignore[method-assign]

    def is_scheduled(self, request: Request) -> bool:
        """Whether the scheduler gave this request out: then it can go back there."""
        return request in self._scheduled

    def expect(self, request: Request) -> None:
        """This request is about to be handed to the scheduler, to wait here."""
        self._expected.add(request)

    def on_left(self, request: Request) -> None:
        """The request has left the downloader."""
        self._scheduled.discard(request)

    # The scheduler's interface

    def enqueue_request(self, request: Request) -> bool:
        """Keep an expected request here; give any other to the scheduler."""
        if request not in self._expected:
            return self._enqueue(request)
        self._expected.discard(request)
        if self._closing:
            self._give_back(request)
            return True
        key = self._throttle.key_of(request)
        assert key is not None
        self._waiting.setdefault(key, deque()).append(request)
        self._throttle.rearm(key)
        return True

    def next_request(self) -> Request | None:
        """A request whose slot may send now, else the scheduler's next."""
        request = self._pop(may_probe=False) if self._ripe else None
        if request is None:
            request = self._next()
            if request is not None:
                self._restore(request)
            elif self._ripe:
                request = self._pop(may_probe=True)
        if request is not None:
            self._scheduled.add(request)
        return request

    def has_pending_requests(self) -> bool:
        """Whether anything waits, here or there."""
        return bool(self._waiting) or self._has_pending()

    def close(self, reason: str) -> Any:
        """Give everything that waits to the scheduler, then close it."""
        self.give_back_all()
        return self._close(reason)

    def give_back_all(self) -> None:
        """From now on everything goes to the scheduler."""
        self._closing = True
        self._ripe.clear()
        while self._waiting:
            _, queue = self._waiting.popitem()
            for request in queue:
                self._give_back(request)

    # Inside

    def ripe_at(self, key: str, now: float) -> float:
        """The instant at which this slot's requests may leave.

        Infinity where none wait, where they may leave already, and in a pause that another
        request of the host, one at the gate, will probe.
        """
        if key not in self._waiting or key in self._ripe:
            return math.inf
        if self._throttle.has_waiting(key):
            return now if self._is_closed(key) else math.inf
        hold = self._throttle.governor.ready_at(key, now, reserved=True)
        return now if hold is None else hold.until

    def on_due(self, key: str) -> None:
        """The instant of this slot has come."""
        if key in self._waiting:
            self._ripe[key] = None

    def _pop(self, *, may_probe: bool) -> Request | None:
        for key in list(self._ripe):
            queue = self._waiting[key]
            if not self._may_leave(key, queue[0], may_probe=may_probe):
                continue
            request = queue.popleft()
            del self._ripe[key]
            if not queue:
                del self._waiting[key]
            self._throttle.rearm(key)
            return request
        return None

    def _may_leave(self, key: str, request: Request, *, may_probe: bool) -> bool:
        throttle = self._throttle
        if throttle.has_waiting(key):
            # Where others of its host wait at the gate for their turn, so may this one.
            leaves = self._is_closed(key)
        elif self._is_closed(key) or may_probe or self._is_overdue(key):
            leaves = throttle.reserve(key, request) is None
        else:
            return False
        if not leaves:
            del self._ripe[key]
            throttle.rearm(key)
        return leaves

    def _is_closed(self, key: str) -> bool:
        throttle = self._throttle
        return throttle.governor.slot(key, throttle.clock()).phase is Phase.CLOSED

    def _is_overdue(self, key: str) -> bool:
        """Whether the pause has been over for a while and nothing else has come to probe."""
        now = self._throttle.clock()
        return now >= self._throttle.governor.slot(key, now).paused_until + PATIENCE

    def _give_back(self, request: Request) -> None:
        trip = {"dont_filter": request.dont_filter}
        if request in self._throttle.cache_marks:
            trip["dont_cache"] = False
        request.meta[TRIP_META_KEY] = trip
        request.dont_filter = True
        try:
            self._enqueue(request)
        except Exception:  # a full disk, a lost connection: the others must still go back
            logger.error(
                "%(request)s is lost: the scheduler failed", {"request": request}, exc_info=True
            )

    def _restore(self, request: Request) -> None:
        trip = request.meta.pop(TRIP_META_KEY, None)
        if trip is not None:
            request.dont_filter = trip["dont_filter"]
            if "dont_cache" in trip:
                self._throttle.cache_marks.claim(request)
