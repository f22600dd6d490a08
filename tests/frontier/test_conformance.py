"""What every engine promises, as `frontier/protocol.py` says it."""

from __future__ import annotations

import math
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from scrapy_adaptive.frontier.poller import Ranking
from scrapy_adaptive.frontier.protocol import (
    Again,
    Done,
    Frontier,
    Held,
    Lease,
    Leased,
    Result,
    SessionLostError,
    UnavailableError,
    Visit,
)
from scrapy_adaptive.frontier.sql.frontier import SqlFrontier
from tests.frontier.conftest import Clock, Opened


def page(host: str, n: int, priority: float = 0.0, delay: float = 0.0) -> Visit:
    url = f"http://{host}/{n}"
    return Visit(host, url, fingerprint=url.encode(), priority=priority, delay=delay)


def urls(leased: Leased) -> list[str]:
    return [visit.url for held in leased.held for visit in held.visits]


def listen(frontier: Frontier, clock: Clock, seconds: float) -> None:
    """It says all the time that it lives, and hears who does not."""
    for _ in range(4):
        clock.now += seconds / 4
        frontier.beat({})


def all_done(leased: Leased) -> list[Done]:
    return [Done(held.lease, visit.id) for held in leased.held for visit in held.visits]


def test_a_visit_is_given_once_and_done_once(opened: Opened) -> None:
    frontier = opened()
    frontier.turn([], [page("a", n) for n in range(3)], {})
    leased = frontier.lease(1, 10)
    assert urls(leased) == ["http://a/0", "http://a/1", "http://a/2"]
    assert urls(frontier.lease(1, 10)) == []
    frontier.turn(all_done(leased), [], {})
    assert frontier.lease(1, 10).wait == math.inf
    assert frontier.counts().finished == 3


def test_two_visits_of_one_fingerprint_are_one(opened: Opened) -> None:
    frontier = opened()
    turn = frontier.turn([], [page("a", 1), page("a", 1), page("a", 2)], {})
    assert (turn.added, turn.known) == (2, 1)
    turn = frontier.turn([], [page("a", 2), Visit("a", "http://a/2")], {})
    assert (turn.added, turn.known) == (1, 1)


def test_a_call_that_is_repeated_changes_nothing(opened: Opened) -> None:
    """A call that failed may have happened."""
    frontier = opened()
    frontier.turn([], [page("a", 1)], {})
    (held,) = frontier.lease(1, 1).held
    done = [Done(held.lease, held.visits[0].id)]
    for _ in range(2):
        frontier.turn(done, [page("b", 1)], {})
    assert (frontier.counts().finished, frontier.counts().ready) == (1, 1)


def test_the_highest_priority_comes_first_then_the_first_found(opened: Opened) -> None:
    frontier = opened()
    frontier.turn([], [page("a", n, priority=n % 2) for n in range(1, 5)], {})
    found = urls(frontier.lease(1, 10))
    assert [int(url[-1]) % 2 for url in found] == [1, 1, 0, 0]


def test_a_discount_for_depth_spreads_the_work_over_hosts(opened: Opened) -> None:
    """Each further visit of a host counts one less; what is held counts too."""
    frontier = opened(ranking=Ranking(discount=1.0, age_share=0))
    frontier.turn([], [page("a", n, priority=5) for n in range(9)], {})
    frontier.turn([], [page("b", n, priority=3.5) for n in range(9)], {})
    assert [url[7] for url in sorted(urls(frontier.lease(2, 4)))] == ["a", "a", "a", "b"]
    assert [url[7] for url in sorted(urls(frontier.lease(2, 4)))] == ["a", "a", "b", "b"]


def test_no_host_has_more_visits_out_than_its_most(opened: Opened) -> None:
    frontier = opened(ranking=Ranking(per_host=3, age_share=0))
    frontier.turn([], [page("a", n) for n in range(9)], {})
    assert len(urls(frontier.lease(5, 100))) == 3
    assert urls(frontier.lease(5, 100)) == []


