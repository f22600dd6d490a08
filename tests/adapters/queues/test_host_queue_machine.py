"""Whatever happens in whatever order, the host queues do what a naive model does.

Hypothesis plays spider, middlewares, sites and clock. Two queues, in memory and on disk, are held
against plain lists; the governor is asked of every host whether it may send.
"""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule
from scrapy.http import Response

from tests.adapters.queues.queue_follower import (
    NOBODY,
    OPTED_OUT,
    SHARED,
    Follower,
    is_paced,
)
from tests.adapters.queues.queue_model import NEW, START, Pile
from tests.adapters.queues.queue_room import Reply, Room
from tests.core.virtual import STEADY

pytestmark = [
    pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning"),
    pytest.mark.usefixtures("no_open_files"),
]

HOSTS = st.sampled_from("aaabbcd")
KEYS = [NOBODY, SHARED, *"abcd", *(host + OPTED_OUT for host in "abcd")]
PRIORITIES = st.sampled_from([0, 0, 0, 1, -1])
PICKS = st.integers(0, 63)
SECONDS = st.sampled_from([0.0, 0.1, 0.25, 2.0, 15.0])
STEP, MOST_STEPS = 600.0, 100
"""Seconds between two looks at a closing spider, which serves what is merely paced, and how many of
them: at the gate several may wait, an hour each."""

REPLIES = st.builds(
    Reply,
    status=st.sampled_from([200, 200, 200, 429, 429, 503, 500]),
    headers=st.sampled_from([{}, {}, {"Retry-After": "1"}, {"Retry-After": "30"}]),
    seconds=st.just(0.0),
)


