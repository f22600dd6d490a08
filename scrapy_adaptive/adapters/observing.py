"""What binds each site, looked at once a second: for the log, the summary and the journal.

Laws
----
* The busiest `MOST` slots are looked at each second, the others when somebody asks: a crawl of ten
  thousand sites is not slowed down by who watches it.
* What binds a site for a while is what was found most often in it; a pause that begins or ends
  makes all that was found before old news.
* Where nothing of the core's binds, the crawl does: the scraper is full, the process itself is too
  slow, no request waits, or no place is left. Callbacks that are slow leave the queue empty, so
  they are looked at before it.
"""

from __future__ import annotations

import heapq
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from scrapy_adaptive.core import binding
from scrapy_adaptive.core.binding import Binding
from scrapy_adaptive.core.breaker.breaker import Phase

if TYPE_CHECKING:
    from scrapy_adaptive.core.governor import Governor
    from scrapy_adaptive.core.slot import Slot

    from .frontier.crawl import FrontierCrawl
    from .scrapy_internals import Engine
    from .traffic import Traffic

MOST = 20
"""Slots looked at each second."""

TICK = 1.0
"""Seconds between two looks."""

EARLY = 0.01
"""Seconds by which a timer may ring early."""

EVERY = 10.0
"""Seconds between two looks at which slots are the busiest."""

RECENT = 10
"""Looks that tell what binds a site "now"."""

BUSY = 0.9
"""Share of a second computed by the process from which it is too slow for more."""

LATE = 0.1
"""Seconds by which the event loop is late, on average, from which its callbacks are to blame: if
they take longer than the site's answers do."""

EMPTY = Binding("empty")
LEASE = Binding("lease")
CRAWLER = Binding("crawler")
SCRAPER = Binding("scraper")
TOTAL = "total"

PAUSES = frozenset(
    {
        binding.BACKOFF,
        binding.RETRY_AFTER,
        binding.PARKED,
        binding.QUOTA_SPENT,
        binding.BREAKER,
        binding.UPLINK,
    }
)
"""Reasons for which nothing is sent at all."""

STATES = {Phase.CLOSED: "crawling", Phase.OPEN: "paused", Phase.HALF_OPEN: "testing"}
PARKED, IDLE, PAUSED = "parked", "idle", "paused"


class Surroundings(Protocol):
    """The crawl around its slots."""

    def waiting(self, key: str) -> int:
        """Requests that wait for this slot, as far as is known."""

    @property
    def waiting_count(self) -> int:
        """Requests that wait for any slot, as far as is known."""

    @property
    def may_wait_unseen(self) -> bool:
        """Whether requests wait of which nobody knows the slot."""

    def is_parked_by_rule(self, key: str) -> bool:
        """Whether rules park all that waits for this slot, and something does."""

    def awaits_lease(self, key: str) -> bool:
        """Whether requests of this slot wait until this worker has their host."""

    @property
    def has_place(self) -> bool:
        """Whether one more request may be under way."""

    @property
    def is_scraper_full(self) -> bool:
        """Whether callbacks and pipelines are so far behind that Scrapy asks for no more."""


class Around:
    """The surroundings in a real crawl.

    Args:
        engine: Scrapy's private parts.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._traffic: Traffic | None = None
        self._frontier: FrontierCrawl | None = None

    def begin(self, traffic: Traffic, frontier: FrontierCrawl | None) -> None:
        """This is the crawl's traffic, and where its requests come from."""
        self._traffic, self._frontier = traffic, frontier

    def waiting(self, key: str) -> int:
        """Those in the host queue, and at the gate."""
        return 0 if self._traffic is None else self._traffic.waiting(key)

    @property
    def waiting_count(self) -> int:
        """All of these."""
        return 0 if self._traffic is None else self._traffic.queued_count

    @property
    def may_wait_unseen(self) -> bool:
        """Only a queue that is not ours does not tell."""
        traffic = self._traffic
        return traffic is not None and not traffic.room.keeps and self._engine.has_pending

    def is_parked_by_rule(self, key: str) -> bool:
        """Only with known limits."""
        return self._traffic is not None and self._traffic.is_parked_by_rule(key)

    def awaits_lease(self, key: str) -> bool:
        """Only with a frontier."""
        return self._frontier is not None and self._frontier.awaits_lease(key)

    @property
    def has_place(self) -> bool:
        """CONCURRENT_REQUESTS decides."""
        return self._engine.has_place

    @property
    def is_scraper_full(self) -> bool:
        """SCRAPER_SLOT_MAX_ACTIVE_SIZE decides."""
        return self._engine.is_scraper_full


