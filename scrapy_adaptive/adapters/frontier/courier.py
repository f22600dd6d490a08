"""The one thread that talks to the database.

Laws
----
* One call at a time; the event loop never waits for it.
* What a call has answered is told in the event loop's own thread.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from scrapy.utils.asyncio import is_asyncio_available
from scrapy.utils.reactor import is_reactor_installed

if TYPE_CHECKING:
    from typing import TypeAlias

Call: TypeAlias = "Callable[[], Any]"
Told: TypeAlias = "Callable[[Any, BaseException | None], None]"


class Courier:
    """Calls, in a thread of its own."""

    def __init__(self) -> None:
        self.is_busy = False
        self._calls: queue.SimpleQueue[tuple[Call, Told] | None] = queue.SimpleQueue()
        self._post = _poster()
        self._thread = threading.Thread(target=self._run, name="frontier", daemon=True)
        self._thread.start()

    def send(self, call: Call, told: Told) -> None:
        """Have it called; `told` gets what it returned, or the error that it raised."""
        assert not self.is_busy
        self.is_busy = True
        self._calls.put((call, told))

    def stop(self) -> None:
        """End the thread, after the call that is under way."""
        self._calls.put(None)

    def _run(self) -> None:
        while (sent := self._calls.get()) is not None:
            call, told = sent
            answer, error = None, None
            try:
                answer = call()
            except BaseException as raised:  # it is raised where it is told
                error = raised
            try:
                self._post(self._tell, told, answer, error)
            except RuntimeError:  # the loop is closed: nobody is there to be told
                return
            del sent, call, told, answer, error

    def _tell(self, told: Told, answer: Any, error: BaseException | None) -> None:
        self.is_busy = False
        told(answer, error)


def _poster() -> Callable[..., Any]:
    """What has something called in the event loop's thread."""
    if is_asyncio_available() and not is_reactor_installed():
        return asyncio.get_running_loop().call_soon_threadsafe
    from twisted.internet import reactor

    post: Callable[..., Any] = reactor.callFromThread
    return post
