"""Everything that touches what Scrapy keeps private, and nothing else.

Laws
----
* No other file names an underscore attribute of Scrapy, the downloader's slots, or the
  engine's wake-up: when Scrapy moves them, this file moves.
* Methods are wrapped on the instance of this crawl; no class of Scrapy is changed.
"""

from __future__ import annotations

import asyncio
import json
import logging
import shutil
import sys
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from scrapy import signals
from scrapy.extensions.throttle import AutoThrottle
from scrapy.pqueues import _path_safe
from scrapy.utils.defer import _schedule_coro
from scrapy.utils.httpobj import urlparse_cached
from twisted.logger import globalLogBeginner

from scrapy_adaptive.core.classes import normalised

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.core.downloader import Downloader
    from scrapy.core.engine import ExecutionEngine
    from scrapy.core.scheduler import BaseScheduler
    from scrapy.crawler import Crawler
    from scrapy.pqueues import ScrapyPriorityQueue
    from twisted.internet.defer import Deferred

logger = logging.getLogger("scrapy_adaptive")

INTERACTIVE_COMMANDS = frozenset({"fetch", "view", "shell", "parse"})
"""Commands whose user waits for one answer, a refusal included."""

SLOT_META_KEY = "download_slot"
WRITTEN_META_KEY = "adaptive_slot"
"""Which key Scrapy wrote into `download_slot`, as opposed to one that the user chose."""


class Engine:
    """The engine of one crawl, as the throttle sees it."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._attached = False

    @property
    def is_attached(self) -> bool:
        """Whether the wrappers are in place."""
        return self._attached

    def attach(
        self,
        *,
        on_left: Callable[[Request], None],
        on_close: Callable[[], None],
        wrap_scheduler: Callable[[BaseScheduler], None],
    ) -> None:
        """Follow this crawl's requests from now on.

        Args:
            on_left: called with each request when it has left the downloader and all
                downloader middlewares, whatever its end.
            on_close: called when the spider is asked to close, before anything else happens.
            wrap_scheduler: given the scheduler, once.
        """
        engine = self._engine
        self._attached = True
        self._follow_fetch(engine, on_left)
        self._precede_close(engine, on_close)
        self._free_slots_of_delay(engine)
        self._let_requests_step_aside(engine)
        assert engine._slot is not None
        wrap_scheduler(engine._slot.scheduler)

    def nudge(self) -> None:
        """Have the engine ask its scheduler again."""
        engine = self._crawler.engine
        if engine is not None and engine._slot is not None:
            engine._slot.nextcall.schedule()

    def slot_key(self, request: Request) -> str | None:
        """Name of the request's slot; None where there is no host to be polite to."""
        key = self._downloader.get_slot_key(request)
        return key if key or SLOT_META_KEY in request.meta else None

    def own_key(self, request: Request) -> str | None:
        """The slot of a request on its way in; a key that Scrapy itself wrote does not outlive
        its host, or a redirect would be paced by the site it came from."""
        meta = request.meta
        if SLOT_META_KEY in meta and meta[SLOT_META_KEY] == meta.get(WRITTEN_META_KEY):
            del meta[SLOT_META_KEY]
        key = self._downloader.get_slot_key(request)
        return key if key or SLOT_META_KEY in meta else None

    def claim_key(self, request: Request) -> str | None:
        """The slot of a request at the gate; it is noted if Scrapy will write it."""
        key = self.own_key(request)
        if SLOT_META_KEY not in request.meta:
            request.meta[WRITTEN_META_KEY] = key
        return key

    def step_aside(self, request: Request) -> None:
        """A waiting request gives its place in CONCURRENT_REQUESTS to others."""
        self._engine.downloader.active.discard(request)
        self.nudge()

    def step_back(self, request: Request) -> None:
        """The request takes a place again: the downloader will want to free it."""
        self._engine.downloader.active.add(request)

    def is_active(self, request: Request) -> bool:
        """Whether the downloader knows of this request."""
        return request in self._downloader.active

    @property
    def has_active(self) -> bool:
        """Whether the downloader knows of any request."""
        return bool(self._engine.downloader.active)

    @property
    def is_starting(self) -> bool:
        """Whether the spider may still bring start requests."""
        return self._engine._start is not None

    def close(self, reason: str) -> None:
        """Ask the spider to close."""
        _schedule_coro(self._engine.close_spider_async(reason=reason))

    @cached_property
    def _downloader(self) -> Downloader:
        return self._engine.downloader

    @property
    def _engine(self) -> ExecutionEngine:
        engine = self._crawler.engine
        assert engine is not None
        return engine

    @staticmethod
    def _follow_fetch(engine: ExecutionEngine, on_left: Callable[[Request], None]) -> None:
        fetch = engine.downloader.fetch

        def followed(request: Request, *args: Any) -> Deferred[Any]:
            def left(result: Any) -> Any:
                on_left(request)
                return result

            deferred: Deferred[Any] = fetch(request, *args)
            return deferred.addBoth(left)

        engine.downloader.fetch = followed  # type: ignore[method-assign,assignment]

    @staticmethod
    def _precede_close(engine: ExecutionEngine, on_close: Callable[[], None]) -> None:
        close_spider = engine.close_spider_async

        def preceded(**kwargs: Any) -> Coroutine[Any, Any, None]:
            try:
                on_close()
            except Exception:  # whatever happens here, the spider must close
                logger.error("held requests could not all be handed back", exc_info=True)
            return close_spider(**kwargs)

        engine.close_spider_async = preceded  # type: ignore[method-assign]

    @staticmethod
    def _free_slots_of_delay(engine: ExecutionEngine) -> None:
        downloader = engine.downloader
        # A DOWNLOADER of the user's own may have neither.
        downloader.per_slot_settings = _WithoutDelay(getattr(downloader, "per_slot_settings", {}))
        for slot in getattr(downloader, "slots", {}).values():
            slot.delay = 0.0

    @staticmethod
    def _let_requests_step_aside(engine: ExecutionEngine) -> None:
        downloader = engine.downloader
        if type(downloader.active) is set:
            downloader.active = _Active(downloader.active)


