"""The alarm on a clock that moves only when a test says so."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
from scrapy.utils.asyncio import CallLaterResult
from twisted.internet.task import Clock

from scrapy_adaptive.adapters import timers as module
from scrapy_adaptive.adapters.timers import LAG_NOISE, Timers


class Room:
    """An alarm, its clock, and who was woken when, in seconds since the start."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.clock.advance(1000.0)
        self.woken: list[tuple[float, list[str]]] = []
        self.then: Callable[[list[str]], None] = lambda keys: None
        self.alarm = Timers(self._ring, self.clock.seconds)

    @property
    def now(self) -> float:
        return self.clock.seconds() - 1000.0

    @property
    def timer_count(self) -> int:
        """Timers that are armed."""
        return len(self.clock.getDelayedCalls())

    def arm(self, key: str, at: float) -> None:
        self.alarm.arm(key, at + 1000.0)

    def lag_since(self, instant: float) -> float:
        return self.alarm.lag_since(instant + 1000.0)

    def wait(self, seconds: float, step: float = 0.125) -> None:
        """Let time pass in steps that a float holds exactly."""
        self.clock.pump([step] * round(seconds / step))

    def _ring(self, keys: list[str]) -> None:
        if keys:
            self.woken.append((self.now, keys))
            self.then(keys)


@pytest.fixture
def room(monkeypatch: pytest.MonkeyPatch) -> Room:
    found = Room()

    def call_later(delay: float, call: Callable[..., object], *args: Any) -> CallLaterResult:
        return CallLaterResult.from_twisted(found.clock.callLater(delay, call, *args))

    monkeypatch.setattr(module, "call_later", call_later)
    return found


def test_each_key_is_woken_once_at_its_instant_earliest_first(room: Room) -> None:
    """In whatever order they were armed, with one timer for all."""
    for key, at in (("b", 2.0), ("c", 3.0), ("a", 1.0)):
        room.arm(key, at)
        assert room.timer_count == 1
    room.wait(5)
    assert room.woken == [(1.0, ["a"]), (2.0, ["b"]), (3.0, ["c"])]
    assert room.timer_count == 0


def test_keys_of_one_instant_are_woken_together(room: Room) -> None:
    """One ring for both."""
    room.arm("a", 1.0)
    room.arm("b", 1.0)
    room.wait(2)
    assert room.woken == [(1.0, ["a", "b"])]


def test_nobody_is_woken_early(room: Room) -> None:
    """Not by the least that the clock can tell."""
    room.arm("a", 1.0)
    room.clock.advance(0.999)
    assert room.woken == []


@pytest.mark.parametrize(("first", "second"), [(3.0, 1.0), (1.0, 3.0)])
def test_the_latest_word_of_a_key_holds(room: Room, first: float, second: float) -> None:
    """Earlier or later than the word before."""
    room.arm("a", first)
    room.arm("a", second)
    room.wait(5)
    assert room.woken == [(second, ["a"])]


def test_an_earlier_instant_of_another_key_is_not_slept_through(room: Room) -> None:
    """The timer is moved forward, and back to the first key afterwards."""
    room.arm("a", 3.0)
    room.wait(1)
    room.arm("b", 2.0)
    room.wait(3)
    assert room.woken == [(2.0, ["b"]), (3.0, ["a"])]


def test_a_key_that_changes_its_mind_a_thousand_times_is_woken_once(room: Room) -> None:
    """At its last word; who waits beside it is not forgotten when old words are cleared away."""
    room.arm("b", 2.0)
    for n in range(1000):
        room.arm("a", 1.0 + n % 7)
    room.arm("a", 3.0)
    room.wait(10)
    assert room.woken == [(2.0, ["b"]), (3.0, ["a"])]


def test_infinity_takes_back_one_key_alone(room: Room) -> None:
    """Again it is no error, nor for a key that was never armed."""
    room.arm("a", 1.0)
    room.arm("b", 2.0)
    for key in ("a", "a", "c"):
        room.arm(key, math.inf)
    room.wait(3)
    assert room.woken == [(2.0, ["b"])]


def test_a_key_taken_back_may_be_armed_again(room: Room) -> None:
    """At the same instant too: it is woken once."""
    room.arm("a", 1.0)
    room.arm("a", math.inf)
    room.arm("a", 1.0)
    room.wait(2)
    assert room.woken == [(1.0, ["a"])]


