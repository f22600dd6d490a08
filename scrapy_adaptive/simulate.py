"""A crawl of a model of a site, in virtual time: hours in seconds.

Laws
----
* The very governor of real crawls paces it, as the settings of a crawl ask for.
* The same seed, the same crawl.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from scrapy.settings import Settings

from scrapy_adaptive.adapters.extension import make_governor
from scrapy_adaptive.adapters.settings import read_settings, unknown_names
from scrapy_adaptive.core.governor import Governor
from scrapy_adaptive.core.headers.parse import Hints
from scrapy_adaptive.core.limits.book import Book
from scrapy_adaptive.core.types import Outcome
from scrapy_adaptive.rules import describing
from scrapy_adaptive.simulation.crawl import HOST, Crawl, Timeline
from scrapy_adaptive.simulation.drawing import check_drawing, draw
from scrapy_adaptive.simulation.machine import BusyMachine
from scrapy_adaptive.simulation.network import NETWORKS, network
from scrapy_adaptive.simulation.pages import pages
from scrapy_adaptive.simulation.readings import Part, Readings, longest_pause, read
from scrapy_adaptive.simulation.servers.base import (
    ACCEPTED,
    REFUSED,
    Page,
    Reply,
    Server,
)
from scrapy_adaptive.simulation.servers.ranges import is_finite
from scrapy_adaptive.simulation.spec import Site, read_spec

__all__ = [
    "ACCEPTED",
    "REFUSED",
    "BusyMachine",
    "Crawl",
    "Governor",
    "Hints",
    "Outcome",
    "Page",
    "Part",
    "Readings",
    "Reply",
    "Server",
    "Simulated",
    "Site",
    "Timeline",
    "governor_of",
    "longest_pause",
    "network",
    "pages",
    "read",
    "read_spec",
    "simulate",
]

SCRAPYS = (
    "CONCURRENT_REQUESTS_PER_DOMAIN",
    "CONCURRENT_REQUESTS_PER_IP",
    "DOWNLOAD_DELAY",
)
"""Settings of Scrapy's own that matter in a simulation of one site."""

OURS = tuple(
    f"ADAPTIVE_{name}"
    for name in (
        "BACKOFF_RATIO",
        "BURST",
        "CEILING",
        "GLOBAL_COOLDOWN",
        "GLOBAL_RATE",
        "GLOBAL_TRIP_SLOTS",
        "MAX_DELAY",
        "MAX_METERS",
        "MAX_PAUSE",
        "MAX_SLOTS",
        "RULES",
        "START_DELAY",
        "TARGET_CONCURRENCY",
    )
)
"""Settings of this package that do; the others are about what surrounds a real crawl."""

ONE_KIND: Mapping[str, float] = {"page": 1.0}


@dataclass(frozen=True, slots=True)
class Simulated:
    """What came of a simulated crawl."""

    server: Server
    seconds: float
    """How long it lasted."""
    timeline: Timeline
    """The instants of all that was served and refused."""
    readings: Readings
    """The same in numbers, of the whole and of parts of it."""

    @property
    def goodput(self) -> float | None:
        """Pages served, as a share of what `capacity` allows; None where that is infinite."""
        return self.readings.whole.goodput_ratio

    @property
    def refused(self) -> float:
        """Share of the hits that were refused."""
        return self.readings.whole.refused_ratio

    @property
    def longest_pause(self) -> float:
        """Seconds of the longest time in which nothing was sent, once something was."""
        return self.readings.longest_pause

    def draw(self, path: Path | str, *, title: str = "site", note: str = "") -> None:
        """Draw it into a file: a picture, or a page that ends in .html.

        Raises:
            ValueError: what draws such a file is not installed.
        """
        file = Path(path)
        check_drawing(file)
        draw(self.timeline, self.server, self.readings, self.seconds, file, title=title, note=note)


def simulate(
    server: Server,
    seconds: float,
    settings: Mapping[str, object] | None = None,
    *,
    kinds: Mapping[str, float] | None = None,
    round_trip: str = NETWORKS[0],
    machine: BusyMachine | None = None,
    seed: int = 1,
) -> Simulated:
    """Crawl a model of a site, whose pages never end.

    Args:
        server: the site: `on_arrival(now, page)` returns what becomes of a request, `capacity(now)`
            the pages a second that who knows the site would be served.
        seconds: how long.
        settings: those of the crawl; `ADAPTIVE_…`, and those of Scrapy's that bound one site.
        kinds: how many of the site's pages are of which class, as shares; all alike without.
        round_trip: how the network behaves, one of `NETWORKS`: 50 ms there and back on average.
        machine: that of the crawler, if it is busy with other things too.
        seed: of all other chance.

    Raises:
        ValueError: a setting, a length, a network or a reply of the site that is not allowed.
    """
    _check(server, machine)
    if not (is_finite(seconds) and seconds > 0.0):
        raise ValueError(f"seconds = {seconds!r}: allowed is a number, more than 0")
    shares = ONE_KIND if kinds is None else kinds
    fetched = pages(shares, random.Random(f"{seed} pages"))
    governor = governor_of(settings or {}, random.Random(f"{seed} governor").random, shares)
    delay = network(round_trip, random.Random(f"{seed} network"))
    timeline = Crawl(governor, server, fetched, delay, machine).run(seconds)
    return Simulated(server, seconds, timeline, read(timeline, server, seconds))


def _check(server: object, machine: object) -> None:
    """Nothing, where this site can be crawled, on this machine.

    Raises:
        ValueError: it cannot.
    """
    if machine is not None and not callable(machine):
        raise ValueError(f"machine = {machine!r}: allowed is a BusyMachine")
    if isinstance(server, Site):
        raise ValueError(f"read_spec({server.spec!r}) has returned a Site: give its server")
    methods = (getattr(server, name, None) for name in ("on_arrival", "capacity"))
    if isinstance(server, type) or not all(map(callable, methods)):
        raise ValueError(
            f"server = {server!r}: allowed is an object with methods on_arrival and capacity"
        )


def governor_of(
    given: Mapping[str, object],
    chance: Callable[[], float],
    kinds: Iterable[str] = ONE_KIND,
) -> Governor:
    """The governor of a crawl with these settings, of pages of these classes.

    Raises:
        ValueError: a setting is not allowed, or changes nothing here.
    """
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        raise ValueError(f"settings = {given!r}: allowed are names, each with a value")
    settings = Settings()
    for name, value in given.items():
        settings.set(name, value, priority="cmdline")
    unknown_names(settings)
    for name in given:
        if name not in (*OURS, *SCRAPYS):
            allowed = ", ".join((*OURS, *SCRAPYS))
            raise ValueError(f"{name} changes nothing in a simulation; allowed is {allowed}")
    found = read_settings(settings)
    for rule in found.rules:
        if rule.identity is not None:
            raise ValueError(
                f"a rule with the identity {rule.identity} changes nothing in a simulation: "
                "its requests have none"
            )
        if not any(Book([rule]).match(HOST, kind, {}) for kind in kinds):
            raise ValueError(
                f"a rule for {describing.scope(rule)} changes nothing in a simulation: its host is "
                f"{HOST!r}, its pages are {', '.join(kinds)}"
            )
    return make_governor(found, chance)