def test_one_of_sixteen_is_the_longest_due(opened: Opened, clock: Clock) -> None:
    """So that nobody starves."""
    frontier = opened(ranking=Ranking())
    frontier.turn([], [page("low", 1, priority=-100)], {})
    clock.now += 1
    frontier.turn([], [page(f"h{n}", n) for n in range(40)], {})
    assert "http://low/1" in urls(frontier.lease(100, 16))


def test_what_is_not_due_is_not_given(opened: Opened, clock: Clock) -> None:
    frontier = opened()
    frontier.turn([], [page("a", 1, delay=30.0)], {})
    assert frontier.lease(1, 1).wait == pytest.approx(30.0)
    clock.now += 5
    frontier.beat({})
    clock.now += 5
    frontier.beat({})
    assert frontier.lease(1, 1).wait == pytest.approx(20.0)
    for _ in range(4):
        clock.now += 5
        frontier.beat({})
    assert urls(frontier.lease(1, 1)) == ["http://a/1"]


def test_a_visit_that_is_to_come_again_sleeps_until_then(opened: Opened, clock: Clock) -> None:
    frontier = opened()
    frontier.turn([], [page("a", 1)], {})
    (held,) = frontier.lease(1, 1).held
    result = Result(200, etag='"x"', digest=b"d", item_count=2, period=5.0)
    frontier.turn([Done(held.lease, held.visits[0].id, result, again_in=5.0)], [], {})
    assert frontier.lease(1, 1).held == []
    clock.now += 5.1
    (held,) = frontier.lease(1, 1).held
    assert held.visits[0].last == result
    assert not held.is_new


def test_a_host_is_in_one_hand(opened: Opened) -> None:
    one, two = opened("one"), opened("two")
    one.turn([], [page("a", n) for n in range(10)] + [page("b", 1)], {})
    first = one.lease(1, 5)
    assert {held.lease.host for held in first.held} == {"a"}
    assert urls(two.lease(10, 100)) == ["http://b/1"]
    assert two.lease(1, 1, only="a").held == []
    assert [lease.host for lease in one.beat({}).wanted] == ["a"]


def test_two_egresses_take_from_one_queue(opened: Opened) -> None:
    """The lease is of a host and an egress."""
    one, two = opened("one", egress="x"), opened("two", egress="y")
    one.turn([], [page("a", n) for n in range(10)], {})
    both = urls(one.lease(1, 5)) + urls(two.lease(1, 5))
    assert len(set(both)) == 10


def test_two_spiders_have_visits_of_their_own_and_one_lease_per_host(opened: Opened) -> None:
    one, two = opened(spider="one"), opened(spider="two")
    for each in (one, two):
        each.turn([], [page("a", 1)], {})
    (held,) = one.lease(1, 1).held
    assert two.lease(1, 1).held == []
    assert one.beat({}).wanted == [held.lease]
    one.turn([Done(held.lease, held.visits[0].id)], [], {})
    one.release(held.lease, {"rate": 1})
    (other,) = two.lease(1, 1).held
    assert (other.state, urls(two.lease(1, 1))) == ({"rate": 1}, [])


def test_a_released_host_gives_its_visits_back_and_its_state_on(
    opened: Opened, clock: Clock
) -> None:
    one, two = opened("one"), opened("two")
    one.turn([], [page("a", n) for n in range(3)], {})
    (held,) = one.lease(1, 2).held
    one.release(held.lease, {"pause": 7})
    clock.now += 2
    (other,) = two.lease(1, 10).held
    assert len(other.visits) == 3
    assert (other.state, other.is_new) == ({"pause": 7}, True)
    assert other.age == pytest.approx(2.0)
    assert other.lease.generation != held.lease.generation


def test_a_host_that_is_released_asleep_is_nobodys_until_then(opened: Opened, clock: Clock) -> None:
    frontier = opened()
    frontier.turn([], [page("a", 1)], {})
    (held,) = frontier.lease(1, 1).held
    frontier.release(held.lease, None, asleep=8.0)
    assert frontier.lease(1, 1).wait == pytest.approx(8.0)
    assert frontier.lease(1, 1, only="a").held == []
    clock.now += 8.1
    assert urls(frontier.lease(1, 1)) == ["http://a/1"]


