"""A simulated crawler: endless pages of one site, paced by the very governor of real crawls.

Laws
----
* Time is virtual; it jumps from event to event.
* A refused page goes back behind the pages that wait, as in `HostQueue`: a refusal loses none.
* Pages of every slot wait at any time: a class of pages that is held holds up no other.
* Whatever the governor answers is obeyed; nothing else paces the crawl.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING

from scrapy_adaptive.core.headers.parse import NO_HINTS, Hints, Quota
from scrapy_adaptive.core.permit import Permit
from scrapy_adaptive.core.types import Answer, Blocked, Outcome, Wanted

from .servers.base import Page, Reply
from .servers.ranges import is_finite

if TYPE_CHECKING:
    from scrapy_adaptive.core.governor import Governor

    from .servers.base import Server

HOST = "site"
"""The slot of every simulated page, unless its class has one of its own under it."""

WAITING = 100
"""Pages of a slot that wait in the crawler's queue: a refused page comes again after as many
others."""

PASSED_OVER = 10_000
"""Fresh pages that are looked at for one slot: where every class has a slot of its own, none is
the host's."""

RETRIES = 2
"""Times that a broken page is fetched again, as RETRY_TIMES of Scrapy says."""


@dataclass(slots=True)
class Timeline:
    """What a simulated crawl did; instants in seconds since it began, as the server saw them."""

    accepted: list[float] = field(default_factory=list)
    refused: list[float] = field(default_factory=list)
    failed: list[float] = field(default_factory=list)
    """An error of the server, or no answer at all."""
    banned: list[float] = field(default_factory=list)
    """Hits while banned; they are among the refused too."""
    latencies: list[float] = field(default_factory=list)
    """Seconds, of accepted requests, in order."""
    lost: list[int] = field(default_factory=list)
    """Numbers of the pages that were given up, as broken ones."""

    @property
    def lost_count(self) -> int:
        """Pages that were given up."""
        return len(self.lost)


class Frontier:
    """The pages of one site that wait to be fetched, by slot.

    Args:
        pages: what there is to fetch; a page of a slot of which enough wait is passed over.
        kinds: the classes with a slot of their own, and its key.
    """

    def __init__(self, pages: Iterator[Page], kinds: Callable[[], Mapping[str, str]]) -> None:
        self._fresh = pages
        self._kinds = kinds
        self._waiting: dict[str, deque[Page]] = {HOST: deque(islice(pages, WAITING))}
        self._retries: Counter[int] = Counter()
        self._refused: set[int] = set()

    @property
    def slots(self) -> list[str]:
        """The slots of which pages wait, who waited longest first."""
        return [slot for slot, waiting in self._waiting.items() if waiting]

    def choose(self, slot: str, wanted: Wanted, is_suspected: Callable[[Page], bool]) -> Page:
        """The page that serves best just now: the first of those that fit, or of all."""
        waiting = self._waiting[slot]
        if wanted is Wanted.ANY:
            return waiting[0]
        suspected = wanted is Wanted.SUSPECTED
        fits = (page for page in waiting if is_suspected(page) == suspected)
        return next(fits, waiting[0])

    def take(self, slot: str, page: Page) -> None:
        """This page is fetched; a fresh one joins the others."""
        waiting = self._waiting[slot] = self._waiting.pop(slot)
        waiting.remove(page)
        self._fill(waiting)

    def give_back(self, page: Page) -> None:
        """A refused page waits behind the others."""
        self._refused.add(page.number)
        self._of(page).append(page)

    def on_accepted(self, page: Page) -> None:
        """This page was served: its refusals count no more."""
        self._refused.discard(page.number)

    def _of(self, page: Page) -> deque[Page]:
        slot = self._kinds().get(page.kind, HOST)
        if slot not in self._waiting:
            self._sort()
        return self._waiting[slot]

    def _fill(self, waiting: deque[Page]) -> None:
        for _ in range(PASSED_OVER):
            if len(waiting) >= WAITING:
                return
            page = next(self._fresh, None)
            if page is None:
                return
            joined = self._of(page)
            if len(joined) < WAITING:
                joined.append(page)

    def _sort(self) -> None:
        """A class was split off: its pages wait for a slot of their own."""
        pages = [page for waiting in self._waiting.values() for page in waiting]
        self._waiting = {slot: deque() for slot in (HOST, *self._kinds().values())}
        for page in pages:
            self._of(page).append(page)
        for slot in list(self._waiting):
            self._fill(self._waiting[slot])

    def retry(self, page: Page) -> bool:
        """A broken page is fetched again a few times; returns whether it was given up.

        One of them is the fetch by which it was found to be broken.
        """
        self._retries[page.number] += 1 + (page.number in self._refused)
        self._refused.discard(page.number)
        if self._retries[page.number] <= RETRIES:
            self._of(page).append(page)
            return False
        del self._retries[page.number]
        return True


