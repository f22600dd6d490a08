"""What a scenario is: sites, a spider with its settings, and what the two crawls must come to.

Laws
----
* Each arm has sites of its own, with the same answers: nothing depends on chance or on the clock,
  except where a site's limit does.
* Hosts are loopback addresses: a host is a slot of Scrapy's.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scrapy import Spider

from benchmarks.beside.spiders import PagesSpider
from docsite.hits import Hit
from tests.servers.origin import Handler, Origin


@dataclass
class Arena:
    """The sites of one arm, ended with it, and a folder for its files."""

    folder: Path
    stack: ExitStack
    origins: list[Origin] = field(default_factory=list)

    def site(self, handler: Handler, hosts: int = 1, block: int = 1) -> list[str]:
        """A site of so many hosts, 127.1.`block`.n; returns the URL of each, without a slash."""
        addresses = [f"127.1.{block}.{n}" for n in range(1, hosts + 1)]
        origin = self.stack.enter_context(Origin(handler, addresses=addresses))
        self.origins.append(origin)
        return [origin.url_at(address) for address in addresses]

    def dead(self, hosts: int, block: int = 9) -> list[str]:
        """Hosts that refuse every connection: the port is bound and nobody listens."""
        urls = []
        for n in range(1, hosts + 1):
            bound = self.stack.enter_context(socket.socket())
            bound.bind((f"127.1.{block}.{n}", 0))
            urls.append("http://{}:{}".format(*bound.getsockname()))
        return urls

    def hits(self) -> list[Hit]:
        """What all sites have seen so far."""
        return [hit for origin in self.origins for hit in origin.hits()]


@dataclass(frozen=True, slots=True)
class Job:
    """What Scrapy is asked to crawl."""

    urls: list[Any] = field(default_factory=list)
    """Plain URLs, or dicts of the arguments of a `Request`."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    spider: type[Spider] = PagesSpider
    arguments: Mapping[str, Any] = field(default_factory=dict)
    warm: list[Any] = field(default_factory=list)
    """What stock Scrapy crawls first, with the same settings; those hits are not counted."""
    jobdir: bool = False


@dataclass(frozen=True, slots=True)
class Scenario:
    """One comparison.

    Args:
        about: what a reader should know it by, in a few words.
        build: makes the sites of an arm, and says what to crawl.
        timed: the time ends with the last item whose URL has this in it; else with the crawl.
        share: of those items, the share with which it ends.
        refuses: whether a site refuses anything: then hits are not compared, nor the time unless
            `timed` says of what, or `most` how long.
        most: seconds that the add-on may take in place of 1.2 × stock's + 6.
        closes_early: the crawl is asked to close with work left, at another instant in each arm:
            items are compared with the pages of their own arm.
    """

    name: str
    about: str
    build: Callable[[Arena], Job]
    timed: str = ""
    share: float = 1.0
    refuses: bool = False
    most: float | None = None
    closes_early: bool = False


SCENARIOS: dict[str, Scenario] = {}


def scenario(about: str, **options: Any) -> Callable[[Callable[[Arena], Job]], Scenario]:
    """Enter a function that builds a job among the scenarios, under its name."""

    def enter(build: Callable[[Arena], Job]) -> Scenario:
        name = build.__name__.replace("_", "-")
        SCENARIOS[name] = Scenario(name, about, build, **options)
        return SCENARIOS[name]

    return enter


def numbered(hosts: list[str], pages: int, path: str = "/page/{}") -> list[Any]:
    """So many pages of each host, the hosts taking turns."""
    return [host + path.format(n) for n in range(pages) for host in hosts]
