"""Draws a simulated crawl: as a picture, or on the page that shows real crawls.

Laws
----
* The file's suffix says which; what draws it is imported only then.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

from scrapy_adaptive.report import units
from scrapy_adaptive.report.page import page
from scrapy_adaptive.report.page.headline import pages_rate
from scrapy_adaptive.report.page.plot import check_bokeh
from scrapy_adaptive.report.page.view import Curve, Tile, View
from scrapy_adaptive.report.page.words import LEGEND

from . import plot

if TYPE_CHECKING:
    from .crawl import Timeline
    from .readings import Readings
    from .servers.base import Server

PAGE = ".html"
SUFFIXES = (*plot.SUFFIXES, PAGE)

MOST_STEPS = 2_000
"""Steps of the curve: the page shows more of them the less of the time it shows."""

LIMIT = ("limit of the model (dashed)", "What the server allows, as its model knows it")


def check_drawing(path: Path) -> None:
    """Nothing, where what draws such a file is installed.

    Raises:
        ValueError: it is not.
    """
    if path.suffix == PAGE:
        check_bokeh()
    else:
        plot.check_matplotlib()


def draw(
    timeline: Timeline,
    server: Server,
    readings: Readings,
    until: float,
    path: Path,
    *,
    title: str,
    note: str,
) -> None:
    """Draw a crawl that ended at that instant into a file.

    Raises:
        ValueError: what draws it is not installed.
        OSError: the file cannot be written.
    """
    limit, refused = in_words(readings)
    if path.suffix == PAGE:
        view = view_of(timeline, server, readings, until, title=title, note=note)
        path.write_text(page(view), encoding="utf-8")
    else:
        words = f"{limit}, {refused} refused; {note}"
        plot.draw(timeline, server, until, path, title=title, note=words)


def in_words(readings: Readings) -> tuple[str, str]:
    """How much of the limit was served, and how much refused."""
    whole = readings.whole
    share = whole.goodput_ratio
    limit = "no limit" if share is None else f"{share:.1%} of the limit"
    return limit, f"{whole.refused_ratio:.2%}"


def view_of(
    timeline: Timeline,
    server: Server,
    readings: Readings,
    until: float,
    *,
    title: str,
    note: str,
) -> View:
    """What the page shows of it: one site, whose limit is known."""
    whole, (limit, refused) = readings.whole, in_words(readings)
    mean = whole.accepted_count / until
    cells = (title, "done", _short(mean), _short(mean), None, None, None)
    counts = (whole.accepted_count, whole.refused_count, whole.refused_count - readings.lost_count)
    return View(
        title=f"simulated crawl of {title}",
        about=f"simulated · {units.duration(until)} long · {note}",
        headline=f"{title}: {pages_rate(mean)}, {limit}; {refused} refused",
        tiles=_tiles(readings, mean, limit, refused),
        sites=[(*cells, *counts, None, None)],
        choices=[""],
        curves={"": _curve(timeline, server, until)},
        legend={**{key: LEGEND[key] for key in ("served", "refused")}, "limit": LIMIT},
    )


def _tiles(readings: Readings, mean: float, limit: str, refused: str) -> list[Tile]:
    whole, reached = readings.whole, readings.reached_at
    lost, pause = readings.lost_count, units.duration(readings.longest_pause)
    begin = "never" if reached is None else units.duration(reached)
    served = f"{whole.accepted_count:,}"
    hits = f"{whole.refused_count:,}"
    return [
        Tile("pages", "pages", served, f"{pages_rate(mean)} on average", "Served pages"),
        Tile("limit", "of the limit", limit.removesuffix(" of the limit"), "", "Goodput"),
        Tile("refused", "refused", hits, f"{refused} of all hits", "Hits that were refused"),
        Tile("reached", "90 % of the limit", begin, "after the start", "How quick it was found"),
        Tile("pause", "longest pause", pause, "", "Longest time without a hit"),
        Tile("lost", "given up", f"{lost:,}", "", "Broken pages that were given up"),
    ]


def _curve(timeline: Timeline, server: Server, until: float) -> Curve:
    """Rates in steps; the limit in the middle of each."""
    width = max(until / MOST_STEPS, 1.0)
    served = plot.rates(timeline.accepted, width, until)
    at = [index * width for index in range(len(served))]
    limits = [server.capacity(min(until, begin + width / 2.0)) for begin in at]
    refused = plot.rates(timeline.refused, width, until)
    ticks = [
        (begin, rate * min(width, until - begin)) for begin, rate in zip(at, refused, strict=True)
    ]
    return Curve(
        at=[_short(each) for each in at],
        served=[_short(each) for each in served],
        limit=[None if math.isinf(each) else _short(each) for each in limits],
        refusals=[(_short(begin), round(count)) for begin, count in ticks if count],
        pauses=[],
        until=until,
    )


def _short(value: float) -> float:
    return float(f"{value:.6g}")
