"""A crawl whose requests come from a frontier: composes the parts, and joins them to Scrapy.

Laws
----
* Visits that were given go to the engine a few at a time, so that the event loop stays quick.
* A host is given back when others want it, when it is parked, and when nothing of it is left; not
  before what is under way to it is done, and with what was learned of it.
* The crawl ends when nothing is due, nothing is under way, and nobody else visits. The spider is
  not idle before.
"""

from __future__ import annotations

import json
import logging
import math
import os
import random
import socket
import time
from collections import deque
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from scrapy import Request, signals
from scrapy.exceptions import DontCloseSpider
from scrapy.utils.asyncio import call_later, create_looping_call
from scrapy.utils.defer import maybe_deferred_to_future
from twisted.internet.defer import Deferred

from scrapy_adaptive.adapters.scrapy_internals import abort_connections, watch_for_waking
from scrapy_adaptive.clock import boot_time
from scrapy_adaptive.frontier.protocol import FrontierError, SessionLostError, UnavailableError
from scrapy_adaptive.report import units

from . import states
from .courier import Courier
from .feeds import Feeds
from .links import Links
from .outbox import Outbox
from .rights import Rights, host_of
from .seeds import seeds_of
from .session import Owner, Release, Session
from .tracking import Tracking

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

    from scrapy_adaptive.adapters.scrapy_internals import Engine
    from scrapy_adaptive.adapters.settings import AdaptiveSettings
    from scrapy_adaptive.adapters.traffic import Traffic
    from scrapy_adaptive.frontier.poller import PollStrategy
    from scrapy_adaptive.frontier.protocol import Frontier, Given, Held, Lease, State

    from .visits import OpenVisit

logger = logging.getLogger("scrapy_adaptive")

TICK = 0.05
"""Seconds between two looks at what is to be said."""

AT_A_TIME = 10
"""Visits that go to the engine before others have the event loop."""

MOST_SEEDS = 500
"""Start requests that are found before the earlier ones are written down."""

STUCK = 15.0
"""Seconds, and up to twice as many by chance, for which a worker keeps a host that others want
while it waits for one of theirs itself."""

TURN = 5.0
"""Seconds for which a host is held though others wait for it, or nothing is left of it."""

REFILL = 50
"""Visits that a host of which fewer are left is given between two polls."""

SILENT = 0.5
"""Seconds in which a worker that was stopped past its lease cuts off what it was about to send."""

PATIENCE = 30.0
"""Seconds for which a crawl that ends waits for its frontier."""


