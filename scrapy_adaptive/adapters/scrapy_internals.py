"""Everything that touches what Scrapy keeps private, and nothing else.

Laws
----
* No other file names an underscore attribute of Scrapy, the downloader's slots, or the
  engine's wake-up: when Scrapy moves them, this file moves.
* No method of Scrapy is replaced, neither on a class nor on an object. What is read or set here
  says why, and which public hook would replace it.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import os
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrapy import signals
from scrapy.crawler import Crawler
from scrapy.downloadermiddlewares.httpcache import HttpCacheMiddleware
from scrapy.exceptions import StopDownload
from scrapy.extensions.feedexport import FeedExporter
from scrapy.extensions.throttle import AutoThrottle
from scrapy.http import Response
from scrapy.pqueues import _path_safe
from scrapy.resolver import dnscache
from scrapy.utils.defer import deferred_from_coro
from scrapy.utils.httpobj import urlparse_cached
from scrapy.utils.reactor import is_reactor_installed
from twisted.internet.tcp import Client
from twisted.logger import globalLogBeginner
from twisted.web._newclient import HTTP11ClientProtocol
from twisted.web.client import ResponseFailed

from scrapy_adaptive.core.diagnosis.page_classes import normalised

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.core.downloader import Downloader
    from scrapy.core.engine import ExecutionEngine
    from scrapy.core.scraper import Slot
    from scrapy.pqueues import ScrapyPriorityQueue

logger = logging.getLogger("scrapy_adaptive")

INTERACTIVE_COMMANDS = frozenset({"fetch", "view", "shell", "parse"})
"""Commands whose user waits for one answer, a refusal included."""

SLOT_META_KEY = "download_slot"
WRITTEN_META_KEY = "adaptive_slot"
"""Which key Scrapy wrote into `download_slot`, as opposed to one that the user chose."""

WIDER = 20
"""Times SCRAPER_SLOT_MAX_ACTIVE_SIZE that responses may take while items wait for their media."""

NOTHING = -1
"""Bytes of responses of which there are always more."""

BRIDGES_ATTRIBUTES = hasattr(Crawler, "_apply_deprecated_spider_attr")
"""Whether Scrapy makes settings of a spider's `download_delay` and `max_concurrent_requests`; older
versions read them where they download, in place of the settings."""

LONGEST_NAME = 255
"""Bytes of the name of a file."""

KEPT = 40
"""Characters that are kept of one that would be longer."""


class Copy(Enum):
    """What the HTTP cache has of a page."""

    NONE = "none"
    FRESH = "fresh"
    """It is the answer: the site is not asked."""
    STALE = "stale"
    """It is the answer while the site is in trouble."""


class Engine:
    """The engine of one crawl, as the traffic sees it.

    What is private of Scrapy is read, and these public attributes are set; nothing is replaced:

    * `downloader.total_concurrency`: raised by one for each request that waits at the gate. A
      request that could wait outside the downloader would replace it.
    * `downloader.slots[…].delay`: 0, as AutoThrottle sets it; the gate paces.
    * `scraper.slot.max_active_size`: raised while items wait for their media at the gate, and
      `NOTHING` while the engine is to ask for no request. A scheduler that may say "not now", and
      is not taken to be empty, would replace the latter.
    * `close_if_idle` of the engine's slot: with a frontier, whether it is over.
    """

    def __init__(self, crawler: Crawler) -> None:
        self.has_cache: bool = crawler.settings.getbool("HTTPCACHE_ENABLED")
        """Whether responses are kept in an HTTP cache."""
        self._crawler = crawler
        self._downloader: Downloader | None = None
        self._scraper_size: int | None = None
        """What `max_active_size` was before it was changed; None while it is not."""
        self._is_wide = False
        self.is_held = False
        """Whether it is held back."""

    # What is private

    def nudge(self) -> None:
        """Have the engine ask its scheduler again.

        Scrapy itself asks when a request ends and every five seconds; `engine.needs_backout` has
        no counterpart that says "there is something to send now".
        """
        slot = self._slot
        if slot is not None:
            slot.nextcall.schedule()

    def ask_before_idle(self, may_be_idle: Callable[[], bool]) -> None:
        """Have the engine send `spider_idle`, and close, only while this answers True.

        What a frontier keeps is in no scheduler: handlers of that signal would end the crawl, or
        begin its second phase, before its first page. A way for a component to say that it has
        requests too would replace this.
        """
        slot = self._slot
        if slot is not None and slot.close_if_idle:
            slot.close_if_idle = _Asked(may_be_idle)

    @property
    def is_closing(self) -> bool:
        """Whether the spider was asked to close: a signal before the close would replace it."""
        slot = self._slot
        return slot is not None and slot.closing is not None

    @property
    def is_starting(self) -> bool:
        """Whether the spider may still bring start requests: it is known to nobody else."""
        engine = engine_of(self._crawler)
        return engine is not None and engine._start is not None

    @property
    def has_met_unserializable(self) -> bool:
        """Whether the scheduler was given a request that its disk queue cannot hold."""
        stats = self._crawler.stats
        return stats is not None and bool(stats.get_value("scheduler/unserializable"))

    @property
    def _slot(self) -> Any:
        engine = engine_of(self._crawler)
        return None if engine is None else engine._slot

    # Slots

    def slot_key(self, request: Request) -> str | None:
        """Name of the request's slot; None where there is no site to be polite to.

        A downloader that somebody uses without an engine keeps Scrapy's pace: no slot is ours.
        Scrapy takes whatever can be a key, as the number of a proxy: here a name is made of it.
        """
        downloader = self._downloader or self._find_downloader()
        if downloader is None or not self.may_download(request):
            return None
        key: object = downloader.get_slot_key(request)
        if not key and SLOT_META_KEY not in request.meta:
            return None
        return key if isinstance(key, str) else str(key)

    def later_key(self, request: Request) -> str | None:
        """The slot of its host from now on, where that is another: CONCURRENT_REQUESTS_PER_IP names
        it by its address, and that is not known before the first request."""
        downloader = self._downloader or self._find_downloader()
        host = urlparse_cached(request).hostname or ""
        is_named = request.meta.get(SLOT_META_KEY) == host  # and by nobody's choice
        if not is_named or not getattr(downloader, "ip_concurrency", 0):
            return None
        address: str | None = dnscache.get(host)
        return None if address == host else address

    def may_download(self, request: Request) -> bool:
        """Whether Scrapy can download it, as far as is known."""
        if request.url.startswith("http"):
            return True
        downloader = self._downloader or self._find_downloader()
        return downloader is None or _has_handler(downloader, request)

    def own_key(self, request: Request) -> str | None:
        """The slot of a request on its way in; a key that Scrapy itself wrote does not outlive
        its host, or a redirect would be paced by the site it came from."""
        meta = request.meta
        if WRITTEN_META_KEY in meta and meta.get(SLOT_META_KEY) == meta[WRITTEN_META_KEY]:
            meta.pop(SLOT_META_KEY, None)
            del meta[WRITTEN_META_KEY]
        return self.slot_key(request)

    def claim_key(self, request: Request, chosen: str | None = None) -> str | None:
        """The slot of a request at the gate; it is noted if it is not the user's own.

        Args:
            chosen: the slot that ADAPTIVE_SLOT names; Scrapy's downloader will use it too.
        """
        key = self.own_key(request)
        if chosen is not None:
            request.meta[SLOT_META_KEY] = key = chosen
            request.meta[WRITTEN_META_KEY] = key
        elif SLOT_META_KEY not in request.meta:
            request.meta[WRITTEN_META_KEY] = key
        return key

    def forget_choice(self, request: Request) -> None:
        """A middleware has chosen its slot for this time: it chooses anew when the request comes
        again."""
        if SLOT_META_KEY in request.meta:
            request.meta[WRITTEN_META_KEY] = request.meta[SLOT_META_KEY]

    def free_of_delay(self, request: Request) -> None:
        """The request has reached the downloader: its slot there need not pace it again."""
        downloader = self._downloader or self._find_downloader()
        slot = getattr(downloader, "slots", {}).get(request.meta.get(SLOT_META_KEY))
        if slot is not None:
            slot.delay = 0.0

    # Connections

    def has_connection(self, request: Request, under_way: Iterable[Request]) -> bool:
        """Whether the download handler would send a request at once, beside those under way.

        Scrapy's handlers for crawls without a reactor have CONCURRENT_REQUESTS connections in all,
        aiohttp's CONCURRENT_REQUESTS_PER_DOMAIN to each server, and keep what needs one more; media
        come on top of the first, DOWNLOAD_SLOTS and ADAPTIVE_SLOT may allow more than the second.
        """
        handlers = getattr(self._engine.downloader, "handlers", None)
        handler = getattr(handlers, "_handlers", {}).get(urlparse_cached(request).scheme)
        most = getattr(handler, "_pool_size_total", 0) or math.inf
        connector = getattr(getattr(handler, "_session", None), "connector", None)
        most_each = getattr(connector, "limit_per_host", 0) or math.inf
        if most == most_each == math.inf:
            return True
        others = [_server_of(each) for each in under_way]
        return len(others) < most and others.count(_server_of(request)) < most_each

    # Places in CONCURRENT_REQUESTS

    def lend(self, places: int) -> None:
        """So many places of requests that wait are for others; take them back with less than 0."""
        downloader = self._engine.downloader
        if getattr(downloader, "total_concurrency", 0):  # 0 means no limit
            downloader.total_concurrency += places
        if places > 0:
            self.nudge()

    @property
    def has_place(self) -> bool:
        """Whether one more request may be under way."""
        return not self._engine.downloader.needs_backout()

    @property
    def active_count(self) -> int:
        """Requests under way, those at the gate included."""
        return len(self._engine.downloader.active)

    @property
    def may_pop(self) -> bool:
        """Whether the engine can take another request from its scheduler."""
        slot = self._slot
        return slot is not None and self.has_place and slot.scheduler.has_pending_requests()

    @property
    def has_pending(self) -> bool:
        """Whether the scheduler has requests."""
        slot = self._slot
        return slot is not None and slot.scheduler.has_pending_requests()

    def is_active(self, request: Request) -> bool:
        """Whether the downloader knows of this request."""
        return request in self._engine.downloader.active

    # The scraper

    def widen_scraper(self, *, wide: bool) -> None:
        """Items may wait for their media: responses in the making are `WIDER` times as many."""
        slot = self._engine.scraper.slot
        if slot is not None and wide is not self._is_wide:
            self._is_wide = wide
            self._size(slot)

    def hold_back(self, *, held: bool) -> None:
        """The engine asks its scheduler for nothing, and `needs_backout` says so, or it asks again.

        Scrapy's scheduler would not send `scheduler_empty` while it has requests.
        """
        slot = self._engine.scraper.slot
        if slot is None or held is self.is_held:
            return
        self.is_held = held
        self._size(slot)
        if not held:
            self.nudge()

    def _size(self, slot: Slot) -> None:
        if self._scraper_size is None:
            self._scraper_size = slot.max_active_size
        slot.max_active_size = NOTHING if self.is_held else self._most_active
        if not self.is_held and not self._is_wide:
            self._scraper_size = None

    @property
    def _most_active(self) -> int:
        """Bytes of responses in the making that the scraper has room for, while it is changed."""
        return (self._scraper_size or 0) * (WIDER if self._is_wide else 1)

    @property
    def is_scraper_full(self) -> bool:
        """Whether responses in the making are so large that the engine asks for no more."""
        slot = self._engine.scraper.slot
        if slot is None or not self.is_held:
            return slot is not None and slot.needs_backout()
        return slot.active_size > self._most_active

    @property
    def is_scraping(self) -> bool:
        """Whether responses or items are being worked on."""
        slot = self._engine.scraper.slot
        return slot is not None and not slot.is_idle()

    # The HTTP cache: its middleware's `policy` and `storage` are public; that it may be asked
    # without a download is not foreseen, so that a policy that marks requests marks a copy.

    def cached(self, request: Request) -> Copy:
        """What the HTTP cache has of a request that is being queued."""
        cache = None if engine_of(self._crawler) is None else self._cache
        if cache is None or request.meta.get("dont_cache", False):
            return Copy.NONE
        with suppress(Exception):  # whatever it is, the middleware will meet and tell it
            if not cache.policy.should_cache_request(request):
                return Copy.NONE
            response = cache.storage.retrieve_response(self._crawler.spider, request)
            if response is None:
                return Copy.NONE
            if cache.policy.is_cached_response_fresh(response, request.copy()):
                return Copy.FRESH
            if self.may_serve_stale(request, response):
                return Copy.STALE
        return Copy.NONE

    def may_serve_stale(self, request: Request, copy: Response) -> bool:
        """Whether the cache's policy lets a stale copy stand for an answer of a site in trouble."""
        cache = self._cache
        trouble = Response(request.url, status=503)
        return cache is not None and bool(
            cache.policy.is_cached_response_valid(copy, trouble, request)
        )

    @property
    def _cache(self) -> HttpCacheMiddleware | None:
        return self._crawler.get_downloader_middleware(HttpCacheMiddleware)

    def close(self, reason: str) -> None:
        """Ask the spider to close."""
        deferred_from_coro(self._engine.close_spider_async(reason=reason))

    def _find_downloader(self) -> Downloader | None:
        engine = engine_of(self._crawler)
        self._downloader = None if engine is None else engine.downloader
        return self._downloader

    @property
    def _engine(self) -> ExecutionEngine:
        engine = self._crawler.engine
        assert engine is not None
        return engine


