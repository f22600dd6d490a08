"""The breaker of the whole crawl: several slots in trouble, or the crawler's own uplink."""

import math

import pytest

from scrapy_adaptive.core.breaker.global_breaker import GlobalBreaker


@pytest.fixture
def breaker() -> GlobalBreaker:
    """Three slots within ten seconds open it; the cool-down lasts five."""
    return GlobalBreaker(slots=3, window=10.0, cooldown=5.0)


def opened(breaker: GlobalBreaker, now: float = 0.0) -> GlobalBreaker:
    """The breaker, opened at once by as many slots as it takes."""
    for number in range(breaker.slots):
        breaker.on_trip(f"opening-{number}", now)
    assert breaker.is_open
    return breaker


@pytest.mark.parametrize(
    ("slots", "window", "cooldown"),
    [(0, 10.0, 5.0), (3, 0.0, 5.0), (3, -1.0, 5.0), (3, 10.0, -0.1), (3, math.nan, 5.0)],
)
def test_a_number_out_of_its_range_is_refused(slots: int, window: float, cooldown: float) -> None:
    with pytest.raises(ValueError, match="window"):
        GlobalBreaker(slots=slots, window=window, cooldown=cooldown)


def test_a_closed_breaker_holds_nothing_back(breaker: GlobalBreaker) -> None:
    assert breaker.hold_until(0.0, in_flight=9) is None


def test_it_opens_at_the_last_of_enough_distinct_slots(breaker: GlobalBreaker) -> None:
    assert [breaker.on_trip(key, 0.0) for key in "abc"] == [False, False, True]


def test_one_slot_tripping_often_is_one_slot(breaker: GlobalBreaker) -> None:
    assert not any(breaker.on_trip("a", now) for now in (0.0, 1.0, 2.0, 3.0, 4.0))
    assert not breaker.is_open


def test_a_trip_as_old_as_the_window_no_longer_counts(breaker: GlobalBreaker) -> None:
    breaker.on_trip("a", 0.0)
    breaker.on_trip("b", 5.0)
    assert not breaker.on_trip("c", 10.0)
    assert breaker.on_trip("d", 14.9)


def test_a_slot_that_trips_again_counts_from_its_last_trip(breaker: GlobalBreaker) -> None:
    breaker.on_trip("a", 0.0)
    breaker.on_trip("a", 9.0)
    breaker.on_trip("b", 12.0)
    assert breaker.on_trip("c", 18.0)


def test_set_to_one_any_trip_opens_it() -> None:
    assert GlobalBreaker(slots=1, window=10.0, cooldown=5.0).on_trip("a", 0.0)


def test_it_says_only_once_that_it_opens(breaker: GlobalBreaker) -> None:
    assert not opened(breaker).on_trip("d", 1.0)


def test_it_waits_for_an_event_while_anything_is_in_flight(breaker: GlobalBreaker) -> None:
    assert opened(breaker).hold_until(1000.0, in_flight=1) == math.inf


def test_the_cooldown_begins_when_the_last_is_back(breaker: GlobalBreaker) -> None:
    opened(breaker)
    breaker.hold_until(2.0, in_flight=1)
    assert breaker.hold_until(3.0, in_flight=0) == 8.0
    assert breaker.hold_until(7.9, in_flight=0) == 8.0
    assert breaker.is_open
    assert breaker.hold_until(8.0, in_flight=0) is None
    assert not breaker.is_open


def test_without_a_cooldown_it_closes_when_the_last_is_back() -> None:
    breaker = opened(GlobalBreaker(slots=1, window=10.0, cooldown=0.0))
    assert breaker.hold_until(1.0, in_flight=1) == math.inf
    assert breaker.hold_until(1.0, in_flight=0) is None


def test_a_trip_while_it_is_open_starts_the_cooldown_anew(breaker: GlobalBreaker) -> None:
    opened(breaker)
    assert breaker.hold_until(1.0, in_flight=0) == 6.0
    breaker.on_trip("d", 4.0)
    assert breaker.hold_until(4.0, in_flight=0) == 9.0


def test_it_opens_again_after_it_has_closed() -> None:
    breaker = opened(GlobalBreaker(slots=1, window=10.0, cooldown=5.0))
    breaker.hold_until(0.0, in_flight=0)
    assert breaker.hold_until(5.0, in_flight=0) is None
    assert breaker.on_trip("b", 6.0)
    assert breaker.hold_until(6.0, in_flight=0) == 11.0
