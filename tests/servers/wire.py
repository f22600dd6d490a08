"""What both test servers share: where they listen and how they ask for silence.

Laws
----
* A port is bound before a server is started on it, so parallel tests never meet.
* Every address is a loopback address; Scrapy's slot is the address without its port, so
  two hosts of one test are two addresses, never two ports of one.
"""

from __future__ import annotations

import socket
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import timezone
from email.utils import parsedate_to_datetime

from typing_extensions import Self

from docsite.hits import Hit

LOCALHOST = "127.0.0.1"


class Site(ABC):
    """A server on one free port of one or more loopback addresses."""

    def __init__(self, addresses: Sequence[str]) -> None:
        self.addresses = tuple(addresses)
        self.sockets = listen_on(self.addresses)
        self.port: int = self.sockets[0].getsockname()[1]

    @property
    def url(self) -> str:
        """The site at its first address, without a slash at the end."""
        return self.url_at(self.addresses[0])

    def url_at(self, address: str) -> str:
        """The site as another host of the same server."""
        if address not in self.addresses:
            raise ValueError(f"{address} is not one of {self.addresses}")
        return f"http://{address}:{self.port}"

    @abstractmethod
    def hits(self) -> list[Hit]:
        """All hits that have ended so far, ordered by their start."""

    @abstractmethod
    def stop(self) -> None:
        """End the server; what is in flight is cut off."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def listen_on(addresses: Sequence[str]) -> list[socket.socket]:
    """Listening sockets on one port that was free on all `addresses`."""
    for _ in range(20):
        with ExitStack() as undo:
            sockets: list[socket.socket] = []
            port = 0
            try:
                for address in addresses:
                    sockets.append(socket.create_server((address, port), backlog=511))
                    undo.callback(sockets[-1].close)
                    port = sockets[0].getsockname()[1]
            except OSError:
                continue
            undo.pop_all()
            return sockets
    raise OSError(f"no port is free on all of {addresses}")


def silence_asked(retry_after: str | None, now: float) -> float | None:
    """Seconds of silence a Retry-After asks for at `now`, None where it is absent or unreadable.

    **Source** RFC 9110, section 10.2.3: delta seconds or an HTTP date.
    """
    if not retry_after:
        return None
    try:
        return float(retry_after)
    except ValueError:
        pass
    try:
        instant = parsedate_to_datetime(retry_after)
    except ValueError:
        return None
    if instant.tzinfo is None:
        instant = instant.replace(tzinfo=timezone.utc)
    return max(0.0, instant.timestamp() - now)
