"""What bounds one slot: the user's own numbers, checked when they are made.

Laws
----
* Every number states its unit and its range, and is refused at construction.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class Limits:
    """Numbers of one slot that no answer of the site changes.

    Raises:
        ValueError: a number is out of its range.
    """

    start_delay: float = 1.0
    """Seconds between sends before anything is known, >= 0."""
    max_delay: float = 60.0
    """Most seconds the latency law may ask for, > 0."""
    target_concurrency: float = 1.0
    """AutoThrottle's N, > 0; infinity lets latency itself find how many may be in flight."""
    burst: float = 1.0
    """Most tokens saved up, >= 1."""
    backoff_ratio: float = 0.5
    """Fraction of the rate kept on congestion, in (0, 1)."""
    floor: float = 0.0
    """Least seconds between sends, >= 0: DOWNLOAD_DELAY or the slot's own delay."""
    jitter: float = -1.0
    """Share of the floor by which the user wants gaps to be scattered, to both sides, where nothing
    but the floor holds the pace; below 0 the user said nothing of it."""
    concurrency: int = 8
    """Most requests in flight, >= 1."""
    only_200_lowers: bool = True
    """Whether AutoThrottle's fourth rule holds to the letter, as for who asks for its law."""
    max_pause: float = 3600.0
    """Seconds: a pause that the site itself asks for is parked if it is longer, >= 0."""

    def __post_init__(self) -> None:
        for field in fields(self):
            may_be_infinite = field.name == "target_concurrency"
            value = getattr(self, field.name)
            if math.isnan(value) or (math.isinf(value) and not may_be_infinite):
                raise ValueError(f"{field.name} = {getattr(self, field.name)}: not a finite number")
        allowed = {
            "start_delay": self.start_delay >= 0,
            "max_delay": self.max_delay > 0,
            "target_concurrency": self.target_concurrency > 0,
            "burst": self.burst >= 1,
            "backoff_ratio": 0 < self.backoff_ratio < 1,
            "floor": self.floor >= 0,
            "concurrency": self.concurrency >= 1,
            "max_pause": self.max_pause >= 0,
        }
        for name, holds in allowed.items():
            if not holds:
                raise ValueError(f"{name} = {getattr(self, name)}: out of range")

    @property
    def is_auto(self) -> bool:
        """Whether latency itself finds how many may be in flight: our law, not AutoThrottle's."""
        return math.isinf(self.target_concurrency)

    @property
    def start_rate(self) -> float:
        """The first rate of a slot nobody knows, 1/s."""
        return 1.0 / self.start_delay if self.start_delay else math.inf
