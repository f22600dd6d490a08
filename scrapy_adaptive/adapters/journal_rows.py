"""What the recorder counts of each slot, and what it makes of names and numbers.

Laws
----
* No query string and no credential is in a name or an address.
* Numbers are rounded: a journal is read by people, and takes room.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

MOST_LATENCIES = 100
"""Latencies that a median is of."""

LONGEST = 200
"""Characters of a name or an address."""

_CREDENTIALS = re.compile(r"(?<![^/\s])[^/\s@]*:[^/\s@]*@")


def clean_name(name: str) -> str:
    """A slot's name without what nobody else should read.

    >>> clean_name("site.example via http://user:secret@proxy.example:80/?key=1")
    'site.example via http://proxy.example:80/'
    """
    return _CREDENTIALS.sub("", re.split(r"[?#]", name, maxsplit=1)[0])[:LONGEST] or "no name"


def clean_url(url: str) -> str:
    """A page's address without query, fragment and credentials.

    >>> clean_url("https://user:secret@a.example:8080/x?token=1#top")
    'https://a.example:8080/x'
    """
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"[:LONGEST]


@dataclass(slots=True, eq=False)
class Row:
    """What is counted of one slot."""

    name: str
    sent: int = 0
    served: int = 0
    refused: int = 0
    failed: int = 0
    worst: float = 0.0
    latencies: list[float] = field(default_factory=list)
    began: float | None = None
    """Monotonic seconds of its first request."""
    paused_at: float | None = None
    """Since when it is paused, in a pause that an event has told."""
    hot_until: float = -math.inf
    """Up to when it has a full record each second."""
    limit: float = 0.0
    """The limit that an event has told."""
    written: dict[str, Any] = field(default_factory=dict)
    """What its records have said last."""
    changed_at: float = -math.inf
    """Monotonic seconds of the last request or answer, to a second."""
    written_at: float = 0.0
    full_at: float = -math.inf
    full_served: int = 0
    gone: tuple[int, float] = (0, 0.0)
    """Requests requeued and seconds paused of slots of that name that were forgotten."""

    def add_latency(self, seconds: float) -> None:
        """One answer took so long."""
        self.worst = max(self.worst, seconds)
        if len(self.latencies) < MOST_LATENCIES:
            self.latencies.append(seconds)
        else:
            self.latencies[(self.served + self.refused) % MOST_LATENCIES] = seconds

    @property
    def counters(self) -> dict[str, int]:
        """What is counted here."""
        return {
            "sent": self.sent,
            "served": self.served,
            "refused": self.refused,
            "failed": self.failed,
        }


def unwritten(row: Row) -> int:
    """Requests sent and answered of which no record tells."""
    told: int = row.written.get("sent", 0) + row.written.get("served", 0)
    return row.sent + row.served - told


def is_near(rate: float, told: float) -> bool:
    """Whether a rate is hardly another than what was told."""
    return told > 0.0 and abs(rate - told) <= 0.1 * told


def finite(rate: float) -> float:
    """The rate as the journal has it: 0 where nothing bounds it."""
    return rate if rate < math.inf else 0.0


def rounded(value: float) -> float:
    """Three places behind the point, of small numbers four figures.

    >>> rounded(1234.56789), rounded(0.000123456)
    (1234.568, 0.0001235)
    """
    return round(value, 3) if abs(value) >= 1.0 else float(f"{value:.4g}")
