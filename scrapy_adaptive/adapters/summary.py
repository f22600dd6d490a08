"""What a crawl comes to, now and then and at its end: the tables of the log, and Scrapy's stats.

Laws
----
* The busiest slots come first; of the others their number is told.
* Each slot is shown with what binds it, in the words of `report.reasons`.
* Numbers are rounded for people; in the stats they are not.
"""

from __future__ import annotations

import heapq
import logging
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from scrapy_adaptive.core.binding import limit_of
from scrapy_adaptive.report import units
from scrapy_adaptive.report.reasons import reason

from .journal_rows import clean_name, finite, rounded

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scrapy.statscollectors import StatsCollector

    from scrapy_adaptive.core.governor import Governor
    from scrapy_adaptive.core.slot import Slot

    from .observing import Observer

logger = logging.getLogger("scrapy_adaptive")

INTERVAL_SLOTS = 10
"""Slots in the table of each interval."""

TABLE_SLOTS = 20
"""Slots in the table at the end, and in the stats."""

SOURCES = {
    "ceiling": "learned",
    "crawl-delay": "robots.txt",
    "floor": "your setting",
    "latency": "latency",
    "quota": "headers",
}
"""Where a pace limit comes from, by the core's name of what sets the delay."""

INTERVAL_HEAD = ("slot", "rate", "limit", "state", "held back by")

HEAD = ("slot", "pages", "rate", "refused", "requeued", "paused", "limit", "held back by")

LEFT = ("slot", "state", "held back by")
"""Columns of words; those of numbers stand on the right."""


class Summary:
    """What the slots of one crawl have come to.

    Args:
        stats: Scrapy's stats of this crawl.
        governor: knows the slots.
        observer: knows what binds them.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        stats: StatsCollector,
        governor: Governor,
        observer: Observer,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stats = stats
        self._governor = governor
        self._observer = observer
        self._clock = clock
        self._logged_at = clock()

    def log_interval(self, waiting: int, untold: int) -> None:
        """One line on the crawl, and a row for each of the slots that were busiest since the last.

        Args:
            waiting: requests in queues and at the gate.
            untold: pauses and recoveries that had no line of their own.
        """
        counts = self._governor.counts
        rows = self._interval_rows()
        logger.info(
            "adaptive: %d requests in flight, %d waiting, %d refusals, %d pauses, %d slots%s%s",
            counts.in_flight,
            waiting,
            counts.refusals,
            counts.trips,
            len(self._governor),
            f"; {untold} pauses and recoveries not shown" if untold else "",
            f"\n{_table(INTERVAL_HEAD, rows, len(self._governor))}" if rows else "",
        )

    def log_end(self) -> None:
        """The table at the end of the crawl."""
        if len(self._governor):
            now = self._clock()
            rows = [self._row(slot, now) for slot in _busiest(self._governor)]
            table = _table(HEAD, rows, len(self._governor))
            logger.info("adaptive: per-site summary\n%s", table)

    def write_stats(self, parked: int) -> None:
        """Bring Scrapy's stats of the whole crawl up to date; so many slots are parked."""
        for name, value in {**self._of_crawl(), "parked": parked}.items():
            self._stats.set_value(f"adaptive/{name}", value)

    def write_site_stats(self) -> None:
        """Write Scrapy's stats of the busiest sites: at the end, as none is ever taken away."""
        for slot in _busiest(self._governor):
            site = f"site/{clean_name(slot.key)}"
            for name, value in self._of_site(slot).items():
                self._stats.set_value(f"adaptive/{site}/{name}", value)

    # Rows

    def _interval_rows(self) -> list[tuple[str, ...]]:
        now = self._clock()
        seconds = max(now - self._logged_at, 1e-3)
        self._logged_at = now
        counts = {slot.key: self._observer.logged(slot) for slot in self._governor}
        busiest = heapq.nlargest(
            INTERVAL_SLOTS,
            self._governor,
            key=lambda slot: (counts[slot.key], slot.in_flight, slot.accepted_count),
        )
        return [self._interval_row(slot, counts[slot.key] / seconds, now) for slot in busiest]

    def _interval_row(self, slot: Slot, served_rate: float, now: float) -> tuple[str, ...]:
        state = self._observer.state(slot, now)
        if slot.paused_until > now:
            state = f"{state} for {units.duration(slot.paused_until - now)}"
        by = reason(self._observer.bound(slot, now).by).title
        return (
            units.text(clean_name(slot.key)),
            _rate(served_rate),
            units.limit(*limit_of(slot)),
            state,
            by,
        )

    def _row(self, slot: Slot, now: float) -> tuple[str, ...]:
        paused = units.duration(slot.pause.seconds(now))
        if slot.paused_until > now:
            paused = f"{paused} + {units.duration(slot.paused_until - now)} to come"
        return (
            units.text(clean_name(slot.key)),
            f"{slot.accepted_count:,}",
            _rate(self._observer.mean_rate(slot, now)),
            f"{slot.refused_count:,}",
            f"{slot.again_count:,}",
            paused,
            units.limit(*limit_of(slot)),
            reason(self._observer.main(slot, now)).title,
        )

    # Stats

    def _of_crawl(self) -> dict[str, float]:
        governor, now = self._governor, self._clock()
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

    def _of_site(self, slot: Slot) -> dict[str, float | str]:
        now = self._clock()
        return {
            "pages": slot.accepted_count,
            "refused": slot.refused_count,
            "requeued": slot.again_count,
            "rate": rounded(self._observer.mean_rate(slot, now)),
            "limit": rounded(finite(limit_of(slot).rate)),
            "paused": rounded(slot.pause.seconds(now)),
            "state": self._observer.state(slot, now),
            "held_by": self._observer.main(slot, now),
        }


def source(slot: Slot) -> str:
    """Where this slot's pace limit comes from."""
    limits, pace = slot.limits, slot.pace
    if 0.0 < pace.delay <= limits.floor:
        return SOURCES["floor"]
    return SOURCES.get(pace.bound, pace.bound)


def _busiest(slots: Iterable[Slot]) -> list[Slot]:
    return heapq.nlargest(TABLE_SLOTS, slots, key=lambda slot: slot.accepted_count)


def _rate(per_second: float) -> str:
    return units.rate(per_second) if per_second else "–"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], slot_count: int) -> str:
    """A row for each of these slots, and how many more there are."""
    cells = [head, *rows]
    widths = [max(len(row[column]) for row in cells) for column in range(len(head))]
    lines = [
        "  ".join(
            cell.ljust(width) if name in LEFT else cell.rjust(width)
            for name, cell, width in zip(head, row, widths, strict=True)
        ).rstrip()
        for row in cells
    ]
    if slot_count > len(rows):
        lines.append(f"… and {slot_count - len(rows)} more slots")
    return "\n".join(lines)
