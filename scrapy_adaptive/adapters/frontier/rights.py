"""Which hosts this worker may send to, as of this instant.

Laws
----
* Nothing is sent to a host whose lease has run out: the deadline is counted from before its renewal
  was asked for, on a clock that goes on while the machine sleeps, and looked at when a request is
  about to leave.
* A visit whose lease is lost, or whose order was taken back, is not sent: it is another's.
* What goes to a host whose name nobody can have needs no lease: it fails as without a frontier, and
  no engine has to hold the name.
* What else goes to a host that is not held (a robots.txt, an image, a detail page) takes the host
  in a short turn. To one that is to be given back it waits, but for what visits of that host need.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from scrapy.exceptions import IgnoreRequest
from scrapy.utils.defer import maybe_deferred_to_future
from scrapy.utils.httpobj import urlparse_cached
from twisted.internet.defer import Deferred

from scrapy_adaptive.adapters.closing import GivenUpError
from scrapy_adaptive.clock import boot_time

from .visits import part_of

if TYPE_CHECKING:
    from scrapy import Request

    from scrapy_adaptive.frontier.protocol import Lease

    from .visits import OpenVisit


LONGEST_HOST = 253
"""Characters of a host's name, as DNS has it."""

NO_NAME = "nobody can have its host's name"
"""Why a request needs no lease, and becomes no row."""


class TakenBackError(IgnoreRequest):
    """This visit is another's now, or comes later: nothing of it is told to the spider."""


def host_of(request: Request) -> str:
    """The host that a request is leased under."""
    return (urlparse_cached(request).hostname or "").lower()


class Rights:
    """The hosts that are held, and who waits for one.

    Args:
        clock: seconds that go on while the machine sleeps.
        has_visits: tells whether visits of a host are open.
    """

    def __init__(
        self,
        clock: Callable[[], float] = boot_time,
        has_visits: Callable[[Lease], bool] = lambda lease: True,
    ) -> None:
        self._clock = clock
        self._has_visits = has_visits
        self.deadline = -math.inf
        self.leases: dict[str, Lease] = {}
        self.leaving: set[str] = set()
        """Hosts that are given back when nothing is under way to them any more."""
        self.granted_at: dict[str, float] = {}
        """When each host was taken."""
        self.asked_at: dict[str, float] = {}
        """When each host was last sent to, or taken."""
        self._waiters: dict[str, list[Deferred[bool]]] = {}

    @staticmethod
    def are_needed_for(request: Request) -> bool:
        """Whether the request needs a lease: somebody may have the name of its host."""
        host = host_of(request)
        return len(host) <= LONGEST_HOST and "\0" not in host

    @property
    def are_alive(self) -> bool:
        """Whether the session holds, as far as is known here."""
        return self._clock() < self.deadline

    @property
    def wanted(self) -> list[str]:
        """Hosts that somebody waits for, and that are not held."""
        return [host for host in self._waiters if host not in self.leases]

    def holds(self, request: Request) -> bool:
        """Whether the request may be sent, now."""
        host = host_of(request)
        lease = self.leases.get(host)
        if lease is None or not self.are_alive:
            return False
        visit = self.visit_of(request)
        if visit is not None:
            return visit.lease == lease and not visit.is_taken_back and host not in self.leaving
        return host not in self.leaving or self._has_visits(lease)

    def send(self, request: Request) -> bool:
        """The request leaves now, if it may; returns whether."""
        if not self.holds(request):
            return False
        visit = self.visit_of(request)
        if visit is not None:
            visit.was_sent = True
        return True

    def visit_of(self, request: Request) -> OpenVisit | None:
        """The visit whose own page this is; None for what else is under way, though it may have a
        copy of that page's meta: a callback's, or a middleware's to another host."""
        part = part_of(request)
        if part is None or not part.is_main or part.is_back or part.visit.lease is None:
            return None
        return part.visit if part.visit.lease.host == host_of(request) else None

    async def take(
        self, request: Request, waiting: Callable[[Request], AbstractContextManager[None]]
    ) -> None:
        """Wait until the request's host is held.

        Args:
            waiting: is entered while it waits.

        Raises:
            TakenBackError: it is the page of a visit whose host, or order, was taken back.
            GivenUpError: the crawl ends before.
        """
        while not self.holds(request):
            if self.visit_of(request) is not None:
                raise TakenBackError(
                    f"{request} was taken back: its host is another's, or it is later"
                )
            waiter: Deferred[bool] = Deferred()
            self._waiters.setdefault(host_of(request), []).append(waiter)
            with waiting(request):
                is_granted = await maybe_deferred_to_future(waiter)
            if not is_granted:
                raise GivenUpError(f"the lease of {host_of(request)} was not to be had")
        self.asked_at[host_of(request)] = self._clock()

    def live_until(self, deadline: float) -> None:
        """The session holds until then; who waited for that goes on."""
        was_cut_off, self.deadline = not self.are_alive, deadline
        if was_cut_off:
            for host in self.leases.keys() & self._waiters.keys():
                self.wake(host)

    def grant(self, lease: Lease) -> None:
        """The host is held now."""
        self.leases[lease.host] = lease
        self.leaving.discard(lease.host)
        self.asked_at[lease.host] = self.granted_at[lease.host] = self._clock()
        self.wake(lease.host)

    def wake(self, host: str, *, is_granted: bool = True) -> None:
        """Who waits for the host goes on, or is turned away."""
        for waiter in self._waiters.pop(host, ()):
            waiter.callback(is_granted)

    def forget(self, host: str) -> None:
        """The host is not held any more."""
        self.leases.pop(host, None)
        self.leaving.discard(host)
        self.asked_at.pop(host, None)
        self.granted_at.pop(host, None)

    def give_up(self) -> None:
        """Nothing is held any more."""
        self.deadline = -math.inf
        for host in list(self.leases):
            self.forget(host)

    def turn_away(self) -> None:
        """The crawl ends: nobody waits any more."""
        for host in list(self._waiters):
            self.wake(host, is_granted=False)

    def held_for(self, host: str) -> float:
        """Seconds since the host was taken."""
        return self._clock() - self.granted_at.get(host, -math.inf)

    def idle_since(self, host: str) -> float:
        """Seconds since the host was last sent to, or taken."""
        return self._clock() - self.asked_at.get(host, -math.inf)
