"""A session says to a frontier what is to be said, in an order that loses nothing."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from scrapy import Request
from twisted.internet.defer import Deferred

from scrapy_adaptive.adapters.frontier.courier import Courier
from scrapy_adaptive.adapters.frontier.crawl import FrontierCrawl
from scrapy_adaptive.adapters.frontier.outbox import Outbox
from scrapy_adaptive.adapters.frontier.rights import Rights
from scrapy_adaptive.adapters.frontier.session import Owner, Release, Session
from scrapy_adaptive.frontier.poller import PollStrategy, Ranking
from scrapy_adaptive.frontier.protocol import (
    Beat,
    Done,
    Frontier,
    FrontierError,
    Held,
    Lease,
    State,
    Turn,
    UnavailableError,
    Visit,
)
from tests.frontier.conftest import Clock
from tests.frontier.engines import open_engine


class AtOnce(Courier):
    """Calls in this thread."""

    def __init__(self) -> None:
        self.is_busy = False

    def send(
        self, call: Callable[[], Any], told: Callable[[Any, BaseException | None], None]
    ) -> None:
        try:
            answer = call()
        except UnavailableError as error:
            told(None, error)
        else:
            told(answer, None)


class Idle(Owner):
    """A crawl that takes no more work."""

    is_closing = False

    def __init__(self) -> None:
        self.paused = set()
        self.states_of_paused: dict[Lease, State] = {}
        self.leases: dict[Lease, Collection[int]] = {}

    def states(self, *, everything: bool) -> Mapping[Lease, State]:
        return {}

    def paused_states(self) -> Mapping[Lease, State]:
        states = self.states_of_paused
        return {lease: state for lease, state in states.items() if lease.host in self.paused}

    def held(self) -> dict[Lease, Collection[int]]:
        return self.leases

    def unsent(self) -> dict[Lease, list[int]]:
        return {}

    def may_poll(self) -> bool:
        return False

    def dry_hosts(self) -> Mapping[Lease, int]:
        return {}

    def on_opened(self, begins: bool) -> None:
        pass

    def on_wanted(self, leases: Sequence[Lease]) -> None:
        pass


@pytest.fixture
def clock() -> Clock:
    """The frontier's and the crawl's."""
    return Clock()


@pytest.fixture
def frontier(tmp_path: Path, clock: Clock) -> Iterator[Frontier]:
    """One with a visit."""
    address = f"sqlite:///{tmp_path}/crawl.db"
    with closing(open_engine(address, "one", Ranking(), clock)) as made:
        made.turn([], [Visit("a", "http://a/")], {})
        yield made


@pytest.fixture
def outbox() -> Outbox:
    """What is done."""
    return Outbox()


@pytest.fixture
def owner() -> Idle:
    """The crawl."""
    return Idle()


@pytest.fixture
def rights(clock: Clock) -> Rights:
    """Nothing is held yet."""
    return Rights(clock)


@pytest.fixture
def session(
    frontier: Frontier, outbox: Outbox, owner: Idle, rights: Rights, clock: Clock
) -> Session:
    """An open session."""
    made = Session(
        frontier,
        AtOnce(),
        rights,
        outbox,
        PollStrategy(),
        owner,
        worker="one",
        egress="shared",
        ttl=60.0,
        clock=clock,
        before_turn=lambda: None,
    )
    made.tick()
    return made


@pytest.fixture
def done(session: Session, frontier: Frontier, outbox: Outbox) -> Held:
    """The visit is done, and not written down yet."""
    (held,) = frontier.lease(1, 1).held
    outbox.add_done(Done(held.lease, held.visits[0].id), [])
    return held


def test_what_is_done_is_written_down_before_its_host_is_given_back(
    session: Session, frontier: Frontier, done: Held
) -> None:
    """A page that takes longer than a host is held for leaves with its host."""
    session.releases.append(Release(done.lease, None, 0.0))
    session.tick()
    counts = frontier.counts()
    assert (counts.finished, counts.ready, len(session.releases)) == (1, 0, 0)


def test_what_is_done_is_not_freed_as_unknown(
    session: Session, frontier: Frontier, owner: Idle, done: Held
) -> None:
    """Where a heartbeat finds that the frontier and the crawl do not hold the same."""
    owner.paused.add("a")
    session.tick()
    counts = frontier.counts()
    assert (counts.finished, counts.ready) == (1, 0)


def test_who_may_take_no_hosts_wants_none(
    session: Session,
    frontier: Frontier,
    owner: Idle,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Others would leave him theirs, which he does not take."""
    told: list[bool] = []
    beat = frontier.beat

    def heard(states: Mapping[Lease, State], *, hungry: bool = False) -> Beat:
        told.append(hungry)
        return beat(states, hungry=hungry)

    monkeypatch.setattr(frontier, "beat", heard)
    monkeypatch.setattr(owner, "may_poll", lambda: True)
    monkeypatch.setattr(owner, "on_polled", lambda: None)
    monkeypatch.setattr(owner, "on_held", lambda held: None)
    frontier.lease(1, 1)
    clock.now += 10.0
    session.tick()  # nothing is left for him
    for is_closing in (False, True):
        owner.is_closing = is_closing
        clock.now += 20.0
        session.tick()
    assert told == [True, False]