class _Asked:
    """A flag that is as true as its answer."""

    __slots__ = ("_ask",)

    def __init__(self, ask: Callable[[], bool]) -> None:
        self._ask = ask

    def __bool__(self) -> bool:
        return self._ask()


def engine_of(crawler: Crawler) -> ExecutionEngine | None:
    """The crawler's engine; None before it has one, where Scrapy 2.19 raises."""
    try:
        return crawler.engine
    except RuntimeError:
        return None


def _server_of(request: Request) -> tuple[object, ...]:
    """What the request needs a connection to."""
    url = urlparse_cached(request)
    return url.scheme, url.netloc, request.meta.get("proxy")


def _has_handler(downloader: Downloader, request: Request) -> bool:
    """Whether Scrapy can download a URL of this scheme, as far as it is known.

    Pages have links to share them, `whatsapp://send?text=…`: Scrapy fails them unsent. A public
    list of the schemes that can be downloaded would replace this.
    """
    handlers = getattr(downloader, "handlers", None)
    schemes = getattr(handlers, "_schemes", None)
    if schemes is None:  # somebody's own downloader
        return True
    scheme = urlparse_cached(request).scheme
    return scheme in schemes and scheme not in getattr(handlers, "_notconfigured", ())


def kind_of(request: Request) -> str:
    """The class of the request's page."""
    url = urlparse_cached(request)
    return normalised(url.path, url.query)


