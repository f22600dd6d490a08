"""The way back: requests that are not sent yet return to where they wait.

Laws
----
* A request that goes back passes neither the duplicate filter nor the offsite filter again,
  and keeps its own `dont_filter`: a later redirect is filtered as ever.
* Known by object identity, never by a meta flag: spiders copy meta.
* With host queues it waits in its host's; before any other queue, in a side queue of ours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from .fallback_queue import SideQueue

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.core.scheduler import BaseScheduler

    from scrapy_adaptive.adapters.traffic import Traffic


class Room(Protocol):
    """Where requests wait that are not at the gate."""

    takes_back: bool
    """Whether it keeps requests until they may be sent, so that the gate need not."""

    @property
    def back_count(self) -> int:
        """Requests that came back and wait."""

    @property
    def is_ripe(self) -> bool:
        """Whether the engine should ask for a request."""

    @property
    def is_parked(self) -> bool:
        """Whether requests wait and all of them are for parked slots."""

    @property
    def keys(self) -> list[str]:
        """Slots to be looked at when the whole crawl goes on."""

    def waiting(self, key: str) -> int:
        """Requests that wait for this slot."""

    def has_suspect(self, key: str) -> bool:
        """Whether a page of this slot waits that was refused."""

    def push_back(self, request: Request) -> None:
        """Keep a request that came back."""

    def ripe_at(self, key: str, now: float) -> float:
        """The instant at which this slot's requests may leave; infinity where none wait."""

    def on_due(self, key: str) -> bool:
        """That instant has come; returns whether the engine should ask."""

    def on_freed(self, key: str) -> None:
        """A permit of this slot has ended."""

    def on_at_gate(self, request: Request, key: str) -> str | None:
        """A request has reached the gate; returns the slot whose reservation it ended."""

    def on_left(self, request: Request) -> str | None:
        """A request has left the downloader; returns the slot whose reservation it ended."""

    def on_robots(self, request: Request, key: str) -> None:
        """A robots.txt is under way."""

    def on_close(self) -> None:
        """The spider is asked to close."""


class Returns:
    """Stands before the scheduler of one crawl.

    Args:
        traffic: the crawl's traffic.
    """

    def __init__(self, traffic: Traffic) -> None:
        self._traffic = traffic
        self._expected: set[Request] = set()
        self._scheduled: set[Request] = set()
        self._side: SideQueue | None = None
        self._scheduler: BaseScheduler

    def wrap(self, scheduler: BaseScheduler) -> None:
        """Stand before this scheduler from now on."""
        self._scheduler = scheduler
        self._enqueue, self._next = scheduler.enqueue_request, scheduler.next_request
        self._has_pending = scheduler.has_pending_requests
        self._close = scheduler.close
        if isinstance(self._traffic.room, SideQueue):
            self._side = self._traffic.room
            self._side.enqueue = self._enqueue
        scheduler.enqueue_request = self.enqueue_request  # type: ignore[method-assign]
        scheduler.next_request = self.next_request  # type: ignore[method-assign]
        scheduler.has_pending_requests = self.has_pending_requests  # type: ignore[method-assign]
        scheduler.close = self.close  # type: ignore[method-assign]

    def is_scheduled(self, request: Request) -> bool:
        """Whether the scheduler gave this request out: then it can go back there."""
        return request in self._scheduled

    def expect(self, request: Request) -> None:
        """This request is about to be handed to the scheduler, to go back."""
        self._expected.add(request)

    def on_left(self, request: Request) -> None:
        """The request has left the downloader."""
        self._scheduled.discard(request)

    # The scheduler's interface

    def enqueue_request(self, request: Request) -> bool:
        """Keep an expected request; give any other to the scheduler."""
        if request not in self._expected:
            return self._enqueue(request)
        self._expected.discard(request)
        self._traffic.room.push_back(request)
        return True

    def next_request(self) -> Request | None:
        """A request whose slot may send now, else the scheduler's next."""
        side = self._side
        request = side.pop(may_probe=False) if side is not None and side.is_ripe else None
        if request is None:
            request = self._next()
            if request is not None:
                self._traffic.saved_marks.restore(request)
            elif side is not None and side.is_ripe:
                request = side.pop(may_probe=True)
        if request is not None:
            self._scheduled.add(request)
        elif self._traffic.is_holding:
            self._traffic.on_nothing_to_send(has_pending=self._has_pending())
        return request

    def has_pending_requests(self) -> bool:
        """Whether anything waits that this crawl will still fetch."""
        if self._traffic.may_end_parked:
            return False
        return (self._side is not None and self._side.back_count > 0) or self._has_pending()

    def close(self, reason: str) -> Any:
        """Have everything that waits saved with the scheduler."""
        self._traffic.room.on_close()
        return self._close(reason)