def test_a_pause_is_told_at_once(session: Session, frontier: Frontier, owner: Idle) -> None:
    """Twenty seconds before the next heartbeat: whoever takes the host after a kill knows of it."""
    (held,) = frontier.lease(1, 1).held
    owner.paused.add("a")
    owner.states_of_paused = {held.lease: {"is": "paused"}}
    session.tick()
    frontier.release(held.lease, None)
    (again,) = frontier.lease(1, 1).held
    assert again.state == {"is": "paused"}
    assert not owner.paused


Outage = Callable[[float], None]


@pytest.fixture
def outage(
    session: Session, frontier: Frontier, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> Outage:
    """The frontier does not answer for so many seconds; then it is asked again."""

    def away(*_: object, **__: object) -> None:
        raise UnavailableError("away")

    def pass_by(seconds: float) -> None:
        with monkeypatch.context() as patch:
            for name in ("open", "beat", "lease", "turn", "settle", "release_all"):
                patch.setattr(frontier, name, away)
            for _ in range(4):
                session.tick()
                clock.now += seconds / 4
        session.tick()

    return pass_by


@pytest.mark.parametrize("seconds", [8.0, 200.0])
def test_a_pause_that_could_not_be_told_is_told_with_the_first_word(
    session: Session, frontier: Frontier, owner: Idle, outage: Outage, seconds: float
) -> None:
    """For longer than a lease, too: nobody else has taken the host meanwhile."""
    (held,) = frontier.lease(1, 1).held
    owner.paused.add("a")
    owner.states_of_paused = {held.lease: {"is": "paused"}}
    outage(seconds)
    frontier.release(held.lease, None)
    (again,) = frontier.lease(1, 1).held
    assert again.state == {"is": "paused"}
    assert not owner.paused


def test_a_host_that_was_parked_in_an_outage_is_given_back_as_such(
    session: Session, frontier: Frontier, outage: Outage
) -> None:
    """Nobody takes it before its instant, and whoever does knows what was learned."""
    (held,) = frontier.lease(1, 1).held
    session.releases.append(Release(held.lease, {"is": "parked"}, 50.0))
    outage(200.0)
    assert not session.releases
    leased = frontier.lease(1, 1)
    assert (leased.held, leased.wait) == ([], 50.0)


def test_visits_that_were_let_go_while_cut_off_are_given_again(
    session: Session, frontier: Frontier, rights: Rights, owner: Idle, outage: Outage
) -> None:
    """What comes to the gate then goes on to nobody: the crawl has the host yet, and no visit."""
    (held,) = frontier.lease(1, 1).held
    owner.leases, rights.leases["a"] = {held.lease: []}, held.lease
    outage(200.0)
    assert frontier.counts().ready == len(held.visits) == 1


def test_who_waits_for_a_host_goes_on_when_the_frontier_answers_again(
    session: Session, frontier: Frontier, rights: Rights, owner: Idle, outage: Outage, clock: Clock
) -> None:
    """A robots.txt of a host that this worker has: nobody will give it to it anew."""
    (held,) = frontier.lease(1, 1).held
    owner.leases, rights.leases["a"] = {held.lease: [held.visits[0].id]}, held.lease
    request = Request("http://a/robots.txt")
    clock.now += 61.0
    went: list[None] = []
    waiting = Deferred.fromCoroutine(rights.take(request, lambda _: nullcontext()))
    waiting.addCallback(went.append)
    assert len(went) == 0
    outage(200.0)
    assert len(went) == 1
    assert rights.holds(request)


def test_links_are_brought_again_where_the_frontier_may_have_lost_some(
    session: Session,
    frontier: Frontier,
    outbox: Outbox,
    owner: Idle,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A server that was restarted from an earlier state says so."""
    outbox.add_links([Visit("a", "http://a/2", fingerprint=b"2")])
    owner.paused.add("a")
    session.tick()
    assert outbox.is_known(b"2")
    unsure = replace(frontier.beat({}), is_unsure=True)
    monkeypatch.setattr(type(frontier), "beat", lambda *_, **__: unsure)
    owner.paused.add("a")
    session.tick()
    assert not outbox.is_known(b"2")


class Pushed:
    """Seeds that somebody has pushed, more than a crawl has room for."""

    most = 600
    written: tuple[int, ...] = ()

    def __init__(self) -> None:
        self.taken = 0

    def are_due(self, now: float) -> bool:
        return True

    def take(self, most: int) -> int:
        return most

    def on_taken(self, most: int) -> None:
        self.taken += most

    def take_written(self) -> list[int]:
        return [7]


def test_a_batch_of_seeds_that_is_larger_than_the_orders_is_taken_in_parts(
    session: Session, owner: Idle, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None was taken, ever."""
    seeds: Any = Pushed()
    session.seeds = seeds
    monkeypatch.setattr(owner, "may_poll", lambda: not seeds.taken)
    monkeypatch.setattr(owner, "on_held", lambda held: None, raising=False)
    monkeypatch.setattr(owner, "on_polled", lambda: None)
    monkeypatch.setattr(owner, "on_held", lambda held: None)
    session.tick()
    assert 0 < seeds.taken <= PollStrategy().orders


@pytest.mark.parametrize("error", [FrontierError("permission denied"), RuntimeError("odd")])
def test_an_error_that_says_why_ends_the_crawl_without_a_traceback(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    """One that nobody has foreseen is told with all there is."""
    crawl, closed = FrontierCrawl.__new__(FrontierCrawl), list[str]()
    engine: Any = SimpleNamespace(close=closed.append)
    crawl._engine = engine
    crawl.on_failed(error)
    (line,) = caplog.records
    assert str(error) in line.getMessage()
    assert bool(line.exc_info) == isinstance(error, RuntimeError)
    assert closed == ["adaptive_frontier_failed"]


def test_links_that_are_too_many_for_a_turn_leave_before_their_visit(
    session: Session,
    frontier: Frontier,
    outbox: Outbox,
    done: Held,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And before the seed that they are of; a database had refused them all, for ever."""
    monkeypatch.setattr("scrapy_adaptive.adapters.frontier.outbox.MOST_LINKS", 2, raising=False)
    told: list[object] = []
    turn = frontier.turn

    def on_turn(done: Sequence[Done], new: Sequence[Visit], refill: Mapping[Lease, int]) -> Turn:
        told.append((len(done), [visit.url for visit in new]))
        return turn(done, new, refill)

    monkeypatch.setattr(frontier, "turn", on_turn)
    seeds: Any = Pushed()
    seeds.frontier = SimpleNamespace(seeds_written=told.append)
    session.seeds = seeds
    outbox.add_links([Visit("a", f"http://a/{number}") for number in range(1, 6)])
    session.tick()
    urls = [f"http://a/{number}" for number in range(1, 6)]
    assert told == [(0, urls[:2]), (0, urls[2:4]), [7], (1, urls[4:])]
    assert len(outbox) == 0
    assert frontier.counts().ready == 5
