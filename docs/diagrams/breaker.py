"""The circuit breaker's diagram, drawn from its transition table.

Laws
----
* Every arrow is an entry of `TABLE`, and every entry that changes the phase is an arrow.
* What leaves the phase as it is, is not drawn.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from scrapy_adaptive.core.breaker.breaker import TABLE, Phase, Signal

PLACES = {Phase.CLOSED: (0.0, 0.0), Phase.OPEN: (7.0, 0.0), Phase.HALF_OPEN: (3.5, -4.2)}
NOTES = {
    Phase.CLOSED: "requests leave\nat the slot's pace",
    Phase.OPEN: "nothing leaves",
    Phase.HALF_OPEN: "one probe leaves",
}
WIDTH, HEIGHT = 2.7, 1.35
BEND = 0.16
"""Bow of an arrow, as a share of its length."""
LABEL_GAP = 0.22
"""Distance of a label's edge from its arrow."""


@dataclass(frozen=True)
class Palette:
    """Colours that can be read on one of the theme's two backgrounds."""

    text: str
    line: str
    edges: dict[Phase, str]
    fills: dict[Phase, str]


LIGHT = Palette(
    text="#1f2328",
    line="#57606a",
    edges={Phase.CLOSED: "#0b6e4f", Phase.OPEN: "#b42318", Phase.HALF_OPEN: "#b25e09"},
    fills={Phase.CLOSED: "#e3f4ec", Phase.OPEN: "#fde8e6", Phase.HALF_OPEN: "#fdf0db"},
)
DARK = Palette(
    text="#e6e9ee",
    line="#9aa4b0",
    edges={Phase.CLOSED: "#5fc9a2", Phase.OPEN: "#f28b82", Phase.HALF_OPEN: "#f0b35e"},
    fills={Phase.CLOSED: "#16332a", Phase.OPEN: "#3b1f1d", Phase.HALF_OPEN: "#3a2c16"},
)


def arrows() -> dict[tuple[Phase, Phase], list[Signal]]:
    """The signals that lead from one phase to another."""
    found: dict[tuple[Phase, Phase], list[Signal]] = {}
    for (phase, signal), after in TABLE.items():
        if after is not phase:
            found.setdefault((phase, after), []).append(signal)
    return found


def draw_phase(axes: Axes, phase: Phase, colours: Palette) -> FancyBboxPatch:
    """One box; returns it, so that arrows end at its border."""
    x, y = PLACES[phase]
    box = FancyBboxPatch(
        (x - WIDTH / 2, y - HEIGHT / 2),
        WIDTH,
        HEIGHT,
        boxstyle="round,pad=0,rounding_size=0.28",
        linewidth=1.6,
        edgecolor=colours.edges[phase],
        facecolor=colours.fills[phase],
    )
    axes.add_patch(box)
    note = NOTES[phase]
    rise = 0.17 + 0.1 * note.count("\n")
    name = phase.value.upper()
    axes.text(
        x, y + rise, name, ha="center", va="center", color=colours.text, size=11, weight="bold"
    )
    axes.text(x, y - 0.3, note, ha="center", va="center", color=colours.text, size=8.5)
    return box


def draw_arrow(
    axes: Axes,
    boxes: dict[Phase, FancyBboxPatch],
    way: tuple[Phase, Phase],
    signals: list[Signal],
    colours: Palette,
) -> None:
    """One arrow, bowed to the left of its way, and what causes it beside it."""
    (x0, y0), (x1, y1) = PLACES[way[0]], PLACES[way[1]]
    dx, dy = x1 - x0, y1 - y0
    axes.add_patch(
        FancyArrowPatch(
            (x0, y0),
            (x1, y1),
            connectionstyle=f"arc3,rad={-BEND}",
            patchA=boxes[way[0]],
            patchB=boxes[way[1]],
            shrinkA=3,
            shrinkB=3,
            arrowstyle="-|>,head_length=7,head_width=3.2",
            linewidth=1.6,
            color=colours.line,
        )
    )
    length = math.hypot(dx, dy)
    left = (-dy / length, dx / length)
    away = BEND * length / 2 + LABEL_GAP
    words = "\n".join(signal.value.replace(", ", ",\n") for signal in signals)
    flat = abs(left[0]) < 0.2
    axes.text(
        (x0 + x1) / 2 + left[0] * away,
        (y0 + y1) / 2 + left[1] * away,
        words,
        ha="center" if flat else ("left" if left[0] > 0 else "right"),
        va="center" if not flat else ("bottom" if left[1] > 0 else "top"),
        color=colours.text,
        size=9.5,
        style="italic",
        linespacing=1.25,
    )


def draw(colours: Palette) -> None:
    """The whole breaker."""
    figure, axes = plt.subplots(figsize=(7.2, 4.5))
    figure.patch.set_alpha(0)
    axes.set_aspect("equal")
    axes.axis("off")
    axes.set_xlim(-1.6, 9.0)
    axes.set_ylim(-5.05, 1.5)
    boxes = {phase: draw_phase(axes, phase, colours) for phase in Phase}
    for way, signals in arrows().items():
        draw_arrow(axes, boxes, way, signals, colours)
    figure.subplots_adjust(left=0, right=1, bottom=0, top=1)


def light() -> None:
    """For the theme's light pages."""
    draw(LIGHT)


def dark() -> None:
    """For the theme's dark pages."""
    draw(DARK)