class Crawl:
    """One simulated crawl.

    Args:
        governor: paces it.
        server: the site.
        pages: what there is to fetch; mostly without end.
        delay: returns the seconds that one message takes over the network, each way.
        awake: returns the instant at which the crawler does what is due at one; at once without it.
    """

    def __init__(
        self,
        governor: Governor,
        server: Server,
        pages: Iterator[Page],
        delay: Callable[[], float],
        awake: Callable[[float], float] | None = None,
    ) -> None:
        self.timeline = Timeline()
        self.now = 0.0
        self._governor = governor
        self._server = server
        self._frontier = Frontier(pages, lambda: self._governor.kinds.get(HOST, {}))
        self._delay = delay
        self._awake = awake or (lambda instant: instant)
        self._events: list[tuple[float, int, Callable[..., None], tuple[object, ...]]] = []
        self._event_count = 0

    def run(self, until: float) -> Timeline:
        """Crawl until that instant."""
        events = self._events
        while True:
            wake_at = self._awake(self._send())
            while events and events[0][0] <= min(wake_at, until):
                self.now, _, handle, facts = heapq.heappop(events)
                handle(*facts)
                if handle == self._on_answer:
                    break
            else:
                if min(wake_at, until) >= until:
                    self.now = until
                    return self.timeline
                self.now = wake_at

    def drain(self) -> None:
        """Await what is in flight; nothing is sent meanwhile."""
        while self._events:
            self.now, _, handle, facts = heapq.heappop(self._events)
            handle(*facts)

    def wait(self, until: float) -> None:
        """Nobody crawls until that instant, if it is to come; nothing may be in flight."""
        self.now = max(self.now, until)

    def hand_over(self, governor: Governor) -> None:
        """Another governor paces the crawl from here; nothing may be in flight."""
        self._governor = governor

    def _at(self, instant: float, handle: Callable[..., None], *facts: object) -> None:
        self._event_count += 1
        heapq.heappush(self._events, (instant, self._event_count, handle, facts))

    def _send(self) -> float:
        """Send whatever may go; returns the instant at which more may."""
        slots = self._frontier.slots
        wake_at = math.inf
        while slots:
            permit = self._send_one(slots[0])
            if isinstance(permit, Blocked):
                wake_at = min(wake_at, permit.until)
                del slots[0]
            else:
                slots = self._frontier.slots
                wake_at = math.inf
        return max(wake_at, math.nextafter(self.now, math.inf))

    def _send_one(self, slot: str) -> Permit | Blocked:
        """Send a page of this slot, if one may go."""
        governor, frontier = self._governor, self._frontier
        page = frontier.choose(
            slot, governor.wanted(slot), lambda page: self._is_suspected(slot, page)
        )
        known = governor.known
        key = slot if known is None else known.leaf_key(slot, HOST, page.kind, {})
        permit = governor.take(key, self.now)
        if isinstance(permit, Permit):
            frontier.take(slot, page)
            self._at(self.now + self._delay(), self._on_arrival, permit, page)
        return permit

    def _is_suspected(self, slot: str, page: Page) -> bool:
        """Whether its slot suspects it just now."""
        return self._governor.slot(slot, self.now).is_suspected(page.number)

    def _on_arrival(self, permit: Permit, page: Page) -> None:
        reply = self._server.on_arrival(self.now, page)
        _check(reply, self._server)
        timeline = self.timeline
        if reply.outcome is Outcome.ACCEPTED:
            timeline.accepted.append(self.now)
        elif reply.outcome is Outcome.REFUSED:
            timeline.refused.append(self.now)
            if reply.banned:
                timeline.banned.append(self.now)
        else:
            timeline.failed.append(self.now)
        back_at = self._awake(self.now + reply.service + self._delay())
        self._at(back_at, self._on_answer, permit, page, reply)

    def _on_answer(self, permit: Permit, page: Page, reply: Reply) -> None:
        latency = self.now - permit.sent_at
        accepted = reply.outcome is Outcome.ACCEPTED
        hints = reply.hints
        answer = Answer(
            reply.outcome,
            latency=None if reply.silent else latency,
            may_lower=accepted,
            silent=reply.silent,
            announced=None if accepted else hints.announced,
            quotas=hints.quotas,
            page=page.number,
            kind=page.kind,
        )
        decision = self._governor.on_answer(permit, answer, self.now)
        if accepted:
            self.timeline.latencies.append(latency)
            self._frontier.on_accepted(page)
        elif decision.again:
            self._frontier.give_back(page)
        elif self._frontier.retry(page):
            self.timeline.lost.append(page.number)


def _check(reply: object, server: Server) -> None:
    """Nothing, where a server's reply is one.

    Raises:
        ValueError: it is none.
    """
    if (
        isinstance(reply, Reply)
        and isinstance(reply.outcome, Outcome)
        and is_finite(reply.service)
        and (reply.hints is NO_HINTS or _are_hints(reply.hints))
    ):
        return
    allowed = (
        "a Reply with an Outcome, with seconds of service from 0 up, and with Hints whose numbers "
        "are None or from 0 up"
    )
    name = type(server).__name__
    raise ValueError(f"{name}.on_arrival has returned {reply!r}: allowed is {allowed}")


def _are_hints(hints: object) -> bool:
    """Whether headers can say that."""
    if not isinstance(hints, Hints) or not isinstance(hints.quotas, (tuple, list)):
        return False
    if not all(isinstance(quota, Quota) for quota in hints.quotas):
        return False
    counts = [
        number
        for quota in hints.quotas
        for number in (quota.remaining, quota.reset, quota.limit, quota.window)
    ]
    return all(number is None or is_finite(number) for number in (hints.retry_after, *counts))
