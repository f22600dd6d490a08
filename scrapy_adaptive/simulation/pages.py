"""The pages of a simulated site."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from itertools import count

from .servers.base import Page


def pages(shares: Mapping[str, float], chance: random.Random) -> Iterator[Page]:
    """Pages without end, numbered from 1, whose kinds are drawn by their shares."""
    kinds, weights = list(shares), list(shares.values())
    for number in count(1):
        yield Page(number, chance.choices(kinds, weights)[0])
