"""Series of a site or of the whole crawl: points, what lies between two of them, and pauses.

Laws
----
* Instants are seconds since the crawl's start (the first of its runs); rates are 1/s, infinity
  where nothing bounds them.
* Counters only rise along a series. What lies between two points is their difference.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from .records import EventRecord

LATELY = 10.0
"""Seconds that "now" means for a rate."""

FULL = 10.0
"""Seconds within which a site that is crawled has its first record."""

AWAY = "away"
"""State between two runs of a job: nothing crawls."""


class Point(NamedTuple):
    """A site, or the whole crawl, at an instant."""

    at: float
    sent: int = 0
    served: int = 0
    refused: int = 0
    failed: int = 0
    latency: float = 0.0
    worst: float = 0.0
    in_flight: int = 0
    waiting: int = 0
    rate: float = math.inf
    """Allowed rate, 1/s."""
    by: str = ""
    """Key of the reason that holds it back."""
    state: str = ""


class Pause(NamedTuple):
    """A pause, of a site or of the whole crawl."""

    begin: EventRecord
    """What began it."""
    ended_at: float
    """Infinity where nothing tells of its end."""


class Step(NamedTuple):
    """What happened between two points."""

    begin: float
    end: float
    served_rate: float
    """Pages served, 1/s."""
    refused: int
    failed: int


def steps(points: Sequence[Point], least: float = 0.0) -> Iterator[Step]:
    """What happened between the points, those closer than `least` seconds taken together.

    >>> [step.served_rate for step in steps([Point(0.0), Point(2.0, served=8), Point(4.0)])]
    [4.0, 0.0]
    """
    before = points[0] if points else Point(0.0)
    for point in points[1:]:
        seconds = point.at - before.at
        if seconds <= 0.0 or (seconds < least and point is not points[-1]):
            continue
        served = max(0, point.served - before.served)
        refused, failed = point.refused - before.refused, point.failed - before.failed
        yield Step(before.at, point.at, served / seconds, max(0, refused), max(0, failed))
        before = point


def pauses_of(happened: Sequence[EventRecord], begins: Sequence[str], ends: str) -> list[Pause]:
    """The pauses that these events tell of.

    Args:
        begins: events that begin one; where one is open, all but the first are part of it.
        ends: the event that ends one.

    >>> told = [EventRecord(2.0, "pause"), EventRecord(9.0, "recovery")]
    >>> [(each.begin.at, each.ended_at) for each in pauses_of(told, ("pause",), "recovery")]
    [(2.0, 9.0)]
    """
    pauses: list[Pause] = []
    for event in happened:
        is_open = bool(pauses) and pauses[-1].ended_at == math.inf
        if event.event == begins[0] or (event.event in begins and not is_open):
            pauses.append(Pause(event, math.inf))
        elif event.event == ends and is_open:
            pauses[-1] = pauses[-1]._replace(ended_at=event.at)
    return pauses


def away(points: Sequence[Point], until: float) -> float:
    """Seconds before that instant in which no run of the job was there."""
    return sum(
        min(after.at, until) - point.at
        for point, after in pairwise(points)
        if point.state == AWAY and point.at < until
    )


def rate_at(points: Sequence[Point], at: float, began_at: float, seconds: float = LATELY) -> float:
    """Pages served a second in so many seconds before that instant; where the series began later
    than that, with nothing, or a job was resumed, since then.

    >>> rate_at([Point(3.0, served=4), Point(4.0, served=8)], 4.0, began_at=2.0)
    4.0
    """
    if at - seconds < began_at < at:
        points, seconds = [Point(began_at), *points], at - began_at
    last = before = None
    for point in reversed(points):
        if point.at > at:
            continue
        if point.state == AWAY and before is not None:
            seconds = at - before.at
            break
        last = last or point
        before = point
        if point.at <= at - seconds:
            break
    if last is None or before is None or last.at <= before.at:
        return 0.0
    return (last.served - before.served) / max(seconds, at - before.at)
