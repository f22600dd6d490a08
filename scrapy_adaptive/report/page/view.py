"""What the page shows, as plain data: the whole of it, or what has changed.

Laws
----
* Times are seconds since the crawl began; rates are pages a second; None is what is not known.
* It is small whatever the crawl was: curves have few points, and there are few of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from .words import COLUMNS, LEGEND, WORDS

Row: TypeAlias = "tuple[Any, ...]"
"""A site's cells, in the order of `COLUMNS`."""


@dataclass(frozen=True, slots=True)
class Tile:
    """A total, at the top of the page."""

    key: str
    name: str
    value: str
    note: str
    """In small letters below it."""
    title: str


@dataclass(frozen=True, slots=True)
class Curve:
    """Pages a second over time, in steps: each value holds from its instant to the next."""

    at: Sequence[float]
    served: Sequence[float | None]
    limit: Sequence[float | None]
    refusals: Sequence[tuple[float, int]]
    """When, and how many requests were refused then."""
    pauses: Sequence[tuple[float, float, str]]
    """From when to when, and who asked."""
    until: float
    """End of what is shown."""


@dataclass(frozen=True, slots=True)
class View:
    """What one page shows."""

    title: str
    about: str
    """What was crawled, and when."""
    headline: str
    tiles: Sequence[Tile]
    sites: Sequence[Row]
    choices: Sequence[str]
    """Sites with a curve; "" is the whole crawl."""
    curves: Mapping[str, Curve]
    events: Sequence[tuple[float, str, str]] = ()
    """When, which site ("" for all), and what in a sentence; the newest first."""
    live: bool = False
    legend: Mapping[str, tuple[str, str]] = field(default_factory=lambda: LEGEND)

    def to_json(self) -> dict[str, Any]:
        """All that the page's script reads."""
        return {
            **changed(self),
            "live": self.live,
            "columns": [column._asdict() for column in COLUMNS],
            "words": [{"name": name, "title": title} for name, title in WORDS],
            "legend": {
                key: {"name": name, "title": title} for key, (name, title) in self.legend.items()
            },
        }


def changed(view: View) -> dict[str, Any]:
    """What of a view may be different a moment later."""
    return {
        "about": view.about,
        "headline": view.headline,
        "tiles": [_fields(tile) for tile in view.tiles],
        "sites": [list(row) for row in view.sites],
        "choices": list(view.choices),
        "curves": [[site, _fields(curve)] for site, curve in view.curves.items()],
        "events": [list(event) for event in view.events],
    }


def _fields(record: Tile | Curve) -> dict[str, Any]:
    return {name: getattr(record, name) for name in record.__slots__}
