"""Whatever two workers do, in whatever order: nothing is lost, and no host is in two hands.

The model: which visits there are, which were done, and who holds what. Calls fail after they have
happened, clocks go on past leases or are set forward, workers die.
"""

from __future__ import annotations

import tempfile
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from scrapy_adaptive.frontier.poller import Ranking
from scrapy_adaptive.frontier.protocol import (
    Done,
    Frontier,
    Given,
    Held,
    Lease,
    SessionLostError,
    Visit,
)
from tests.frontier.conftest import Clock
from tests.frontier.engines import abandon, open_engine, waits
from tests.servers.valkey import Valkey

HOSTS = ("a", "b", "c")
TTL = 10.0
WORKERS = 2


class Worker:
    """What one worker believes to hold, as long as its own deadline has not passed."""

    def __init__(self, frontier: Frontier) -> None:
        self.frontier = frontier
        self.deadline = 0.0
        self.visits: dict[Lease, dict[int, Given]] = {}

    def give_up(self) -> None:
        self.visits = {}
        self.deadline = 0.0

    def take(self, held: list[Held]) -> None:
        for each in held:
            mine = self.visits.setdefault(each.lease, {})
            for visit in each.visits:
                assert visit.id not in mine
                mine[visit.id] = visit


class FrontierMachine(RuleBasedStateMachine):
    """Two workers on one frontier."""

    def __init__(self) -> None:
        super().__init__()
        self.stack = ExitStack()
        self.clock = Clock()
        self.own = Clock()  # of the workers: nobody sets it
        self.found: set[str] = set()
        self.done: set[str] = set()
        self.workers: list[Worker] = []

    def address(self) -> str:
        """A new, empty frontier."""
        folder = self.stack.enter_context(tempfile.TemporaryDirectory())
        return f"sqlite:///{Path(folder)}/crawl.db"

    @initialize()
    def begin(self) -> None:
        address = self.address()
        for number in range(WORKERS):
            ranking = Ranking(discount=0.5, per_host=4)
            worker = Worker(open_engine(address, "spider", ranking, self.clock))
            self.workers.append(worker)
            self.open(number)

    def teardown(self) -> None:
        for worker in self.workers:
            abandon(worker.frontier)
        self.stack.close()

    def open(self, number: int) -> None:
        worker = self.workers[number]
        worker.give_up()
        worker.frontier.open(f"w{number}", "shared", TTL)
        worker.deadline = self.own.now + TTL

    who = st.integers(0, WORKERS - 1)

    @rule(who=who, host=st.sampled_from(HOSTS), numbers=st.lists(st.integers(0, 30), max_size=5))
    def find(self, who: int, host: str, numbers: list[int]) -> None:
        urls = [f"http://{host}/{number}" for number in numbers]
        new = [
            Visit(host, url, fingerprint=url.encode(), priority=float(number % 3))
            for url, number in zip(urls, numbers, strict=True)
        ]
        self.workers[who].frontier.turn([], new, {})
        self.found |= set(urls)

    @rule(who=who, hosts=st.integers(0, 3), visits=st.integers(1, 6), answers=st.booleans())
    def poll(self, who: int, hosts: int, visits: int, answers: bool) -> None:
        """Where the answer is lost, what it gave is not known."""
        worker = self.workers[who]
        try:
            leased = worker.frontier.lease(hosts, visits)
        except SessionLostError:
            self.open(who)
            return
        if answers:
            worker.take(leased.held)
        else:
            known = {lease: list(given) for lease, given in worker.visits.items()}
            with suppress(SessionLostError):
                worker.frontier.settle(known)

    @rule(who=who, host=st.sampled_from(HOSTS))
    def take_one(self, who: int, host: str) -> None:
        try:
            self.workers[who].take(self.workers[who].frontier.lease(1, 0, only=host).held)
        except SessionLostError:
            self.open(who)

    @rule(who=who, count=st.integers(1, 4), twice=st.booleans(), refill=st.integers(0, 3))
    def finish(self, who: int, count: int, twice: bool, refill: int) -> None:
        """What is done is done once, whoever says it how often."""
        worker = self.workers[who]
        chosen = [
            (lease, each) for lease in worker.visits for each in worker.visits[lease].values()
        ]
        done = [Done(lease, given.id) for lease, given in chosen[:count]]
        lease = next(iter(worker.visits), None)
        asked = {lease: refill} if lease is not None and refill else {}
        for _ in range(1 + twice):
            turn = worker.frontier.turn(done, [], asked)
            for held, more in turn.refills.items():
                if more is None:
                    worker.visits.pop(held, None)
                else:
                    worker.visits[held].update({visit.id: visit for visit in more})
        is_alive = self.own.now < worker.deadline
        for each, given in chosen[:count]:
            worker.visits.get(each, {}).pop(given.id, None)
            if is_alive:
                assert given.url not in self.done
                self.done.add(given.url)
            elif not waits(self.workers[0].frontier, given.url):
                self.done.add(given.url)

    @precondition(lambda self: any(worker.visits for worker in self.workers))
    @rule(who=who)
    def release(self, who: int) -> None:
        worker = self.workers[who]
        lease = next(iter(worker.visits), None)
        if lease is not None:
            worker.frontier.release(lease, {"x": 1})
            del worker.visits[lease]

    @rule(who=who)
    def beat(self, who: int) -> None:
        worker = self.workers[who]
        try:
            worker.frontier.beat({})
        except SessionLostError:
            self.open(who)
        else:
            worker.deadline = self.own.now + TTL

    @rule(who=who)
    def swap(self, who: int) -> None:
        worker = self.workers[who]
        back = {lease: list(given) for lease, given in worker.visits.items()}
        try:
            leased = worker.frontier.lease(3, 4, back=back)
        except SessionLostError:
            self.open(who)
            return
        worker.visits = {lease: {} for lease in worker.visits}
        worker.take(leased.held)

    @rule(seconds=st.floats(0.5, 6.0))
    def wait(self, seconds: float) -> None:
        self.clock.now += seconds
        self.own.now += seconds

    @rule(seconds=st.floats(TTL / 2 + 0.01, 100.0))
    def set_forward(self, seconds: float) -> None:
        """By less who says in time that it lives is not ended either."""
        self.clock.now += seconds

    @rule(who=who)
    def die(self, who: int) -> None:
        """Another begins in its place; its hosts are another's only later."""
        self.workers[who].frontier._session = 0  # type: ignore[attr-defined]
        self.open(who)

    @invariant()
    def no_host_is_in_two_hands(self) -> None:
        alive = [w for w in self.workers if self.own.now < w.deadline]
        hosts = [lease.host for worker in alive for lease in worker.visits]
        assert len(hosts) == len(set(hosts))

    @invariant()
    def nothing_is_lost_and_nothing_done_is_given(self) -> None:
        if not self.workers:
            return
        counts = self.workers[0].frontier.counts()
        assert counts.ready + counts.leased == len(self.found) - len(self.done)
        assert counts.finished == len(self.done)
        for worker in self.workers:
            if self.own.now < worker.deadline:
                held = {each.url for given in worker.visits.values() for each in given.values()}
                assert not held & self.done


SETTINGS = settings(
    max_examples=40,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)

TestFrontierMachine = FrontierMachine.TestCase
TestFrontierMachine.settings = SETTINGS


class RedisMachine(FrontierMachine):
    """The same on Redis."""

    valkey: Valkey

    def address(self) -> str:
        return self.valkey.frontier()


TestRedisMachine = RedisMachine.TestCase
TestRedisMachine.settings = SETTINGS


@pytest.fixture(autouse=True)
def redis_of_the_machine(request: pytest.FixtureRequest) -> None:
    """A server, where the machine needs one."""
    if request.cls is TestRedisMachine:
        RedisMachine.valkey = request.getfixturevalue("valkey")
