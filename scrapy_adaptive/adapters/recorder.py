"""Records a crawl: what `scrapy_adaptive.report` shows of it, while it runs and afterwards.

Laws
----
* A page costs a few additions here; everything else is done once a second.
* The sums of the whole crawl are written each second, sites each ten seconds, and each second
  around what happens to them. What was written is handed to the system each second.
* Of many sites the busiest are written one by one: a journal's size is bounded, but for the last
  record of each site that was heard of, which it has at the end or once its slot was forgotten.
* What is kept is bounded as slots are, but for a number of each site, by which it is counted once.
  So is what sinks are given: a site that was forgotten before any record named it is in the journal
  alone.
* No query string and no credential is written, whatever a slot is called.
* A journal that cannot be written is told once, and the crawl goes on.
"""

from __future__ import annotations

import heapq
import logging
import secrets
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from scrapy_adaptive.core.binding import CONCURRENCY, DELAY, limit_of
from scrapy_adaptive.core.breaker.breaker import Phase
from scrapy_adaptive.core.types import Event, Outcome
from scrapy_adaptive.report import events, units
from scrapy_adaptive.report.records import (
    VERSION,
    CrawlRecord,
    End,
    EventRecord,
    SiteRecord,
    Start,
    to_line,
)
from scrapy_adaptive.report.writer import Budget
from scrapy_adaptive.version import VERSION as PACKAGE_VERSION

from . import observing
from .journal_rows import Row, clean_name, clean_url, finite, is_near, rounded, unwritten

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

    from scrapy import Request
    from scrapy.http import Response

    from scrapy_adaptive.core.governor import Governor
    from scrapy_adaptive.core.slot import Slot
    from scrapy_adaptive.report.records import Record
    from scrapy_adaptive.report.writer import Writer

    from .flight import Flight
    from .observing import Observer, Surroundings

logger = logging.getLogger("scrapy_adaptive")

EVERY = 10.0
"""Seconds between two full records of a site."""

AROUND = 5.0
"""Seconds after an event in which its site has a full record each second."""

HEARTBEAT = 60.0
"""Seconds after which a site that does not change has a record all the same."""

ALWAYS = 5
"""The busiest sites, which have their records whatever the journal's size."""

MOST_ROWS = 100
"""Full records at once."""

MOST_QUICK = 10
"""Sites whose counters are written each second; of these `FEW_QUICK` in a journal near its bound.
"""

FEW_QUICK = 3

RESERVE = 200_000.0
"""Bytes of the journal's bound that are kept for events and for the busiest sites."""

PLENTY = 1_000_000.0
"""Bytes of the bound from which on all of that is written."""

MOST_NAMED = 5
"""Sites that an event of the whole crawl names."""

Sink = Callable[[Sequence["Record"]], None]
"""Called with the records of each second, in the crawl's own thread."""


