"""Stand-ins for Scrapy's engine and downloader: they do what theirs do, but for the sockets.

Laws
----
* What is not the engine's or the downloader's own is inherited or left to the real parts.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from scrapy import Request, Spider
from scrapy.core.downloader import Downloader
from scrapy.core.scheduler import Scheduler
from scrapy.core.scraper import Slot
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock


class UnderWay(Downloader):
    """Holds what is under way until somebody says how it ended; its keys are Scrapy's.

    Args:
        places: CONCURRENT_REQUESTS.
    """

    def __init__(self, places: int) -> None:
        self.total_concurrency = places
        self.active = set()
        self.slots = {}
        self.per_slot_settings = {}
        self.ip_concurrency = 0
        self.under_way: dict[Request, Deferred[Any]] = {}

    def fetch(self, request: Request, spider: Spider | None = None) -> Deferred[Any]:
        """The request is under way from now on."""
        self.active.add(request)
        done = self.under_way[request] = Deferred()

        def left(result: Any) -> Any:
            self.active.remove(request)
            return result

        return done.addBoth(left)

    def end(self, request: Request, result: Any) -> None:
        """The request leaves with this result."""
        self.under_way.pop(request).callback(result)


class Asking:
    """The engine: it asks the scheduler when it is nudged, while there is a place.

    Args:
        scheduler: who is asked.
        clock: when.
        places: CONCURRENT_REQUESTS.
        send: sends what was popped on its way; with None it asks only by `take`.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        clock: Clock,
        places: int,
        send: Callable[[Request], None] | None,
    ) -> None:
        self.downloader = UnderWay(places)
        self.is_nudged = False
        """Whether it is about to ask."""
        self.ask_count = 0
        self.returned: list[Request] = []
        """Requests that left the downloader instead of an answer, in that order."""
        self._scheduler = scheduler
        self._clock = clock
        self._send = send
        self._start: object = None
        self._slot = SimpleNamespace(nextcall=self, scheduler=scheduler, closing=None)
        self.scraper = SimpleNamespace(slot=Slot())

    def schedule(self) -> None:
        """Ask soon."""
        if not self.is_nudged and self._send is not None:
            self._clock.callLater(0, self._ask, self._send)
        self.is_nudged = True

    def crawl(self, request: Request) -> None:
        """A request for the scheduler."""
        self._scheduler.enqueue_request(request)
        self.schedule()

    def begin_start(self) -> None:
        """The spider may bring start requests from now on."""
        self._start = object()

    def end_start(self) -> None:
        """The spider has brought all of them."""
        self._start = None

    def needs_backout(self) -> bool:
        """Whether it asks for no more."""
        return self.downloader.needs_backout() or self.scraper.slot.needs_backout()

    def begin_close(self) -> None:
        """The spider is asked to close: from now on the engine gives nothing out."""
        self._slot.closing = Deferred()

    async def close_spider_async(self, *, reason: str) -> None:
        """Somebody wants the spider to close."""
        self.begin_close()

    def take(self) -> Request | None:
        """Ask once."""
        self.ask_count += 1
        request = self._scheduler.next_request()
        if request is None:
            self.is_nudged = False
        else:
            self.downloader.fetch(request).addBoth(self._on_left)
        return request

    def _ask(self, send: Callable[[Request], None]) -> None:
        self.is_nudged = False
        while not self.needs_backout():
            request = self.take()
            if request is None:
                return
            self._clock.callLater(0, send, request)

    def _on_left(self, result: Any) -> None:
        if isinstance(result, Request):
            self.returned.append(result)
            self.crawl(result)
        self.schedule()


class Nothing:
    """The surroundings of a crawl in which nothing waits, unless a test says so."""

    def __init__(self) -> None:
        self.queued: dict[str, int] = {}
        self.may_wait_unseen = False
        self.has_place = True
        self.is_scraper_full = False
        self.leaseless: set[str] = set()
        self.parked: set[str] = set()

    def is_parked_by_rule(self, key: str) -> bool:
        return key in self.parked

    def awaits_lease(self, key: str) -> bool:
        return key in self.leaseless

    def waiting(self, key: str) -> int:
        return self.queued.get(key, 0)

    @property
    def waiting_count(self) -> int:
        return sum(self.queued.values())
