"""Limits that change with time.

Laws
----
* A rate is a function of the instant, in seconds since the crawl began; nothing else moves it.
* Infinity means that there is no limit at that instant.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

from .ranges import FACTOR, LIMIT, SECONDS, SHARE

Rate: TypeAlias = Callable[[float], float]
"""What a site allows at an instant: pages a second, or pages of a period."""

Given: TypeAlias = Rate | float
"""A rate as it is given: a number is the same at all times."""

PERIOD = 3600.0
"""Seconds of one wave of a waving limit."""

GRAIN = 1.0
"""Longest seconds over which a rate counts as constant when it is summed up."""

ROUNDING = 1e-9
"""Share by which sums of floats may fall short: a page exactly on time is on time."""


def constant(rate: float) -> Rate:
    """The same at all times."""
    LIMIT.check(rate=rate)
    return lambda now: rate


def rate_of(given: Given) -> Rate:
    """The rate that is given.

    >>> rate_of(2.5)(60.0), rate_of(lambda now: now / 60.0)(60.0)
    (2.5, 1.0)

    Raises:
        ValueError: it is neither a number from 0 up nor a function.
    """
    return given if callable(given) else constant(given)


def stepped(rate: Given, factor: float, at: float) -> Rate:
    """That rate until an instant, `factor` times it from then on."""
    FACTOR.check(factor=factor)
    rate = rate_of(rate)
    return lambda now: rate(now) * (factor if now >= at else 1.0)


def waving(rate: Given, share: float, period: float = PERIOD) -> Rate:
    """That rate plus and minus a share of it, a sine with this period; it begins by rising."""
    SHARE.check(share=share)
    SECONDS.check(period=period)
    rate = rate_of(rate)
    return lambda now: rate(now) * (1.0 + share * math.sin(2.0 * math.pi * now / period))


def vanishing(rate: Given, start: float, end: float) -> Rate:
    """That rate, but no limit at all from `start` until `end`."""
    if not start < end:
        raise ValueError(f"start = {start}, end = {end}: allowed is a start before the end")
    rate = rate_of(rate)
    return lambda now: math.inf if start <= now < end else rate(now)


def allowed(rate: Rate, since: float, until: float) -> float:
    """Pages that a rate allows between two instants: its integral by the midpoint rule.

    >>> allowed(stepped(constant(10.0), 0.5, 60.0), 0.0, 120.0)
    900.0
    """
    if until <= since:
        return 0.0
    pieces = math.ceil((until - since) / GRAIN)
    width = (until - since) / pieces
    return math.fsum(rate(since + (piece + 0.5) * width) for piece in range(pieces)) * width


def whole(count: float) -> float:
    """A limit that counts pages: rounded down, at least one; infinity stays."""
    return count if count == math.inf else max(1.0, math.floor(count + ROUNDING))
