"""The kinds of sites that are crawled, and what an ideal crawler would be served by each.

Laws
----
* nginx serves files, by its own limiters; aiohttp serves by the rules of `limiters`, each
  answer, refusals too, `SERVICE` seconds after its request.
* One site serves one crawl.
* Capacity is limit × time: a burst that a limiter grants on top can take goodput above 100 %.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.crawls.limiters import (
    Ban,
    Limiter,
    Step,
    TwoPeriodCounter,
    Unlimited,
    Window,
)

SERVICE = 0.05
"""Seconds until an answer of aiohttp leaves."""

FILES = 100
"""Files of nginx; a page's number is in its query, so that there is no end of pages."""

STEP_RATIO = 0.3
"""What is left of the rate in the second third of the run against `step`."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of site."""

    name: str
    limit: float
    """Pages it serves a second, at the start of the run; 0 where that has to be measured."""
    rule: Callable[[float], Limiter] | None = None
    """The rule of an aiohttp site in a run of so many seconds; None for nginx."""
    workers: int = 0
    """Requests served at a time, where the others queue; 0 for all at once."""
    service: float = SERVICE

    @property
    def is_measured(self) -> bool:
        """Whether its capacity is what a client gets that keeps its places busy."""
        return not self.limit

    def limit_at(self, elapsed: float, seconds: float) -> float:
        """Pages a second, `elapsed` seconds into a run of `seconds`."""
        in_step = self.name == "step" and 1 / 3 <= elapsed / seconds < 2 / 3
        return self.limit * (STEP_RATIO if in_step else 1.0)

    def capacity(self, seconds: float) -> float:
        """Pages an ideal crawler is served in `seconds`."""
        return self.limit * seconds * ((2.0 + STEP_RATIO) / 3.0 if self.name == "step" else 1.0)


IN_FLIGHT = 4
"""Requests `limit_conn` lets be in flight."""

KINDS = (
    Kind("limit_req-429", 50.0),
    Kind("limit_req-503", 50.0),
    Kind("limit_req-delay", 50.0),
    Kind("limit_conn", 0.0),
    Kind("limit_conn-slow", 0.0),
    Kind("counter", 30.0, lambda _: TwoPeriodCounter(300, 10.0)),
    Kind("window", 30.0, lambda _: Window(300, 10.0)),
    Kind("window-headers", 30.0, lambda _: Window(300, 10.0, headers=True)),
    Kind("queue", 40.0, lambda _: Unlimited(), workers=4, service=0.1),
    Kind("ban", 20.0, lambda _: Ban(20.0, 20.0, 10.0)),
    Kind("step", 50.0, lambda seconds: Step(50.0, 20.0, ratio=STEP_RATIO, seconds=seconds)),
)

UPSTREAMS = {
    "limit_conn": Kind("upstream", 0.0, lambda _: Unlimited()),
    "limit_conn-slow": Kind("upstream-slow", 0.0, lambda _: Unlimited(), service=0.2),
}
"""What nginx stands before, where it limits what is in flight. A crawler needs some milliseconds
between two requests, more while others run beside it: that counts less where pages are slow."""