def test_the_hosts_of_the_dead_move_when_their_session_has_run_out(
    opened: Opened, clock: Clock
) -> None:
    """With the state that the last heartbeat saved."""
    one, two = opened("one"), opened("two")
    one.turn([], [page("a", n) for n in range(3)], {})
    (held,) = one.lease(1, 2).held
    one.beat({held.lease: {"rate": 3}})
    listen(two, clock, 9.9)
    assert urls(two.lease(5, 10)) == []
    listen(two, clock, 0.2)
    (other,) = two.lease(5, 10).held
    assert (len(other.visits), other.state) == (3, {"rate": 3})
    assert other.age == pytest.approx(10.1)


def test_who_was_replaced_is_told_and_changes_nothing(opened: Opened, clock: Clock) -> None:
    """What it found is accepted all the same."""
    one, two = opened("one"), opened("two")
    one.turn([], [page("a", n) for n in range(3)], {})
    (held,) = one.lease(1, 2).held
    listen(two, clock, 11.0)
    (other,) = two.lease(5, 10).held
    turn = one.turn([Done(held.lease, held.visits[0].id)], [page("b", 1)], {held.lease: 5})
    assert turn.refills == {held.lease: None}
    assert (turn.added, two.counts().leased, two.counts().finished) == (1, 3, 0)
    with pytest.raises(SessionLostError):
        one.beat({})
    with pytest.raises(SessionLostError):
        one.lease(1, 1)
    one.release(held.lease, {"stale": True})
    assert two.counts().leased == 3
    two.release(other.lease, None)
    assert two.lease(1, 1).held[0].state is None


def test_who_is_late_lives_on_where_nobody_has_ended_it(opened: Opened, clock: Clock) -> None:
    """What a site told it meanwhile goes with its first word, and to whoever takes the host."""
    one, two = opened("one"), opened("two")
    one.turn([], [page("a", n) for n in range(3)], {})
    (held,) = one.lease(1, 2).held
    clock.now += 30.0
    assert one.beat({held.lease: {"pause": 60}}).held == 1
    assert two.lease(1, 1).held == []
    one.release(held.lease, None)
    (other,) = two.lease(1, 1).held
    assert (other.state, other.age) == ({"pause": 60}, 0.0)


def test_who_is_late_is_lost_where_another_has_begun_to_free_its_hosts(
    opened: Opened, clock: Clock
) -> None:
    """More of them than one heartbeat frees."""
    one, two = opened("one"), opened("two")
    one.turn([], [page(f"h{n}", n) for n in range(1200)], {})
    one.lease(1200, 1200)
    listen(two, clock, 10.1)
    assert 0 < two.counts().leased < 1200
    with pytest.raises(SessionLostError):
        one.beat({})
    for _ in range(3):
        two.beat({})
    assert two.counts().leased == 0


def test_after_an_outage_nobody_is_ended_for_one_lease(opened: Opened, clock: Clock) -> None:
    """Whoever comes first, a worker that begins only now among them."""
    one, two = opened("one"), opened("two")
    one.turn([], [page("a", 1)], {})
    one.lease(1, 1)
    listen(two, clock, 9.0)
    clock.now += 30.0
    for first in (two, opened("three")):
        for _ in range(2):
            first.beat({})
            assert first.lease(1, 1).held == []
    listen(two, clock, 9.9)
    assert one.beat({}).held == 1
    listen(two, clock, 9.9)
    assert two.lease(1, 1).held == []
    listen(two, clock, 0.2)
    assert urls(two.lease(1, 1)) == ["http://a/1"]


def test_who_ends_its_own_session_late_ends_nobody_elses(opened: Opened, clock: Clock) -> None:
    """It closes, or begins anew, after an outage that others did not see the end of yet."""
    one, two, three = opened("one"), opened("two"), opened("three")
    one.turn([], [page("a", 1)], {})
    one.lease(1, 1)
    for each in (two, three):
        listen(each, clock, 4.0)
    clock.now += 30.0
    two.close()
    three.open("three", "shared", 10.0)
    assert three.lease(1, 1).held == []
    assert one.beat({}).held == 1


