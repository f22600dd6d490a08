"""The server of a live view: aiohttp, in a thread with an event loop of its own.

Laws
----
* The crawl's thread only starts it, hands it records, and stops it.
* Who has no token takes some `MOST_CONNECTIONS` of the crawl's file descriptors, keeps none, and
  keeps nobody out.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any

from scrapy_adaptive.report.page.plot import check_bokeh

from .feed import Feed
from .guard import Guard
from .handlers import MOST_STREAMS, Handlers

if TYPE_CHECKING:
    from collections.abc import Iterable

    from aiohttp import web

    from scrapy_adaptive.report.records import Record

logger = logging.getLogger("scrapy_adaptive")

HTTP = logging.getLogger("scrapy_adaptive.http")
HTTP.setLevel(logging.CRITICAL)
"""Where aiohttp logs each request that is no HTTP, with a traceback: anybody can send it, so nobody
reads it. What fails in a handler is logged where it fails."""

MISSING = "the live view needs more packages: pip install scrapy-adaptive[watch]"

INTERVAL = 1.0
"""Seconds between two changes that a browser is sent."""

POLL = 0.05
"""Seconds within which the end of the crawl is noticed."""

PATIENCE = 15.0
"""Seconds that starting or stopping may take."""

SILENCE = 10.0
"""Seconds after which a connection is closed that has sent no whole request, or no other one; by
aiohttp before 3.14.4 the latter alone."""

MOST_CONNECTIONS = 2 * MOST_STREAMS
"""Open at the same time: the stream of each browser, and what it asks beside that. Those that come
at one instant, `MOST_STREAMS` at most, are counted after it."""


def check_packages() -> None:
    """Nothing, where all that the live view needs is installed.

    Raises:
        ValueError: something is not.
    """
    try:
        import aiohttp  # noqa: F401
        import prometheus_client  # noqa: F401

        check_bokeh()
    except (ImportError, ValueError):
        raise ValueError(MISSING) from None


class LiveView:
    """Serves the live view of one crawl.

    Args:
        address: what to bind to, "127.0.0.1" or "0.0.0.0" for instance.
        port: where to listen; if it is taken, or 0, a free one.

    Raises:
        ValueError: a package is missing.
    """

    def __init__(self, address: str, port: int) -> None:
        check_packages()
        self.url = ""
        """What to open in a browser, once it is started."""
        self._address, self._port = address, port
        self._feed = Feed()
        self._guard = Guard(address)
        self._handlers = Handlers(self._feed, self._guard)
        name = "scrapy_adaptive live view"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._started = threading.Event()
        self._stopping = threading.Event()
        self._error: Exception | None = None
        self._is_short = False
        """Whether file descriptors were lacking."""

    # In the crawl's thread

    def put(self, records: Iterable[Record | None], source: str = "") -> None:
        """Some records more, of one journal where there are several; none where it has failed."""
        if self._error is None:
            self._feed.put(records, source)

    def start(self) -> None:
        """Serve from here on.

        Raises:
            OSError: the address cannot be bound.
        """
        self._thread.start()
        if not self._started.wait(PATIENCE):
            raise OSError(f"it has not begun to serve within {PATIENCE:g} s")
        if self._error is not None:
            told = f"{self._address!r}, port {self._port}: {self._error}"
            raise OSError(told) from self._error

    def check(self) -> None:
        """Nothing, while it serves.

        Raises:
            ValueError: it has failed.
        """
        if self._error is not None:
            raise ValueError(f"the live view has ended: {self._error}") from self._error

    def stop(self) -> None:
        """Send what is left, and end."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(PATIENCE)

    # In the server's thread

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except Exception as error:
            self._error = error
            if self._started.is_set():
                logger.error("the live view has ended: %s", error)
        finally:
            self._started.set()

    async def _serve(self) -> None:
        from aiohttp import web

        asyncio.get_running_loop().set_exception_handler(self._on_error)
        application = self._handlers.application()
        runner = web.AppRunner(
            application,
            access_log=None,
            logger=HTTP,
            keepalive_timeout=SILENCE,
            shutdown_timeout=1.0,
        )
        await runner.setup()
        assert runner.server is not None
        try:
            listener = await self._listen(runner.server)
            with closing(listener):
                self._started.set()
                await self._follow()
        finally:
            await runner.cleanup()

    async def _listen(self, server: web.Server) -> asyncio.Server:
        """Listen on the port, or on a free one where it is taken."""

        def connected() -> asyncio.Protocol:
            is_full = len(server.connections) >= MOST_CONNECTIONS
            return _Refusal() if is_full and not self._close_stranger(server) else server()

        create = partial(
            asyncio.get_running_loop().create_server,
            connected,
            self._address,
            backlog=MOST_STREAMS,
        )
        try:
            listener = await create(self._port)
        except OSError:
            if not self._port:
                raise
            listener = await create(0)
        port = listener.sockets[0].getsockname()[1]
        shown = f"[{self._address}]" if ":" in self._address else self._address
        query = f"?token={self._guard.token}" if self._guard.token else ""
        self.url = f"http://{shown}:{port}/{query}"
        return listener

    def _close_stranger(self, server: web.Server) -> bool:
        """Close the oldest connection by which nothing was answered; returns whether there was one.

        Who only keeps connections must not keep the user out.
        """
        for each in server.connections:
            if each.transport and each.transport not in self._handlers.answered:
                each.force_close()
                return True
        return False

    def _on_error(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Say what went wrong in the loop; once, that no connection can be accepted: it tries again
        and again."""
        if "socket" not in context:
            loop.default_exception_handler(context)
        elif not self._is_short:
            self._is_short = True
            error = context.get("exception")
            logger.warning("the live view accepts no connection for now: %s", error)

    async def _follow(self) -> None:
        """Keep up with the crawl; look at the whole of it only while somebody does."""
        while not self._stopping.is_set():
            self._feed.drain()
            if self._handlers.stream_count:
                self._handlers.publish()
            await self._sleep(INTERVAL)
        self._handlers.publish(is_over=True)
        ends_at = time.monotonic() + INTERVAL
        while self._handlers.stream_count and time.monotonic() < ends_at:
            await asyncio.sleep(POLL)

    async def _sleep(self, seconds: float) -> None:
        """Sleep so long, or until the crawl ends."""
        ends_at = time.monotonic() + seconds
        while not self._stopping.is_set() and time.monotonic() < ends_at:
            await asyncio.sleep(POLL)


class _Refusal(asyncio.Protocol):
    """A connection that is one too many."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Close it."""
        transport.close()
