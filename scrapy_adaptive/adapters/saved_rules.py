"""What is remembered of known limits between two crawls, in the file of `state_file.py`.

Laws
----
* Hits that no table counts, and that a rule has not forgotten, go on counting in the next crawl.
* What came of the requests under each rule adds up, for `scrapy adaptive rules show`.
* What is damaged is left out; of a hit nobody is sure about, the later instant counts.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrapy_adaptive.core.limits.uses import Use

if TYPE_CHECKING:
    from scrapy_adaptive.core.limits.known import KnownLimits

FIELD = "rules"
"""Where it stands in the file."""

LATEST = 1e12
"""Seconds since the epoch that are no instant any more."""


def saved(known: KnownLimits, before: Mapping[str, Use], now: float, wall: float) -> dict[str, Any]:
    """What is written; `now` is monotonic, `wall` seconds since the epoch."""
    hits: dict[str, dict[str, list[tuple[float, int]]]] = {}
    for rule, key, times in known.lasting_hits(now):
        told = [(round(wall + at - now, 3), count) for at, count in times]
        hits.setdefault(rule, {})[key] = told
    uses = dict(before)
    for rule, use in known.all_uses().items():
        was = uses.get(rule, Use())
        added = (was.sent + use.sent, was.refused + use.refused, was.held + use.held)
        uses[rule] = Use(*added)
    counts = {rule: [use.sent, use.refused, use.held] for rule, use in uses.items()}
    return {"hits": hits, "uses": counts}


def recall(known: KnownLimits, found: Any, now: float, wall: float) -> None:
    """Let hits that were saved count on."""
    for rule, key, times in hits_of(found):
        ages = [(min(now, now + at - wall), count) for at, count in times]
        known.recall_hits(rule, key, ages)


def hits_of(found: Any) -> Iterator[tuple[str, str, list[tuple[float, int]]]]:
    """Hits that count: the lasting id of the rule, what it counts, and how many were answered when,
    in seconds since the epoch."""
    hits = found.get("hits") if isinstance(found, Mapping) else None
    for rule, keys in hits.items() if isinstance(hits, Mapping) else ():
        for key, times in keys.items() if isinstance(keys, Mapping) else ():
            good = [pair for pair in times if _is_hit(pair)] if isinstance(times, list) else []
            yield rule, key, [(at, count) for at, count in sorted(good)]


def uses_of(found: Any) -> dict[str, Use]:
    """What came of the requests under each rule, by lasting id."""
    uses = found.get("uses") if isinstance(found, Mapping) else None
    return {
        rule: Use(*counts)
        for rule, counts in (uses.items() if isinstance(uses, Mapping) else ())
        if isinstance(counts, list) and len(counts) == 3 and all(map(_is_count, counts))
    }


def read(path: Path) -> Any:
    """What is remembered in a file; nothing of one that is not there, or is damaged."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, RecursionError, ValueError):
        return None
    return content.get(FIELD) if isinstance(content, Mapping) else None


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 1 << 53


def _is_hit(pair: Any) -> bool:
    if not isinstance(pair, list) or len(pair) != 2:
        return False
    at, count = pair
    is_instant = type(at) in (int, float) and 0 <= at < LATEST
    return is_instant and _is_count(count) and 0 < count <= 1_000_000_000