def test_cancelled_it_wakes_nobody_and_may_be_armed_anew(room: Room) -> None:
    """No timer is left; what was asked before is forgotten."""
    room.arm("a", 1.0)
    room.arm("b", 2.0)
    room.alarm.cancel()
    assert room.timer_count == 0
    room.wait(3)
    assert room.woken == []
    room.arm("b", 4.0)
    room.wait(3)
    assert room.woken == [(4.0, ["b"])]


def test_cancelled_between_its_timer_and_its_ring_it_wakes_nobody(room: Room) -> None:
    """The loop reads its sockets in between, and one answer may end the crawl."""
    room.arm("a", 1.0)
    room.clock.callLater(1.0, room.alarm.cancel)
    room.wait(2)
    assert room.woken == []
    assert room.timer_count == 0


def test_cancelled_by_whom_it_wakes_it_stays_silent(room: Room) -> None:
    """The spider may close at the ring."""
    room.then = lambda keys: room.alarm.cancel()
    room.arm("a", 1.0)
    room.arm("b", 2.0)
    room.wait(3)
    assert room.woken == [(1.0, ["a"])]
    assert room.timer_count == 0


def test_an_instant_gone_by_is_woken_at_once_but_not_on_the_spot(room: Room) -> None:
    """`arm` itself never rings."""
    room.wait(2)
    room.arm("a", 1.0)
    assert room.woken == []
    room.clock.advance(0)
    assert room.woken == [(2.0, ["a"])]


def test_who_is_woken_may_arm_again(room: Room) -> None:
    """Each time a second later, three times."""
    room.then = lambda keys: room.arm("a", room.now + 1.0) if room.now < 3 else None
    room.arm("a", 1.0)
    room.wait(5)
    assert room.woken == [(1.0, ["a"]), (2.0, ["a"]), (3.0, ["a"])]


def test_an_answer_read_at_the_same_instant_goes_first(room: Room) -> None:
    """Its way through socket and download handler takes two passes of the loop."""
    order: list[str] = []
    room.then = order.extend
    room.arm("a", 1.0)

    def read_socket() -> None:
        room.clock.callLater(0, order.append, "answer")

    room.clock.callLater(1.0, read_socket)
    room.wait(2)
    assert order == ["answer", "a"]


def test_a_key_armed_between_timer_and_ring_is_not_lost(room: Room) -> None:
    """For an instant gone by, or for one to come."""
    room.arm("a", 1.0)
    room.clock.callLater(1.0, room.arm, "b", 0.5)
    room.clock.callLater(1.0, room.arm, "c", 1.5)
    room.wait(3)
    assert sorted(key for at, keys in room.woken if at == 1.0 for key in keys) == ["a", "b"]
    assert room.woken[-1] == (1.5, ["c"])


@pytest.mark.parametrize(("late", "lag"), [(0.0, 0.0), (LAG_NOISE / 2, 0.0), (0.5, 0.5)])
def test_a_late_ring_shows_the_lag_above_the_noise(room: Room, late: float, lag: float) -> None:
    """The whole of it, not only what is above."""
    room.arm("a", 1.0)
    room.clock.advance(1.0 + late)
    assert room.lag_since(0.0) == pytest.approx(lag)


def test_a_lag_is_charged_to_instants_before_it_alone(room: Room) -> None:
    """What was sent after the timer had rung has not suffered from it."""
    room.arm("a", 1.0)
    room.clock.advance(1.5)
    assert [room.lag_since(at) for at in (0.0, 1.0, 1.5)] == [0.5, 0.5, 0.5]
    assert room.lag_since(1.625) == 0.0


def test_a_punctual_ring_ends_the_lag(room: Room) -> None:
    """The last timer tells."""
    room.arm("a", 1.0)
    room.clock.advance(1.5)
    room.arm("b", 2.0)
    room.clock.advance(0.5)
    assert room.lag_since(0.0) == 0.0


def test_before_any_ring_no_lag_is_known(room: Room) -> None:
    """Nor while the first timer runs."""
    room.arm("a", 1.0)
    assert room.lag_since(0.0) == 0.0


def test_an_instant_gone_by_is_no_lag(room: Room) -> None:
    """The loop could not have rung before it was asked."""
    room.wait(5)
    room.arm("a", 1.0)
    room.clock.advance(0)
    assert room.lag_since(0.0) == 0.0
