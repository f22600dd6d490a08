"""Requests by host: a `SCHEDULER_PRIORITY_QUEUE` in which a sleeping host holds nobody up.

Laws
----
* A host is ready, and has its turn by `core/turns.py`, or asleep until one of its slots may send;
  `pop` asks the ready ones only, and never blocks: None when all sleep.
* When a slot may send, one of the hosts that wait for it wakes; if it still may, the next one.
* What `pop` gives has one place of its slot reserved.
* Push, pop, wake and `len()` cost O(log hosts) or less, for each slot that a host goes to.
* The saved state is that of Scrapy's default queue, `{host: priorities}`, in the same files.

**Source**: the ready and snoozed queues of Heritrix's frontier and the visit manager of iudex.
**Departs**: a host is asleep because of what its site did, not only for a fixed politeness time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

from scrapy.pqueues import ScrapyPriorityQueue
from scrapy.utils.misc import build_from_crawler

from scrapy_adaptive.adapters.errors import SettingsError, one_line_errors
from scrapy_adaptive.adapters.scrapy_internals import forget_spider, queue_path
from scrapy_adaptive.adapters.set_up import fallback_queue, refuse_half_a_set_up
from scrapy_adaptive.core.turns import Turns
from scrapy_adaptive.core.types import Wanted

from .host_requests import HostRequests
from .open_files import OpenFiles
from .routing import STALE
from .saved_marks import restore
from .waiting_room import routing_of

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.pqueues import QueueProtocol
    from typing_extensions import Self

    from scrapy_adaptive.core.types import Blocked

    from .routing import Routing

MOST_LOOKS = 100
"""Hosts that one pop finds not to be ready after all, before it lets others have the loop."""


class HostQueue:
    """A priority queue for Scrapy's scheduler, by host.

    Args:
        routing: knows the slots of this crawl's hosts.
        open_queue: opens Scrapy's own queue of one host, given its key and priorities.
        path: folder in which requests are stored; empty for a queue in memory.
        state: what `close` returned when the queue was last used.

    Raises:
        SettingsError: the state is another queue's.
    """

    @classmethod
    def from_crawler(
        cls,
        crawler: Crawler,
        downstream_queue_cls: type[QueueProtocol],
        key: str,
        startprios: Mapping[str, Iterable[int]] | None = None,
        *,
        start_queue_cls: type[QueueProtocol] | None = None,
    ) -> Any:
        """The queue that Scrapy's scheduler asks for.

        With ADAPTIVE_ENABLED = False it is the one of ADAPTIVE_FALLBACK_PRIORITY_QUEUE.

        Raises:
            SettingsError: the extension is not switched on, or the state is another queue's.
        """
        try:
            routing = routing_of(crawler)
            if routing is not None:
                return cls._of_crawl(
                    crawler, routing, downstream_queue_cls, key, startprios, start_queue_cls
                )
            with one_line_errors():
                refuse_half_a_set_up(crawler.settings, cls.__name__)
                fallback = fallback_queue(crawler.settings)
        except SettingsError:
            forget_spider(crawler)
            raise
        return build_from_crawler(
            fallback,
            crawler,
            downstream_queue_cls,
            key,
            startprios or (),
            start_queue_cls=start_queue_cls,
        )

    @classmethod
    def _of_crawl(
        cls,
        crawler: Crawler,
        routing: Routing,
        downstream_queue_cls: type[QueueProtocol],
        key: str,
        startprios: Mapping[str, Iterable[int]] | None,
        start_queue_cls: type[QueueProtocol] | None,
    ) -> Self:
        """The queue of a crawl that has the extension."""

        def open_queue(host: str, priorities: Iterable[int]) -> ScrapyPriorityQueue:
            path = queue_path(key, host)
            return ScrapyPriorityQueue(
                crawler, downstream_queue_cls, path, priorities, start_queue_cls=start_queue_cls
            )

        with one_line_errors():
            return cls(routing, open_queue, key, startprios or {})

    def __init__(
        self,
        routing: Routing,
        open_queue: Callable[[str, Iterable[int]], ScrapyPriorityQueue],
        path: str,
        state: Mapping[str, Iterable[int]],
    ) -> None:
        refuse_foreign(state, path)
        self._routing = routing
        self.is_stored = bool(path)
        """Whether its requests outlive the process."""
        self._hosts = OpenFiles(open_queue, path)
        self._ready = Turns()
        self._asleep: dict[str, Iterable[str]] = {}
        """Hosts that may not send, and the slots for which each waits."""
        self._sleepers: dict[str, Turns] = {}
        """Slot to the hosts that wait for it."""
        self._leaves: dict[str, dict[str, None]] = {}
        """Slot to the hosts that are leaves of it: requests that rules count apart."""
        self._count = 0
        routing.join(self)
        for host, priorities in state.items():
            requests = self._add(host, priorities)
            self._count += len(requests)
            if requests:
                self._file(requests)
            else:
                self._remove(requests)

    # Scrapy's interface

    def __len__(self) -> int:
        return self._count

    def __contains__(self, host: str) -> bool:
        return host in self._hosts

    def push(self, request: Request) -> None:
        """A request; one that was refused goes behind its host's requests of equal priority, and so
        does another for its page, as a middleware of the user's own makes one.

        Raises:
            ValueError: it cannot be serialised.
        """
        routing = self._routing
        is_back = restore(request) is not None or routing.was_refused(request)
        self._push(request, HostRequests.push_back if is_back else HostRequests.push)
        routing.on_pushed()

    def pop(self) -> Request | None:
        """A request that may be sent, one place of its slot reserved; None when all sleep."""
        request = self._pop()
        if request is None and self._count:
            self._routing.on_asked_in_vain()
        return request

    def _pop(self) -> Request | None:
        if self._routing.before_pop():
            return None
        for _ in range(MOST_LOOKS):
            host = self._ready.next()
            if host is None:
                return None
            slot, blocked = self._routing.reserve(host)
            if blocked is None:
                request = self._take(host, slot)
                if request is not None:
                    return request
            elif blocked.reason.is_of_crawl:
                self._routing.await_crawl(blocked)
                return self._pop_unpaced()
            else:
                self._sleep(host, blocked)
        self._routing.ask_again()
        return None

    def close(self) -> dict[str, list[int]]:
        """Save everything that is stored; returns the priorities of each host."""
        return self._hosts.close()

    def withdraw(self, is_meant: Callable[[Request], bool]) -> None:
        """Drop the requests that are meant."""
        for host in [requests.host for requests in self._hosts]:
            self._withdraw_of(host, is_meant)

    def _withdraw_of(self, host: str, is_meant: Callable[[Request], bool]) -> None:
        requests = self._hosts[host]
        was_back = set(map(id, requests.back))
        found = [requests.pop() for _ in range(len(requests))]
        kept = [request for request in found if request is not None and not is_meant(request)]
        self._count -= len(found)
        for request in kept:
            is_back = id(request) in was_back
            (requests.push_back if is_back else requests.push)(request)
        self._count += len(requests)
        if not requests:
            self._remove(requests)

    # What the routing asks and tells

    @property
    def counts(self) -> Iterator[tuple[str, int]]:
        """Hosts that have requests here, and how many."""
        return ((requests.host, len(requests)) for requests in self._hosts)

    @property
    def has_ready(self) -> bool:
        """Whether any host may send, as far as is known."""
        return bool(self._ready)

    @property
    def back_count(self) -> int:
        """Refused requests that wait here."""
        return sum(requests.back_count for requests in self._hosts)

    def awaits(self, slot: str) -> bool:
        """Whether requests wait here for that slot, which may not send."""
        return slot in self._sleepers

    def waiting(self, slot: str) -> int:
        """Requests that wait for that slot."""
        hosts = {*self.hosts_of(slot), *self._sleepers.get(slot, ())}
        return sum(len(found) for host in hosts if (found := self._hosts.get(host)))

    def hosts_of(self, slot: str) -> list[str]:
        """Hosts that have requests here and are leaves of that slot; of very many some."""
        hosts = [slot, *islice(self._leaves.get(slot, ()), MOST_LOOKS)]
        return [host for host in hosts if host in self._hosts]

    def back(self, host: str) -> list[Request]:
        """The host's requests that were refused, and may leave by the rules."""
        found = [self._hosts[each] for each in self.hosts_of(host)]
        free = [each for each in found if each.back_count and self._routing.may_leave(each.host)]
        return [request for requests in free for request in requests.back]

    def wake(self, slot: str) -> bool:
        """The slot is free to send; returns whether a host that slept is ready by it."""
        sleepers = self._sleepers.get(slot)
        host = None if sleepers is None else sleepers.next()
        if sleepers is None or host is None:
            return False
        sleepers.serve(host)
        self._rise(host)
        self._file(self._hosts[host])
        return True

    def look_again(self, host: str) -> bool:
        """The host's requests go to other slots than was thought; returns whether it slept."""
        if host not in self._asleep:
            return False
        self._rise(host)
        self._file(self._hosts[host])
        return True

    def look_at_copies(self, slot: str) -> bool:
        """The slot is silent: who has a stale copy need not wait; returns whether one did."""
        hosts = [host for host in self._sleepers.get(slot, ()) if host.endswith(STALE)]
        return sum(map(self.look_again, hosts)) > 0

    def settle(self) -> bool:
        """Hosts that turn out not to be ready go to sleep; returns whether one is ready."""
        for _ in range(MOST_LOOKS):
            host = self._ready.next()
            if host is None:
                return False
            blocked = self._routing.blocked_of(host)
            if blocked is None:
                return True
            if blocked.reason.is_of_crawl:
                self._routing.await_crawl(blocked)
                return self._unpaced() is not None
            self._sleep(host, blocked)
        return True

    def count_asleep_beyond(self, instant: float) -> int:
        """Requests of hosts that will sleep beyond that instant, or until a rule is changed, as far
        as is known."""
        blocked, is_stopped = self._routing.blocked, self._routing.is_stopped

        def sleeps_long(slots: Iterable[str]) -> bool:
            return all((why := blocked(each)) and instant < why.until < math.inf for each in slots)

        return sum(
            len(self._hosts[host])
            for host, slots in self._asleep.items()
            if sleeps_long(slots) or is_stopped(host)
        )

    def look_again_at_all(self) -> None:
        """Whatever sleeps may have another reason to, or none."""
        for host in list(self._asleep):
            self.look_again(host)

    # Inside

    def _push(self, request: Request, push: Callable[[HostRequests, Request], bool]) -> None:
        host = self._routing.queue_key(request)
        requests = self._hosts.get(host)
        if requests is None:
            requests = self._add(host)
            requests.naming = self._routing.naming
        try:
            is_topmost = push(requests, request)
        except ValueError:
            if not requests:
                self._remove(requests)
            raise
        self._count += 1
        if self.is_stored:
            self._hosts.keep_open(requests)
        if is_topmost:
            self._file(requests)

    def _add(self, host: str, priorities: Iterable[int] = ()) -> HostRequests:
        self._routing.on_queue(host)
        if (slot := self._routing.slot_of(host)) != host:
            self._leaves.setdefault(slot, {})[host] = None
        return self._hosts.add(host, priorities)

    def _remove(self, requests: HostRequests) -> None:
        self._ready.remove(requests.host)
        self._rise(requests.host)
        self._hosts.remove(requests)
        slot = self._routing.slot_of(requests.host)
        if slot in self._leaves:
            self._leaves[slot].pop(requests.host, None)
            if not self._leaves[slot]:
                del self._leaves[slot]
        self._routing.on_empty(requests.host)

    def _pop_unpaced(self) -> Request | None:
        """A request that needs no leave: what holds the whole crawl does not hold it."""
        host = self._unpaced()
        if host is None or self._routing.reserve(host)[1] is not None:
            return None
        return self._take(host, host)

    def _unpaced(self) -> str | None:
        """A host that is ready and needs no leave."""
        hosts = (each for each in islice(self._routing.unpaced, MOST_LOOKS) if each in self._ready)
        return next((each for each in hosts if self._routing.blocked(each) is None), None)

    def _take(self, host: str, slot: str) -> Request | None:
        """The host's request whose turn it is; None where there was none after all."""
        routing, requests = self._routing, self._hosts[host]
        wanted = routing.wanted(slot) if requests.has_choice else Wanted.ANY
        self._count -= len(requests)
        request = self._pop_own(requests, wanted)
        left = len(requests)
        self._count += left
        routing.on_popped(request, host, slot)
        if left:
            if self.is_stored:
                self._hosts.keep_open(requests)
            self._ready.again(host, self._rank(requests))
        else:
            self._ready.serve(host)
            self._remove(requests)
        for each in (slot, *routing.counted(host)):
            self._wake_next(each)  # others wait for this slot, or meter, too
        return request

    def _wake_next(self, key: str) -> None:
        if key in self._sleepers and self._routing.blocked(key) is None:
            self.wake(key)

    def _pop_own(self, requests: HostRequests, wanted: Wanted) -> Request | None:
        """A request of this host; one whose class was split off since goes to its class's."""
        routing = self._routing
        for _ in range(MOST_LOOKS):
            back_count = requests.back_count
            request = requests.pop(wanted, routing.is_suspected)
            if request is None or routing.class_key(request, requests) == requests.host:
                return request
            was_back = requests.back_count < back_count
            self._push(request, HostRequests.push_back if was_back else HostRequests.push)
        return None

    def _file(self, requests: HostRequests) -> None:
        """Requests wait for this host: it is ready as far as is known, or asleep."""
        host, rank = requests.host, self._rank(requests)
        for slot in self._asleep.get(host, ()):
            self._sleepers[slot].file(host, rank)
        if host not in self._asleep:
            self._ready.file(host, rank)
            self._routing.look_at_start()

    def _rank(self, requests: HostRequests) -> float:
        rank = requests.top or 0
        return rank + self._routing.handicap(requests.host) if self._routing.discount else rank

    def _sleep(self, host: str, blocked: Blocked) -> None:
        self._ready.remove(host)
        slots = self._asleep[host] = self._routing.waits_for(host, blocked)
        for slot in slots:
            self._sleepers.setdefault(slot, Turns())
        self._file(self._hosts[host])
        self._routing.on_asleep(slots, blocked)
        if blocked.meter:  # the slot may be free for others that wait for it
            for slot in self._routing.slots_of(host):
                self._wake_next(slot)

    def _rise(self, host: str) -> None:
        for slot in self._asleep.pop(host, ()):
            sleepers = self._sleepers[slot]
            sleepers.remove(host)
            if not sleepers:
                del self._sleepers[slot]


def refuse_foreign(state: Any, path: str) -> None:
    """Check that a saved state is that of a queue which keeps hosts apart.

    Raises:
        SettingsError: it is another queue's.
    """
    if not _is_by_host(state):
        raise SettingsError(
            "JOBDIR",
            path,
            "its crawl was begun with a priority queue that does not keep hosts apart; only "
            "one begun with scrapy_adaptive.HostQueue or Scrapy's default can be resumed "
            "(or set SCHEDULER_PRIORITY_QUEUE to the queue it was begun with)",
        )


def _is_by_host(state: object) -> bool:
    """Whether a saved state is `{host: priorities}`."""
    return isinstance(state, Mapping) and all(
        isinstance(priorities, list) and all(isinstance(each, int) for each in priorities)
        for priorities in state.values()
    )