class FrontierCrawl(Owner):
    """See above.

    Args:
        crawler: the crawl.
        settings: what it is told.
        traffic: its traffic.
        engine: Scrapy's private parts.
        frontier: where its visits are.
        strategy: when to ask for how much.
        state: the spider's own, as its last run has left it.
    """

    def __init__(
        self,
        crawler: Crawler,
        settings: AdaptiveSettings,
        traffic: Traffic,
        engine: Engine,
        frontier: Frontier,
        strategy: PollStrategy,
        state: str | None,
    ) -> None:
        assert crawler.stats is not None
        self._crawler = crawler
        self._settings = settings
        self._stats = crawler.stats
        self._traffic = traffic
        self._engine = engine
        self._frontier = frontier
        self._strategy = strategy
        self.is_closing = False
        self.rights = Rights(has_visits=lambda lease: bool(self._open.get(lease)))
        self._outbox = Outbox()
        self._feeds = Feeds(crawler)
        links = Links(crawler, self._outbox, settings.revisit, frontier.most_bytes)
        self.tracking = Tracking(crawler, self._outbox, links, settings.revisit, self._on_over)
        self._open: dict[Lease, dict[int, OpenVisit]] = {}
        self._incoming: deque[tuple[OpenVisit, Request]] = deque()
        self._slots: dict[str, set[str]] = {}
        """The slots that each host's requests went through."""
        self.paused: set[str] = set()
        self._logins = 0
        """Start requests that pass by the table, and are not done."""
        self._state = state
        self._flushed: list[Deferred[None]] = []
        self._has_failed = self._is_told = False
        self._patience = STUCK * (1.0 + random.random())
        self._looked_at = -math.inf
        traffic.on_paused = self._on_paused
        connect = crawler.signals.connect
        connect(self._on_opened, signal=signals.spider_opened)
        connect(self._on_idle, signal=signals.spider_idle)
        connect(self._on_closed, signal=signals.spider_closed)
        connect(self.tracking.on_scheduled, signal=signals.request_scheduled)
        connect(self.tracking.on_dropped, signal=signals.request_dropped)
        for signal in (signals.item_scraped, signals.item_dropped, signals.item_error):
            connect(self.tracking.on_item_ended, signal=signal)

    # What Scrapy says

    def _on_opened(self) -> None:
        self._courier = Courier()
        worker = f"{socket.gethostname()}:{os.getpid()}"
        self._session = Session(
            self._frontier,
            self._courier,
            self.rights,
            self._outbox,
            self._strategy,
            self,
            worker=worker,
            egress=self._settings.egress,
            ttl=self._settings.frontier_lease,
            clock=boot_time,
            before_turn=self._feeds.sync,
        )
        self._session.seeds = seeds_of(self._crawler, self.tracking, self._frontier)
        self._begin_state()
        self._engine.ask_before_idle(self._may_be_idle)
        self._end_watch = watch_for_waking(self._on_woken)
        self._loop = create_looping_call(self._tick)
        self._loop.start(TICK, now=True)

    def _begin_state(self) -> None:
        """The spider's own state, as its last run has left it."""
        spider = self._crawler.spider
        assert spider is not None
        try:
            kept = json.loads(self._state or "{}")
        except ValueError:  # somebody else has written it
            kept = {}
        spider.state = kept  # type: ignore[attr-defined]

    async def seed(self, start: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """Start requests become rows; yields what passes by the table."""
        self._feeds.begin()
        count = 0
        async for each in start:
            if not isinstance(each, Request):
                yield each
                continue
            if not self.tracking.seed(each):
                self._logins += 1
                self.tracking.pass_by(each, self._on_login)
                yield each
                continue
            count += 1
            if count % MOST_SEEDS == 0:
                await self._flush()

    def _on_login(self, visit: OpenVisit) -> None:
        self._logins -= 1

    async def _flush(self) -> None:
        """Wait until what was found is written down."""
        if len(self._outbox):
            waiter: Deferred[None] = Deferred()
            self._flushed.append(waiter)
            await maybe_deferred_to_future(waiter)

    def _may_be_idle(self) -> bool:
        """Whether an engine that has nothing to do may say so: nobody else has, either."""
        session = self._session
        if self._has_failed or self._is_over():
            return True
        if session.is_idle and not self.is_closing and not self._open:
            session.polls_at_once = session.polls_at_once or not session.is_dry
        return False

    def _on_idle(self) -> None:
        """The crawl ends, unless somebody else keeps it."""
        if not self._may_be_idle():  # somebody has found more to visit, just now
            raise DontCloseSpider
        left = self._session.wait
        if not self._has_failed and left < math.inf:
            logger.info(
                "nothing is due: the frontier's next visit is in %s (ADAPTIVE_FRONTIER_STAY)",
                units.duration(left),
            )

    def _is_over(self) -> bool:
        """Whether there is nothing left to visit, here or anywhere."""
        session = self._session
        if not (session.is_open and session.is_idle and session.is_dry):
            return False
        if self._incoming or self._logins or any(self._open.values()):
            return False
        return session.busy == 0 and session.wait > self._settings.frontier_stay

    async def _on_closed(self) -> None:
        self._loop.stop()
        self._end_watch()
        self.is_closing = True
        for visit, _ in self._incoming:
            visit.is_taken_back = True
        self._incoming.clear()
        self.rights.turn_away()
        self.tracking.sweep(is_closing=True)
        if not self._has_failed:
            await self._end()
        self._courier.stop()

    async def _end(self) -> None:
        """Write down what is done, what was learned, and give everything back."""
        deadline = time.monotonic() + PATIENCE
        self._save_state()
        self._write_stats()
        self._traffic.governor.end(self._traffic.clock())
        states = dict(self.states(everything=True))
        while time.monotonic() < deadline:
            self._session.tick()
            if self._session.is_idle and self._session.is_open:
                break
            await self._pause(TICK)
        else:
            logger.error(
                "the frontier does not answer: what was done in the last seconds is not written "
                "down, and will be visited again"
            )
            return

        def call() -> None:
            with suppress(UnavailableError):  # what is done was synced before it was written down
                self._feeds.sync()
            if states:
                with suppress(SessionLostError):
                    self._frontier.beat(states)
            if self._state is not None:
                self._frontier.save_spider(self._state)
            self._frontier.close()

        done: Deferred[None] = Deferred()
        self._courier.send(call, lambda _, error: done.callback(None))
        await maybe_deferred_to_future(done)

    async def _pause(self, seconds: float) -> None:
        waiter: Deferred[None] = Deferred()
        call_later(seconds, waiter.callback, None)
        await maybe_deferred_to_future(waiter)

    def _save_state(self) -> None:
        state = getattr(self._crawler.spider, "state", None)
        try:
            self._state = None if state is None else json.dumps(state, allow_nan=False)
        except (TypeError, ValueError) as error:
            logger.warning("the spider's state is not kept, JSON cannot hold it: %s", error)

    # Time

    def _on_woken(self) -> None:
        """This process was stopped, and goes on: what it was about to say is too late."""
        if self._session.is_open and not self.rights.are_alive:
            self._session.hold_back(SILENT)
            self._cut_off(boot_time() + SILENT)

    def _cut_off(self, until: float) -> None:
        """What has passed the gate before is not sent any more."""
        abort_connections()
        if boot_time() < until:
            call_later(0, self._cut_off, until)

    def _tick(self) -> None:
        if self._has_failed:
            return
        self.is_closing = self.is_closing or self._engine.is_closing
        if self.is_closing:
            self.rights.turn_away()
        self.tracking.sweep(is_closing=self.is_closing)
        now = time.monotonic()
        if now >= self._looked_at + 20 * TICK:
            self._looked_at = now
            self._look_at_hosts(now)
        self._session.tick()
        if not len(self._outbox):
            flushed, self._flushed = self._flushed, []
            for waiter in flushed:
                waiter.callback(None)

    def _look_at_hosts(self, now: float) -> None:
        """Give back what is parked, what others want, and what nothing is left of."""
        if self.is_closing:
            return
        sent_to = {host_of(request) for request in self._traffic.in_flight}
        for host, lease in list(self.rights.leases.items()):
            visits = self._open.get(lease, {})
            parked = self._parked_for(host, now)
            if parked:
                self._leave(host)
            if host in sent_to:
                continue
            if any(visit.was_sent for visit in visits.values()) and not self._is_stuck(host):
                continue
            is_left = not visits and self.rights.idle_since(host) >= TURN
            if parked or host in self.rights.leaving or is_left:
                self._give_back(lease, parked)

    def _is_stuck(self, host: str) -> bool:
        """Whether two workers may wait for each other: for this host, and for one where an image of
        a page of it is. Nothing is under way to this one; the page is fetched once more then."""
        return (
            host in self.rights.leaving
            and bool(self.rights.wanted)
            and self.rights.idle_since(host) >= self._patience
        )

    def _parked_for(self, host: str, now: float) -> float:
        """Seconds for which all slots of a host are parked; 0 where one is not."""
        governor = self._traffic.governor
        known = [slot for slot in self._slots.get(host, ()) if governor.knows(slot, now)]
        if not known or not all(governor.is_parked(slot, now) for slot in known):
            return 0.0
        return max(0.0, min(governor.paused_until(slot, now) for slot in known) - now)

    def _leave(self, host: str) -> None:
        """Nothing more is sent to this host."""
        lease = self.rights.leases[host]
        self.rights.leaving.add(host)
        for visit in self._open.get(lease, {}).values():
            if not visit.was_sent:
                visit.is_taken_back = True
        self._withdraw()
        for slot in self._slots.get(host, ()):
            self._traffic.turn_away(slot, self._is_withdrawn)

    def _give_back(self, lease: Lease, asleep: float = 0.0) -> None:
        state = self._state_of(lease.host)
        self.rights.forget(lease.host)
        self._session.releases.append(Release(lease, state, asleep))
        self._forget(lease)

    def _forget(self, lease: Lease) -> None:
        """Remember nothing of a host that this worker has no more, and nothing is left of."""
        host = lease.host
        if self._open.get(lease) or self.rights.leases.get(host) == lease:
            return
        self._open.pop(lease, None)
        if host not in self.rights.leases and host not in self.rights.wanted:
            self._slots.pop(host, None)

    def _withdraw(self) -> None:
        """Requests of visits that were taken back wait no more."""
        self._incoming = deque(each for each in self._incoming if not each[0].is_taken_back)
        self._traffic.room.withdraw(self._is_withdrawn)

    def _is_withdrawn(self, request: Request) -> bool:
        visit = self.rights.visit_of(request)
        return visit is not None and visit.is_taken_back

    def note_slot(self, request: Request, slot: str) -> None:
        """The request's host is sent to through this slot."""
        governor = self._traffic.governor
        self._slots.setdefault(host_of(request), set()).update(governor.family(slot))

    def awaits_lease(self, slot: str) -> bool:
        """Whether requests of this slot wait until this worker has their host."""
        return any(slot in self._slots.get(host, ()) for host in self.rights.wanted)

    def _on_paused(self, request: Request, seconds: float) -> None:
        """Who takes the host after a kill has to know of it, and may do so at once."""
        self.paused.add(host_of(request))
        self._session.tick()

    # What the session asks and tells

    def states(self, *, everything: bool) -> dict[Lease, State]:
        since = math.inf if everything else self._settings.frontier_lease
        return {
            lease: self._state_of(host)
            for host, lease in self.rights.leases.items()
            if self.rights.idle_since(host) < since
        }

    def paused_states(self) -> dict[Lease, State]:
        leases = self.rights.leases
        return {leases[host]: self._state_of(host) for host in self.paused if host in leases}

    def _state_of(self, host: str) -> State:
        slots = self._slots.get(host, set())
        return states.carry(self._traffic.governor, slots, self._traffic.clock())

    def held(self) -> dict[Lease, Collection[int]]:
        return {lease: list(self._open.get(lease, ())) for lease in self.rights.leases.values()}

    def unsent(self) -> dict[Lease, list[int]]:
        return {
            lease: [number for number, visit in visits.items() if not visit.was_sent]
            for lease, visits in self._open.items()
            if visits
        }

    def may_poll(self) -> bool:
        return not (self._logins or self._incoming or self._has_failed)

    def dry_hosts(self) -> Mapping[Lease, int]:
        free = self._strategy.orders - sum(map(len, self._open.values()))
        if not self.may_poll():
            return {}
        dry = [
            lease
            for host, lease in self.rights.leases.items()
            if host not in self.rights.leaving and len(self._open.get(lease, ())) < REFILL / 2
        ]
        share = min(REFILL, free // max(1, len(dry)))
        return dict.fromkeys(dry, share) if share > 0 else {}

    def on_opened(self, begins: bool) -> None:
        if begins:
            self._stats.set_value("adaptive/frontier/begins", 1)
        if not self._is_told:
            self._is_told = True
            how = "begins with its start requests" if begins else "goes on where it was left"
            logger.info("the crawl %s (ADAPTIVE_FRONTIER)", how)

    def on_held(self, held: Held) -> None:
        if held.is_new:
            host = held.lease.host
            now = self._traffic.clock()
            states.begin(self._traffic.governor, host, held.state, held.age, now)
            slots = (held.state or {}).get("slots")
            self._slots.setdefault(host, set()).update(slots if isinstance(slots, dict) else ())
            self.rights.grant(held.lease)
        self.on_given(held.lease, held.visits)

    def on_given(self, lease: Lease, visits: Sequence[Given]) -> None:
        if self.rights.leases.get(lease.host) != lease:
            return
        held = self._open.setdefault(lease, {})
        was_empty = not self._incoming
        for given in visits:
            visit, request = self.tracking.open(lease, given)
            held[given.id] = visit
            if request is None:
                visit.end()
            else:
                self._incoming.append((visit, request))
        self._stats.inc_value("adaptive/frontier/given", len(visits))
        if was_empty and self._incoming:
            self._deliver()

    def _deliver(self) -> None:
        """A few visits go to the engine."""
        for _ in range(min(AT_A_TIME, len(self._incoming))):
            visit, request = self._incoming.popleft()
            if self.is_closing or visit.is_taken_back:
                visit.is_taken_back = True
                continue
            self.tracking.crawl(request)
        if self._incoming:
            call_later(0, self._deliver)

    def on_polled(self) -> None:
        self._stats.inc_value("adaptive/frontier/polls")
        self._write_stats()
        self._engine.nudge()

    def _write_stats(self) -> None:
        self._stats.set_value("adaptive/frontier/calls", self._session.calls)
        if self._frontier.damaged:
            self._stats.set_value("adaptive/frontier/damaged", self._frontier.damaged)

    def on_lost(self, leases: Collection[Lease] | None) -> None:
        slots = {slot for each in self._slots.values() for slot in each}
        for lease in list(self._open) if leases is None else leases:
            if self.rights.leases.get(lease.host) == lease:
                self.rights.forget(lease.host)
            for visit in self._open.get(lease, {}).values():
                visit.is_taken_back = visit.is_taken_back or not visit.was_sent
            self._forget(lease)
        self._withdraw()
        for slot in slots:
            self._traffic.turn_away(slot, self._is_withdrawn)

    def on_wanted(self, leases: Sequence[Lease]) -> None:
        for lease in leases:
            is_held = self.rights.leases.get(lease.host) == lease
            is_long = self.rights.held_for(lease.host) >= TURN
            if is_held and is_long and lease.host not in self.rights.leaving:
                self._leave(lease.host)

    def take_back(self, unsent: Mapping[Lease, Sequence[int]]) -> None:
        for lease, numbers in unsent.items():
            for number in numbers:
                visit = self._open[lease].pop(number)
                visit.is_taken_back = True
            self._forget(lease)
        self._withdraw()

    def on_failed(self, error: BaseException) -> None:
        self._has_failed = True
        is_told = isinstance(error, FrontierError)
        told, trace = (error, None) if is_told else (repr(error), error)
        logger.error("the crawl ends, its frontier cannot go on: %s", told, exc_info=trace)
        self._engine.close("adaptive_frontier_failed")

    def _on_over(self, visit: OpenVisit) -> None:
        if visit.lease is None or visit.given is None:
            return
        visits = self._open.get(visit.lease, {})
        if visits.get(visit.given.id) is visit:
            del visits[visit.given.id]
            self._forget(visit.lease)
