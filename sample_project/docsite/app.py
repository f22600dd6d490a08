"""The site: rendered pages behind the load control, and a log of every hit.

Laws
----
* A path is served only if the manifest names it, so nothing outside the folder can be asked for.
* A refusal is a bare 503 that says why, so that a crawler has to find the pace by itself;
  `tell_wait` adds the Retry-After that Connotea's source sends, rounded up to whole seconds.
* /robots.txt is served outside the load control: a crawler that reads it first, as it should,
  would otherwise find the door shut for its very first page.
* One JSON line per hit is written when the hit has ended, also if the client left before.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TextIO

from aiohttp import web

from docsite.api import PREFIX, USER, ApiThrottle, normalised
from docsite.hits import Hit
from docsite.load_control import Admit, Defer, LoadControl, Refuse

ROBOTS_PATH = "/robots.txt"
ROBOTS = "User-agent: *\nAllow: /\n"
CLIENT_LEFT = 499
"""Status logged where the client was gone before its answer (nginx's number)."""
CLOSING_TIME = 1.0
"""Seconds that requests in service get when the site is told to stop."""


class Site:
    """Pages by path, served behind a load control (None: without one).

    `latency` is what each page costs the site, in seconds; `api` throttles its API (None: there is
    none).
    """

    def __init__(
        self,
        pages: Mapping[str, Path],
        control: LoadControl | None,
        log: TextIO,
        *,
        latency: float = 0.0,
        tell_wait: bool = False,
        api: ApiThrottle | None = None,
    ) -> None:
        self.pages = pages
        self.control = control
        self.log = log
        self.latency = latency
        self.tell_wait = tell_wait
        self.api = api

    def application(self) -> web.Application:
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", self.handle)
        return application

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answers one request and logs it, whatever became of it."""
        clock = asyncio.get_running_loop().time
        start = clock()
        status, retry_after = CLIENT_LEFT, None
        try:
            async with contextlib.AsyncExitStack() as running:
                response = await self._answer(request, running)
                await response.prepare(request)
                await response.write_eof()
            status = response.status
            if "Retry-After" in response.headers:
                retry_after = float(response.headers["Retry-After"])
            return response
        except Exception:
            status = 500
            raise
        finally:
            agent = request.headers.get("User-Agent", "")
            hit = Hit(start, clock(), status, request.path, request.host, agent, retry_after)
            self.log.write(hit.to_json() + "\n")

    async def _answer(
        self, request: web.Request, running: contextlib.AsyncExitStack
    ) -> web.Response:
        """The response; `running` ends the request's run when it is sent."""
        if request.path == ROBOTS_PATH:
            return web.Response(text=ROBOTS)
        if self.api is not None and request.path.startswith(PREFIX):
            return await self._call(self.api, request)
        if self.control is not None:
            decision = await self._decide(self.control, request)
            if isinstance(decision, Refuse):
                return self._refusal(decision)
            running.callback(self.control.on_answered)
        await asyncio.sleep(self.latency)
        if request.method not in {"GET", "HEAD"}:
            return web.Response(status=405, headers={"Allow": "GET, HEAD"})
        page = self.pages.get(request.path)
        if page is None:
            return web.Response(status=404, text="There is no such page.\n")
        return web.Response(body=page.read_bytes(), content_type="text/html", charset="utf-8")

    async def _call(self, api: ApiThrottle, request: web.Request) -> web.Response:
        """The answer to a call of the API: what was asked for, or 429."""
        now = asyncio.get_running_loop().time()
        user = request.headers.get(USER, "")
        wait = api.on_call(now, time.time(), user, request.path)
        if wait is not None:
            headers = {"Retry-After": str(math.ceil(wait))} if self.tell_wait else {}
            return web.Response(status=429, text="Too many calls.\n", headers=headers)
        await asyncio.sleep(self.latency)
        return web.json_response({"user": user, "call": normalised(request.path)})

    async def _decide(self, control: LoadControl, request: web.Request) -> Admit | Refuse:
        """The load control's last word, slept for where it defers."""
        now = asyncio.get_running_loop().time()
        agent = request.headers.get("User-Agent", "")
        decision = control.on_hit(now, request.remote or "", agent)
        if not isinstance(decision, Defer):
            return decision
        try:
            await asyncio.sleep(decision.seconds)
        except asyncio.CancelledError:
            control.on_left()
            raise
        return control.on_woken()

    def _refusal(self, refusal: Refuse) -> web.Response:
        headers = {"Retry-After": str(math.ceil(refusal.wait))} if self.tell_wait else {}
        text = f"Service Unavailable: {refusal.reason}.\n"
        return web.Response(status=503, text=text, headers=headers)


async def serve(site: Site, port: int, on_ready: Callable[[int], None]) -> None:
    """Serves on 127.0.0.1 until SIGINT or SIGTERM.

    `on_ready` is told the port, which the system chooses where `port` is 0.
    """
    runner = web.AppRunner(
        site.application(),
        access_log=None,
        handler_cancellation=True,
        shutdown_timeout=CLOSING_TIME,
    )
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", port).start()
        on_ready(runner.addresses[0][1])
        await _told_to_stop()
    finally:
        await runner.cleanup()


async def _told_to_stop() -> None:
    loop = asyncio.get_running_loop()
    told = asyncio.Event()
    with contextlib.suppress(NotImplementedError):  # Windows: Ctrl-C is a KeyboardInterrupt
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, told.set)
    await told.wait()
