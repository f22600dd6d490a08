"""What `scrapy adaptive frontier show` tells, whatever the engine."""

from __future__ import annotations

import json
from typing import Any, NamedTuple


class HostRow(NamedTuple):
    """A host; None is what the engine does not count by host."""

    host: str
    ready: int
    asleep: int | None
    leased: int
    failed: int | None
    finished: int | None
    due_in: float | None
    """Seconds until its next visit is due, less than 0 where it is; None where none is."""
    owner: str | None
    limit: float | None
    """Requests a second that were learned to be the most; None where none was."""
    pause: float | None = None
    """Seconds for which its holder, or nobody, sends to it; None for none."""


class WorkerRow(NamedTuple):
    """A session that lives."""

    name: str
    egress: str
    hosts: int
    lives: float
    """Seconds until its hosts are others', if it says no more."""


def read_state(state: str | bytes | None, age: float = 0.0) -> tuple[float | None, float | None]:
    """The least limit that was found of a host's slots, and the seconds that it is paused yet.

    A limit is known once a faster rate was refused; it is the rate that is served.

    >>> learned = {"rate": 2.2, "refused_rate": 2.5}
    >>> read_state(json.dumps({"slots": {"a": {"pause": 9.0, "learned": learned}}}), age=2.0)
    (2.2, 7.0)
    """
    try:
        slots: dict[str, Any] = json.loads(state or "{}").get("slots", {})
        known = [entry.get("learned") or {} for entry in slots.values()]
        told = [each.get("rate") for each in known if each.get("refused_rate")]
        rates = [rate for rate in told if isinstance(rate, (int, float)) and rate > 0]
        left = max((entry.get("pause", 0.0) for entry in slots.values()), default=0.0) - age
    except (AttributeError, LookupError, RecursionError, TypeError, ValueError):
        return None, None
    return min(rates, default=None), left if left > 0 else None