class Recorder:
    """Records one crawl.

    Args:
        governor: knows the slots.
        observer: knows what binds them.
        surroundings: the crawl around them.
        spider: its name.
        writer: the journal's file; None where only `sinks` want the records.
        own_slots: slots with limits of their own, in DOWNLOAD_SLOTS.
        clock: monotonic seconds.
        wall: seconds since 1970.
    """

    def __init__(
        self,
        governor: Governor,
        observer: Observer,
        surroundings: Surroundings,
        *,
        spider: str,
        writer: Writer | None,
        own_slots: Container[str] = (),
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.sinks: list[Sink] = []
        """Whoever else wants the records."""
        self._governor = governor
        self._observer = observer
        self._surroundings = surroundings
        self._writer = writer
        self._own_slots = own_slots
        self._clock = clock
        self._began_at = clock()
        self._budget = Budget()
        self._records: list[Record] = []
        self._lines: list[str] = []
        self._full_at = 0.0
        self._rows: dict[str, Row] = {}
        self._names: set[str] = set()
        self._counted: set[int] = set()
        """Hashes of all keys that ever had a row."""
        self._numbers: dict[str, int] = {}
        """Of names that several slots have, once cleaned, how many there were."""
        self._fresh: dict[str, Row] = {}
        """Rows that have changed since the last second."""
        self._active: dict[str, Row] = {}
        """Rows of which a full record may have something new to say."""
        self._requeued = self._given_up = self._hidden = 0
        self._sent = self._served = self._refused = self._failed = 0
        self._put(Start(VERSION, wall(), spider, secrets.token_hex(4), PACKAGE_VERSION))

    def log_start(self) -> None:
        """Say where the journal is: its name may be another than the setting's."""
        if self._writer is not None:
            logger.info("the journal of this crawl is %s", self._writer.path)

    # Facts

    def on_sent(self, key: str) -> None:
        """A request of this slot has reached the downloader."""
        row = self._rows.get(key) or self._new_row(key)
        if row.began is None:
            row.began = self._clock()
        row.sent += 1
        self._sent += 1
        self._fresh[key] = row

    def on_answer(
        self, slot: Slot, flight: Flight, request: Request, response: Response | None, now: float
    ) -> None:
        """An answer was judged."""
        key = slot.key
        row = self._rows.get(key) or self._new_row(key)
        self._fresh[key] = row
        if flight.outcome is Outcome.ACCEPTED:
            row.served += 1
            self._served += 1
        elif flight.outcome is Outcome.REFUSED:
            row.refused += 1
            self._refused += 1
        else:
            row.failed += 1
            self._failed += 1
        if flight.latency is not None:
            row.add_latency(flight.latency)
        if flight.decision is not None and flight.decision.event is not Event.ACCEPTED:
            self._on_change(row, slot, flight, request, response, now)
        if row.paused_at is not None and slot.phase is Phase.CLOSED:
            seconds, row.paused_at = now - row.paused_at, None
            self._tell(events.RECOVERY, row, seconds=seconds, rate=finite(slot.rate))

    def on_new_slot(self, key: str) -> None:
        """Nothing was sent yet for this slot; one of its name may have been forgotten."""
        row = self._rows.get(key)
        if row is not None:
            row.gone = row.written.get("requeued", 0), row.written.get("paused", 0.0)

    def on_lease_wait(self, key: str) -> None:
        """A request waits until this worker has the host, which may be for the first time."""
        self._fresh[key] = self._row(key)

    def on_requeued(self) -> None:
        """A refused request is fetched again."""
        self._requeued += 1

    def on_handed_over(self, key: str, request: Request) -> None:
        """A request was refused too often."""
        self._given_up += 1
        self._tell(events.GIVEN_UP, self._row(key), count=1, page=clean_url(request.url))

    def on_given_up(self, counts: Mapping[str, int]) -> None:
        """Requests of paused slots were given up as the spider closed."""
        self._given_up += sum(counts.values())
        for key, count in counts.items():
            self._tell(events.GIVEN_UP, self._row(key), count=count)

    def on_stopped(self, causes: Iterable[str]) -> None:
        """The whole crawl is paused."""
        named = tuple(clean_name(key) for key in causes)
        self._tell(events.STOPPED, sites=named[:MOST_NAMED], count=0)

    def on_resumed(self) -> None:
        """The whole crawl goes on."""
        self._tell(events.RESUMED)

    def _on_change(
        self,
        row: Row,
        slot: Slot,
        flight: Flight,
        request: Request,
        response: Response | None,
        now: float,
    ) -> None:
        decision = flight.decision
        assert decision is not None
        status = 0 if response is None else response.status
        who = "site" if slot.pause.is_asked else "crawler"
        if decision.split:
            self._tell(events.SPLIT, row, page=decision.split)
        if decision.event is Event.TRIPPED:
            row.paused_at = now
            before = decision.delay - decision.delay_change
            name = events.PARKED if slot.is_parked(now) else events.PAUSE
            rate = 1.0 / before if before > 0.0 else 0.0
            self._tell(name, row, seconds=decision.wait, who=who, status=status, rate=rate)
        elif decision.event is Event.PROBE_REFUSED:
            name = events.PARKED if slot.is_parked(now) else events.LONGER
            self._tell(name, row, seconds=decision.wait, who=who, status=status)
        elif decision.event is Event.BROKEN:
            self._tell(events.BROKEN, row, status=status, page=clean_url(request.url))

    def _tell(self, name: str, row: Row | None = None, **details: Any) -> None:
        at = self._clock() - self._began_at
        if row is not None:
            row.hot_until = self._clock() + AROUND
        if self._budget.room(at) <= 0.0:
            self._hidden += 1
            return
        told: dict[str, Any] = {
            key: rounded(value) if isinstance(value, float) else value
            for key, value in details.items()
        }
        self._put(EventRecord(rounded(at), name, row.name if row else "", **told))

    # Rows

    def _row(self, key: str) -> Row:
        return self._rows.get(key) or self._new_row(key)

    def _new_row(self, key: str) -> Row:
        name = clean_name(key)
        if name in self._names:
            number = self._numbers[name] = self._numbers.get(name, 1) + 1
            name = f"{name} ({number})"
        self._names.add(name)
        self._counted.add(hash(key))
        row = self._rows[key] = Row(name)
        return row

    def _forget(self, now: float) -> None:
        """Forget the rows of slots that were forgotten, and of which nothing was heard for long."""
        if len(self._rows) <= 2 * len(self._governor) + MOST_ROWS:
            return
        gone = [
            key
            for key, row in self._rows.items()
            if key not in self._governor
            and not self._may_be_asked(key, row, now)
            and not self._surroundings.awaits_lease(key)
        ]
        for key in gone:
            row = self._rows.pop(key)
            self._names.discard(row.name)
            if key in self._active:
                self._write_last(key, row, now)

    def _write_last(self, key: str, row: Row, now: float) -> None:
        """Write what no record has told yet of a row that is forgotten.

        Rows that no record has named may be many: theirs is beside the bound, in the journal alone.
        """
        is_named = bool(row.written)
        self._write_full(key, row, now)
        if not is_named:
            self._records.pop()
            self._budget.spend(-len(self._lines[-1]))

    # Time

    def tick(self) -> None:
        """Once a second: write what there is to say."""
        now = self._clock()
        at = now - self._began_at
        self._put(self._crawl_record(at))
        room = self._budget.room(at)
        fresh, self._fresh = self._fresh, {}
        self._active.update(fresh)
        for row in fresh.values():
            row.changed_at = now
        if at >= self._full_at:
            self._full_at = at + EVERY
            self._forget(now)
            chosen = self._choose(room)
        else:
            hot = [key for key, row in fresh.items() if row.hot_until >= now]
            chosen = hot[: MOST_ROWS if room > 0.0 else 0]
        for key in chosen:
            self._write_full(key, self._active.get(key) or self._rows[key], now)
        most = MOST_QUICK if room > PLENTY else FEW_QUICK if room > 0.0 else 0
        quick = (key for key in fresh if key not in chosen)
        for key in heapq.nlargest(most, quick, key=lambda key: unwritten(fresh[key])):
            row = fresh[key]
            self._write(row, at, row.counters | self._new_rate(key, row))
        self._hand_over()

    def close(self, reason: str) -> None:
        """The crawl has ended."""
        now = self._clock()
        self._active.update(self._fresh)
        for key, row in list(self._active.items()):
            self._write_full(key, row, now)
        at = now - self._began_at
        self._put(self._crawl_record(at))
        # It may be anything that a spider closes with; Scrapy calls nothing at all "cancelled".
        self._put(End(rounded(at), str(reason) or "cancelled"))
        self._hand_over()
        if self._writer is not None:
            self._writer.close()

    def _choose(self, room: float) -> list[str]:
        """The sites that have a full record now: the busiest, then who has waited for longest."""
        busiest = heapq.nlargest(
            ALWAYS if room <= 0.0 else 2 * ALWAYS,
            self._active,
            key=lambda key: self._active[key].served - self._active[key].full_served,
        )
        if room <= RESERVE:
            return busiest
        others = (key for key in self._active if key not in busiest)
        most = MOST_ROWS - len(busiest)
        return busiest + heapq.nsmallest(most, others, key=lambda key: self._active[key].full_at)

    # Records

    def _crawl_record(self, at: float) -> CrawlRecord:
        return CrawlRecord(
            rounded(at),
            self._sent,
            self._served,
            self._refused,
            self._failed,
            self._requeued,
            self._given_up,
            self._governor.counts.in_flight,
            self._surroundings.waiting_count,
            len(self._counted),
            self._hidden,
            rounded(self._observer.busy),
        )

    def _write_full(self, key: str, row: Row, now: float) -> None:
        at = now - self._began_at
        values: dict[str, Any] = row.counters
        if key in self._governor:
            values |= self._of_slot(self._governor.slot(key, now), row, now)
        else:
            awaits = self._surroundings.awaits_lease(key)
            state = observing.PAUSED if awaits else observing.IDLE
            by = observing.LEASE.by if awaits else observing.EMPTY.by
            values |= {"in_flight": 0, "waiting": 0, "state": state, "by": by, "value": 0.0}
        if row.latencies:
            values["latency"] = rounded(statistics.median(row.latencies))
            values["worst"] = rounded(row.worst)
            row.latencies.clear()
            row.worst = 0.0
        host = self._governor.host_of(key)
        if not row.written and host != key:
            values["host"] = clean_name(host)
        self._write(row, at, values, is_full=True)
        row.full_at, row.full_served = at, row.served
        if values["state"] == observing.IDLE and not self._may_be_asked(key, row, now):
            self._active.pop(key, None)

    def _may_be_asked(self, key: str, row: Row, now: float) -> bool:
        """Whether an idle site may get requests that have to wait: no answer would tell of them."""
        is_silent = self._governor.paused_until(key, now) > now
        return is_silent or now < row.changed_at + HEARTBEAT

    def _new_rate(self, key: str, row: Row) -> dict[str, float]:
        """The allowed rate, if it is another than what was written."""
        if key not in self._governor:
            return {}
        rate = finite(self._governor.slot(key, self._clock()).rate)
        return {} if is_near(rate, row.written.get("rate", 0.0)) else {"rate": rounded(rate)}

    def _of_slot(self, slot: Slot, row: Row, now: float) -> dict[str, Any]:
        bound = self._observer.bound(slot, now)
        limit = limit_of(slot)
        is_sure = limit.rate > 0.0 and limit.refused_rate <= units.NARROW * limit.rate
        if is_sure and slot.phase is Phase.CLOSED and not is_near(limit.rate, row.limit):
            row.limit = limit.rate
            self._tell(events.LIMIT, row, rate=limit.rate, refused_at=limit.refused_rate)
        until = slot.paused_until - self._began_at
        requeued, paused = row.gone
        return {
            "requeued": requeued + slot.again_count,
            "in_flight": slot.in_flight,
            "waiting": self._surroundings.waiting(slot.key),
            "rate": rounded(finite(slot.rate)),
            "state": self._observer.state(slot, now),
            "by": bound.by,
            "value": rounded(finite(bound.value)),
            "own": bound.by in (DELAY, CONCURRENCY) and slot.key in self._own_slots,
            "limit": rounded(limit.rate),
            "refused_at": rounded(limit.refused_rate),
            "paused": rounded(paused + slot.pause.seconds(now)),
            "until": rounded(max(0.0, until)) if slot.paused_until > now else 0.0,
        }

    def _write(
        self, row: Row, at: float, values: Mapping[str, Any], *, is_full: bool = False
    ) -> None:
        """Write of a site what is new."""
        before = row.written
        new = {name: value for name, value in values.items() if before.get(name) != value}
        only_time = new.keys() <= {"value", "paused", "until"}
        if only_time and not (is_full and at >= row.written_at + HEARTBEAT):
            return
        if not before:
            new["fresh"] = True
            if row.began is not None:
                new["began"] = rounded(row.began - self._began_at)
        before.update(new)
        row.written_at = at
        self._put(SiteRecord(rounded(at), row.name, **new))

    def _put(self, record: Record) -> None:
        line = to_line(record)
        self._budget.spend(len(line))
        self._records.append(record)
        self._lines.append(line)

    def _hand_over(self) -> None:
        records, self._records = self._records, []
        lines, self._lines = self._lines, []
        if self._writer is not None:
            try:
                self._writer.append(lines)
            except OSError as error:
                logger.warning("the journal is not written from here: %s", error)
                self._writer = None
        for sink in self.sinks:
            sink(records)
