"""How long a message takes over the network, one way.

Unless another mean is asked for, all three take 25 ms on average, so that a round trip takes 50 ms.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable

from .servers.ranges import FROM_ZERO, SECONDS

MEAN = 0.025
"""Mean seconds of one way."""

SIGMA = 0.35
"""Standard deviation of the logarithm of a jittered delay."""

ALPHA = 1.5
"""Exponent of the tail of a heavy-tailed delay: its variance is infinite."""

LEAST_SHARE = 0.4
"""Least seconds of a heavy-tailed delay, as a share of the mean: 10 ms of 25."""

NETWORKS = ("constant", "jittered", "heavy-tailed")


def network(name: str, chance: random.Random, mean: float = MEAN) -> Callable[[], float]:
    """The seconds of one way, drawn anew at each call; so many on average.

    Raises:
        ValueError: there is no such network, or the mean is not allowed.
    """
    if name not in NETWORKS:
        raise ValueError(f"there is no network {name!r}: allowed is {', '.join(NETWORKS)}")
    (FROM_ZERO if name == "constant" else SECONDS).check(mean=mean)

    def constant() -> float:
        return mean

    def jittered() -> float:
        return chance.lognormvariate(math.log(mean) - SIGMA**2 / 2, SIGMA)

    def heavy_tailed() -> float:
        least = LEAST_SHARE * mean
        return least + (mean - least) * (ALPHA - 1) / ALPHA * chance.paretovariate(ALPHA)

    return {"constant": constant, "jittered": jittered, "heavy-tailed": heavy_tailed}[name]
