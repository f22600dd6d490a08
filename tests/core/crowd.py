"""A crawl of many hosts by one governor, on a clock that jumps from event to event.

Laws
----
* Each host has pages without end, and one that is refused waits behind the others of its host.
* Hosts take turns; no more requests are out than the crawl has places.
* A site answers when a request arrives, half a round trip after it left.
"""

from __future__ import annotations

import heapq
import math
import random
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field

from scrapy_adaptive.core.breaker.global_breaker import GlobalBreaker
from scrapy_adaptive.core.governor import Governor
from scrapy_adaptive.core.permit import Permit
from scrapy_adaptive.core.slot_config import Limits
from scrapy_adaptive.core.types import Answer, Blocked, Outcome
from scrapy_adaptive.simulation.servers.base import Page, Server

AUTO = Limits(target_concurrency=math.inf)


@dataclass
class Crowd:
    """Hosts and what became of their requests.

    Args:
        servers: the limit of each host, by its name; None for a host without.
        egress: the limit that all requests meet first; None for none.
        latency: returns the seconds of one round trip.
        places: most requests in flight.
    """

    servers: dict[str, Server | None]
    egress: Server | None = None
    latency: Callable[[], float] = lambda: 0.05
    places: int = 64
    trip_slots: int = 5
    seed: int = 0
    limits: Limits = AUTO
    accepted: list[tuple[float, str]] = field(default_factory=list)
    refused: list[tuple[float, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        chance = random.Random(self.seed)
        self.now = 0.0
        self.governor = Governor(
            self.limits,
            global_breaker=GlobalBreaker(slots=self.trip_slots, window=10.0, cooldown=5.0),
            chance=chance.random,
        )
        self._pages = {key: deque(Page(n, key) for n in range(50)) for key in self.servers}
        self._ready = deque(self.servers)
        self._waking: list[tuple[float, str]] = []
        self._blocked: set[str] = set()
        self._sent_at = dict.fromkeys(self.servers, -math.inf)
        self._events: list[tuple[float, int, Permit, Page, bool]] = []
        self._out = self._count = 0

    def run(self, until: float) -> None:
        """Crawl until that instant."""
        while True:
            self._send()
            event_at = self._events[0][0] if self._events else math.inf
            wake_at = self._waking[0][0] if self._waking and self._out < self.places else math.inf
            at = min(event_at, wake_at)
            if at >= until:
                self.now = until
                return
            self.now = at
            if event_at <= wake_at:
                self._on_event(*heapq.heappop(self._events)[2:])
            while self._waking and self._waking[0][0] <= self.now:
                self._ready.append(heapq.heappop(self._waking)[1])
            if len(self._ready) > 1:
                self._ready = deque(sorted(self._ready, key=self._sent_at.__getitem__))

    def _send(self) -> None:
        for _ in range(len(self._ready)):
            if self._out >= self.places:
                return
            key = self._ready.popleft()
            result = self.governor.take(key, self.now)
            if isinstance(result, Blocked):
                if result.until == math.inf:
                    self._blocked.add(key)
                else:
                    heapq.heappush(self._waking, (result.until, key))
                continue
            self._out += 1
            self._sent_at[key] = self.now
            self._ready.append(key)
            trip = self.latency()
            page = self._pages[key].popleft()
            served = self._on_arrival(key, page, self.now + trip / 2)
            self._count += 1
            heapq.heappush(self._events, (self.now + trip, self._count, result, page, served))

    def _on_arrival(self, key: str, page: Page, at: float) -> bool:
        own = self.servers[key]
        for server in (self.egress, own):
            if server is not None and server.on_arrival(at, page).outcome is not Outcome.ACCEPTED:
                self.refused.append((at, key))
                return False
        self.accepted.append((at, key))
        return True

    def _on_event(self, permit: Permit, page: Page, served: bool) -> None:
        self._out -= 1
        key = permit.key
        outcome = Outcome.ACCEPTED if served else Outcome.REFUSED
        answer = Answer(
            outcome, self.now - permit.sent_at, may_lower=served, page=(key, page.number)
        )
        was_stopped = self.governor.is_stopped(self.now)
        self.governor.on_answer(permit, answer, self.now)
        self._pages[key].append(page)
        if self.governor.is_stopped(self.now) != was_stopped:
            self._ready.extend(key for _, key in self._waking)
            self._waking.clear()
        for each in self._blocked:
            self._ready.append(each)
        self._blocked.clear()

    def pages(self, since: float, until: float) -> int:
        """Pages that were served between two instants."""
        return sum(since <= at < until for at, _ in self.accepted)

    def share_refused(self, since: float, until: float) -> float:
        """Share of the requests between two instants that were refused."""
        refused = sum(since <= at < until for at, _ in self.refused)
        return refused / max(1, refused + self.pages(since, until))

    def fewest(self, since: float) -> int:
        """Pages of the host that got fewest since that instant."""
        counts = Counter(dict.fromkeys(self.servers, 0))
        counts.update(key for at, key in self.accepted if at >= since)
        return min(counts.values())
