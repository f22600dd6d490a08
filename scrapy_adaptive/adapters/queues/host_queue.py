"""Requests by host: a `SCHEDULER_PRIORITY_QUEUE` in which a sleeping host holds nobody up.

Laws
----
* A host is ready, and has its turn by `core/rota.py`, or asleep until the governor lets it send;
  `pop` asks the ready ones only, and never blocks: None when all sleep.
* What `pop` gives has one place of its slot reserved.
* Push, pop, wake and `len()` cost O(log hosts) or less.
* The saved state is that of Scrapy's default queue, `{host: priorities}`, in the same files.

**Source**: the ready and snoozed queues of Heritrix's frontier and the visit manager of iudex.
**Departs**: a host is asleep because of what its site did, not only for a fixed politeness time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

from scrapy.exceptions import NotConfigured
from scrapy.pqueues import ScrapyPriorityQueue
from scrapy.utils.misc import build_from_crawler

from scrapy_adaptive.adapters.errors import SettingsError
from scrapy_adaptive.adapters.extension import AdaptiveThrottle, one_line_errors
from scrapy_adaptive.adapters.scrapy_internals import queue_path
from scrapy_adaptive.adapters.settings import fallback_priority_queue
from scrapy_adaptive.core.facts import Reason, Wanted
from scrapy_adaptive.core.rota import Rota

from .host_requests import HostRequests, SharedRequests
from .open_files import OpenFiles

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.pqueues import QueueProtocol

    from scrapy_adaptive.core.facts import Hold

    from .routing import Routing

MOST_LOOKS = 100
"""Hosts that one pop finds not to be ready after all, before it lets others have the loop."""


class HostQueue:
    """A priority queue for Scrapy's scheduler, by host.

    Args:
        hosts: knows the hosts of this crawl.
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
            extension = AdaptiveThrottle.of(crawler)
        except NotConfigured:
            return build_from_crawler(
                fallback_priority_queue(crawler.settings),
                crawler,
                downstream_queue_cls,
                key,
                startprios or (),
                start_queue_cls=start_queue_cls,
            )

        def open_queue(host: str, priorities: Iterable[int]) -> ScrapyPriorityQueue:
            path = queue_path(key, host)
            return ScrapyPriorityQueue(
                crawler, downstream_queue_cls, path, priorities, start_queue_cls=start_queue_cls
            )

        with one_line_errors():
            return cls(extension.hosts, open_queue, key, startprios or {})

    def __init__(
        self,
        hosts: Routing,
        open_queue: Callable[[str, Iterable[int]], ScrapyPriorityQueue],
        path: str,
        state: Mapping[str, Iterable[int]],
    ) -> None:
        refuse_foreign(state, path)
        self._hosts = hosts
        self.is_stored = bool(path)
        """Whether its requests outlive the process."""
        self._lanes = OpenFiles(open_queue, hosts.saved_marks, path)
        self._slots: dict[str, HostRequests | SharedRequests] = {}
        """What waits for each slot."""
        self._ready = Rota()
        self._asleep: dict[str, bool] = {}
        """Slots that may not send, and whether they are parked."""
        self._parked_count = 0
        self._count = 0
        hosts.join(self)
        for host, priorities in state.items():
            lane = self._add(host, priorities)
            self._count += len(lane)
            if lane:
                slot = hosts.slot_of(host)
                self._file(slot, self._slots[slot])
            else:
                self._remove(lane)

    # Scrapy's interface

    def __len__(self) -> int:
        return self._count

    def __contains__(self, host: str) -> bool:
        return host in self._lanes

    def push(self, request: Request) -> None:
        """A new request.

        Raises:
            ValueError: it cannot be serialised.
        """
        self._push(request, HostRequests.push)

    def push_back(self, request: Request) -> None:
        """A request that came back: it goes behind its host's requests of equal priority."""
        self._push(request, HostRequests.push_back)

    def pop(self) -> Request | None:
        """A request that may be sent, one place of its slot reserved; None when all sleep."""
        for _ in range(MOST_LOOKS):
            slot = self._ready.next()
            if slot is None:
                return None
            hold = self._hosts.reserve(slot)
            if hold is None:
                request = self._take(slot)
                if request is not None:
                    return request
            elif hold.reason.is_of_crawl:
                self._hosts.await_crawl(hold)
                return self._pop_unpaced()
            else:
                self._sleep(slot, hold)
        self._hosts.ask_again()
        return None

    def _pop_unpaced(self) -> Request | None:
        """A request that needs no leave: what holds the whole crawl does not hold it."""
        for slot in islice(self._hosts.unpaced, MOST_LOOKS):
            if slot in self._ready and self._hosts.reserve(slot) is None:
                return self._take(slot)
        return None

    def close(self) -> dict[str, list[int]]:
        """Save everything that is stored; returns the priorities of each host."""
        return self._lanes.close()

    # Sleep

    def is_asleep(self, slot: str) -> bool:
        """Whether requests wait here for that slot, which may not send."""
        return slot in self._asleep

    def wake(self, slot: str) -> bool:
        """The slot may be free to send; returns whether requests that slept are ready by it."""
        if slot not in self._asleep:
            return False
        hold = self._hosts.hold(slot)
        if hold is not None:
            self._set_parked(slot, hold)
            return False
        self._rise(slot)
        self._file(slot, self._slots[slot])
        return True

    def on_hold(self, slot: str, hold: Hold | None) -> None:
        """A slot that sleeps is held by this now."""
        self._set_parked(slot, hold)

    @property
    def back_count(self) -> int:
        """Requests that came back and wait."""
        return sum(lane.back_count for lane in self._lanes)

    @property
    def has_ready(self) -> bool:
        """Whether any host may send, as far as is known."""
        return bool(self._ready)

    @property
    def is_parked(self) -> bool:
        """Whether every host that has requests is parked."""
        return self._parked_count == len(self._slots)

    def lanes(self, slot: str) -> list[HostRequests]:
        """The requests that wait for a slot, by host."""
        unit = self._slots.get(slot)
        return unit.lanes if unit is not None else []

    def move(self, host: str, old: str, new: str) -> None:
        """The host's requests turned out to be sent through another slot."""
        lane = self._lanes.get(host)
        if lane is not None:
            self._leave(lane, old)
            self._enter(lane, new)
            self._file(new, self._slots[new])

    # Inside

    def _push(self, request: Request, push: Callable[[HostRequests, Request], bool]) -> None:
        host = self._hosts.host_of(request)
        lane = self._lanes.get(host)
        if lane is None:
            lane = self._add(host)
        try:
            is_topmost = push(lane, request)
        except ValueError:
            if not lane:
                self._remove(lane)
            raise
        self._count += 1
        if self.is_stored:
            self._lanes.keep_open(lane)
        if is_topmost:
            slot = self._hosts.slot_of(host)
            unit = self._slots[slot]
            if isinstance(unit, SharedRequests):
                unit.file(lane)
            self._file(slot, unit)

    def _add(self, host: str, priorities: Iterable[int] = ()) -> HostRequests:
        self._hosts.on_host(host)
        lane = self._lanes.add(host, priorities)
        self._enter(lane, self._hosts.slot_of(host))
        return lane

    def _remove(self, lane: HostRequests) -> None:
        self._leave(lane, self._hosts.slot_of(lane.host))
        self._lanes.remove(lane)
        self._hosts.on_empty(lane.host)

    def _enter(self, lane: HostRequests, slot: str) -> None:
        unit = self._slots.setdefault(slot, lane)
        if isinstance(unit, HostRequests) and unit is not lane:
            self._slots[slot] = shared = SharedRequests(slot, self._rank)
            shared.file(unit)
            unit = shared
        if isinstance(unit, SharedRequests) and lane:
            unit.file(lane)

    def _leave(self, lane: HostRequests, slot: str) -> None:
        unit = self._slots[slot]
        if isinstance(unit, SharedRequests):
            unit.remove(lane)
            if unit:
                return
        del self._slots[slot]
        self._ready.remove(slot)
        self._rise(slot)

    def _take(self, slot: str) -> Request | None:
        """The request whose turn it is; None where there was none after all."""
        hosts, unit = self._hosts, self._slots[slot]
        wanted = hosts.wanted(slot) if unit.has_choice else Wanted.ANY
        lane = unit.first(wanted)
        self._count -= len(lane)
        request = self._pop_own(lane, wanted)
        left = len(lane)
        self._count += left
        hosts.on_popped(request, lane.host, slot)
        if unit is not lane:
            unit.on_served(lane)
        if left:
            if self.is_stored:
                self._lanes.keep_open(lane)
            self._ready.again(slot, self._rank(lane if unit is lane else unit.first()))
            return request
        self._ready.serve(slot)
        self._remove(lane)
        if unit:
            self._file(slot, unit)
        return request

    def _pop_own(self, lane: HostRequests, wanted: Wanted) -> Request | None:
        """A request of this lane; one whose class was split off since goes to its class's."""
        hosts = self._hosts
        for _ in range(MOST_LOOKS):
            back_count = lane.back_count
            request = lane.pop(wanted, hosts.is_suspect)
            if request is None or not hosts.has_classes(lane.host):
                return request
            if hosts.host_of(request) == lane.host:
                return request
            self._push(
                request,
                HostRequests.push_back if lane.back_count < back_count else HostRequests.push,
            )
        return None

    def _file(self, slot: str, unit: HostRequests | SharedRequests) -> None:
        """Requests wait for this slot: it is ready as far as is known, or asleep."""
        if slot not in self._asleep:
            self._ready.file(slot, self._rank(unit.first()))

    def _rank(self, lane: HostRequests) -> float:
        rank = lane.top or 0
        return rank + self._hosts.handicap(lane.host) if self._hosts.discount else rank

    def _sleep(self, slot: str, hold: Hold) -> None:
        self._ready.remove(slot)
        self._asleep[slot] = False
        self._set_parked(slot, hold)
        self._hosts.on_asleep(slot, hold)

    def _set_parked(self, slot: str, hold: Hold | None) -> None:
        parked = hold is not None and hold.reason is Reason.PARKED
        self._parked_count += parked - self._asleep[slot]
        self._asleep[slot] = parked

    def _rise(self, slot: str) -> None:
        self._parked_count -= self._asleep.pop(slot, False)


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
