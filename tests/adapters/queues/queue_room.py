"""A crawl on a clock that moves only when a test says so: no sockets, no process.

Laws
----
* Crawler, scheduler, queues, extension, gate and alarm are the real ones; only Scrapy's engine and
  downloader have stand-ins.
* Instants are seconds since the start; chance lengthens nothing.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast

import pytest
from scrapy import Request, Spider, signals
from scrapy.core.scheduler import Scheduler
from scrapy.crawler import Crawler
from scrapy.exceptions import IgnoreRequest
from scrapy.http import Response
from scrapy.utils.asyncio import CallLaterResult
from scrapy.utils.misc import build_from_crawler
from scrapy.utils.test import get_crawler
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.python.failure import Failure

from scrapy_adaptive import AdaptiveThrottle, HostQueue
from scrapy_adaptive.adapters import timers
from scrapy_adaptive.adapters.middlewares import AdaptiveGate, AdaptiveRefusals
from scrapy_adaptive.adapters.queues.saved_marks import mark
from scrapy_adaptive.adapters.traffic import Traffic
from tests.adapters.stand_ins import Asking

START = 1024.0
"""What the clock shows at the start."""

TICK = 1e-9
"""Seconds by which a sum of floats may miss an instant."""

MOST_TIMERS = 500
"""Timers that may be set while no time passes."""

DEFAULTS: dict[str, Any] = {
    "ADAPTIVE_LOG_INTERVAL": 0,
    "ADDONS": {"scrapy_adaptive.Addon": 500},
    "DOWNLOAD_DELAY": 1.0,
    "DUPEFILTER_CLASS": "scrapy.dupefilters.BaseDupeFilter",
    "EXTENSIONS_BASE": {},
}
"""One second between two requests of a host, as long as it serves them."""


class Reply(NamedTuple):
    """What a site answers, and after how many seconds."""

    status: int = 200
    headers: Mapping[str, str] = {}
    seconds: float = 0.0


SERVED = Reply()


class PageSpider(Spider):
    """Owns the requests."""

    name = "pages"


def page(url: str, priority: int = 0, **meta: Any) -> Request:
    """A request, of `host/name` for short."""
    return Request(url if ":" in url else f"https://{url}", priority=priority, meta=meta)


def name(request: Request) -> str:
    """The short form again."""
    return request.url.removeprefix("https://")


class Room:
    """The crawl.

    Args:
        jobdir: folder of the job; without one all requests wait in memory.
        places: CONCURRENT_REQUESTS.
        by_hand: the test takes each request and says what becomes of it; else all of them go
            their way, and `site` answers.
        settings: of the crawl.
    """

    def __init__(
        self,
        jobdir: Path | None = None,
        *,
        places: int = 16,
        by_hand: bool = False,
        **settings: Any,
    ) -> None:
        self.clock = Clock()
        self.clock.advance(START)
        self.site: Callable[[Request], Reply] = lambda request: SERVED
        self.on_way: Callable[[Request], Response | None] = lambda request: None
        """Other middlewares: they let a request pass, answer it, or raise IgnoreRequest."""
        self.sent: list[tuple[float, str]] = []
        """When each request went to its site, and its name."""
        self.on_wire: set[Request] = set()
        self.is_closed = False
        self._by_hand = by_hand
        self._timers = (0.0, 0)
        """An instant, and how many timers were set at it."""
        self._errors: list[BaseException | None] = []
        self._patch = pytest.MonkeyPatch()
        self._patch.setattr(timers, "call_later", self._call_later)
        job = {"JOBDIR": str(jobdir)} if jobdir else {}
        self.crawler = self._crawler({**DEFAULTS, **job, **settings})
        extension = self.crawler.get_extension(AdaptiveThrottle)
        assert extension is not None
        self.traffic, self.routing = extension.traffic, extension.routing
        self.governor = self.traffic.governor
        self._gate, self._refusals = AdaptiveGate(extension), AdaptiveRefusals(extension)
        self.scheduler: Scheduler = build_from_crawler(Scheduler, self.crawler)
        send = None if by_hand else self.arrive
        self.engine = Asking(self.scheduler, self.clock, places, send)
        self.crawler.engine = cast("Any", self.engine)
        assert self.crawler.spider is not None
        self.scheduler.open(self.crawler.spider)
        self.engine.schedule()

    def _crawler(self, settings: dict[str, Any]) -> Crawler:
        defaults = cast("Any", Traffic.__init__).__kwdefaults__
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(defaults, "clock", self.clock.seconds)
            patch.setattr(random, "random", lambda: 0.0)
            crawler = get_crawler(PageSpider, settings)
        crawler.spider = PageSpider.from_crawler(crawler)
        return crawler

    @property
    def names(self) -> list[str]:
        """What went to the sites, in that order."""
        return [sent for _, sent in self.sent]

    # Time

    @property
    def now(self) -> float:
        return self.clock.seconds() - START

    def run(self, seconds: float = 0.0) -> None:
        """Let so much time pass, from each timer's instant to the next one's."""
        end = self.clock.seconds() + seconds
        while self.clock.calls and (at := self.clock.calls[0].getTime()) <= end + TICK:
            self.clock.rightNow = max(self.clock.rightNow, at)
            self.clock.advance(0)
        self.clock.rightNow = max(self.clock.rightNow, end)
        assert not self._errors

    def _call_later(self, delay: float, call: Callable[..., object], *args: Any) -> CallLaterResult:
        now = self.clock.seconds()
        self._timers = (now, self._timers[1] + 1 if now == self._timers[0] else 0)
        assert self._timers[1] < MOST_TIMERS, "the alarm rings without end"
        return CallLaterResult.from_twisted(self.clock.callLater(delay, call, *args))

    # What the queues hold

    @property
    def memory(self) -> HostQueue:
        """The queue in memory."""
        return cast("HostQueue", self.scheduler.mqs)

    @property
    def disk(self) -> HostQueue:
        """The queue in the job's folder."""
        return cast("HostQueue", self.scheduler.dqs)

    # A request's way

    def push(self, *requests: Request) -> None:
        """The spider yields these."""
        for request in requests:
            self.engine.crawl(request)

    def push_back(self, queue: HostQueue, request: Request) -> None:
        """The request was refused, and goes back to this queue."""
        mark(request)
        queue.push(request)

    def take(self) -> Request | None:
        """By hand: what the engine gets when it asks now."""
        return self.engine.take()

    def take_all(self) -> list[str]:
        """By hand: the names of all that it gets until there is nothing for it."""
        return [name(request) for request in iter(self.take, None)]

    def arrive(self, request: Request) -> None:
        """The request goes through the other middlewares and reaches the gate."""
        try:
            result: Any = self.on_way(request)
        except IgnoreRequest as error:
            result = error
        if result is not None:
            self.leave(request, result)
            return
        passed = Deferred.fromCoroutine(self._gate.process_request(request))
        passed.addCallback(self._on_passed, request).addErrback(self._on_stopped, request)

    def answer(self, request: Request, reply: Reply = SERVED) -> None:
        """The site answers."""
        self.on_wire.discard(request)
        response = Response(
            request.url, status=reply.status, headers=dict(reply.headers), request=request
        )
        self._tell(signals.response_downloaded, request=request, response=response)
        self.leave(request, response)

    def leave(self, request: Request, result: Response | IgnoreRequest | Request) -> None:
        """The request passes the middlewares on its way back, with a result; as Scrapy has it, a
        request that a middleware returns in its place passes none."""
        if isinstance(result, IgnoreRequest):
            self._gate.process_exception(request, result)
            self._refusals.process_exception(request, result)
            self.end(request, Failure(result))  # type: ignore[no-untyped-call]
            return
        if isinstance(result, Response):
            result = self._gate.process_response(request, result)
        if isinstance(result, Response):
            result = self._refusals.process_response(request, result)
        self.end(request, result)

    def end(self, request: Request, result: Any) -> None:
        """The request leaves the downloader with this result."""
        self.engine.downloader.end(request, result)

    def begin_close(self) -> None:
        """The spider is asked to close."""
        self.engine.begin_close()
        self.traffic.tick()

    def close(self) -> None:
        """The spider has closed; what was under way has left."""
        if self.is_closed:
            return
        self.is_closed = True
        self.begin_close()
        self.scheduler.close("finished")
        self.crawler.signals.send_catch_log(signals.engine_stopped)
        self._patch.undo()

    def _on_passed(self, back: Request | Response | None, request: Request) -> None:
        if back is not None:
            self.end(request, back)
            return
        request.meta["download_slot"] = self.engine.downloader.get_slot_key(request)
        self.on_wire.add(request)
        self.sent.append((self.now, name(request)))
        self._tell(signals.request_reached_downloader, request=request)
        if not self._by_hand:
            reply = self.site(request)
            self.clock.callLater(reply.seconds, self.answer, request, reply)

    def _on_stopped(self, failure: Failure, request: Request) -> None:
        if isinstance(failure.value, IgnoreRequest):
            self.leave(request, failure.value)
        else:
            self._errors.append(failure.value)

    def _tell(self, signal: object, **facts: object) -> None:
        told = self.crawler.signals.send_catch_log(signal, spider=self.crawler.spider, **facts)
        assert not [result for _, result in told if isinstance(result, Failure)]


class Rooms:
    """Opens rooms, one at a time, and closes the last."""

    def __init__(self) -> None:
        self._last: Room | None = None

    def __call__(self, *args: Any, **options: Any) -> Room:
        """The arguments of `Room`; the room before is closed first."""
        self.close()
        self._last = Room(*args, **options)
        return self._last

    def close(self) -> None:
        """Close the room that is open."""
        if self._last is not None:
            self._last.close()
