"""What a server that refuses can tell about its own limit; headers are made of it."""

from __future__ import annotations

from typing import Protocol

from scrapy_adaptive.core.headers.parse import Quota

from .base import Page, Server


class Limiter(Server, Protocol):
    """A server that refuses what is above its limit."""

    def retry_at(self, now: float, page: Page) -> float:
        """The earliest instant at which this page would be accepted, if no other came before."""

    def quota(self, now: float, page: Page) -> Quota:
        """What remains to be accepted just now, and in how many seconds there is one more."""