def answer_in(exception: Exception, url: str) -> Response | None:
    """The head of the answer that a download had when it ended so; None where nobody knows it.

    Scrapy tells nobody of it: of a body that a handler of a signal wants no more of, and of one
    that breaks off before its end.
    """
    if isinstance(exception, StopDownload):
        answer: Response | None = getattr(exception, "response", None)
        return answer
    broken = exception if isinstance(exception, ResponseFailed) else exception.__cause__
    head = getattr(broken, "response", None)
    if not isinstance(broken, ResponseFailed) or head is None:
        return None
    return Response(url, head.code, dict(head.headers.getAllRawHeaders()))


def topmost(queue: ScrapyPriorityQueue) -> int | None:
    """Negated priority of the topmost request of Scrapy's own queue; None when it is empty.

    Its own record of it may be that of a priority used up, or of a request that it refused.
    """
    if not queue._start_queues and (queue.curprio is None or queue.curprio in queue.queues):
        return queue.curprio
    queues = (queue.queues, queue._start_queues)
    return min((top for each in queues for top, queued in each.items() if queued), default=None)


def skip_damaged(queue: ScrapyPriorityQueue, held: int) -> int:
    """Get past what Scrapy's own queue of `held` requests could not pop; returns how many are lost.

    One, where it was taken out and could not be read; else all that its file was said to hold.
    """
    lost = held - len(queue)
    top = topmost(queue)
    if top is None:  # it was the last, and is taken out
        queue._update_curprio()
        return lost
    is_start = top not in queue.queues
    queues = queue._start_queues if is_start else queue.queues
    damaged = queues[top]
    if lost and len(damaged):
        return lost
    del queues[top]
    lost += len(damaged)
    with suppress(Exception):  # it is damaged
        damaged.close()
    _removed(Path(queue.key, f"{top}s" if is_start else str(top)))
    queue._update_curprio()
    return lost


