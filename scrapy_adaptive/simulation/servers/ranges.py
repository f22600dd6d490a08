"""What is allowed of the numbers of a model, in a spec and where a model is made."""

from __future__ import annotations

import math
from numbers import Real

LEAST = 1e-6
"""Least of any number of a model."""

MOST = 1e6
"""Most of any: a million workers, or ten days and more, are enough."""


def is_finite(value: object) -> bool:
    """Whether this is a number from 0 up, and not infinite."""
    return isinstance(value, Real) and 0.0 <= float(value) < math.inf
