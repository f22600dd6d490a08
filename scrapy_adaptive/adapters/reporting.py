"""What users watch: log lines, stats, the table at the end.

Laws
----
* One line per response with ADAPTIVE_DEBUG, in the spirit of AutoThrottle's.
* One line at INFO for every trip, probe and recovery, whatever ADAPTIVE_DEBUG says.
* Once per slot, which of the user's own settings holds its pace, if one does.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakKeyDictionary

from scrapy_adaptive.core.facts import Event, Reason

if TYPE_CHECKING:
    from collections.abc import Container, Iterable

    from scrapy import Request
    from scrapy.http import Response
    from scrapy.statscollectors import StatsCollector

    from scrapy_adaptive.core.governor import Governor
    from scrapy_adaptive.core.slot import Slot

    from .flight import Flight

logger = logging.getLogger("scrapy_adaptive")

SURE_COUNT = 10
"""Answers in a row that one setting must have held back before it is said to hold the pace."""

SUMMARY_SLOTS = 3
"""Slots named in a summary line, the busiest first."""

TABLE_SLOTS = 20
"""Slots in the table at the end, the busiest first."""

_EVENT_LINES = {
    Event.TRIPPED: "slot %(slot)s: paused for %(wait).3g s (%(why)s)",
    Event.PROBE_REFUSED: "slot %(slot)s: still paused, for %(wait).3g s more (%(why)s)",
    Event.RECOVERED: "slot %(slot)s: recovered (%(why)s)",
    Event.BROKEN: "slot %(slot)s: %(request)s is a broken page (%(why)s)",
}


class Parked(NamedTuple):
    """A slot whose site asked for a long pause."""

    slot: str
    seconds: float
    """From now to its end."""
    waiting: int
    """Requests that wait for it."""


class Reporting:
    """Tells the user of one crawl what its throttle does.

    Args:
        stats: Scrapy's stats of this crawl.
        own_slots: slots with limits of their own, in DOWNLOAD_SLOTS.
        debug: whether each response gets a line.
    """

    def __init__(
        self, stats: StatsCollector, *, own_slots: Container[str] = (), debug: bool
    ) -> None:
        self._stats = stats
        self._debug = debug
        self._own_slots = own_slots
        self._bounds: WeakKeyDictionary[Slot, tuple[str, int]] = WeakKeyDictionary()
        self._neighbours: list[Governor] = []
        self._shared: set[str] = set()
        """Slots that other crawlers use too, as the log has said."""

    def know_neighbours(self, governors: Iterable[Governor]) -> None:
        """Other crawlers of this process, each with a budget of its own."""
        self._neighbours = list(governors)

    # Facts

    def on_new_slot(self, key: str) -> None:
        """Nothing was sent yet for this slot."""
        if key not in self._shared and any(key in governor for governor in self._neighbours):
            self._shared.add(key)
            logger.warning(
                "slot %s is used by another crawler of this process too: each has a budget of "
                "its own, the site sees both",
                key,
            )

    def on_probe(self, key: str, request: Request) -> None:
        """A probe leaves."""
        logger.info("slot %s: probes with %s", key, request)

    def on_handed_back(self) -> None:
        """A request waits in its queue, not at the gate."""
        self._stats.inc_value("adaptive/handed_back")

    def on_stopped(self, by: Reason, causes: Iterable[str]) -> None:
        """The whole crawl is stopped: the line is down, a limit is shared, or a breaker opened."""
        if by is Reason.UPLINK:
            logger.warning(
                "no host answers any more (%s among them): the connection of this machine seems "
                "to be down. A request every few seconds tests it; no retries are spent",
                ", ".join(causes),
            )
        elif by is Reason.CRAWL_WIDE:
            logger.info(
                "the whole crawl is paused: its hosts refuse requests as if they shared a limit, "
                "whose rate is learned"
            )
        else:
            slots = ", ".join(causes)
            logger.info("global breaker: the whole crawl is stopped (trouble on %s)", slots)

    def on_resumed(self, by: Reason) -> None:
        """The line is up again, a test request was served, or the global breaker has closed."""
        if by is Reason.UPLINK:
            logger.warning("a host answers: the connection is up again, the crawl goes on")
        elif by is Reason.CRAWL_WIDE:
            logger.info("the whole crawl goes on at the rate of the shared limit")
        else:
            logger.info("global breaker: the crawl goes on")

    def on_decision(
        self,
        slot: Slot,
        flight: Flight,
        request: Request,
        response: Response | None,
        now: float,
    ) -> None:
        """An answer was judged."""
        decision = flight.decision
        assert decision is not None
        line = _EVENT_LINES.get(decision.event)
        if line is not None:
            details = {"slot": slot.key, "wait": decision.wait, "why": decision.why}
            logger.info(line, {**details, "request": request})
        if self._debug:
            self._log_answer(slot, flight, response, now)
        if decision.event is Event.ACCEPTED:
            self._look_for_bound(slot, flight.latency or 0.0)

    def _look_for_bound(self, slot: Slot, latency: float) -> None:
        """Once the same setting has held the slot's pace `SURE_COUNT` times in a row, say so."""
        last, count = self._bounds.get(slot, ("", 0))
        if count >= SURE_COUNT:
            return
        bound = self._bound(slot, latency)
        count = count + 1 if bound == last else 1
        self._bounds[slot] = (bound, count if bound else 0)
        if bound and count == SURE_COUNT:
            logger.info(
                "slot %s: its pace is held by %s, not by what it can serve", slot.key, bound
            )

    def _bound(self, slot: Slot, latency: float) -> str:
        """The user's own setting that holds this slot's pace, if one does."""
        limits, own = slot.limits, slot.key in self._own_slots
        full = slot.in_flight + 1 >= limits.concurrency
        if full and latency / limits.concurrency > slot.delay:
            name = "concurrency in DOWNLOAD_SLOTS" if own else "CONCURRENT_REQUESTS_PER_DOMAIN"
            return f"{name} = {limits.concurrency}"
        if slot.pace.bound == "crawl-delay":
            return f"Crawl-delay = {slot.pace.crawl_delay:g} s in its robots.txt"
        if limits.floor and slot.delay <= limits.floor:
            name = "delay in DOWNLOAD_SLOTS" if own else "DOWNLOAD_DELAY"
            return f"{name} = {limits.floor:g} s"
        return ""

    def _log_answer(
        self, slot: Slot, flight: Flight, response: Response | None, now: float
    ) -> None:
        decision = flight.decision
        assert decision is not None
        logger.info(
            "slot: %(slot)s | in flight:%(in_flight)2d | delay:%(delay)5d ms (%(change)+d) | "
            "latency:%(latency)5d ms | rate:%(rate)7.2f/s | ceiling:%(ceiling)7.2f/s | "
            "tokens:%(tokens)5.2f | %(phase)s | %(status)s %(event)s: %(why)s",
            {
                "slot": slot.key,
                "in_flight": slot.in_flight,
                "delay": decision.delay * 1000,
                "change": decision.delay_change * 1000,
                "latency": (flight.latency or 0.0) * 1000,
                "rate": slot.rate,
                "ceiling": slot.ceiling.rate,
                "tokens": slot.pace.tokens(now),
                "phase": slot.phase.value,
                "status": response.status if response is not None else "no answer",
                "event": decision.event.value,
                "why": decision.why or f"bound by {slot.pace.bound}",
            },
        )

    # Summaries

    def log_summary(self, governor: Governor, waiting: int, now: float) -> None:
        """One line on what the busiest slots do."""
        counts = governor.counts
        busiest = sorted(governor, key=lambda slot: -slot.accepted_count)[:SUMMARY_SLOTS]
        slots = "; ".join(
            f"{slot.key} {slot.accepted_count} pages, {slot.rate:.3g}/s, {slot.phase.value}"
            for slot in busiest
        )
        logger.info(
            "adaptive: %d requests in flight, %d waiting, %d refusals, %d trips, %d slots (%s)",
            counts.in_flight,
            waiting,
            counts.refusals,
            counts.trips,
            len(governor),
            slots or "none yet",
        )

    def log_parked(self, parked: Iterable[Parked]) -> None:
        """Which slots are parked."""
        for slot, seconds, waiting in parked:
            until = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(time.time() + seconds))
            logger.info(
                "slot %s: parked until %s by its own word (%d requests wait)", slot, until, waiting
            )

    def log_table(self, governor: Governor, now: float) -> None:
        """The table at the end of the crawl."""
        slots = sorted(governor, key=lambda slot: -slot.accepted_count)
        if not slots:
            return
        head = ("slot", "pages", "refusals", "again", "paused s", "delay s", "ceiling /s")
        rows = [head, *(_row(slot, now) for slot in slots[:TABLE_SLOTS])]
        widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
        lines = [
            "  ".join(
                cell.ljust(width) if column == 0 else cell.rjust(width)
                for column, (cell, width) in enumerate(zip(row, widths, strict=True))
            )
            for row in rows
        ]
        if len(slots) > TABLE_SLOTS:
            lines.append(f"… and {len(slots) - TABLE_SLOTS} more slots")
        logger.info("adaptive: what each slot came to\n%s", "\n".join(lines))

    def write_stats(self, governor: Governor, now: float) -> None:
        """Bring Scrapy's stats up to date."""
        counts = governor.counts
        values = {
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
        for name, value in values.items():
            self._stats.set_value(f"adaptive/{name}", value)


def _row(slot: Slot, now: float) -> tuple[str, ...]:
    learned = slot.ceiling.rate < float("inf")
    return (
        slot.key,
        str(slot.accepted_count),
        str(slot.refused_count),
        str(slot.again_count),
        f"{slot.pause.seconds(now):.1f}",
        f"{slot.delay:.3f}",
        f"{slot.ceiling.rate:.2f}" if learned else "–",
    )