class _Active(set["Request"]):
    """Requests that hold places; one that has stepped aside may leave all the same."""

    def remove(self, request: Request) -> None:
        """Free its place, if it holds one."""
        self.discard(request)


class _WithoutDelay(dict[str, dict[str, Any]]):
    """DOWNLOAD_SLOTS with the delay of every slot set to 0: the gate paces, Scrapy does not."""

    def get(self, key: str, default: Any = None) -> Any:
        return {**(super().get(key) or {}), "delay": 0.0}


def kind_of(request: Request) -> str:
    """The class of the request's page."""
    url = urlparse_cached(request)
    return normalised(url.path, url.query)


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
    is_start = top not in queue.queues
    queues = queue._start_queues if is_start else queue.queues
    damaged = queues[cast("int", top)]
    if lost and len(damaged):
        return lost
    del queues[cast("int", top)]
    lost += len(damaged)
    with suppress(Exception):  # it is damaged
        damaged.close()
    path = Path(queue.key, f"{top}s" if is_start else str(top))
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    queue._update_curprio()
    return lost


def set_damaged_aside(
    open_queue: Callable[[Sequence[int]], ScrapyPriorityQueue], folder: Path, priority: int
) -> list[Path]:
    """Rename the files of this priority that Scrapy's own queue cannot open; returns them.

    A queue that skips what it cannot read, and says so, would replace this.
    """
    paths = [path for path in (folder / str(priority), folder / f"{priority}s") if path.exists()]
    for suspects in [[], *([path] for path in paths), paths]:
        kept = [path.rename(path.with_name(f"{path.name}.damaged")) for path in suspects]
        with suppress(Exception):  # these were not all that is damaged
            open_queue([priority]).close()
            return kept
        for path in kept:
            path.rename(path.with_name(path.name.removesuffix(".damaged")))
    return []


def saved_queues(jobdir: str) -> Any:
    """What the scheduler of a job's last run left to the next: the state of its priority queue.

    None where it left nothing that can be read.
    """
    with suppress(OSError, ValueError):
        path = Path(jobdir, "requests.queue", "active.json")
        return json.loads(path.read_text(encoding="utf-8"))
    return None


def queue_path(key: str, host: str) -> str:
    """Where Scrapy's default queue stores the requests of a host; empty if it stores none."""
    return f"{key}/{_path_safe(host)}" if key else ""


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


def forget_spider(crawler: Crawler) -> None:
    """The engine could not open its spider, and need not close it.

    Scrapy would log four errors of its own in closing what is half open. An engine that closes
    only what it has opened would replace this.
    """
    if crawler.engine is not None:
        crawler.engine.spider = None


def stop_autothrottle(crawler: Crawler) -> None:
    """AutoThrottle, where it is on beside us, sets no delay any more.

    Extensions cannot be taken out of a crawl once they are made: a public
    `crawler.disable_extension` would replace this.
    """
    autothrottle = crawler.get_extension(AutoThrottle)
    if autothrottle is not None:
        crawler.signals.disconnect(autothrottle._response_downloaded, signals.response_downloaded)


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
