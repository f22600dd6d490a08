"""A simulated crawler: endless pages of one site, paced by the very governor of real crawls.

Laws
----
* Time is virtual; it jumps from event to event.
* A refused page goes back behind the pages that wait, as in `HostQueue`; none is lost by pain.
* Whatever the governor answers is obeyed; nothing else paces the crawl.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from scrapy_adaptive.core.facts import Answer, Hold, Outcome, Permit, Wanted

from .wire import Page

if TYPE_CHECKING:
    from scrapy_adaptive.core.governor import Governor

    from .wire import Reply, Server

HOST = "site"
"""The slot of every simulated page."""

WAITING = 100
"""Pages that wait in the crawler's queue: a refused page comes again after as many others."""

RETRIES = 1
"""Times that a broken page is fetched again: with the refusal and the recheck that showed it to
be broken it has been fetched as often as RETRY_TIMES of Scrapy says."""


@dataclass(slots=True)
class Timeline:
    """What a simulated crawl did; instants in seconds since it began, as the server saw them."""

    accepted: list[float] = field(default_factory=list)
    refused: list[float] = field(default_factory=list)
    banned: list[float] = field(default_factory=list)
    """Hits while banned; they are among the refused too."""
    latencies: list[float] = field(default_factory=list)
    """Seconds, of accepted requests, in order."""
    lost_count: int = 0
    """Broken pages that were given up."""


class Frontier:
    """The pages of one site that wait to be fetched; fresh ones without end."""

    def __init__(self, pages: Iterator[Page]) -> None:
        self._fresh = pages
        self._waiting: deque[Page] = deque(next(pages) for _ in range(WAITING))
        self._retries: Counter[int] = Counter()

    def choose(self, wanted: Wanted, is_suspect: Callable[[Page], bool]) -> Page:
        """The page that serves best just now: the first of those that fit, or of all."""
        if wanted is Wanted.ANY:
            return self._waiting[0]
        suspected = wanted is Wanted.SUSPECTED
        fits = (page for page in self._waiting if is_suspect(page) == suspected)
        return next(fits, self._waiting[0])

    def take(self, page: Page) -> None:
        """This page is fetched; a fresh one joins the others."""
        self._waiting.remove(page)
        if len(self._waiting) < WAITING:
            self._waiting.append(next(self._fresh))

    def give_back(self, page: Page) -> None:
        """A refused page waits behind the others."""
        self._waiting.append(page)

    def retry(self, page: Page) -> bool:
        """A broken page is fetched again a few times; returns whether it was given up."""
        self._retries[page.number] += 1
        if self._retries[page.number] <= RETRIES:
            self._waiting.append(page)
            return False
        del self._retries[page.number]
        return True


class Crawl:
    """One simulated crawl.

    Args:
        governor: paces it.
        server: the site.
        pages: what there is to fetch, without end.
        delay: returns the seconds that one message takes over the network, each way.
    """

    def __init__(
        self, governor: Governor, server: Server, pages: Iterator[Page], delay: Callable[[], float]
    ) -> None:
        self.timeline = Timeline()
        self.now = 0.0
        self._governor = governor
        self._server = server
        self._frontier = Frontier(pages)
        self._delay = delay
        self._events: list[tuple[float, int, Callable[..., None], tuple[object, ...]]] = []
        self._event_count = 0

    def run(self, until: float) -> Timeline:
        """Crawl until that instant."""
        events = self._events
        while True:
            wake_at = self._send()
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

    def _at(self, instant: float, handle: Callable[..., None], *facts: object) -> None:
        self._event_count += 1
        heapq.heappush(self._events, (instant, self._event_count, handle, facts))

    def _send(self) -> float:
        """Send whatever may go; returns the instant at which more may."""
        governor, frontier = self._governor, self._frontier
        while True:
            page = frontier.choose(governor.wanted(HOST), self._is_suspect)
            permit = governor.take(HOST, self.now)
            if isinstance(permit, Hold):
                return max(permit.until, math.nextafter(self.now, math.inf))
            frontier.take(page)
            self._at(self.now + self._delay(), self._on_arrival, permit, page)

    def _is_suspect(self, page: Page) -> bool:
        return self._governor.slot(HOST, self.now).is_suspect(page.number)

    def _on_arrival(self, permit: Permit, page: Page) -> None:
        reply = self._server.on_arrival(self.now, page)
        timeline = self.timeline
        if reply.outcome is Outcome.ACCEPTED:
            timeline.accepted.append(self.now)
        else:
            timeline.refused.append(self.now)
            if reply.banned:
                timeline.banned.append(self.now)
        back_at = self.now + reply.service + self._delay()
        self._at(back_at, self._on_answer, permit, page, reply)

    def _on_answer(self, permit: Permit, page: Page, reply: Reply) -> None:
        latency = self.now - permit.sent_at
        accepted = reply.outcome is Outcome.ACCEPTED
        hints = reply.hints
        told = hints.retry_after if hints.retry_after is not None else hints.reset
        answer = Answer(
            reply.outcome,
            latency=latency,
            may_lower=accepted,
            told=None if accepted else told,
            quotas=hints.quotas,
            page=page.number,
        )
        decision = self._governor.on_answer(permit, answer, self.now)
        if accepted:
            self.timeline.latencies.append(latency)
        elif decision.event.is_pain:
            self._frontier.give_back(page)
        elif self._frontier.retry(page):
            self.timeline.lost_count += 1