@pytest.mark.parametrize("seconds", [11.0, 3600.0])
def test_a_clock_that_is_set_forward_gives_nobodys_host_away(
    opened: Opened, clock: Clock, seconds: float
) -> None:
    """The holder's own goes on as before: until its next heartbeat it knows of nothing."""
    one, two = opened("one"), opened("two")
    one.turn([], [page("a", 1)], {})
    one.lease(1, 1)
    for _ in range(4):
        for each in (one, two):
            clock.now += 3.0
            each.beat({})
    clock.now += seconds
    for _ in range(4):
        clock.now += 1.0
        two.beat({})
        assert two.lease(1, 1).held == []
    assert one.lease(1, 1).busy == 1
    assert one.beat({}).held == 1


def test_a_clock_that_is_set_back_keeps_no_host_for_ever(opened: Opened, clock: Clock) -> None:
    one, two = opened("one"), opened("two")
    one.turn([], [page("a", 1)], {})
    one.lease(1, 1)
    clock.now -= 3600.0
    for each in (one, two):
        each.beat({})
    listen(two, clock, 10.1)
    assert urls(two.lease(1, 1)) == ["http://a/1"]


def test_generations_never_come_again(opened: Opened) -> None:
    frontier = opened()
    seen: set[int] = set()
    for _ in range(3):
        frontier.open("one", "shared", 10.0)
        for _ in range(3):
            (held,) = frontier.lease(1, 1, only="a").held
            frontier.release(held.lease, None)
            assert held.lease.generation not in seen
            seen.add(held.lease.generation)


def test_refills_are_the_next_of_the_host(opened: Opened) -> None:
    frontier = opened()
    frontier.turn([], [page("a", n) for n in range(5)], {})
    (held,) = frontier.lease(1, 1).held
    refills = frontier.turn([], [page("a", 9, priority=1)], {held.lease: 2}).refills
    assert [visit.url for visit in refills[held.lease] or []] == ["http://a/9", "http://a/1"]


def test_a_host_may_be_taken_without_visits(opened: Opened) -> None:
    """For a robots.txt, an image, a redirect."""
    one, two = opened("one"), opened("two")
    (held,) = one.lease(0, 0, only="cdn").held
    assert (held.lease.host, held.visits) == ("cdn", [])
    assert two.lease(0, 0, only="cdn").held == []
    one.release(held.lease, None)
    assert two.lease(0, 0, only="cdn").held != []


def test_what_was_not_sent_takes_part_in_the_next_poll(opened: Opened) -> None:
    """In one transaction, so that a change of priorities replaces the running orders."""
    frontier = opened()
    frontier.turn([], [page("a", n) for n in range(4)], {})
    (held,) = frontier.lease(1, 2).held
    frontier.turn([], [page("b", n, priority=9) for n in range(2)], {})
    back = {held.lease: [visit.id for visit in held.visits[1:]]}
    assert urls(frontier.lease(5, 2, back=back)) == ["http://b/0", "http://b/1"]
    assert frontier.counts().leased == 3


def test_after_a_call_that_failed_what_is_not_known_is_free(opened: Opened) -> None:
    frontier = opened()
    frontier.turn([], [page(host, n) for host in "ab" for n in range(3)], {})
    held: dict[str, Held] = {each.lease.host: each for each in frontier.lease(2, 4).held}
    kept = {held["a"].lease: [held["a"].visits[0].id]}
    gone = Lease("z", 10**6)
    assert frontier.settle({**kept, gone: []}) == [gone]
    assert frontier.counts().leased == 1
    assert frontier.beat({}).held == 1
    assert len(urls(frontier.lease(2, 10))) == 5


def test_a_run_begins_where_nothing_is_left_and_nobody_visits(opened: Opened) -> None:
    frontier, two = opened("one"), opened("two")
    assert not two.open("two", "shared", 10.0)  # the first one's session lives
    frontier.turn([], [page("a", 1)], {})
    assert not frontier.open("one", "shared", 10.0)
    leased = frontier.lease(1, 1)
    frontier.turn(all_done(leased), [], {})
    assert not frontier.open("one", "shared", 10.0)
    two.close()
    assert frontier.open("one", "shared", 10.0)


