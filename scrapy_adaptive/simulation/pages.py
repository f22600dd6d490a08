"""The pages of a simulated site."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from itertools import count

from .servers.base import Page
from .servers.ranges import FROM_ZERO


def pages(shares: Mapping[str, float], chance: random.Random) -> Iterator[Page]:
    """Pages without end, numbered from 1, whose kinds are drawn by their shares.

    Raises:
        ValueError: a share is below 0, or there is none above it.
    """
    if not isinstance(shares, Mapping) or not any(shares.values()):
        raise ValueError(f"kinds = {shares!r}: allowed are classes of pages, each with its share")
    for kind, share in shares.items():
        FROM_ZERO.check(**{f"share of {kind}": share})
    return _drawn(shares, chance)


def _drawn(shares: Mapping[str, float], chance: random.Random) -> Iterator[Page]:
    kinds, weights = list(shares), list(shares.values())
    for number in count(1):
        yield Page(number, chance.choices(kinds, weights)[0])
