"""A site whose every answer is decided by the test, in a thread of the test's own process.

Laws
----
* All state belongs to the server's event loop; `hits` and `in_flight` ask it, so none is locked.
* A hit that got no answer (dropped, or cut off by either side) is logged with status 0.
* An error in the test's handler is an error of the test: `hits` and `stop` raise it.
"""

from __future__ import annotations

import asyncio
import base64
import gzip
import inspect
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from aiohttp import web

from docsite.hits import REFUSAL_CODES, Hit
from tests.servers.wire import LOCALHOST, Site, silence_asked

T = TypeVar("T")

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)
"""One pixel."""

PIECES = 20
"""A slow body is sent in so many."""

HALF_A_WORD = b"HTTP"
"""Where something of an answer has come, no HTTP client asks again by itself, unseen by Scrapy."""


@dataclass(frozen=True, slots=True)
class Visit:
    """A request as the handler meets it."""

    path: str
    """With its query."""
    host: str
    """Address and port, as in `Hit.host`."""
    headers: Mapping[str, str]
    count: int
    """This is the nth visit of its path on its host, from 1."""
    total: int
    """This is the nth visit of all, from 1."""
    in_flight: int
    """Requests in service on this host, this one included."""
    elapsed: float
    """Seconds since the server was started."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What is sent back, `delay` seconds after the visit; with `drop` the connection is cut.

    With `body_seconds` the headers come at once and the body in pieces, over so many seconds.
    """

    status: int = 200
    body: str | bytes = "<title>page</title>"
    headers: Mapping[str, str] = field(default_factory=dict)
    delay: float = 0.0
    drop: bool = False
    drop_after: bytes = b""
    """What is sent before the connection is cut."""
    body_seconds: float = 0.0

    async def send(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer a request with this; returns when all of it is sent."""
        body = self.body.encode() if isinstance(self.body, str) else self.body
        headers = {"Content-Type": "text/html; charset=utf-8", **self.headers}
        if not self.body_seconds:
            response = web.Response(status=self.status, body=body, headers=headers)
            await response.prepare(request)
            await response.write_eof()
            return response
        streamed = web.StreamResponse(status=self.status, headers=headers)
        streamed.content_length = len(body)
        await streamed.prepare(request)
        size = -(-len(body) // PIECES)
        for start in range(0, len(body), size):
            await asyncio.sleep(self.body_seconds / PIECES)
            await streamed.write(body[start : start + size])
        await streamed.write_eof()
        return streamed


Handler = Callable[[Visit], "Answer | Awaitable[Answer]"]


def refusal(status: int = 429, retry_after: object = None, **fields: Any) -> Answer:
    """A refusal; `retry_after` is seconds or an HTTP date, None for no such header."""
    headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
    return Answer(status, "refused", headers, **fields)


def links_page(urls: Iterable[str]) -> Answer:
    return Answer(body="".join(f'<a href="{url}">{url}</a>\n' for url in urls))


def robots_txt(text: str) -> Answer:
    return Answer(body=text, headers={"Content-Type": "text/plain"})


def image() -> Answer:
    return Answer(body=PNG, headers={"Content-Type": "image/png"})


def redirect(url: str, status: int = 302) -> Answer:
    return Answer(status, "", {"Location": url})


def gzipped(body: str, status: int = 200) -> Answer:
    return Answer(status, gzip.compress(body.encode()), {"Content-Encoding": "gzip"})


def answers(by_path: Mapping[str, Answer], otherwise: Handler | None = None) -> Handler:
    """A handler that looks the path up; unknown paths go to `otherwise`, or are found too."""

    def handler(visit: Visit) -> Answer | Awaitable[Answer]:
        if visit.path in by_path:
            return by_path[visit.path]
        return otherwise(visit) if otherwise else Answer()

    return handler


class Origin(Site):
    """A running scripted site. `handler` may be exchanged while it runs."""

    def __init__(
        self,
        handler: Handler = answers({}),  # noqa: B008 - it keeps no state
        *,
        addresses: Sequence[str] = (LOCALHOST,),
    ) -> None:
        super().__init__(addresses)
        self.handler = handler
        self._started_at = time.monotonic()
        self._hits: list[Hit] = []
        self._counts: Counter[tuple[str, str]] = Counter()
        self._in_flight: Counter[str] = Counter()
        self._error: Exception | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="origin", daemon=True)
        self._thread.start()
        self._runner = self._on_loop(self._open())

    def _on_loop(self, step: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(step, self._loop).result(timeout=10)

    async def _open(self) -> web.ServerRunner:
        server = web.Server(self._serve, access_log=None)
        runner = web.ServerRunner(server, shutdown_timeout=0.1)
        await runner.setup()
        for listening in self.sockets:
            await web.SockSite(runner, listening, backlog=511).start()
        return runner

    def hits(self) -> list[Hit]:
        hits = self._ask(lambda: sorted(self._hits, key=lambda hit: hit.start))
        self._raise_error()
        return hits

    def in_flight(self) -> int:
        """Requests now in service, on all hosts."""
        return self._ask(self._in_flight.total)

    def _ask(self, question: Callable[[], T]) -> T:
        """The loop's answer; what it has sent before now is in it."""

        async def step() -> T:
            return question()

        return self._on_loop(step()) if self._thread.is_alive() else question()

    async def _close(self) -> None:
        await self._runner.cleanup()
        cut_off = asyncio.all_tasks() - {asyncio.current_task()}
        for task in cut_off:
            task.cancel()
        await asyncio.gather(*cut_off, return_exceptions=True)

    def stop(self) -> None:
        if self._thread.is_alive():
            self._on_loop(self._close())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(timeout=10)
            self._loop.close()
        self._raise_error()

    def _raise_error(self) -> None:
        error, self._error = self._error, None
        if error is not None:
            raise error

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        start = time.time()
        path, host = request.path_qs, request.host
        self._in_flight[host] += 1
        status, retry_after, end = 0, None, None
        try:
            answer = await self._answer(self._visit(path, host, request.headers))
            if answer.drop and request.transport is not None:
                request.transport.write(answer.drop_after)
                request.transport.abort()
                return web.Response()
            if answer.status in REFUSAL_CODES:
                end = time.time()  # its client may have it before this process goes on
            try:
                response = await answer.send(request)
            except ConnectionResetError:  # the client has gone
                return web.Response()
            status, retry_after = answer.status, answer.headers.get("Retry-After")
            return response
        finally:
            end = end or time.time()
            self._in_flight[host] -= 1
            agent = request.headers.get("User-Agent", "")
            silence = silence_asked(retry_after, end)
            self._hits.append(Hit(start, end, status, path, host, agent, silence))

    def _visit(self, path: str, host: str, headers: Mapping[str, str]) -> Visit:
        self._counts[host, path] += 1
        return Visit(
            path,
            host,
            headers,
            count=self._counts[host, path],
            total=self._counts.total(),
            in_flight=self._in_flight[host],
            elapsed=time.monotonic() - self._started_at,
        )

    async def _answer(self, visit: Visit) -> Answer:
        try:
            answer = self.handler(visit)
            if inspect.isawaitable(answer):
                answer = await answer
        except Exception as error:
            self._error = error
            answer = Answer(500, repr(error))
        await asyncio.sleep(answer.delay)
        return answer
