"""The server models by name, as `--server` knows them.

Laws
----
* One table names every model, its numbers, its flags and its meaning; `--help` is made of it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from .bans import BanServer, WhileBanned
from .base import Server
from .occupancy import CapServer, FreeServer, QueueServer
from .ranges import BURST, COUNT, PLACES, RATE, SECONDS, SERVICE, WORKERS, Number
from .rates import Rate, constant
from .token_bucket import BucketServer, EndpointServer
from .windows import CounterServer, LastHitServer, LogServer, WindowServer

PAGE = "page"
SEARCH = "search"

ONE_KIND: Mapping[str, float] = {PAGE: 1.0}
"""A site all of whose pages share the limit."""

WITH_SEARCH: Mapping[str, float] = {PAGE: 0.8, SEARCH: 0.2}
"""A site a fifth of whose pages belong to a slower endpoint."""


@dataclass(frozen=True, slots=True)
class Order:
    """What a spec asks a model for."""

    numbers: tuple[float, ...]
    flags: frozenset[str]
    vary: Callable[[float], Rate]
    """Makes a limit of a number; it changes with time as the spec says."""
    chance: random.Random


@dataclass(frozen=True, slots=True)
class Model:
    """One row of the table of models."""

    name: str
    numbers: tuple[Number, ...]
    meaning: str
    make: Callable[[Order], Server]
    flags: Mapping[str, str] = field(default_factory=dict)
    """Name of a flag of this model alone → its meaning."""
    shares: Mapping[str, float] = field(default_factory=lambda: ONE_KIND)
    """How many of the site's pages are of which kind."""
    refuses: bool = True
    """Whether there are refusals, whose headers can tell something."""
    has_limit: bool = True
    """Whether there is a limit that can change."""

    @property
    def usage(self) -> str:
        """How a spec of it begins."""
        return ":".join(
            part for part in (self.name, "/".join(number.name for number in self.numbers)) if part
        )


GAP = 2.0
"""Seconds that Connotea wanted between two hits of crawlers."""

AGENT_GAP = 30.0
"""Seconds that it wanted between two hits of the same one."""

STACK, STACK_SECONDS = 10.0, 15.0
"""Its hit stack: hits of a visitor in so many seconds."""


def _bucket(order: Order) -> Server:
    rate, burst = order.numbers
    return BucketServer(order.vary(rate), burst)


def _window(order: Order) -> Server:
    count, period = order.numbers
    begin = None if "first-hit" in order.flags else -order.chance.random() * period
    return WindowServer(order.vary(count), period, begin)


def _log(order: Order) -> Server:
    count, period = order.numbers
    return LogServer(order.vary(count), period, counts_refusals="counted" in order.flags)


def _counter(order: Order) -> Server:
    count, period = order.numbers
    return CounterServer(order.vary(count), period)


def _cap(order: Order) -> Server:
    places, service = order.numbers
    return CapServer(order.vary(places), service)


def _queue(order: Order) -> Server:
    workers, service = order.numbers
    chance = order.chance if "random" in order.flags else None
    return QueueServer(int(workers), service, order.vary(1.0), chance)


def _ban(order: Order) -> Server:
    rate, burst, seconds = order.numbers
    named = {way.value: way for way in WhileBanned}
    way = next((named[flag] for flag in sorted(order.flags)), WhileBanned.IGNORED)
    return BanServer(BucketServer(order.vary(rate), burst), seconds, way)


def _connotea(order: Order) -> Server:
    if "visitor" in order.flags:
        return LogServer(order.vary(STACK), STACK_SECONDS, counts_refusals=True)
    return LastHitServer(order.vary(1.0 / (AGENT_GAP if "agent" in order.flags else GAP)))


def _endpoint(order: Order) -> Server:
    host, search = order.numbers
    own = BucketServer(constant(search), max(1.0, 2.0 * search))
    return EndpointServer(BucketServer(order.vary(host), max(1.0, 2.0 * host)), {SEARCH: own})


def _free(order: Order) -> Server:
    return FreeServer(order.numbers[0])


MODELS: tuple[Model, ...] = (
    Model("bucket", (RATE, BURST), "token bucket: pages a second, burst", _bucket),
    Model(
        "window",
        (COUNT, SECONDS),
        "so many pages in each period of so many seconds",
        _window,
        {"first-hit": "a period begins with the first hit after the one before"},
    ),
    Model(
        "log",
        (COUNT, SECONDS),
        "so many pages in the last seconds, at any time",
        _log,
        {"counted": "refused hits count too"},
    ),
    Model("counter", (COUNT, SECONDS), "HAProxy's two-period counter; every hit counts", _counter),
    Model("cap", (PLACES, SERVICE), "so many at once, each taking so many seconds", _cap),
    Model(
        "queue",
        (WORKERS, SERVICE),
        "so many at once, the others wait; seconds of service",
        _queue,
        {"random": "service is exponentially distributed"},
        refuses=False,
    ),
    Model(
        "ban",
        (RATE, BURST, SECONDS),
        "token bucket; going over it bans for so many seconds",
        _ban,
        {
            "restarted": "every hit restarts the ban",
            "doubling": "every hit restarts the ban, twice as long",
        },
    ),
    Model(
        "connotea",
        (),
        "2 s since the last hit of any crawler, refused or not",
        _connotea,
        {
            "agent": "30 s since the last hit of this one",
            "visitor": "who seems no crawler: ten hits in 15 s, refused or not",
        },
    ),
    Model(
        "endpoint",
        (RATE, Number("SEARCH")),
        "pages a second of the host, and of the search pages, a fifth of all; bursts of 2 s",
        _endpoint,
        shares=WITH_SEARCH,
    ),
    Model(
        "free",
        (SERVICE,),
        "no limit; seconds of service",
        _free,
        refuses=False,
        has_limit=False,
    ),
)
