"""What a simulated crawl achieved, beside an oracle that knows the server.

Laws
----
* Readings are made of the timeline and of the server's capacity alone.
* Shares are in [0, 1] but for goodput: a first burst is on top of the oracle's steady rate.
* While the server sets no limit there is nothing to compare with: that time is left out.
"""

from __future__ import annotations

import math
import statistics
from bisect import bisect_left
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

from .crawl import Timeline
from .servers.bans import BanServer
from .servers.base import Server
from .servers.ranges import is_finite
from .servers.rates import GRAIN, allowed

FIRST = 600.0
"""Seconds of the part of a crawl that counts as its first."""

NEAR = 0.9
"""Share of the limit at which it counts as reached."""

WINDOW = 5.0
"""Least seconds over which reaching the limit is judged."""

WINDOW_PAGES = 20
"""Least pages, at the limit, over which it is judged."""


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a crawl."""

    accepted_count: int
    refused_count: int
    failed_count: int
    goodput_ratio: float | None
    """Accepted pages as a share of the oracle's; None where there was no limit."""

    @property
    def refused_ratio(self) -> float:
        """Refused hits as a share of all."""
        hits = self.accepted_count + self.refused_count + self.failed_count
        return self.refused_count / hits if hits else 0.0


@dataclass(frozen=True, slots=True)
class Readings:
    """What a crawl achieved; seconds but for counts and shares."""

    whole: Part
    first: Part
    """Ten minutes, or all of a shorter crawl."""
    second_half: Part
    reached_at: float | None
    """After how many seconds 90 % of the limit was reached; None if it never was, or there is no
    limit."""
    longest_pause: float
    """Between two hits, or from the last one to the end."""
    median_latency: float | None
    ban_count: int
    banned_count: int
    """Hits during bans."""
    lost_count: int
    """Broken pages given up."""


def read(timeline: Timeline, server: Server, until: float) -> Readings:
    """The readings of a crawl that ended at that instant."""
    return Readings(
        whole=part(timeline, server, 0.0, until),
        first=part(timeline, server, 0.0, min(FIRST, until)),
        second_half=part(timeline, server, until / 2.0, until),
        reached_at=reached_at(timeline, server, until),
        longest_pause=longest_pause(timeline, until),
        median_latency=statistics.median(timeline.latencies) if timeline.latencies else None,
        ban_count=ban_count(server),
        banned_count=len(timeline.banned),
        lost_count=timeline.lost_count,
    )


def part(timeline: Timeline, server: Server, since: float, until: float) -> Part:
    """The readings of the part from `since` until before `until`."""
    return Part(
        accepted_count=_count(timeline.accepted, since, until),
        refused_count=_count(timeline.refused, since, until),
        failed_count=_count(timeline.failed, since, until),
        goodput_ratio=_goodput(timeline.accepted, server, since, until),
    )


def reached_at(timeline: Timeline, server: Server, until: float) -> float | None:
    """The first instant after which a window had `NEAR` of what was allowed in it.

    The window begins with an accepted hit, ends before `until`, and lasts `WINDOW` seconds or
    `WINDOW_PAGES` pages at the limit, whichever is longer.
    """
    for start in timeline.accepted:
        limit = capacity(server, start)
        if limit <= 0.0:
            continue
        end = start + max(WINDOW, WINDOW_PAGES / limit)
        wanted = NEAR * allowed(partial(capacity, server), start, end) if end <= until else math.inf
        if _count(timeline.accepted, start, end) >= wanted:
            return start
    return None


def longest_pause(timeline: Timeline, until: float) -> float:
    """The longest time without a hit, once there was one."""
    hits = sorted([*timeline.accepted, *timeline.refused, *timeline.failed])
    return max((later - hit for hit, later in pairwise([*hits, until])), default=0.0)


def ban_count(server: Server) -> int:
    """Bans that the server has begun, however much stands around it."""
    inner: object = server
    while not isinstance(inner, BanServer):
        if not hasattr(inner, "inner"):
            return 0
        inner = inner.inner
    return inner.ban_count


def capacity(server: Server, now: float) -> float:
    """What that server allows at an instant, 1/s.

    Raises:
        ValueError: it is no rate.
    """
    limit = server.capacity(now)
    if is_finite(limit) or limit == math.inf:
        return limit
    name = type(server).__name__
    raise ValueError(
        f"{name}.capacity has returned {limit!r}: allowed is pages a second, from 0 up to infinity"
    )


def _count(instants: list[float], since: float, until: float) -> int:
    return bisect_left(instants, until) - bisect_left(instants, since)


def _goodput(accepted: list[float], server: Server, since: float, until: float) -> float | None:
    """Accepted over allowed, summed over the pieces of time in which there was a limit."""
    pieces = math.ceil((until - since) / GRAIN)
    count, oracle = 0, 0.0
    for piece in range(pieces):
        begin = since + piece * GRAIN
        end = min(begin + GRAIN, until)
        limit = capacity(server, (begin + end) / 2.0)
        if limit < math.inf:
            count += _count(accepted, begin, end)
            oracle += limit * (end - begin)
    return count / oracle if oracle else None
