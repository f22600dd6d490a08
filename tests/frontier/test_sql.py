"""What SQL alone has to see to."""

from __future__ import annotations

import fcntl
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from functools import partial
from itertools import count, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import event
from sqlalchemy.exc import OperationalError

from scrapy_adaptive.frontier.opening import open_frontier
from scrapy_adaptive.frontier.poller import Ranking
from scrapy_adaptive.frontier.protocol import Done, FrontierError, Held, UnavailableError
from scrapy_adaptive.frontier.sql import connecting
from scrapy_adaptive.frontier.sql.admin import Admin
from scrapy_adaptive.frontier.sql.frontier import SqlFrontier
from scrapy_adaptive.frontier.sql.liveness import Liveness
from scrapy_adaptive.frontier.sql.schema import ASLEEP
from scrapy_adaptive.rules.schema import engine_for
from tests.frontier.conftest import Clock, Opened
from tests.frontier.test_conformance import page, urls
from tests.servers.postgres import Postgres

if TYPE_CHECKING:
    from scrapy_adaptive.frontier.protocol import Frontier


def in_sql(frontier: Frontier) -> SqlFrontier:
    """The same; a test of another engine ends here."""
    if not isinstance(frontier, SqlFrontier):
        pytest.skip("it has no tables")
    return frontier


@pytest.fixture
def started(postgres: Postgres, clock: Clock) -> Iterator[Callable[[], SqlFrontier]]:
    """Starts workers on one PostgreSQL, which have no session yet."""
    address = postgres.database()
    with ExitStack() as stack:

        def start() -> SqlFrontier:
            made = SqlFrontier(address, "spider", Ranking(age_share=0), clock)
            stack.callback(made.database.engine.dispose)
            return made

        yield start


def test_the_short_name_of_postgresql_is_read_too(postgres: Postgres) -> None:
    """By known limits as well."""
    address = postgres.database().replace("postgresql://", "postgres://")
    with closing(open_frontier(address, "spider", Ranking())) as frontier:
        assert frontier.counts().ready == 0
    engine = engine_for(address)
    with engine.connect() as connection:
        assert connection.dialect.name == "postgresql"
    engine.dispose()


def test_a_poll_derives_the_queues_anew_before_it_chooses_and_after(
    opened: Opened, clock: Clock
) -> None:
    """What was given back and what is due by now together."""
    frontier = in_sql(opened())
    frontier.turn([], [page("a", 1), page("a", 2), page("b", 1, delay=5.0)], {})
    (held,) = frontier.lease(1, 2).held
    clock.now += 6.0
    said: list[str] = []

    def on_said(connection: Any, cursor: Any, statement: str, *rest: object) -> None:
        said.append(statement)

    event.listen(frontier.database.engine, "before_cursor_execute", on_said)
    back = {held.lease: [visit.id for visit in held.visits]}
    found = frontier.lease(9, 9, back=back).held
    assert {(each.lease.host, len(each.visits)) for each in found} == {("a", 2), ("b", 1)}
    assert sum("UPDATE adaptive_queue" in statement for statement in said) == 2


def test_a_session_that_leases_a_million_hosts_is_no_other_session(opened: Opened) -> None:
    """Else a worker that has died would end the visits of the one that took its hosts."""
    sessions = [in_sql(opened(f"worker {n}")) for n in range(4)]
    one, stale = next(both for both in pairwise(sessions) if both[0]._session % 2 == 0)
    one.turn([], [page("a", 1)], {})
    (before,) = stale.lease(1, 1).held
    stale.release(before.lease, None)
    one._numbers = count((1 << 20) + 1)
    (held,) = one.lease(1, 1).held
    assert held.lease != before.lease
    stale.turn([Done(before.lease, before.visits[0].id)], [], {})
    assert one.counts().leased == 1
    one.lease(0, 0, back={held.lease: [held.visits[0].id]})
    assert one.counts().ready == 1


