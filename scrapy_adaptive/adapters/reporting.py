"""What users watch while a crawl runs: log lines of what happens.

Laws
----
* The first line says that it is on, and which of the user's own settings hold the pace.
* One line for each pause and recovery of a busy slot; ten such lines a minute in all, the rest
  are counted in the next summary.
* Each line says what happened, why, and what comes next, in units that people read.
* One line per response with ADAPTIVE_DEBUG, in the spirit of AutoThrottle's.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

from scrapy_adaptive.core.binding import limit_of
from scrapy_adaptive.core.breaker.breaker import Phase
from scrapy_adaptive.core.types import Event, Reason
from scrapy_adaptive.report import units
from scrapy_adaptive.version import VERSION

from . import summary

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping, Sequence

    from scrapy import Request
    from scrapy.http import Response
    from scrapy.statscollectors import StatsCollector

    from scrapy_adaptive.core.governor import Governor
    from scrapy_adaptive.core.limits.known import KnownLimits
    from scrapy_adaptive.core.permit import Permit
    from scrapy_adaptive.core.slot import Slot

    from .flight import Flight
    from .observing import Observer
    from .recorder import Recorder
    from .settings import AdaptiveSettings

logger = logging.getLogger("scrapy_adaptive")

SURE_COUNT = 10
"""Answers in a row that one setting must have held back before it is said to hold the pace."""

MOST_LINES = 10
"""Lines on pauses and recoveries in `PERIOD` seconds."""

PERIOD = 60.0

BUSY_PAGES = 10
"""Pages after which a slot is busy."""

FEW_SLOTS = 10
"""While a crawl has no more slots than this, each of them is busy."""

LONG_WAIT = 30.0
"""Seconds of a pause that goes on which are worth a line."""

MOST_NAMED = 5
"""Slots that one line names."""

MOST_NOTICES = 10
"""Lines of one kind that each slot could bring, in a crawl."""

LINES = {
    "paused": "slot %(slot)s: paused for %(wait)s after %(answer)s at %(rate)s; then one test "
    "request decides",
    "parked": "slot %(slot)s: asked to wait until %(until)s (%(answer)s); its requests are kept",
    "still paused": "slot %(slot)s: paused for another %(wait)s, as the test request got "
    "%(answer)s",
    "recovered": "slot %(slot)s: recovered after %(wait)s; goes on at up to %(rate)s",
    "broken": "slot %(slot)s: %(request)s is refused whatever the pace; RetryMiddleware decides",
    "stopped": "whole crawl: paused after a refusal (%(slots)s); it goes on by itself",
    "shared": "whole crawl: paused, as its hosts refuse as if they shared a limit (%(slots)s); "
    "then it goes on at the rate that is learned for it",
    "resumed": "whole crawl: goes on",
}
"""Lines of which a minute has `MOST_LINES`."""

PHASES = {Phase.CLOSED: "crawling", Phase.OPEN: "paused", Phase.HALF_OPEN: "testing"}

EVENTS = {
    Event.ACCEPTED: "accepted",
    Event.RECOVERED: "test request accepted",
    Event.TRIPPED: "paused",
    Event.LATE: "late refusal",
    Event.EXCUSED: "excused",
    Event.PROBE_REFUSED: "test request refused",
    Event.BROKEN: "broken page",
    Event.LONE_FAILURE: "lone failure",
    Event.UPLINK_DOWN: "uplink down",
}
"""What an answer changed, in the line of each response."""


class Parked(NamedTuple):
    """A slot whose site asked for a long pause, or which a rule lets go after one."""

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
        observer: looks at what binds each slot.
        recorder: writes the journal; None where nobody wants one.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        stats: StatsCollector,
        *,
        own_slots: Container[str] = (),
        debug: bool,
        observer: Observer | None = None,
        recorder: Recorder | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.recorder = recorder
        self._observer = observer
        self._stats = stats
        self._debug = debug
        self._own_slots = own_slots
        self._clock = clock
        self._bounds: WeakKeyDictionary[Slot, tuple[str, int]] = WeakKeyDictionary()
        self._bound_count = 0
        self._split_count = 0
        self._known: KnownLimits | None = None
        self._generous: set[str] = set()
        """Rules that a site refused, as the log has said."""
        self._neighbours: list[Governor] = []
        self._shared: set[str] = set()
        """Slots that other crawlers use too, as the log has said."""
        self._slots: set[str] = set()
        """Names of slots, one more than `FEW_SLOTS` at most."""
        self._told_at: deque[float] = deque(maxlen=MOST_LINES)
        self._untold_count = 0
        self._paused_at: dict[str, float] = {}
        """Slots whose pause was told, and when it began."""

    def know_neighbours(self, governors: Iterable[Governor]) -> None:
        """Other crawlers of this process, each with a budget of its own."""
        self._neighbours = list(governors)

    # Start

    def log_start(self, settings: AdaptiveSettings, unknown_names: Sequence[str] = ()) -> None:
        """The crawl begins: what is on, and what holds its pace from the start."""
        logger.info("scrapy_adaptive %s is on: %s", VERSION, _outlook(settings))
        if unknown_names:
            logger.warning(
                "%s: no such setting in scrapy_adaptive; taken to be another package's",
                ", ".join(unknown_names),
            )

    # Facts

    def on_new_slot(self, key: str) -> None:
        """Nothing was sent yet for this slot."""
        if self._observer is not None:
            self._observer.on_new_slot(key)
        if self.recorder is not None:
            self.recorder.on_new_slot(key)
        if len(self._slots) <= FEW_SLOTS:
            self._slots.add(key)
        if len(self._shared) >= MOST_NOTICES or key in self._shared:
            return
        if any(key in governor for governor in self._neighbours):
            self._shared.add(key)
            logger.warning(
                "slot %s is used by another crawler of this process too: each has a budget of "
                "its own, the site sees both",
                key,
            )

    def on_probe(self, key: str, request: Request) -> None:
        """A test request leaves."""
        logger.debug("slot %s: test request %s", key, request)

    def on_handed_back(self) -> None:
        """A request waits in its queue, not at the gate."""
        self._stats.inc_value("adaptive/handed_back")

    def on_requeued(self) -> None:
        """A refused request is fetched again."""
        if self.recorder is not None:
            self.recorder.on_requeued()

    def on_handed_over(self, key: str, request: Request) -> None:
        """A request of this slot was refused too often."""
        if self.recorder is not None:
            self.recorder.on_handed_over(key, request)

    def on_given_up(self, counts: Mapping[str, int]) -> None:
        """Requests of paused slots were given up as the spider closed."""
        if self.recorder is not None:
            self.recorder.on_given_up(counts)
        self._stats.inc_value("adaptive/given_up", sum(counts.values()))
        logger.warning(
            "%d requests were given up as the spider closed, because their sites had asked to "
            "wait (%s); with a JOBDIR those of the scheduler are saved",
            sum(counts.values()),
            ", ".join(f"{slot}: {count}" for slot, count in counts.items()),
        )

    def on_stopped(self, by: Reason, causes: Iterable[str]) -> None:
        """The whole crawl is paused: its connection is down, a limit is shared, or a refusal stops
        it."""
        named = list(causes)
        if self.recorder is not None:
            self.recorder.on_stopped(named)
        more = f" and {len(named) - MOST_NAMED} more" if len(named) > MOST_NAMED else ""
        slots = ", ".join(named[:MOST_NAMED]) + more
        if by is Reason.UPLINK:
            logger.warning(
                "no host answers any more (%s among them): the connection of this machine seems "
                "to be down. A request every few seconds tests it; no retries are spent",
                slots,
            )
        else:
            self._tell("shared" if by is Reason.CRAWL_WIDE else "stopped", slots=slots)

    def on_resumed(self, by: Reason) -> None:
        """The whole crawl goes on."""
        if self.recorder is not None:
            self.recorder.on_resumed()
        if by is Reason.UPLINK:
            logger.warning("a host answers: the connection is up again, the crawl goes on")
        else:
            self._tell("resumed")

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
        if self.recorder is not None:
            self.recorder.on_answer(slot, flight, request, response, now)
        if flight.permit.meters and decision.event in (Event.TRIPPED, Event.RECOVERED):
            self._look_for_contradiction(slot, flight.permit)
        if decision.event is not Event.ACCEPTED:
            self._tell_event(slot, flight, request, response, now)
        if self._debug:
            self._log_answer(slot, flight, response)
        if decision.event is Event.ACCEPTED:
            self._look_for_bound(slot, flight.latency or 0.0)

    # Known limits

    def know(self, known: KnownLimits | None) -> None:
        """These limits hold in this crawl."""
        self._known = known

    def _look_for_contradiction(self, slot: Slot, permit: Permit) -> None:
        """A rule that the site refuses is named once, with both numbers."""
        refused = limit_of(slot).refused_rate
        rule = self._known.contradiction(permit, refused) if self._known and refused else None
        if rule is not None and rule.id not in self._generous:
            self._generous.add(rule.id)
            self._stats.inc_value("adaptive/rules/too_generous")
            logger.warning(
                "slot %s: %s allows %s, the site refuses from %s; the learned limit holds",
                slot.key,
                rule.label,
                units.rate(rule.pace),
                units.rate(refused),
            )

    # Pauses

    def _tell_event(
        self, slot: Slot, flight: Flight, request: Request, response: Response | None, now: float
    ) -> None:
        """Tell a change of a busy slot; of others it is counted."""
        decision = flight.decision
        assert decision is not None
        event, key = decision.event, slot.key
        answer = "a failed download" if response is None else f"a {response.status}"
        delay = decision.delay - decision.delay_change
        before = units.rate(1.0 / delay if delay > 0 else float("inf"))
        is_busy = slot.accepted_count >= BUSY_PAGES or len(self._slots) <= FEW_SLOTS
        if decision.split and self._split_count < MOST_NOTICES:
            self._split_count += 1
            logger.info(
                "slot %s: only %s is refused; these pages have a pace of their own from here",
                key,
                decision.split,
            )
        if event is Event.TRIPPED:
            if slot.is_parked(now):
                until = units.clock_time(slot.paused_until - now)
                told = self._tell("parked", is_busy, slot=key, until=until, answer=answer)
            else:
                wait = units.duration(decision.wait)
                told = self._tell(
                    "paused", is_busy, slot=key, wait=wait, answer=answer, rate=before
                )
            if told:
                self._paused_at[key] = now
        elif event is Event.PROBE_REFUSED and decision.wait >= LONG_WAIT:
            wait = units.duration(decision.wait)
            self._tell("still paused", is_busy, slot=key, wait=wait, answer=answer)
        elif event is Event.RECOVERED and key in self._paused_at:
            wait = units.duration(now - self._paused_at.pop(key))
            self._tell("recovered", slot=key, wait=wait, rate=units.rate(slot.rate))
        elif event is Event.BROKEN:
            self._tell("broken", is_busy, slot=key, request=request)

    def _tell(self, name: str, is_busy: bool = True, **details: Any) -> bool:
        """Log this line, or count it; returns whether it was logged."""
        now = self._clock()
        is_full = len(self._told_at) == MOST_LINES and now < self._told_at[0] + PERIOD
        if is_full or not is_busy:
            self._untold_count += 1
            return False
        self._told_at.append(now)
        logger.info(LINES[name], {"event": name, **details})
        return True

    # The user's own bounds

    def _look_for_bound(self, slot: Slot, latency: float) -> None:
        """Once the same setting has held the slot's pace `SURE_COUNT` times in a row, say so."""
        last, count = self._bounds.get(slot, ("", 0))
        if count >= SURE_COUNT or self._bound_count >= MOST_NOTICES:
            return
        bound = self._bound(slot, latency)
        count = count + 1 if bound == last else 1
        self._bounds[slot] = (bound, count if bound else 0)
        if bound and count == SURE_COUNT:
            self._bound_count += 1
            logger.info("slot %s: its pace is held by %s, not by the site", slot.key, bound)

    def _bound(self, slot: Slot, latency: float) -> str:
        """The user's own setting that holds this slot's pace, if one does."""
        limits, own = slot.limits, slot.key in self._own_slots
        full = slot.in_flight + 1 >= limits.concurrency
        if full and latency / limits.concurrency > slot.delay:
            name = "concurrency in DOWNLOAD_SLOTS" if own else "CONCURRENT_REQUESTS_PER_DOMAIN"
            return f"{name} = {limits.concurrency}"
        if slot.pace.bound == "crawl-delay":
            return f"Crawl-delay = {units.duration(slot.pace.crawl_delay)} in its robots.txt"
        if limits.floor and slot.delay <= limits.floor:
            name = "delay in DOWNLOAD_SLOTS" if own else "DOWNLOAD_DELAY"
            return f"{name} = {limits.floor:g} s"
        return ""

    def _log_answer(self, slot: Slot, flight: Flight, response: Response | None) -> None:
        decision = flight.decision
        assert decision is not None
        logger.info(
            "slot: %(slot)s | in flight:%(in_flight)2d | delay:%(delay)5d ms (%(change)+d) | "
            "latency:%(latency)5d ms | rate:%(rate)7.2f/s | limit:%(limit)7.2f/s | "
            "%(phase)s | %(status)s %(event)s: %(why)s",
            {
                "slot": slot.key,
                "in_flight": slot.in_flight,
                "delay": decision.delay * 1000,
                "change": decision.delay_change * 1000,
                "latency": (flight.latency or 0.0) * 1000,
                "rate": slot.rate,
                "limit": slot.ceiling.rate,
                "phase": PHASES[slot.phase],
                "status": response.status if response is not None else "no answer",
                "event": EVENTS[decision.event],
                "why": decision.why or f"pace set by {summary.source(slot)}",
            },
        )

    # Summaries

    def take_untold(self) -> int:
        """Pauses and recoveries that had no line, since this was asked last."""
        untold, self._untold_count = self._untold_count, 0
        return untold

    def log_parked(self, parked: Iterable[Parked]) -> None:
        """Which slots are parked: one line for all of them."""
        slots = sorted(parked, key=lambda each: -each.waiting)
        if not slots:
            return
        named = [
            f"{each.slot} until {units.clock_time(each.seconds)} ({each.waiting} requests)"
            for each in slots[:MOST_NAMED]
        ]
        if len(slots) > MOST_NAMED:
            named.append(f"and {len(slots) - MOST_NAMED} more")
        logger.info(
            "adaptive: %d requests wait, as their sites or your rules asked to wait: %s",
            sum(each.waiting for each in slots),
            ", ".join(named),
        )


def _outlook(settings: AdaptiveSettings) -> str:
    """What holds the pace of every site from the start: the user's own settings, or nothing."""
    limits = settings.limits
    found = "each site's pace is found from its answers"
    values = {
        "DOWNLOAD_DELAY": f"{limits.floor:g} s",
        "CONCURRENT_REQUESTS_PER_DOMAIN": str(limits.concurrency),
    }
    held = [f"{name} = {values[name]}" for name in settings.binding]
    if not held:
        start = units.duration(limits.start_delay)
        return f"{found}, beginning with one request each {start}" if limits.start_delay else found
    allowed = f"{limits.concurrency} at a time"
    if limits.floor:
        allowed = f"one each {units.duration(limits.floor)}"
    lines = "this setting" if len(held) == 1 else "these two settings"
    return (
        f"{' and '.join(held)}, from your settings, allow each site no more requests than "
        f"{allowed}; remove {lines}, and {found}"
    )
