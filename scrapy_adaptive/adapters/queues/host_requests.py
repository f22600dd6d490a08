"""The requests of one host that wait in a queue.

Laws
----
* Their order is Scrapy's: by priority, then as the configured memory or disk queue has it.
* A request that came back goes behind those of equal priority; of several, first back first out.
* What came back waits in memory and is saved, marked, when the queue is closed.
* Files of a host at rest are closed: as many hosts may wait as the disk has room for.
"""

from __future__ import annotations

import heapq
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import count
from typing import TYPE_CHECKING

from scrapy_adaptive.adapters.scrapy_internals import skip_damaged, topmost
from scrapy_adaptive.core.types import Wanted

from .saved_marks import REQUEUED_META_KEY, mark, restore

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.pqueues import ScrapyPriorityQueue


logger = logging.getLogger("scrapy_adaptive")

_ORDER = count()
"""Tells apart what came back in the same nanosecond."""


class HostRequests:
    """One host's requests.

    Args:
        host: the key under which they are stored.
        make: opens Scrapy's own queue of a host, given the priorities it was left with.
        priorities: those the queue was left with, where it is stored already.
    """

    __slots__ = (
        "_back",
        "_make",
        "_priorities",
        "_queue",
        "_queued",
        "_queued_top",
        "host",
        "naming",
    )

    def __init__(
        self,
        host: str,
        make: Callable[[str, Iterable[int]], ScrapyPriorityQueue],
        priorities: Iterable[int] = (),
    ) -> None:
        self.host = host
        self.naming = 0
        """The naming of the first that was queued in this crawl; 0 for some that are stored."""
        self._make = make
        self._priorities: Sequence[int] = ()
        self._back: list[tuple[int, int, int, Request]] = []
        """By negated priority, then by when they came back: wall clock, ns, to outlive a run."""
        self._queue: ScrapyPriorityQueue | None = make(host, priorities)
        self._queued = len(self._queue)
        self._queued_top = topmost(self._queue)

    def __len__(self) -> int:
        return self._queued + len(self._back)

    @property
    def top(self) -> int | None:
        """Negated priority of the topmost request, as Scrapy counts it; None when empty."""
        top = self._queued_top
        if self._back and (top is None or self._back[0][0] < top):
            return self._back[0][0]
        return top

    @property
    def back_count(self) -> int:
        """How many requests came back."""
        return len(self._back)

    @property
    def back(self) -> list[Request]:
        """Requests that came back."""
        return [request for _, _, _, request in self._back]

    @property
    def has_choice(self) -> bool:
        """Whether there is more than one request that could be the next."""
        return bool(self._back)

    def push(self, request: Request) -> bool:
        """A new request; returns whether it is topmost among the new ones.

        Raises:
            ValueError: it cannot be serialised.
        """
        queue = self._queue if self._queue is not None else self._opened()
        queue.push(request)
        self._queued += 1
        priority = -request.priority
        if self._queued_top is None or priority < self._queued_top:
            self._queued_top = priority
            return True
        return False

    def push_back(self, request: Request) -> bool:
        """A request that came back; returns whether it may be topmost."""
        heapq.heappush(self._back, (-request.priority, time.time_ns(), next(_ORDER), request))
        return True

    def pop(
        self,
        wanted: Wanted = Wanted.ANY,
        is_suspected: Callable[[Request], bool] = lambda request: False,
    ) -> Request | None:
        """The topmost request, or the one that serves better just now; None when it is empty.

        Args:
            wanted: a probe is no page that was refused, where there is another; a recheck is.
            is_suspected: whether the request's page was refused.
        """
        if not self._back and self._queued_top is not None:
            request = self._pop_queued()
        else:
            request = self._choose(wanted, is_suspected)
        for _ in range(len(self) if request is None else 0):
            request = self._choose(wanted, is_suspected)
            if request is not None:
                break
        return request

    def _choose(self, wanted: Wanted, is_suspected: Callable[[Request], bool]) -> Request | None:
        """None where what came out had been saved as one that came back: it goes behind."""
        request = None
        if wanted is Wanted.SUSPECTED:
            request = self._pick(is_suspected)
        elif wanted is Wanted.UNSUSPECTED and not self._queued:
            request = self._pick(lambda request: not is_suspected(request))
        if request is not None:
            return request
        top = self._queued_top
        if top is None:
            self._queued = 0
        elif not self._back or wanted is Wanted.UNSUSPECTED or self._back[0][0] >= top:
            return self._pop_queued()
        return heapq.heappop(self._back)[3] if self._back else None

    def _pick(self, wanted: Callable[[Request], bool]) -> Request | None:
        for entry in sorted(self._back):
            if wanted(entry[3]):
                self._back.remove(entry)
                heapq.heapify(self._back)
                return entry[3]
        return None

    def _pop_queued(self) -> Request | None:
        queue = self._queue if self._queue is not None else self._opened()
        try:
            request = queue.pop()
        except Exception as error:  # whatever a torn file holds: the others must still be fetched
            lost = skip_damaged(queue, self._queued)
            logger.error(
                "slot %(slot)s: %(lost)d requests of the job are lost, they cannot be read: "
                "%(error)r",
                {"slot": self.host, "lost": lost, "error": error},
            )
            self._queued = len(queue)
            self._queued_top = topmost(queue)
            return None
        # Where a push had failed, there is nothing at the top, and its priority is forgotten now.
        self._queued = self._queued - 1 if request is not None else len(queue)
        self._queued_top = topmost(queue)
        if request is not None and REQUEUED_META_KEY in request.meta:
            back_at = restore(request) or 0
            heapq.heappush(self._back, (-request.priority, back_at, next(_ORDER), request))
            return None
        return request

    def rest(self) -> None:
        """Close the files until they are needed."""
        if self._queue is not None:
            self._priorities, self._queue = self._queue.close(), None

    def close(self) -> list[int]:
        """Save everything; returns the priorities there are."""
        queue = self._opened()
        while self._back:
            _, back_at, _, request = heapq.heappop(self._back)
            mark(request, back_at=back_at, past_filter=False)
            try:
                queue.push(request)
                self._queued += 1
            except (OSError, ValueError) as error:  # the others must still be saved
                logger.error(
                    "%(request)s is lost, it cannot be saved: %(error)s",
                    {"request": request, "error": error},
                )
        return queue.close()

    def _opened(self) -> ScrapyPriorityQueue:
        if self._queue is None:
            self._queue = self._make(self.host, self._priorities)
        return self._queue
