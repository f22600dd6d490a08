"""What crosses the wire of a simulated crawl, and what a server model is.

Laws
----
* A server decides when a request arrives; its reply says how long it keeps the request.
* Models read no clock: `now` (seconds since the crawl began) is an argument, chance is given.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from scrapy_adaptive.core.headers.parse import NO_HINTS, Hints
from scrapy_adaptive.core.types import Outcome


class Page(NamedTuple):
    """One page of the simulated site."""

    number: int
    kind: str
    """The normalised path. Pages of one kind share an endpoint."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What a server does with one request."""

    outcome: Outcome
    service: float = 0.0
    """Seconds from the request's arrival to the departure of the answer."""
    hints: Hints = NO_HINTS
    """What the headers of the answer tell."""
    banned: bool = False
    """The request arrived during a ban."""
    silent: bool = False
    """Whether nothing comes back, and the crawler gives up after those seconds of service."""


ACCEPTED = Reply(Outcome.ACCEPTED)
REFUSED = Reply(Outcome.REFUSED)


class Server(Protocol):
    """A site with a limit."""

    def on_arrival(self, now: float, page: Page) -> Reply:
        """A request arrives; instants never decrease from call to call."""

    def capacity(self, now: float) -> float:
        """Pages a second which a crawler that knows the server would be served at `now`."""
