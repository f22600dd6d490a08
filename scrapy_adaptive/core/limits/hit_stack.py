"""The hits of a window that are answered, by the instant of their answer.

Laws
----
* A hit counts until its window has passed since its answer, never shorter; at most by a cell longer
  where there are many.
* Up to `EXACT` hits are kept by their instants; more are counted in `CELLS` cells of the window, so
  that twenty thousand a week cost no more than thirty in ten seconds.
* Whoever shortens or lengthens the window, or changes the number, forgets none that still counts.

**Source**: the hit stack of Connotea's load control.
"""

from __future__ import annotations

import math
from array import array

EXACT = 32
"""Hits kept one by one."""

CELLS = 64
"""Cells of a window."""

FULL = 4_294_967_295
"""Most hits of a cell; no more are counted."""

DRIFT = 1e-4
"""Share of a window by which the site's clock may be slower than ours."""

TICK = 0.002
"""Seconds by which the clocks of sites are grained."""


def aged(window: float) -> float:
    """Seconds after which a hit counts no more."""
    return window * (1.0 + DRIFT) + TICK


class HitStack:
    """Answered hits."""

    __slots__ = ("_cells", "_first", "_times", "_width")

    def __init__(self) -> None:
        self._times: array[float] | None = array("d")
        self._cells: array[int] = array("I")
        self._first = 0
        """Number of the first cell, counted from the beginning of time."""
        self._width = 0.0

    def add(self, most: int, window: float, now: float, count: int = 1) -> None:
        """So many hits were answered now."""
        if self._times is not None:
            self._forget_times(now - aged(window))
            if most <= EXACT and len(self._times) + count <= EXACT:
                self._times.extend([now] * count)
                return
        elif most <= EXACT and not self.count(window, now):
            self._times, self._cells, self._width = array("d", [now] * count), array("I"), 0.0
            return
        self._to_cells(window, now)
        number = math.floor(now / self._width)
        self._forget_cells(window, now)
        if not self._cells:
            self._first = number
        missing = number - self._first - len(self._cells) + 1
        if missing > 0:
            self._cells.extend([0] * missing)
        cell = max(0, number - self._first)
        self._cells[cell] = min(FULL, self._cells[cell] + count)

    def count(self, window: float, now: float) -> int:
        """Hits that still count."""
        if self._times is not None:
            since = now - aged(window)
            return sum(each > since for each in self._times)
        begin = self._first_that_counts(window, now)
        return sum(self._cells[begin:])

    def room_at(self, room: int, window: float, now: float) -> float:
        """The instant from which fewer than `room` hits count; long ago where it is now."""
        if self._times is not None:
            excess = len(self._times) - room
            return self._times[excess] + aged(window) if excess >= 0 else -math.inf
        excess = sum(self._cells) - room
        if excess < 0:
            return -math.inf
        for number, count in enumerate(self._cells, self._first):
            excess -= count
            if excess < 0:
                return (number + 1) * self._width + aged(window)
        return -math.inf

    def times(self) -> list[tuple[float, int]]:
        """Instants, none too early, and the hits answered by then."""
        if self._times is not None:
            return [(each, 1) for each in self._times]
        return [
            ((number + 1) * self._width, count)
            for number, count in enumerate(self._cells, self._first)
            if count
        ]

    def _forget_times(self, since: float) -> None:
        times = self._times
        assert times is not None
        old = 0
        for each in times:
            if each > since:
                break
            old += 1
        if old:
            del times[:old]

    def _first_that_counts(self, window: float, now: float) -> int:
        if not self._width:
            return 0
        since = now - aged(window)
        return min(len(self._cells), max(0, math.floor(since / self._width) - self._first))

    def _forget_cells(self, window: float, now: float) -> None:
        begin = self._first_that_counts(window, now)
        if begin:
            del self._cells[:begin]
            self._first += begin

    def _to_cells(self, window: float, now: float) -> None:
        """Count in cells of this window; what is known goes into the cell that ends no earlier."""
        width = window / CELLS
        if self._times is None and width == self._width:
            return
        since = now - aged(window)
        ends = [(end, count) for end, count in self.times() if end > since]
        self._times, self._width, self._cells = None, width, array("I")
        if not ends:
            return
        self._first = math.floor(ends[0][0] / width)
        last = math.floor(ends[-1][0] / width)
        self._cells = array("I", [0] * (last - self._first + 1))
        for end, count in ends:
            cell = math.floor(end / width) - self._first
            self._cells[cell] = min(FULL, self._cells[cell] + count)