def set_damaged_aside(
    open_queue: Callable[[Sequence[int]], ScrapyPriorityQueue], folder: Path, priority: int
) -> list[Path]:
    """Rename the files of this priority that Scrapy's own queue cannot open; returns them.

    A queue that skips what it cannot read, and says so, would replace this.
    """
    paths = [path for path in (folder / str(priority), folder / f"{priority}s") if path.exists()]
    for suspected in [[], *([path] for path in paths), paths]:
        kept = [path.rename(path.with_name(f"{path.name}.damaged")) for path in suspected]
        with suppress(Exception):  # these were not all that is damaged
            open_queue([priority]).close()
            return kept
        for path in kept:
            path.rename(_removed(path.with_name(path.name.removesuffix(".damaged"))))
    return []


def _removed(path: Path) -> Path:
    """The path, where nothing is any more."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    return path


def saved_queues(jobdir: str) -> Any:
    """What the scheduler of a job's last run left to the next: the state of its priority queue.

    None where it left nothing that can be read.
    """
    with suppress(OSError, ValueError):
        path = Path(jobdir, "requests.queue", "active.json")
        return json.loads(path.read_text(encoding="utf-8"))
    return None


def queue_path(key: str, host: str) -> str:
    """Where Scrapy's default queue stores the requests of a host; empty if it stores none.

    A name too long for a file, as those of requests that several rules count may be, keeps its
    beginning and its checksum.
    """
    if not key:
        return ""
    name = _path_safe(host)
    if len(name.encode()) > LONGEST_NAME:
        begin, _, checksum = name.rpartition("-")
        name = f"{begin[:KEPT]}-{checksum}"
    return f"{key}/{name}"


def running_command() -> str | None:
    """Name of the `scrapy` command that this process was started as; None in a script.

    Scrapy tells its components nothing of the command; a public `crawler.settings["COMMAND"]`
    would replace this. Scrapy takes the name out of `sys.argv`, so the words that the process
    was started with are read. A script that calls `scrapy.cmdline.execute` is a script.
    """
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    is_module = main is not None and main.name in ("scrapy.__main__", "scrapy.cmdline")
    if not sys.argv or not (is_module or Path(sys.argv[0]).stem == "scrapy"):
        return None
    words = sys.orig_argv[-len(sys.argv) :]
    return next((word for word in words if not word.startswith("-")), None)


def is_interactive() -> bool:
    """Whether a user waits for one answer, a refusal included: `scrapy shell`, for instance."""
    return running_command() in INTERACTIVE_COMMANDS


def is_checking() -> bool:
    """Whether this is `scrapy check`: its requests are those of contracts, not of the crawl."""
    return bool(os.environ.get("SCRAPY_CHECK"))


def forget_spider(crawler: Crawler) -> None:
    """The engine could not open its spider, and need not close it.

    Scrapy would log four errors of its own in closing what is half open. An engine that closes
    only what it has opened would replace this.
    """
    engine = engine_of(crawler)
    if engine is not None:
        engine.spider = None


def stop_autothrottle(crawler: Crawler) -> None:
    """AutoThrottle, where it is on beside us, sets no delay any more.

    Extensions cannot be taken out of a crawl once they are made: a public
    `crawler.disable_extension` would replace this.
    """
    autothrottle = crawler.get_extension(AutoThrottle)
    if autothrottle is not None:
        crawler.signals.disconnect(autothrottle._response_downloaded, signals.response_downloaded)


def feeds_of(crawler: Crawler) -> Sequence[Any]:
    """The item feeds that are open: `uri`, `format`, `storage`, `file`, `feed_options` of each.

    Scrapy writes them through a buffer; a public `flush` would replace this.
    """
    exporter = crawler.get_extension(FeedExporter)
    return [] if exporter is None else list(exporter.slots)


def watch_for_waking(on_woken: Callable[[], None]) -> Callable[[], None]:
    """Call this as soon as a process that was stopped (SIGSTOP) goes on; returns what ends it.

    Where somebody else listens for SIGCONT, or there is none, nothing is called.
    """
    number = getattr(signal, "SIGCONT", None)
    is_main = threading.current_thread() is threading.main_thread()
    if number is None or not is_main or signal.getsignal(number) is not signal.SIG_DFL:
        return lambda: None
    signal.signal(number, lambda *_: on_woken())

    def end() -> None:
        signal.signal(number, signal.SIG_DFL)

    return end


def abort_connections() -> None:
    """Cut off every HTTP connection of Twisted's: nothing that it holds back is sent any more.

    Between the gate and the wire a request is in Scrapy's and Twisted's hands for some passes of
    the event loop. A way to ask once more before the first byte leaves would replace this.
    """
    if not is_reactor_installed():
        return
    from twisted.internet import reactor

    known: Any = reactor
    for each in {*known.getReaders(), *known.getWriters()}:
        if isinstance(each, Client):
            if not each.connected:
                each.connector.stopConnecting()
            elif _is_http(getattr(each, "protocol", None)):
                abort: Callable[[], None] = each.abortConnection
                abort()


def _is_http(protocol: Any) -> bool:
    """Whether a connection speaks HTTP, below TLS or not."""
    for name in ("_wrappedProtocol", "wrappedProtocol", "_wrappedProtocol"):
        protocol = getattr(protocol, name, protocol)
    return isinstance(protocol, HTTP11ClientProtocol)


def quieten(error: Exception) -> None:
    """The log has said this error: where nobody catches it, it is not logged with a traceback too.

    In a coroutine, asyncio is told that its task's error was looked at; the task fails as before.
    A Deferred that the `scrapy` command drops (its reactor is not asyncio's) has no such way, so
    there Twisted's report of this one error is left out of the log. A public way to end a crawl
    with an error message, as `CloseSpider` ends one with a reason, would replace this.
    """
    with suppress(RuntimeError):  # no loop is running
        task = asyncio.current_task()
        if task is not None:
            task.add_done_callback(lambda done: done.cancelled() or done.exception())
    if "scrapy.cmdline" in sys.modules:
        logging.getLogger("twisted").addFilter(_Unreported(error))
        # Scrapy never begins Twisted's own logging; until then it writes errors to stderr too.
        globalLogBeginner.beginLoggingTo([], discardBuffer=True, redirectStandardIO=False)


class _Unreported(logging.Filter):
    """Keeps Twisted's report of one error out of the log: a headline, and the error itself."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self._error: Exception | None = error

    def filter(self, record: logging.LogRecord) -> bool:
        if self._error is None:
            return True
        if isinstance(record.exc_info, tuple) and record.exc_info[1] is self._error:
            self._error = None
            return False
        return str(record.msg) != "Unhandled error in Deferred:"
