"""The curves of a crawl: rates, refusals and pauses over time, in few points.

Laws
----
* A step has at least `STEP_PAGES` pages at the usual rate, where the crawl is long enough: fewer
  would draw the rounding, not the rate.
* All curves of a page have `MOST_STEPS` steps together.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from scrapy_adaptive.report.series import FULL, Point, steps

from .view import Curve

if TYPE_CHECKING:
    from scrapy_adaptive.report.crawl import Crawl, Site
    from scrapy_adaptive.report.records import EventRecord

MOST_CURVES = 50
"""Sites with a curve of their own, the busiest ones."""

MOST_STEPS = 40_000
FEWEST, MOST = 240, 2_400
"""Steps of one curve."""

STEP_PAGES = 8

MOST_TICKS = 600
"""Instants at which a curve shows refusals."""

ASKED = {"site": "the site asked for it"}
"""Who asked for a pause, in words."""


def choices(crawl: Crawl) -> list[str]:
    """What there are curves of: the whole crawl (""), and its busiest sites if it has several."""
    return ["", *([] if len(crawl.sites) == 1 else list(crawl.sites)[:MOST_CURVES])]


def curves_of(crawl: Crawl, names: Sequence[str]) -> dict[str, Curve]:
    """The curves of these sites; the only site of a crawl is the whole of it."""
    most = max(FEWEST, min(MOST, MOST_STEPS // max(1, len(names))))
    only = next(iter(crawl.sites.values())) if len(crawl.sites) == 1 else None
    curves = {}
    for name in names:
        site = crawl.sites.get(name) if name else only
        if site is not None:
            curves[name] = site_curve(site, crawl, most)
        elif not name:
            curves[name] = crawl_curve(crawl, most)
    return curves


def site_curve(site: Site, crawl: Crawl, most: int = MOST) -> Curve:
    """The curve of one site, of so many steps at most."""
    now = crawl.seconds
    open_until = max(now, site.until)
    pauses = [
        (each.begin.at, min(open_until, site.ends_at(each, now)), asked(each.begin))
        for each in site.pauses
    ]
    return _curve(_from_nothing(site), crawl, pauses, most)


def crawl_curve(crawl: Crawl, most: int = MOST) -> Curve:
    """The curve of the whole crawl; its pauses are those of all sites at once."""
    pauses = [
        (each.begin.at, min(crawl.seconds, each.ended_at), asked(each.begin))
        for each in crawl.pauses
    ]
    return _curve(crawl.points, crawl, pauses, most)


def asked(event: EventRecord) -> str:
    """Who asked for this pause, and with what."""
    who = ASKED.get(event.who, "the crawl's own backoff")
    return f"{who}, after {f'a {event.status}' if event.status else 'failed downloads'}"


def _curve(
    points: Sequence[Point], crawl: Crawl, pauses: list[tuple[float, float, str]], most: int
) -> Curve:
    until = crawl.seconds
    seconds = until - points[0].at if points else 0.0
    least = _step_seconds(points, seconds, most)
    if points and points[-1].at < until - (0.0 if crawl.has_ended else 2.0 * FULL):  # it is done
        points = [*points, points[-1]._replace(at=until)]
    rates = {point.at: point.rate for point in points}
    found = list(steps(points, least))
    return Curve(
        at=[_short(step.begin) for step in found],
        served=[_short(step.served_rate) for step in found],
        limit=[_bounded(rates[step.end]) for step in found],
        refusals=_refusals(points, [begin for begin, _, _ in pauses], seconds / MOST_TICKS),
        pauses=[(_short(begin), _short(end), by) for begin, end, by in pauses[-MOST_TICKS:]],
        until=_short(until),
    )


def _step_seconds(points: Sequence[Point], seconds: float, most: int) -> float:
    """Least length of a step."""
    served = points[-1].served if points else 0
    took = points[-1].at - points[0].at if points else 0.0
    wanted = STEP_PAGES * took / served if served else 0.0
    return max(seconds / most, min(wanted, took / 20.0))


def _refusals(
    points: Sequence[Point], paused_at: Sequence[float], apart: float
) -> list[tuple[float, int]]:
    """When and how many, those that are closer than so many seconds together.

    A point says what came since the one before; a pause that began in between says when.
    """
    ticks: list[tuple[float, int]] = []
    for before, point in pairwise(points):
        count = point.refused - before.refused
        if count <= 0:
            continue
        next_pause = bisect_right(paused_at, before.at)
        at = min([point.at, *paused_at[next_pause : next_pause + 1]])
        if ticks and at - ticks[-1][0] < apart:
            ticks[-1] = (ticks[-1][0], ticks[-1][1] + count)
        else:
            ticks.append((_short(at), count))
    return ticks


def _from_nothing(site: Site) -> list[Point]:
    """Its points, from when nothing of the site was fetched."""
    return [Point(site.began_at), *site.points]


def _bounded(rate: float) -> float | None:
    return None if math.isinf(rate) else _short(rate)


def _short(value: float) -> float:
    """With as many figures as can be seen."""
    return float(f"{value:.5g}") if value < 1000 else round(value, 1)
