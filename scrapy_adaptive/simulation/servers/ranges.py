"""What is allowed of the numbers of a model, in a spec and where a model is made."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real
from typing import Any

LEAST = 1e-6
"""Least of any number of a model."""

MOST = 1e6
"""Most of any: a million workers, or ten days and more, are enough."""


def is_finite(value: Any) -> bool:
    """Whether this is a number from 0 up, and not infinite."""
    is_number = isinstance(value, Real)
    return is_number and 0.0 <= value < math.inf


@dataclass(frozen=True, slots=True)
class Number:
    """One number of a model, as a spec names it."""

    name: str
    least: float = LEAST
    """Least that is allowed."""
    most: float = MOST
    """Most that is."""
    is_whole: bool = False

    @property
    def allowed(self) -> str:
        """What is allowed, in words."""
        kind = "a whole number" if self.is_whole else "a number"
        return f"{kind} from {self.least:g} to {self.most:g}"

    def fits(self, number: Any) -> bool:
        """Whether it is allowed; NaN is not."""
        is_number = isinstance(number, Real)
        is_within = is_number and self.least <= number <= self.most
        return is_within and (not self.is_whole or number % 1 == 0)

    def check(self, **given: Any) -> None:
        """Nothing, where each of these is allowed.

        Raises:
            ValueError: one is not.
        """
        for name, number in given.items():
            if not self.fits(number):
                raise ValueError(f"{name} = {number!r}: allowed is {self.allowed}")


RATE = Number("RATE")
BURST = Number("BURST", least=1.0)
COUNT = Number("COUNT", least=1.0, is_whole=True)
PLACES = Number("PLACES", least=1.0, is_whole=True)
WORKERS = Number("WORKERS", least=1.0, is_whole=True)
SECONDS = Number("SECONDS")
SERVICE = Number("SERVICE")
FACTOR = Number("FACTOR")
EVERY = Number("EVERY", least=2.0, is_whole=True)

SHARE = Number("SHARE", least=0.0, most=1.0)
FROM_ZERO = Number("NUMBER", least=0.0)
LIMIT = Number("LIMIT", least=0.0, most=math.inf)
"""A rate at some instant; none at all where it is infinite."""
