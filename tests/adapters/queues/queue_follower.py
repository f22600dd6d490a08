"""Follows a crawl by hand beside its model, and holds each of its steps against it.

Laws
----
* The governor is asked of every host whether it may send: the queues are not.
* While the whole crawl is held, what nobody paces may go.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize
from scrapy import Request

from scrapy_adaptive.core.types import Wanted
from tests.adapters.queues.queue_model import BACK, NEW, START, Entry, Pile
from tests.adapters.queues.queue_room import Room, page

NOBODY = ""
OPTED_OUT = " (adaptive_dont_throttle)"
SHARED = "s"
"""A slot that requests of any host may be sent through."""

MOST = 2
"""Requests of one host at a time."""

SETTINGS: dict[str, Any] = {
    "ADAPTIVE_BURST": 2,
    "ADAPTIVE_GLOBAL_TRIP_SLOTS": 3,
    "ADAPTIVE_START_DELAY": 0.25,
    "CONCURRENT_REQUESTS_PER_DOMAIN": MOST,
    "DOWNLOAD_DELAY": 0.25,
}


def is_paced(host: str) -> bool:
    """Whether a host's requests wait for its slot."""
    return host != NOBODY and not host.endswith(OPTED_OUT)


class Follower(RuleBasedStateMachine):
    """A crawl and what it must do."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.count = 0
        self.on_way: dict[Request, str] = {}
        """Requests popped that are not at the gate yet, and the slots that have their places."""
        self.past: dict[Request, Entry] = {}
        """All requests popped that have not left."""

    @initialize(lifo=st.booleans(), together=st.sampled_from(["", "", "ab", "abcd"]))
    def open(self, lifo: bool, together: str) -> None:
        """The crawl begins; a middleware sends some hosts through one slot."""
        kind = "Lifo" if lifo else "Fifo"
        self.settings = {
            **SETTINGS,
            "SCHEDULER_MEMORY_QUEUE": f"scrapy.squeues.{kind}MemoryQueue",
            "SCHEDULER_DISK_QUEUE": f"scrapy.squeues.Pickle{kind}DiskQueue",
        }
        self.lifo, self.together = lifo, together
        self.memory, self.disk = Pile(lifo), Pile(lifo)
        self.room = Room(Path(self.folder.name), by_hand=True, **self.settings)

    def teardown(self) -> None:
        if hasattr(self, "room"):
            self.room.close()
        self.folder.cleanup()

    @property
    def wired(self) -> list[Request]:
        """Requests that their sites have to answer."""
        return [request for request in self.past if request in self.room.on_wire]

    @property
    def hosts(self) -> list[str]:
        """Hosts for which anything waits."""
        return sorted(self.memory.hosts | self.disk.hosts)

    def slots_of(self, host: str) -> list[str]:
        """The slots through which the queue has seen this host's requests go."""
        return list(self.room.routing.slots_of(host))

    def free(self, pile: Pile) -> list[str]:
        """Hosts that may send at once, and for which anything waits."""
        return [host for host in sorted(pile.hosts) if self.may_send(host)]

    def owed(self, pile: Pile) -> list[str]:
        """Those of them that must not be denied; while the whole crawl is held, nobody is."""
        held = self.room.governor.blocked_by_crawl(self.room.clock.seconds())
        return self.free(pile) if held is None else []

    def may_send(self, host: str) -> bool:
        now, governor = self.room.clock.seconds(), self.room.governor
        if is_paced(host):
            holds = [self.room.routing.blocked(slot) for slot in self.slots_of(host)]
            return None in holds and governor.blocked_by_crawl(now) is None
        return host == NOBODY or sum(each.host == host for each in self.past.values()) < MOST

    def expect(self, host: str, priority: int, kind: int, store: str = "", **meta: Any) -> Entry:
        """A new request, and what the model knows of it."""
        self.count += 1
        url = f"{host}/{self.count}" if host else f"data:,{self.count}"
        if kind == START:
            meta["is_start_request"] = True
        return Entry(page(url, priority, **meta), store or host, self.count, kind)

    def enqueue(
        self,
        host: str,
        priority: int,
        store: str = "",
        *,
        kind: int = NEW,
        can_be_saved: bool = True,
        **meta: Any,
    ) -> None:
        entry = self.expect(host, priority, kind, store, **meta)
        entry.can_be_saved = can_be_saved
        (self.disk if can_be_saved else self.memory).entries.append(entry)
        self.room.push(entry.request)

    def pop_one(self) -> bool:
        self.room.run()
        self.look()
        owed = self.owed(self.memory) or self.owed(self.disk)
        free = self.free(self.memory) + self.free(self.disk)
        wanted = {slot: self.wanted(slot) for host in free for slot in self.slots_of(host)}
        request = self.room.take()
        if request is None:
            assert not owed
            return False
        in_memory = [each for each in self.memory.entries if each.request.url == request.url]
        pile = self.memory if in_memory else self.disk
        assert in_memory or not self.owed(self.memory)
        [entry] = [each for each in pile.entries if each.request.url == request.url]
        assert entry.host in free
        slot = self.room.traffic.reservations.slot_of(request)
        self.check_order(pile, entry, owed, wanted.get(slot, Wanted.ANY))
        pile.entries.remove(entry)
        entry.request = request
        self.past[request], self.on_way[request] = entry, slot
        return True

    def check_order(self, pile: Pile, entry: Entry, owed: list[str], wanted: Wanted) -> None:
        """It was its host's turn, and the request's own."""
        is_suspected = self.room.traffic.is_suspected
        meant = pile.next(entry.host, wanted, is_suspected)
        if entry is not meant and (meant.was_saved or entry.was_saved):
            meant = pile.next(entry.host, Wanted.ANY, is_suspected)
        assert entry is meant
        alone = [host for host in owed if self.slots_of(host) == [host]]
        if wanted is not Wanted.SUSPECTED and entry.host in alone:
            pile.check_turn(entry.host, alone)

    def wanted(self, slot: str) -> Wanted:
        if self.room.traffic.reservations.has_late(slot):
            return Wanted.ANY
        known = [each for each in self.room.governor if each.key == slot]
        return known[0].wanted if known and known[0].suspected else Wanted.ANY

    def picked(self, requests: dict[Request, str], pick: int) -> Request:
        return list(requests)[pick % len(requests)]

    def arrive_at_gate(self, request: Request) -> None:
        host = self.past[request].host
        del self.on_way[request]
        if is_paced(host) and self.key_of(request) in self.together:
            request.meta["download_slot"] = SHARED
        self.room.arrive(request)

    def key_of(self, request: Request) -> str:
        """The slot that a middleware or the spider chose, or the host's."""
        chosen = request.meta.get("download_slot") == SHARED
        return SHARED if chosen else request.url.split("/")[2]

    def look(self) -> None:
        """See which requests have left, and which of them came back."""
        for request in self.room.engine.returned:
            entry = self.past.pop(request, None)
            if entry is not None:
                self.count += 1
                entry.host, entry.kind, entry.number = self.key_of(request), BACK, self.count
                entry.was_saved = False
                self.disk.entries.append(entry)
        self.room.engine.returned.clear()
        under_way = self.room.engine.downloader.under_way
        for request in [each for each in self.past if each not in under_way]:
            del self.past[request]