def test_a_session_is_not_dead_while_it_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others look for it as soon as it is in the table."""
    one, other = Liveness(tmp_path / "crawl.db"), Liveness(tmp_path / "crawl.db")
    flock, seen = fcntl.flock, []

    def look_before(file: int, how: int) -> None:
        if how == fcntl.LOCK_EX:
            seen.append(other.is_dead(7))
        flock(file, how)

    monkeypatch.setattr(fcntl, "flock", look_before)
    one.begin(7)
    assert [*seen, other.is_dead(7)] == [False, False]
    one.end()
    assert list(tmp_path.iterdir()) == []


def test_a_worker_that_is_killed_while_it_frees_the_hosts_of_the_dead_loses_no_visit(
    started: Callable[[], SqlFrontier], clock: Clock
) -> None:
    """Another had passed over these hosts, and forgotten whose visits they gave out."""
    dead, killed, other = started(), started(), started()
    for each in (dead, killed, other):
        each.open("worker", "shared", 10.0)
    dead.turn([], [page("a", 1)], {})
    assert urls(dead.lease(1, 1)) == ["http://a/1"]
    for _ in range(2):
        clock.now += 4.0
        killed.beat({})
        other.beat({})
    clock.now += 4.0
    with killed.database.engine.connect() as connection:  # it is never committed
        assert killed._reap(connection, killed.database.now(connection)) == 1
        other.beat({})
    other.beat({})
    assert urls(other.lease(1, 1)) == ["http://a/1"]


def test_who_could_write_nothing_down_has_not_heard_that_others_are_silent(
    tmp_path: Path, clock: Clock
) -> None:
    """The disk was full for longer than a lease, for both of them."""
    address = f"sqlite:///{tmp_path}/frontier.db"
    one, two = (SqlFrontier(address, "spider", Ranking(age_share=0), clock) for _ in range(2))
    is_full = False

    def on_commit(connection: Any) -> None:
        if is_full:
            raise OperationalError("COMMIT", {}, sqlite3.OperationalError("disk is full"))

    for each in (one, two):
        event.listen(each.database.engine, "commit", on_commit)
        each.open("worker", "shared", 10.0)
    one.turn([], [page("a", 1)], {})
    assert urls(one.lease(1, 1)) == ["http://a/1"]
    for second in range(30):
        is_full = 10 <= second < 29
        clock.now += 1.0
        for each in (two, one):
            with suppress(UnavailableError):
                each.beat({})
    assert one.beat({}).held == 1
    for each in (one, two):
        each.close()


def test_a_worker_that_stops_in_the_midst_of_a_transaction_does_not_stop_the_others(
    started: Callable[[], SqlFrontier], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its locks are free after a while; when it goes on, what it did has not happened."""
    monkeypatch.setattr(connecting, "PATIENCE", 1)
    stopped, other = started(), started()
    other.turn([], [page("a", 1)], {})
    added = 0
    with suppress(UnavailableError), stopped.database.transaction() as connection:
        number = stopped.hosts.number(connection, "a")
        stopped.queues.touch(connection, [number])
        time.sleep(0.5)
        added = other.turn([], [page("a", 2)], {}).added
        stopped.queues.touch(connection, [number])
        pytest.fail("it has its locks yet")
    assert added == 1


def test_what_does_not_pass_by_itself_is_no_outage(started: Callable[[], SqlFrontier]) -> None:
    """It was repeated each second for ever; the next call happens."""
    one = started()
    with pytest.raises(FrontierError, match="NUL"):
        one.turn([], [page("a\0", 1)], {})
    assert one.turn([], [page("a", 1)], {}).added == 1
    with one.database.transaction() as connection:
        connection.exec_driver_sql("ALTER TABLE adaptive_visit RENAME TO mine")
    with pytest.raises(FrontierError, match="adaptive_visit"):
        one.turn([], [page("a", 1)], {})


@pytest.fixture
def pair(started: Callable[[], SqlFrontier]) -> tuple[SqlFrontier, SqlFrontier, list[Held]]:
    """Two workers that each hold a host, of which more is ready."""
    one, two = started(), started()
    held = []
    for frontier, host in ((one, "a"), (two, "b")):
        frontier.open(host, "shared", 10.0)
        frontier.turn([], [page(host, 0), page(host, 1)], {})
        held += frontier.lease(1, 1).held
    return one, two, held


