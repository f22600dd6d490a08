"""Refusals, errors, and answers that never come, around any server.

Laws
----
* What has nothing to do with the rate costs the server behind as much as a page that is served: a
  crawler that knows it gets that much less.
"""

from __future__ import annotations

import random
from dataclasses import replace

from scrapy_adaptive.core.types import Outcome

from .base import Page, Reply, Server
from .ranges import EVERY, SECONDS, SHARE


class NoisyServer:
    """Answers 503 now and then, whatever the rate.

    Args:
        inner: the server.
        share: of the pages it would serve, in [0, 1].
        chance: draws them.
    """

    def __init__(self, inner: Server, share: float, chance: random.Random) -> None:
        SHARE.check(share=share)
        self.inner = inner
        self._share = share
        self._chance = chance

    def on_arrival(self, now: float, page: Page) -> Reply:
        """What the server says, or 503."""
        reply = self.inner.on_arrival(now, page)
        return _broken(reply) if self._chance.random() < self._share else reply

    def capacity(self, now: float) -> float:
        """The server's, less the share."""
        return self.inner.capacity(now) * (1.0 - self._share)


class SilentServer:
    """Never answers some requests, which it would have served.

    Args:
        inner: the server.
        share: of the pages it would serve, in [0, 1].
        seconds: after so many the crawler gives up, as DOWNLOAD_TIMEOUT says.
        chance: draws them.
    """

    def __init__(self, inner: Server, share: float, seconds: float, chance: random.Random) -> None:
        SHARE.check(share=share)
        self.inner = inner
        self._share = share
        SECONDS.check(seconds=seconds)
        self._seconds = seconds
        self._chance = chance

    def on_arrival(self, now: float, page: Page) -> Reply:
        """What the server says, or nothing."""
        reply = self.inner.on_arrival(now, page)
        if reply.outcome is Outcome.ACCEPTED and self._chance.random() < self._share:
            return Reply(Outcome.FAILED, self._seconds, silent=True)
        return reply

    def capacity(self, now: float) -> float:
        """The server's, less the share."""
        return self.inner.capacity(now) * (1.0 - self._share)


class DeadPagesServer:
    """Always answers 503 to some pages.

    Args:
        inner: the server.
        every: pages whose number this divides are dead; > 1.
    """

    def __init__(self, inner: Server, every: int) -> None:
        EVERY.check(every=every)
        self.inner = inner
        self._every = every

    def on_arrival(self, now: float, page: Page) -> Reply:
        """What the server says; 503 for a dead page."""
        reply = self.inner.on_arrival(now, page)
        return _broken(reply) if page.number % self._every == 0 else reply

    def capacity(self, now: float) -> float:
        """The server's, less one fetch of each dead page."""
        return self.inner.capacity(now) * (1.0 - 1.0 / self._every)


class ErrorServer:
    """Answers 500, not 429, wherever the server refuses: beyond its limit, for a page, by chance.

    Args:
        inner: the server.
    """

    def __init__(self, inner: Server) -> None:
        self.inner = inner

    def on_arrival(self, now: float, page: Page) -> Reply:
        """What the server says, or 500."""
        reply = self.inner.on_arrival(now, page)
        if reply.outcome is Outcome.REFUSED:
            return Reply(Outcome.FAILED, reply.service)
        return reply

    def capacity(self, now: float) -> float:
        """The server's."""
        return self.inner.capacity(now)


def _broken(reply: Reply) -> Reply:
    return replace(reply, outcome=Outcome.REFUSED)
