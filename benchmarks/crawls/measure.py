"""What a crawl came to, counted from its site's log.

Laws
----
* The site's log says what was served and refused; the crawl itself only which pages it gave up.
* Only hits that began within the run count; a page that was served twice counts once.
"""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

SPAN = 5.0
"""Seconds over which the first reaching of the limit is looked for."""
REACHED_RATIO = 0.9
"""Of the limit."""
BIN = 1.0
"""Seconds of a point of the series."""


class Hit(NamedTuple):
    """A request as the site saw it; instants in seconds of the wall clock."""

    start: float
    end: float
    status: int
    path: str
    banned: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one arm's crawl of one site."""

    arm: str
    goodput: float
    """Distinct pages served, as percent of what an ideal crawler gets."""
    refused: float
    """Percent of all hits."""
    hits: int
    served: int
    refusals: int
    banned: int
    """Hits while a ban ran."""
    lost: int
    """Pages the crawl gave up."""
    reached: float | None
    """Seconds until 90 % of the limit was first reached over 5 s."""
    latency: float | None
    """Median time in the site of a page that was served, s."""
    cpu: float = 0.0
    """Processor time of the crawl, s."""
    served_series: list[int] = field(default_factory=list)
    """Pages served in each second of the run, by the instant of their end."""
    refused_series: list[int] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """For the file of all numbers."""
        return asdict(self)

    @classmethod
    def from_dict(cls, kept: dict[str, Any]) -> Outcome:
        """As it was written to the file of all numbers."""
        return cls(**kept)


def measure(
    arm: str,
    hits: Iterable[Hit],
    report: dict[str, Any],
    *,
    began_at: float,
    seconds: float,
    capacity: float,
    limit: float,
) -> Outcome:
    """Count one crawl of `seconds` that began at `began_at`."""
    within = [hit for hit in hits if began_at <= hit.start and hit.end <= began_at + seconds]
    served = [hit for hit in within if hit.status == 200]
    refused = [hit for hit in within if hit.status in (429, 503)]
    pages = {hit.path: hit.end for hit in reversed(served)}
    return Outcome(
        arm=arm,
        goodput=100.0 * len(pages) / capacity,
        refused=100.0 * len(refused) / max(1, len(within)),
        hits=len(within),
        served=len(pages),
        refusals=len(refused),
        banned=sum(hit.banned for hit in refused),
        lost=report["lost"],
        reached=first_reached([hit.end - began_at for hit in served], limit),
        latency=statistics.median(hit.end - hit.start for hit in served) if served else None,
        cpu=report["cpu"],
        served_series=per_bin((at - began_at for at in pages.values()), seconds),
        refused_series=per_bin((hit.end - began_at for hit in refused), seconds),
    )


def first_reached(ends: Sequence[float], limit: float) -> float | None:
    """When first 90 % of `limit` × 5 s was served within 5 s; None if never."""
    needed = REACHED_RATIO * limit * SPAN
    recent: deque[float] = deque()
    for end in sorted(ends):
        recent.append(end)
        while recent[0] <= end - SPAN:
            recent.popleft()
        if len(recent) >= needed:
            return end
    return None


def per_bin(instants: Iterable[float], seconds: float) -> list[int]:
    """How many fall into each second of the run."""
    counts = [0] * max(1, round(seconds / BIN))
    for instant in instants:
        counts[min(len(counts) - 1, int(instant / BIN))] += 1
    return counts
