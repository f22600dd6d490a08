"""Turns among those who are ready, against a naive model."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from scrapy_adaptive.core.turns import MOST_STALE, PASSED_OVER, Turns
from tests.core.virtual import STEADY

KEYS = st.sampled_from("abcdefgh")
RANKS = st.sampled_from([0.0, 0.0, 1.0, 2.0, -1.0, -0.5])


def ready(*filed: tuple[str, float]) -> Turns:
    """Turns with these keys and ranks, filed in that order."""
    queue = Turns()
    for key, rank in filed:
        queue.file(key, rank)
    return queue


def turn(queue: Turns) -> str:
    """Whoever is next has its turn."""
    key = queue.next()
    assert key is not None
    queue.serve(key)
    return key


def turns(queue: Turns) -> str:
    """All turns until nobody is ready."""
    return "".join(turn(queue) for _ in range(len(queue)))


def test_the_lowest_rank_goes_first_and_of_equals_who_has_waited_longest() -> None:
    """Whatever their names."""
    queue = ready(("d", 0.0), ("c", 1.0), ("b", -1.0), ("a", 0.0), ("e", 1.0))
    assert turns(queue) == "bdace"


def test_a_new_rank_keeps_the_time_of_waiting() -> None:
    """Better or worse, among those whose rank it has now."""
    queue = ready(("a", 5.0), ("b", 0.0), ("c", 0.0))
    queue.file("a", 0.0)
    assert turns(queue) == "abc"
    queue = ready(("a", 0.0), ("b", 5.0), ("c", 5.0))
    queue.file("a", 5.0)
    assert turns(queue) == "abc"


def test_who_had_a_turn_waits_from_then_on() -> None:
    """So that equals take turns."""
    queue = ready(("a", 0.0), ("b", 0.0), ("c", 0.0))
    order = ""
    for _ in range(7):
        key = turn(queue)
        queue.file(key, 0.0)
        order += key
    assert order == "abcabca"


def test_asking_who_is_next_changes_nothing() -> None:
    """However often."""
    queue = ready(("a", 0.0), ("b", -1.0))
    assert [queue.next() for _ in range(3 * PASSED_OVER)] == ["b"] * 3 * PASSED_OVER
    assert len(queue) == 2
    assert Turns().next() is None


def test_who_waited_longest_is_passed_over_so_many_times_and_no_more() -> None:
    """However low its rank; who has just had a turn waits behind the others first."""
    queue = ready(("z", 1000.0), ("a", 0.0))
    order = ""
    for _ in range(2 * (PASSED_OVER + 1) + 1):
        key = turn(queue)
        queue.file(key, 1000.0 if key == "z" else 0.0)
        order += key
    assert order == "a" * PASSED_OVER + "z" + "a" + "a" * PASSED_OVER + "z"


def test_who_is_removed_has_no_turn_and_waits_anew_when_it_is_filed_again() -> None:
    """Removing whoever is not ready is no error."""
    queue = ready(("a", 0.0), ("b", 0.0), ("c", 0.0))
    queue.remove("a")
    queue.remove("a")
    queue.remove("x")
    assert "a" not in queue
    queue.file("a", 0.0)
    assert "a" in queue
    assert turns(queue) == "bca"


@given(
    ranks=st.lists(st.integers(-3, 3), min_size=1, max_size=9),
    changes=st.lists(st.integers(-9, 9), max_size=60),
)
@settings(STEADY, max_examples=150)
def test_each_of_those_who_are_ready_has_its_turn_in_bounded_time(
    ranks: list[int], changes: list[int]
) -> None:
    """Of n that are always ready, within n * (PASSED_OVER + 1) turns, whatever ranks they get."""
    queue = ready(*((str(n), float(rank)) for n, rank in enumerate(ranks)))
    most = len(ranks) * (PASSED_OVER + 1)
    waited = dict.fromkeys(map(str, range(len(ranks))), 0)
    for number in range(3 * most):
        served = turn(queue)
        waited = {key: count + 1 for key, count in waited.items()} | {served: 0}
        assert max(waited.values()) <= most
        change = changes[number % len(changes)] if changes else 0
        queue.file(served, float(change))


class TurnsMachine(RuleBasedStateMachine):
    """Turns beside a plain list of those who are ready, longest waiting first."""

    def __init__(self) -> None:
        super().__init__()
        self.queue = Turns()
        self.waiting: list[tuple[str, float]] = []
        self.passed_over = 0

    @rule(key=KEYS, rank=RANKS)
    def file(self, key: str, rank: float) -> None:
        """Somebody is ready, or its rank changes."""
        known = [each for each, _ in self.waiting]
        if key in known:
            self.waiting[known.index(key)] = (key, rank)
        else:
            self.waiting.append((key, rank))
        self.queue.file(key, rank)

    @rule(key=KEYS)
    def remove(self, key: str) -> None:
        """Somebody is not ready any more."""
        self.waiting = [entry for entry in self.waiting if entry[0] != key]
        self.queue.remove(key)

    @precondition(lambda self: self.waiting)
    @rule(count=st.integers(1, 20))
    def serve(self, count: int) -> None:
        """Turns, after each of which who had it is ready again; but for the last."""
        for number in range(count):
            longest, *_ = self.waiting
            overdue = self.passed_over >= PASSED_OVER
            entry = longest if overdue else min(self.waiting, key=lambda each: each[1])
            assert turn(self.queue) == entry[0]
            self.passed_over = 0 if entry is longest else self.passed_over + 1
            self.waiting.remove(entry)
            if number < count - 1:
                self.file(*entry)

    @invariant()
    def nothing_is_lost_and_nobody_is_there_twice(self) -> None:
        assert len(self.queue) == len(self.waiting)
        assert all(key in self.queue for key, _ in self.waiting)

    @invariant()
    def what_is_no_longer_valid_is_cleared_away(self) -> None:
        assert len(self.queue._heap) <= MOST_STALE + 2 * max(1, len(self.queue)) + len("abcdefgh")


TestTurns = TurnsMachine.TestCase
TestTurns.settings = settings(STEADY, max_examples=100, stateful_step_count=50)


def test_a_rank_that_changes_ten_thousand_times_takes_no_more_room() -> None:
    """Nor do those who are ready and served at once, ten thousand times."""
    queue = ready(("a", 0.0), ("b", 0.0))
    for number in range(10_000):
        queue.file("a", float(number))
        assert len(queue._heap) <= MOST_STALE + 4
    for number in range(10_000):
        queue.file("c", float(number % 7))
        queue.remove("c")
        assert len(queue._heap) <= MOST_STALE + 6
    assert turns(queue) == "ba"
