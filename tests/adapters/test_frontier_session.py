"""A session says to a frontier what is to be said, in an order that loses nothing."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from scrapy_adaptive.adapters.frontier.courier import Courier
from scrapy_adaptive.adapters.frontier.outbox import Outbox
from scrapy_adaptive.adapters.frontier.rights import Rights
from scrapy_adaptive.adapters.frontier.session import Owner, Release, Session
from scrapy_adaptive.clock import boot_time
from scrapy_adaptive.frontier.opening import open_frontier
from scrapy_adaptive.frontier.poller import PollStrategy, Ranking
from scrapy_adaptive.frontier.protocol import Done, Frontier, Held, Lease, State, Visit


class AtOnce(Courier):
    """Calls in this thread."""

    def __init__(self) -> None:
        self.is_busy = False

    def send(
        self, call: Callable[[], Any], told: Callable[[Any, BaseException | None], None]
    ) -> None:
        told(call(), None)


class Idle(Owner):
    """A crawl that takes no more work."""

    is_closing = False

    def __init__(self) -> None:
        self.paused = set()
        self.states_of_paused: dict[Lease, State] = {}

    def states(self, *, everything: bool) -> Mapping[Lease, State]:
        return {}

    def paused_states(self) -> Mapping[Lease, State]:
        return self.states_of_paused

    def held(self) -> dict[Lease, Collection[int]]:
        return {}

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
def frontier(tmp_path: Path) -> Iterator[Frontier]:
    """One with a visit."""
    with closing(open_frontier(f"sqlite:///{tmp_path}/crawl.db", "one", Ranking())) as made:
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
def session(frontier: Frontier, outbox: Outbox, owner: Idle) -> Session:
    """An open session."""
    made = Session(
        frontier,
        AtOnce(),
        Rights(),
        outbox,
        PollStrategy(),
        owner,
        worker="one",
        egress="shared",
        ttl=60.0,
        clock=boot_time,
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