@dataclass(slots=True)
class Seen:
    """What was seen of one slot."""

    since: float
    """Monotonic seconds of its first request."""
    changed_at: float
    """When it was last seen to have served more."""
    count: int = 0
    """Pages served by then."""
    logged_count: int = 0
    """Pages served when the log last told of it."""
    recent: deque[Binding] = field(default_factory=lambda: deque(maxlen=RECENT))
    found: Counter[str] = field(default_factory=Counter)
    """How often each reason was found, in all."""

    def add(self, found: Binding) -> None:
        """What a look has found."""
        if self.recent and (self.recent[-1].by in PAUSES) != (found.by in PAUSES):
            self.recent.clear()
        self.recent.append(found)
        self.found[found.by] += 1

    @property
    def bound(self) -> Binding | None:
        """What was found most often of late; None before the first look."""
        if not self.recent:
            return None
        most, _ = Counter(each.by for each in self.recent).most_common(1)[0]
        return next(each for each in reversed(self.recent) if each.by == most)

    @property
    def main(self) -> str:
        """What was found most often in all; empty before the first look."""
        return self.found.most_common(1)[0][0] if self.found else ""


class Observer:
    """Looks at the slots of one crawl.

    Args:
        governor: knows them.
        surroundings: the crawl around them.
        concurrent_requests: the user's CONCURRENT_REQUESTS.
        global_rate: the user's ADAPTIVE_GLOBAL_RATE.
        clock: monotonic seconds.
        cpu: seconds that this process has computed.
    """

    def __init__(
        self,
        governor: Governor,
        surroundings: Surroundings,
        *,
        concurrent_requests: int = 16,
        global_rate: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
        cpu: Callable[[], float] = time.process_time,
    ) -> None:
        self.busy = 0.0
        """Share of the last second that the process computed."""
        self._governor = governor
        self._surroundings = surroundings
        self._total = Binding(TOTAL, concurrent_requests)
        self._global_rate = Binding(binding.GLOBAL_RATE, global_rate)
        self._clock = clock
        self._cpu = cpu
        self._cpu_before = cpu()
        self._began_at = self._ticked_at = clock()
        self._looked_at = -EVERY
        self._lag = 0.0
        self._seen: dict[str, Seen] = {}
        self._busiest: list[str] = []

    # Looks

    def on_new_slot(self, key: str) -> None:
        """The first request for this slot is at the gate."""
        now = self._clock()
        self._seen[key] = Seen(now, now)

    def begin(self) -> None:
        """Looks are due each `TICK` seconds from now on."""
        self._began_at = self._ticked_at = self._clock()

    def tick(self) -> None:
        """Look at the busiest slots."""
        now = self._clock()
        self._measure(now)
        if now >= self._looked_at + EVERY or len(self._governor) <= MOST:
            self._look_for_busiest(now)
        for key in self._busiest:
            if key in self._governor:
                self._look(self._governor.slot(key, now), now)

    def _measure(self, now: float) -> None:
        """See how much the process computes, and how late its event loop is."""
        cpu, passed = self._cpu(), max(now - self._ticked_at, 1e-9)
        self.busy = min(1.0, (cpu - self._cpu_before) / passed)
        due, late = divmod(now - self._began_at + EARLY, TICK)
        missed = max(0.0, due - (self._ticked_at - self._began_at + EARLY) // TICK - 1.0)
        self._lag += (max(0.0, late - EARLY) + missed * TICK - self._lag) / 2.0
        self._cpu_before, self._ticked_at = cpu, now

    def _look_for_busiest(self, now: float) -> None:
        self._looked_at = now
        counts: dict[str, int] = {}
        for slot in self._governor:
            seen = self._of(slot.key, now)
            counts[slot.key] = slot.accepted_count - seen.count
            self._note(slot, seen, now)
        busiest = heapq.nlargest(MOST, counts, key=counts.__getitem__)
        self._busiest = busiest
        if len(self._seen) > 2 * len(counts) + MOST:
            self._seen = {key: self._seen[key] for key in counts}

    def _look(self, slot: Slot, now: float) -> None:
        seen = self._of(slot.key, now)
        has_changed = self._note(slot, seen, now)
        is_awaited = self._waits(slot.key) or self._surroundings.awaits_lease(slot.key)
        if has_changed or slot.in_flight or is_awaited:
            seen.add(self._found(slot, now))

    def _note(self, slot: Slot, seen: Seen, now: float) -> bool:
        """Note how much it has served; returns whether it was more than at the last look."""
        if slot.accepted_count == seen.count:
            return False
        seen.count, seen.changed_at = slot.accepted_count, now
        return True

    def _of(self, key: str, now: float) -> Seen:
        if key not in self._seen:
            self._seen[key] = Seen(now, now)
        return self._seen[key]

    def _waits(self, key: str) -> bool:
        return self._surroundings.waiting(key) > 0 or self._surroundings.may_wait_unseen

    def _found(self, slot: Slot, now: float) -> Binding:
        if self._surroundings.awaits_lease(slot.key):
            return LEASE
        waits = self._waits(slot.key)
        found = binding.binding(self._governor, slot.key, now)
        if found is not None and found.by in PAUSES and (waits or slot.in_flight):
            return found
        if waits and found is not None and found.by != binding.CONCURRENCY:
            return self._global_rate if found.by == binding.GLOBAL_RATE else found
        if self._surroundings.is_scraper_full:
            return SCRAPER
        if self.busy >= BUSY or self._lag >= max(LATE, slot.slowness.mean):
            return CRAWLER
        if not waits:
            return EMPTY
        if found is None and not self._surroundings.has_place:
            return self._total
        return found or CRAWLER

    # Questions

    def bound(self, slot: Slot, now: float) -> Binding:
        """What binds this slot now."""
        seen = self._seen.get(slot.key)
        return (seen and seen.bound) or self._found(slot, now)

    def main(self, slot: Slot, now: float) -> str:
        """What has bound this slot most, up to now; of one never looked at, what parks it, or sets
        its pace."""
        seen = self._seen.get(slot.key)
        if seen is not None and seen.main:
            return seen.main
        is_parked = self.state(slot, now) == PARKED
        return (self._found(slot, now) if is_parked else binding.of_pace(slot)).by

    def mean_rate(self, slot: Slot, now: float) -> float:
        """Pages a second, from its first request to the last page; 0 for none."""
        seen = self._seen.get(slot.key)
        if seen is None:
            return 0.0
        self._note(slot, seen, now)
        return slot.accepted_count / max(seen.changed_at - seen.since, 1e-3)

    def logged(self, slot: Slot) -> int:
        """Pages served since the log last told of this slot: now."""
        seen = self._of(slot.key, self._clock())
        count, seen.logged_count = slot.accepted_count - seen.logged_count, slot.accepted_count
        return count

    def state(self, slot: Slot, now: float) -> str:
        """crawling, paused, testing, parked or idle."""
        if slot.is_parked(now) or self._surroundings.is_parked_by_rule(slot.key):
            return PARKED
        if slot.phase is not Phase.CLOSED or slot.in_flight:
            return STATES[slot.phase]
        if self._surroundings.awaits_lease(slot.key):
            return PAUSED
        return STATES[slot.phase] if self._waits(slot.key) else IDLE
