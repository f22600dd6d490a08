"""The plain breaker of the whole crawl: any refusal opens it, if it is asked for."""

import math

import pytest

from scrapy_adaptive.core.breaker.global_breaker import GlobalBreaker


@pytest.fixture
def breaker() -> GlobalBreaker:
    """One slot opens it; the cool-down lasts five seconds."""
    return GlobalBreaker(slots=1, window=10.0, cooldown=5.0)


def opened(breaker: GlobalBreaker) -> GlobalBreaker:
    """The breaker, opened by a refusal."""
    assert breaker.on_trip("opening")
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


def test_where_several_slots_are_asked_for_no_number_of_refusals_opens_it() -> None:
    """What they share has to be learned: see the limit of the whole crawl."""
    breaker = GlobalBreaker(slots=2, window=10.0, cooldown=5.0)
    assert not any(breaker.on_trip(key) for key in "abcdef")
    assert not breaker.is_open


def test_it_says_only_once_that_it_opens(breaker: GlobalBreaker) -> None:
    assert not opened(breaker).on_trip("d")


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
    breaker.on_trip("d")
    assert breaker.hold_until(4.0, in_flight=0) == 9.0


def test_it_opens_again_after_it_has_closed() -> None:
    breaker = opened(GlobalBreaker(slots=1, window=10.0, cooldown=5.0))
    breaker.hold_until(0.0, in_flight=0)
    assert breaker.hold_until(5.0, in_flight=0) is None
    assert breaker.on_trip("b")
    assert breaker.hold_until(6.0, in_flight=0) == 11.0
