"""Sends hits to a server model; no governor, no network."""

from __future__ import annotations

from collections.abc import Iterable

from scrapy_adaptive.core.types import Outcome
from scrapy_adaptive.simulation.servers.base import Page, Server
from scrapy_adaptive.simulation.spec import read_spec

PAGE = Page(1, "page")


def accepts(server: Server, instants: Iterable[float]) -> list[bool]:
    """Whether each hit at those instants is accepted."""
    return [server.on_arrival(now, PAGE).outcome is Outcome.ACCEPTED for now in instants]


def paced(rate: float, seconds: float, start: float = 0.0) -> list[float]:
    """Instants of hits at exactly that rate."""
    return [start + hit / rate for hit in range(int(rate * seconds))]


def server_of(spec: str) -> Server:
    """The server of a spec."""
    return read_spec(spec, seed=1).server
