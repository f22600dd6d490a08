"""What a crawl came to: the stats, the busiest slots, the table at the end.

Laws
----
* The busiest slots come first; of the others their number is told.
* Each slot's pace limit is shown with where it comes from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy_adaptive.report import units

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from scrapy_adaptive.core.breaker.breaker import Phase
    from scrapy_adaptive.core.governor import Governor
    from scrapy_adaptive.core.slot import Slot

SUMMARY_SLOTS = 3
"""Slots named in a summary line."""

TABLE_SLOTS = 20
"""Slots in the table at the end."""

SOURCES = {
    "ceiling": "learned",
    "crawl-delay": "robots.txt",
    "floor": "your setting",
    "latency": "latency",
    "quota": "headers",
}
"""Where a pace limit comes from, by the core's name of what sets the delay."""

HEAD = ("slot", "pages", "refused", "requeued", "paused", "delay", "pace limit", "from")


def source(slot: Slot) -> str:
    """Where this slot's pace limit comes from."""
    limits, pace = slot.limits, slot.pace
    if 0.0 < pace.delay <= limits.floor:
        return SOURCES["floor"]
    return SOURCES.get(pace.bound, pace.bound)


def busiest(governor: Governor, phases: Mapping[Phase, str]) -> str:
    """What the busiest slots do."""
    return "; ".join(
        f"{slot.key} {slot.accepted_count} pages, {units.rate(slot.rate)}, {phases[slot.phase]}"
        for slot in _by_pages(governor)[:SUMMARY_SLOTS]
    )


def table(governor: Governor, now: float) -> str:
    """A row for each of the busiest slots."""
    slots = _by_pages(governor)
    rows = [HEAD, *(_row(slot, now) for slot in slots[:TABLE_SLOTS])]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEAD))]
    lines = [
        "  ".join(
            cell.ljust(width) if column in (0, len(HEAD) - 1) else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    if len(slots) > TABLE_SLOTS:
        lines.append(f"… and {len(slots) - TABLE_SLOTS} more slots")
    return "\n".join(lines)


def stats(governor: Governor, now: float) -> dict[str, float]:
    """Values of Scrapy's stats, by their name under `adaptive/`."""
    counts = governor.counts
    return {
        "refusals": counts.refusals,
        "failures": counts.failures,
        "trips": counts.trips,
        "global_trips": counts.global_trips,
        "probes": counts.probes,
        "broken_pages": counts.broken_pages,
        "drained_tokens": round(counts.drained_tokens, 3),
        "time_paused": round(governor.time_paused(now), 3),
        "slots": len(governor),
        "permits/granted": counts.granted,
        "permits/measured": counts.measured,
        "permits/ignored": counts.ignored,
        "permits/dropped": counts.dropped,
    }


def _by_pages(governor: Iterable[Slot]) -> list[Slot]:
    return sorted(governor, key=lambda slot: -slot.accepted_count)


def _row(slot: Slot, now: float) -> tuple[str, ...]:
    paused = units.duration(slot.pause.seconds(now))
    if slot.silent_until > now:
        paused = f"{paused} + {units.duration(slot.silent_until - now)} to come"
    return (
        slot.key,
        str(slot.accepted_count),
        str(slot.refused_count),
        str(slot.again_count),
        paused,
        units.duration(slot.delay),
        units.rate(slot.rate),
        source(slot),
    )