class Queues(Follower):
    """What happens to requests, and what must hold after it."""

    # What happens

    @rule(host=HOSTS, priority=PRIORITIES, start=st.booleans(), count=st.integers(1, 3))
    def push(self, host: str, priority: int, start: bool, count: int) -> None:
        """The spider yields requests, which can be saved."""
        for _ in range(count):
            self.enqueue(host, priority, kind=START if start else NEW)

    @rule(host=HOSTS, priority=PRIORITIES, start=st.booleans())
    def push_what_cannot_be_saved(self, host: str, priority: int, start: bool) -> None:
        """It falls to memory."""
        kind = START if start else NEW
        self.enqueue(host, priority, kind=kind, can_be_saved=False, call=lambda: None)

    @rule(host=HOSTS, priority=PRIORITIES)
    def push_for_a_shared_slot(self, host: str, priority: int) -> None:
        """Its slot is known before the pop."""
        self.enqueue(host, priority, SHARED, download_slot=SHARED)

    @rule(host=HOSTS, priority=PRIORITIES)
    def push_opted_out(self, host: str, priority: int) -> None:
        """It waits for nothing but its host's concurrency."""
        self.enqueue(host, priority, host + OPTED_OUT, adaptive_dont_throttle=True)

    @rule(priority=PRIORITIES)
    def push_without_a_host(self, priority: int) -> None:
        """It waits for nothing."""
        self.enqueue(NOBODY, priority)

    @rule(count=st.integers(1, 4))
    def pop(self, count: int) -> None:
        """The engine asks, until there is nothing for it."""
        for _ in range(count):
            if not self.pop_one():
                return

    @precondition(lambda self: self.on_way)
    @rule(pick=PICKS, shared=st.sampled_from([False, False, True]))
    def arrive(self, pick: int, shared: bool) -> None:
        """A request reaches the gate, and its slot may be another by now."""
        request = self.picked(self.on_way, pick)
        if shared and is_paced(self.past[request].host):
            request.meta["download_slot"] = SHARED
        self.arrive_at_gate(request)

    @rule(replies=st.lists(REPLIES, min_size=1, max_size=4))
    def go_on(self, replies: list[Reply]) -> None:
        """All that may be sent is sent and answered, and again a while later."""
        for reply in replies:
            while self.pop_one():
                pass
            for request in list(self.on_way):
                self.arrive_at_gate(request)
            for request in self.wired:
                self.room.answer(request, reply)
            self.wait_for_the_next()

    @precondition(lambda self: self.on_way)
    @rule(pick=PICKS)
    def lose(self, pick: int) -> None:
        """A middleware drops a request or answers it from a cache."""
        request = self.picked(self.on_way, pick)
        del self.on_way[request], self.past[request]
        self.room.leave(request, Response(request.url))

    @precondition(lambda self: self.on_way)
    @rule(pick=PICKS, host=HOSTS)
    def replace(self, pick: int, host: str) -> None:
        """A middleware returns another request; nobody tells, but somebody looks."""
        request = self.picked(self.on_way, pick)
        del self.on_way[request], self.past[request]
        other = self.expect(host, 0, NEW)
        self.room.leave(request, other.request)
        self.room.traffic.tick()
        self.disk.entries.append(other)

    @precondition(lambda self: self.room.on_wire)
    @rule(pick=PICKS, reply=REPLIES)
    def answer(self, pick: int, reply: Reply) -> None:
        """A site answers."""
        self.room.answer(self.wired[pick % len(self.wired)], reply)

    @rule(seconds=SECONDS)
    def wait(self, seconds: float) -> None:
        """Time passes."""
        self.room.run(seconds)

    @rule()
    def wait_for_the_next(self) -> None:
        """Time passes until another host may send."""
        slots = {slot for host in self.hosts for slot in self.slots_of(host)}
        holds = [self.room.routing.blocked(slot) for slot in slots]
        instants = [
            blocked.until for blocked in holds if blocked is not None and blocked.until < math.inf
        ]
        if instants:
            self.room.run(max(0.0, min(instants) - self.room.clock.seconds()))

    @rule(reply=REPLIES)
    def close_and_resume(self, reply: Reply) -> None:
        """The crawl is interrupted, and the job goes on in another process."""
        self.room.begin_close()
        for request in list(self.on_way):
            self.arrive_at_gate(request)
        for _ in range(MOST_STEPS):
            for request in self.wired:
                self.room.answer(request, reply)
            self.room.run(STEP)
            self.room.traffic.tick()
            self.look()
            if not self.past:
                break
        assert not self.past
        self.room.close()
        self.memory = Pile(self.lifo)
        self.disk.save()
        self.room = Room(Path(self.folder.name), by_hand=True, **self.settings)

    # What holds after each step

    @invariant()
    def nothing_is_lost_and_nobody_leaves_a_trace(self) -> None:
        self.look()
        for queue, pile in ((self.room.memory, self.memory), (self.room.disk, self.disk)):
            assert len(queue) == len(pile.entries)
            assert sorted(host for host, _ in queue.counts) == sorted(pile.hosts)
            assert {host for host in KEYS if host in queue} == pile.hosts
        count = len(self.memory.entries) + len(self.disk.entries)
        assert self.room.scheduler.has_pending_requests() == (count > 0)

    @invariant()
    def a_place_is_reserved_for_each_request_on_its_way(self) -> None:
        self.look()
        slots = list(self.on_way.values())
        for slot in self.room.governor:
            late = self.room.traffic.reservations._late[slot.key]
            assert slot.reserved + late == slots.count(slot.key)
        for slot_key, count in self.room.traffic.reservations._unpaced.items():
            assert count == sum(entry.host == slot_key for entry in self.past.values())

    @invariant()
    def the_engine_asks_when_any_host_may_send(self) -> None:
        self.room.run()
        self.look()
        assert self.room.engine.is_nudged or not self.owed(self.memory) + self.owed(self.disk)
        assert len(self.room.clock.getDelayedCalls()) <= 1


TestQueues = Queues.TestCase
TestQueues.settings = settings(STEADY, max_examples=60, stateful_step_count=50)
