"""When a page is visited again.

Laws
----
* A page that has changed is visited again in half the time, one that has not in half as much again,
  between a least and a most.
* A page that is gone (404, 410) is let go.
* A visit that failed leaves the page's period as it was.

**Source**: the adaptive fetch schedule of Nutch.
**Departs**: what has changed is what the page gave, not its bytes; no period is shifted to where a
change is guessed to have been (NUTCH-1564).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

SLOWER = 1.5
"""Times the period of a page that has not changed."""

FASTER = 0.5
"""Times the period of a page that has changed."""

GONE = (404, 410)

UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}

MOST = 10 * 365 * UNITS["d"]
"""Seconds of the longest period that is allowed."""


@dataclass(frozen=True, slots=True)
class Revisits:
    """The periods of pages, in seconds."""

    first: float
    least: float
    most: float

    def next_period(self, period: float | None, *, changed: bool) -> float:
        """Seconds until the page is visited again.

        >>> Revisits(first=100, least=60, most=200).next_period(100, changed=False)
        150.0
        >>> Revisits(first=100, least=60, most=200).next_period(100, changed=True)
        60
        >>> Revisits(first=100, least=60, most=200).next_period(None, changed=True)
        100
        """
        if period is None:
            return self.first
        return min(self.most, max(self.least, period * (FASTER if changed else SLOWER)))


def duration(value: Any) -> float:
    """Seconds, from a number or from a text such as "90s", "15m", "1h", "30d", "2w".

    Raises:
        ValueError: it is none.

    >>> duration("1h"), duration(90)
    (3600.0, 90.0)
    """
    seconds = -1.0
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        seconds = float(value)
    elif isinstance(value, str):
        found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smhdw])", value.strip())
        if found:
            seconds = float(found[1]) * UNITS[found[2]]
    if not 0 < seconds <= MOST:
        raise ValueError(f'{value!r} is no time such as 3600, "90s", "15m", "1h", "30d" or "2w"')
    return seconds


def read_revisits(value: Any) -> Revisits:
    """The periods of a table with "first", "min" and "max".

    Raises:
        ValueError: it is none.
    """
    if not isinstance(value, dict) or set(value) != {"first", "min", "max"}:
        raise ValueError(f"{value!r} is no table with first, min and max")
    found = Revisits(duration(value["first"]), duration(value["min"]), duration(value["max"]))
    if not found.least <= found.first <= found.most:
        raise ValueError("first is not between min and max")
    return found
