"""A cell of the table of sites in words, as the page's script writes it.

Laws
----
* What a crawl wrote is text for a terminal or a spreadsheet too: it moves no cursor, and is no
  formula.
"""

from __future__ import annotations

from typing import Any

from scrapy_adaptive.report import units

from .sites import clock
from .words import Column

SYMBOLS = {"crawling": "●", "paused": "‖", "testing": "◐", "parked": "■"}
"""States that are told without colour; any other has a ring."""

NOTHING = "–"


def words(column: Column, value: Any) -> str:
    """The value of that column as people read it."""
    if value is None:
        return NOTHING
    if column.kind == "rate":
        return units.rate(value)
    if column.kind == "count":
        return f"{value:,}"
    if column.kind == "seconds":
        return units.duration(value)
    if column.kind == "state":
        return f"{SYMBOLS.get(value, '○')} {units.printable(value)}"
    if column.kind == "pause":
        at, seconds, by = value
        length = "going on" if seconds is None else units.duration(seconds)
        return f"{length}, from {clock(at)}; {by}"
    return units.printable(str(value))


def no_formula(text: str) -> str:
    """The text as a spreadsheet takes it for text.

    >>> no_formula("=1+1"), no_formula("example.com")
    ("'=1+1", 'example.com')
    """
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text