def again(n: int, rule: Again) -> Visit:
    return Visit("a", f"http://a/{n}", fingerprint=b"%d" % n, again=rule)


def test_what_is_known_is_visited_again_in_a_new_run_only(opened: Opened) -> None:
    """Of those that may be visited again; some unless they gave items."""
    frontier = opened()
    known = [again(n, rule) for n, rule in enumerate(Again)] + [again(3, Again.UNLESS_IT_GAVE)]
    frontier.turn([], known, {})
    (held,) = frontier.lease(1, 10).held
    assert len(held.visits) == 4
    gave = Result(200, item_count=1)
    frontier.turn(
        [
            Done(held.lease, each.id, gave if n < 3 else Result(200))
            for n, each in enumerate(held.visits)
        ],
        known,
        {},
    )
    assert frontier.counts().ready == 0
    frontier.close()
    frontier.open("one", "shared", 10.0)
    frontier.turn([], known, {})
    frontier.turn([], known, {})
    assert sorted(urls(frontier.lease(1, 10))) == ["http://a/2", "http://a/3"]


def test_all_counts_are_told(opened: Opened) -> None:
    frontier = opened()
    frontier.turn([], [page("a", 1), page("b", 2), page("b", 3), page("c", 4, delay=9)], {})
    (held,) = frontier.lease(1, 1, only=None).held
    frontier.turn([Done(held.lease, held.visits[0].id, Result(error="timeout"))], [], {})
    counts = frontier.counts()
    assert (counts.ready, counts.asleep, counts.failed, counts.hosts) == (2, 1, 1, 3)


def test_the_spiders_own_state_is_kept(opened: Opened) -> None:
    frontier = opened()
    assert frontier.load_spider() is None
    frontier.save_spider('{"page": 3}')
    assert opened().load_spider() == '{"page": 3}'


def test_who_wants_more_is_given_of_what_others_hold_beyond_their_share(opened: Opened) -> None:
    one, two = opened("one"), opened("two")
    one.turn([], [page(f"h{n}", n) for n in range(6)], {})
    one.lease(10, 10)
    assert one.beat({}).wanted == []
    two.beat({}, hungry=True)
    assert len(one.beat({}).wanted) == 3


def test_what_is_given_back_for_others_is_theirs(opened: Opened) -> None:
    """Who had it asks more often than who waits for it; who holds less than others may take more,
    and so may all once nobody wants for any."""
    one, two = opened("one"), opened("two")
    one.turn([], [page(f"h{n}", n) for n in range(6)], {})
    held = {each.lease: each for each in one.lease(10, 10).held}
    two.beat({}, hungry=True)
    for lease in one.beat({}).wanted:
        one.release(lease, None)
        del held[lease]
    assert one.lease(10, 10).held == []
    assert len(two.lease(2, 2).held) == 2
    two.beat({}, hungry=True)
    assert one.lease(10, 10).held == []
    assert len(two.lease(1, 1).held) == 1
    two.beat({}, hungry=True)
    one.turn([], [page("new", 1)], {})
    assert [each.lease.host for each in one.lease(10, 10).held] == ["new"]


def test_who_may_take_no_new_host_is_given_visits_of_its_own(opened: Opened) -> None:
    """Whatever comes first of those that are free."""
    one, two = opened("one"), opened("two")
    one.turn([], [page("own", n) for n in range(20)], {})
    assert len(one.lease(1, 5).held) == 1
    two.turn([], [page(f"h{n}", 1, priority=9.0) for n in range(30)], {})
    two.beat({}, hungry=True)
    for hosts in (5, 0):
        (held,) = one.lease(hosts, 5).held
        assert (held.lease.host, len(held.visits)) == ("own", 5)


