"""Draws a simulated crawl: what was accepted beside what was allowed, and every refusal.

Laws
----
* matplotlib is imported only to draw, and no global state of it is touched.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from .crawl import Timeline
from .servers.base import Server

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MISSING = "drawing needs matplotlib: pip install scrapy-adaptive[plot]"
SUFFIXES = (".png", ".svg", ".pdf")

MOST_BINS = 240
BIN_PAGES = 20
"""Least pages of one bin at the limit: fewer would draw the rounding, not the rate."""

BIN_SECONDS = (1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1200.0, 1800.0, 3600.0)
UNITS = ((4 * 3600.0, 3600.0, "hours"), (180.0, 60.0, "minutes"), (0.0, 1.0, "seconds"))
"""Least length of a crawl drawn in that unit, seconds of the unit, its name."""

ACCEPTED, LIMIT, REFUSED, BANNED = "#2a78b8", "#1d1d1f", "#d1352b", "#7d1128"
GREY, LIGHT = "#5d5d63", "#d8d8dc"

STRIP = 0.07
"""Height of the strip under zero that holds a tick for each refused hit, as a share."""

CURVE_POINTS = 1200
"""Instants at which the limit is looked up, so that a step looks like one."""

MOST_LETTERS = 80
"""Of a title in full size; a longer one is set smaller."""


def check_matplotlib() -> None:
    """Nothing, where matplotlib is installed.

    Raises:
        ValueError: it is not.
    """
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise ValueError(MISSING) from None


def draw(
    timeline: Timeline, server: Server, until: float, path: Path, *, title: str, note: str = ""
) -> None:
    """Draw a crawl that ended at that instant into a file; the suffix says its format.

    Raises:
        ValueError: matplotlib is not installed.
        OSError: the file cannot be written.
    """
    figure_of(timeline, server, until, title=title, note=note).savefig(path)


def figure_of(
    timeline: Timeline, server: Server, until: float, *, title: str, note: str = ""
) -> Figure:
    """The drawing of a crawl that ended at that instant; a note stands below it.

    Raises:
        ValueError: matplotlib is not installed.
    """
    check_matplotlib()
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10.0, 4.6), dpi=150, layout="constrained")
    axes = figure.add_subplot()
    length, unit = next((length, name) for least, length, name in UNITS if until >= least)
    instants = [until * point / CURVE_POINTS for point in range(CURVE_POINTS + 1)]
    limits = [server.capacity(instant) for instant in instants]
    width = _bin_seconds(limits, until)
    found = rates(timeline.accepted, width, until)

    _draw_rates(axes, found, width, until, length)
    _draw_limit(axes, [instant / length for instant in instants], limits)
    _draw_refusals(axes, timeline, length)
    top = _top(limits, found)
    axes.set_xlim(0.0, until / length)
    axes.set_ylim(-STRIP * top, top)
    axes.set_xlabel(unit, loc="left", color=GREY)
    axes.set_ylabel("pages a second", color=GREY)
    _furnish(axes, title, note)
    return figure


def _draw_rates(axes: Axes, rates: list[float], width: float, until: float, length: float) -> None:
    edges = [min(index * width, until) / length for index in range(len(rates) + 1)]
    axes.stairs(rates, edges, fill=True, color=ACCEPTED, alpha=0.18, zorder=1)
    axes.stairs(rates, edges, baseline=None, color=ACCEPTED, linewidth=1.4, zorder=3)
    axes.plot([], [], color=ACCEPTED, linewidth=1.4, label=f"accepted, mean of {width:g} s")


def _draw_limit(axes: Axes, instants: list[float], limits: list[float]) -> None:
    """A line, with a gap where there is no limit."""
    finite = [limit if limit < math.inf else math.nan for limit in limits]
    if min(limits) < math.inf:
        axes.plot(instants, finite, color=LIMIT, lw=1.2, dashes=(5, 3), label="limit", zorder=4)


def _draw_refusals(axes: Axes, timeline: Timeline, length: float) -> None:
    """A tick in the strip under zero for each refused hit."""
    axes.axhline(0.0, color=LIMIT, linewidth=0.8, zorder=5)
    banned = set(timeline.banned)
    refused = [instant for instant in timeline.refused if instant not in banned]
    for instants, color, name in (
        (refused, REFUSED, "refused"),
        (timeline.banned, BANNED, "refused during a ban"),
    ):
        if not instants:
            continue
        # Many ticks side by side must not look like a wall.
        alpha = max(0.15, min(0.9, 150.0 / len(instants)))
        scaled = [instant / length for instant in instants]
        frame = axes.get_xaxis_transform()
        low, high = 0.005, 0.8 * STRIP
        axes.vlines(scaled, low, high, color=color, alpha=alpha, lw=1.1, transform=frame)
        axes.plot([], [], color=color, label=f"{name}: {len(instants):,}")


def _furnish(axes: Axes, title: str, note: str) -> None:
    size = 13.0 * min(1.0, MOST_LETTERS / max(1, len(title)))
    axes.set_title(title, loc="left", fontsize=size, fontweight="bold", pad=26)
    axes.legend(loc="lower left", bbox_to_anchor=(-0.008, 1.0), ncols=4, frameon=False, fontsize=9)
    axes.text(1.0, -0.085, note, transform=axes.transAxes, ha="right", va="top", color=GREY)
    axes.grid(axis="y", color=LIGHT, linewidth=0.7)
    axes.set_axisbelow(True)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0, labelsize=9, labelcolor=GREY)
    axes.locator_params(axis="x", nbins=12, steps=[1, 2, 5, 10])
    axes.locator_params(axis="y", nbins=6, steps=[1, 2, 5, 10])


def _bin_seconds(limits: list[float], until: float) -> float:
    """A round width: at most `MOST_BINS` bins, of `BIN_PAGES` or more at the usual limit."""
    finite = sorted(limit for limit in limits if 0.0 < limit < math.inf)
    typical = finite[len(finite) // 2] if finite else math.inf
    least = max(until / MOST_BINS, min(BIN_PAGES / typical, until / 10.0))
    return next((width for width in BIN_SECONDS if width >= least), BIN_SECONDS[-1])


def rates(instants: list[float], width: float, until: float) -> list[float]:
    """How many a second, in steps of that width; the last may be shorter."""
    starts = (index * width for index in range(math.ceil(until / width)))
    edges = [*(start for start in starts if start < until), until]
    return [
        (bisect_left(instants, end) - bisect_left(instants, begin)) / (end - begin)
        for begin, end in pairwise(edges)
    ]


def _top(limits: list[float], rates: list[float]) -> float:
    """Room for the limit and the rates; a short burst that would squash the rest is cut off."""
    peak, usual = max(rates, default=0.0), sorted(rates)[int(0.98 * (len(rates) - 1))]
    least = max([usual, *(limit for limit in limits if limit < math.inf)])
    return 1.12 * (peak if least < peak <= 2.0 * least else least) or 1.0
