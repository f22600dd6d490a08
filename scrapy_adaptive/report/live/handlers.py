"""What the live view answers to each request.

Laws
----
* It reads only: there is nothing but GET, and no request changes anything.
* An answer that refuses says nothing of the crawl.
* What others send leaves nothing in the crawl's log; what fails here does.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from scrapy_adaptive.report.page import page

from .feed import Watcher
from .guard import HEADERS
from .metrics import openmetrics

if TYPE_CHECKING:
    from aiohttp import web

    from .feed import Feed
    from .guard import Guard

    Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

logger = logging.getLogger("scrapy_adaptive")

MOST_STREAMS = 32
"""Browsers that are fed at the same time."""


class Handlers:
    """Answers for one crawl; all of it runs in the server's event loop.

    Args:
        feed: the crawl.
        guard: knows who may look.
    """

    def __init__(self, feed: Feed, guard: Guard) -> None:
        self.stream_count = 0
        """Browsers that are being fed."""
        self.answered: WeakSet[Any] = WeakSet()
        """Connections of who may look."""
        self._feed = feed
        self._guard = guard
        self._changed = asyncio.Event()
        self._is_over = False

    def application(self) -> web.Application:
        """All addresses there are."""
        from aiohttp import web

        @web.middleware
        async def guarded(request: web.Request, handler: Handler) -> web.StreamResponse:
            return await self._guarded(request, handler)

        application = web.Application(middlewares=[guarded])
        for path, handler in {
            "/": self._page,
            "/events": self._events,
            "/metrics": self._metrics,
            "/state.json": self._state,
            "/table.json": self._table,
        }.items():
            application.router.add_get(path, handler)
        return application

    def publish(self, *, is_over: bool = False) -> None:
        """Send every browser what has changed; where the crawl is over, for the last time."""
        self._is_over = is_over
        self._feed.refresh(must=is_over)
        self._changed.set()
        self._changed = asyncio.Event()

    async def _guarded(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        from aiohttp import web

        refusal = self._guard.refusal(request.headers, request.query.get("token", ""))
        if refusal:
            refused = web.Response(status=403, text=f"{refusal}\n", headers=HEADERS)
            refused.force_close()  # who takes no answer would keep the connection
            return refused
        self.answered.add(request.transport)
        try:
            response = await handler(request)
        except web.HTTPException as error:
            return web.Response(status=error.status, text=f"{error.reason}\n", headers=HEADERS)
        except Exception:
            logger.error("the live view cannot answer %s", request.path, exc_info=True)
            raise
        if not response.prepared:
            response.headers.update(HEADERS)
        return response

    async def _page(self, request: web.Request) -> web.Response:
        from aiohttp import web

        self._feed.refresh()
        return web.Response(text=page(self._feed.blank()), content_type="text/html")

    async def _state(self, request: web.Request) -> web.Response:
        return _json(self._feed.made(_state_of))

    async def _table(self, request: web.Request) -> web.Response:
        return _json(self._feed.made(_table_of))

    async def _metrics(self, request: web.Request) -> web.Response:
        from aiohttp import web

        text, content_type = self._feed.made(_metrics_of)
        return web.Response(body=text, headers={"Content-Type": content_type})

    async def _events(self, request: web.Request) -> web.StreamResponse:
        """What has changed, again and again, until the crawl ends or the browser goes."""
        from aiohttp import web

        if self.stream_count >= MOST_STREAMS:
            raise web.HTTPServiceUnavailable
        stream = web.StreamResponse(headers={"Content-Type": "text/event-stream", **HEADERS})
        watcher = Watcher(request.query.get("site", ""))
        self.stream_count += 1
        try:
            await stream.prepare(request)
            self._feed.refresh()
            while True:
                changed = self._changed
                await stream.write(f"data: {_compact(self._feed.change(watcher))}\n\n".encode())
                if self._is_over:
                    await stream.write(b"event: ended\ndata: {}\n\n")
                    return stream
                await changed.wait()
        except ConnectionError:
            return stream
        finally:
            self.stream_count -= 1


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), allow_nan=False)


def _json(text: bytes) -> web.Response:
    from aiohttp import web

    return web.Response(body=text, content_type="application/json", charset="utf-8")


def _state_of(feed: Feed) -> bytes:
    return "".join(feed.crawl.to_json()).encode()


def _table_of(feed: Feed) -> bytes:
    return _compact(feed.table()).encode()


def _metrics_of(feed: Feed) -> tuple[bytes, str]:
    return openmetrics(feed.crawl)