def at_once(*calls: Callable[[], object]) -> None:
    """Make these calls, each in a thread; what one of them raises is raised."""
    with ThreadPoolExecutor() as pool:
        for each in [pool.submit(call) for call in calls]:
            each.result()


@pytest.mark.parametrize(("name", "numbers"), [("_end", (0, 2)), ("_refill", (2,))])
def test_workers_that_find_links_to_each_others_hosts_do_not_wait_in_a_circle(
    pair: tuple[SqlFrontier, SqlFrontier, list[Held]],
    name: str,
    numbers: tuple[int, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each has done what the other finds, or takes more of its own host."""
    one, two, (of_one, of_two) = pair
    both = threading.Barrier(2)
    call = getattr(SqlFrontier, name)

    def meet(*given: Any) -> Any:
        answer = call(*given) if name == "_end" else None
        with suppress(threading.BrokenBarrierError):  # one may wait for the other, until it is over
            both.wait(0.5)
        return answer if name == "_end" else call(*given)

    monkeypatch.setattr(SqlFrontier, name, meet)

    def turn(frontier: SqlFrontier, held: Held, host: str) -> None:
        done = [Done(held.lease, held.visits[0].id)] if name == "_end" else []
        new = [page(host, number) for number in numbers]
        visits = frontier.turn(done, new, {held.lease: 1}).refills[held.lease]
        assert visits is not None
        assert len(visits) == 1

    at_once(partial(turn, one, of_one, "b"), partial(turn, two, of_two, "a"))
    assert one.counts().ready == 2


def test_a_poll_waits_for_nobody_who_waits_for_what_it_has_found_to_be_due(
    started: Callable[[], SqlFrontier], clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A turn holds the queue of one host, and needs that of another, of which something is due."""
    one, two = started(), started()
    one.open("one", "shared", 10.0)
    one.turn([], [page("a", 1), page("b", 1, delay=5.0)], {})
    clock.now += 6.0
    both = threading.Barrier(2, timeout=20)
    choose = one._choose

    def meet(*given: Any) -> Any:
        both.wait()
        return choose(*given)

    monkeypatch.setattr(one, "_choose", meet)

    def turn() -> None:
        with two.database.transaction() as connection:
            numbers = two.hosts.numbers(connection, ["a", "b"])
            two.queues.touch(connection, [numbers["a"]])
            both.wait()
            two.queues.touch(connection, [numbers["b"]])

    at_once(lambda: one.lease(9, 9), turn)
    assert one.counts().leased == 2


def test_a_database_that_another_process_is_just_making_is_waited_for(tmp_path: Path) -> None:
    """Several workers that begin together make it together."""
    with closing(sqlite3.connect(tmp_path / "crawl.db", check_same_thread=False)) as other:
        other.isolation_level = None
        other.execute("BEGIN IMMEDIATE")
        other.execute("CREATE TABLE found (number)")
        timer = threading.Timer(0.2, other.execute, ["COMMIT"])
        timer.start()
        frontier = SqlFrontier(f"sqlite:///{tmp_path}/crawl.db", "spider", Ranking())
        timer.join()
        assert frontier.turn([], [page("a", 1)], {}).added == 1
        frontier.close()


def test_visits_of_more_hosts_than_a_statement_may_name_are_due_again(
    started: Callable[[], SqlFrontier],
) -> None:
    """A broad crawl has so many hosts that are gone."""
    frontier, count = started(), 66_000
    with frontier.database.transaction() as connection:
        connection.exec_driver_sql(
            f"INSERT INTO adaptive_host (host) SELECT 'h' || n FROM generate_series(1, {count}) n"
        )
        connection.exec_driver_sql(
            "INSERT INTO adaptive_visit (spider_id, host_id, url, payload, state, error) "
            f"SELECT {frontier.spider}, id, host, '', {ASLEEP}, 'gone' FROM adaptive_host"
        )
    assert Admin(frontier).retry(least=None, most=None, host=None) == count
