"""Windows of time: limits that people write as so many requests a minute."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from .bracket import MARGIN

if TYPE_CHECKING:
    from .epoch import Epoch

UNITS = (1.0, 10.0, 60.0, 300.0, 600.0, 900.0, 3600.0, 86_400.0)
"""Seconds in which people write limits."""


def unit_above(seconds: float) -> float:
    """The shortest human unit of time that is longer, in seconds; infinity beyond a day.

    >>> unit_above(8.4), unit_above(10.0)
    (10.0, 60.0)
    """
    return next((unit for unit in UNITS if unit > seconds), math.inf)


def explained(epoch: Epoch, unit: float) -> tuple[float, float]:
    """The unit of a window that explains a long pause, in seconds, and its rate, 1/s.

    The rate is a hundredth less than what was served, and a page less at least: the test request
    that ended the pause is of the next window.

    Args:
        unit: the one that explained an earlier pause; several of it may have passed. 0 for none.

    Returns:
        (0, 0) where no window explains it.
    """
    is_known = epoch.recovery.tries or (unit and not epoch.recovery.announced)
    if epoch.is_short or not is_known:
        return 0.0, 0.0
    unit = unit or unit_above(epoch.span)
    windows = max(1, math.ceil(epoch.span / unit))
    served = epoch.since - max(1.0, MARGIN * epoch.since)
    return unit, served / (windows * unit)