def test_a_lease_is_told_apart_by_its_generation(opened: Opened) -> None:
    """What is said of another's, or of an older one's, changes nothing."""
    frontier = opened()
    frontier.turn([], [page("a", 1)], {})
    (held,) = frontier.lease(1, 1).held
    old = Lease("a", held.lease.generation - 1)
    frontier.turn([Done(old, held.visits[0].id)], [], {})
    frontier.release(old, {"x": 1})
    assert frontier.counts().leased == 1


@pytest.mark.parametrize(
    "result",
    [
        Result(status=99_999),
        Result(200, etag='"a\0"', last_modified="\0"),
        Result(error="ValueError: a\0b"),
        Result(error="ValueError: \ud83d"),
    ],
    ids=["a status that is none", "a NUL in a header", "a NUL in an error", "half a character"],
)
def test_whatever_a_site_sends_is_written_down(opened: Opened, result: Result) -> None:
    """A turn that fails for one page would be repeated for ever, with all that is behind it."""
    frontier = opened()
    frontier.turn([], [page("a", 1)], {})
    (held,) = frontier.lease(1, 1).held
    frontier.turn([Done(held.lease, held.visits[0].id, result)], [page("a", 2)], {})
    counts = frontier.counts()
    assert (counts.leased, counts.ready) == (0, 1)


def test_who_stops_within_a_call_holds_nothing_for_ever(
    opened: Opened, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has looked whether it lives, and is stopped; another frees its hosts meanwhile."""
    one = opened("one")
    if not isinstance(one, SqlFrontier) or one.database.is_sqlite:
        pytest.skip("there nobody else says anything within a call")
    one.turn([], [page("a", n) for n in range(6)], {})
    (held,) = one.lease(1, 1).held
    two, is_alive = opened("two"), one._is_alive

    def slow(*args: Any) -> bool:
        lives = is_alive(*args)
        listen(two, clock, 11.0)
        return lives

    monkeypatch.setattr(one, "_is_alive", slow)
    one.turn([], [], {held.lease: 2})
    two.beat({})
    leased = two.lease(1, 10)
    assert len(urls(leased)) == 6
    two.turn(all_done(leased), [], {})
    assert two.counts().finished == 6
    assert two.lease(1, 10).busy == 0


def test_two_that_poll_together_take_different_hosts(
    opened: Opened, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The visit that is due for longest is of a host that the first one is about to take."""
    one, two = (opened(name, ranking=Ranking()) for name in ("one", "two"))
    if not isinstance(one, SqlFrontier) or one.database.is_sqlite:
        pytest.skip("there nobody else says anything within a call")
    one.turn([], [page("old", 0, priority=9)], {})
    clock.now += 1
    one.turn([], [page(f"h{n}", n) for n in range(40)], {})
    take_all, found = one._take_all, []

    def slow(*args: Any) -> list[Held]:
        found.extend(urls(two.lease(100, 16)))
        return take_all(*args)

    monkeypatch.setattr(one, "_take_all", slow)
    found.extend(urls(one.lease(100, 16)))
    assert len(set(found)) == 32


@contextmanager
def full_disk(frontier: Frontier) -> Iterator[Path]:
    """SQLite can commit nothing more; yields the file of the database."""
    path = frontier.database.path if isinstance(frontier, SqlFrontier) else None
    if path is None:
        pytest.skip("there a worker has no file")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    size = Path(f"{path}-wal").stat().st_size
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield path
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_an_opening_that_fails_leaves_no_lock(opened: Opened) -> None:
    """The next worker has its number, and would wait for its lock, with SQLite's own in hand."""
    one = opened("one")
    with full_disk(one) as path:
        before = sorted(path.parent.glob("*-worker-*"))
        with pytest.raises(UnavailableError):
            one.open("one", "shared", 10.0)
    assert sorted(path.parent.glob("*-worker-*")) == before


def test_an_opening_that_is_repeated_ends_nobody_elses_session(opened: Opened) -> None:
    """The next worker has the number of the one that failed."""
    one = opened("one")
    with full_disk(one), pytest.raises(UnavailableError):
        one.open("one", "shared", 10.0)
    two = opened("two")
    one.open("one", "shared", 10.0)
    assert two.beat({}).held == 0
