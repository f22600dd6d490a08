"""Windows of time: people write limits as so many in a second, ten, a minute, five, …"""

from __future__ import annotations

import pytest

from scrapy_adaptive.core.ceiling.hold.bracket import Bracket
from scrapy_adaptive.core.ceiling.hold.windows import unit_above
from tests.core.ceiling.hold.played import Played


@pytest.fixture
def windowed() -> Played:
    """60 pages by 30 s; waits of .6 and 12 s were too short, one of 62 s was not."""
    played = Played(2.0, Bracket(2.0, lo=0.5, is_start=False))
    played.serve(60, binding=False)
    played.refuse()
    played.recover(0.6, 12.0, 62.0)
    return played


def test_the_first_rate_tried_is_that_of_the_smallest_window_that_explains_it(
    windowed: Played,
) -> None:
    """61 pages, and 30.5 + 12.6 s were not enough: so many a minute, but for the test request."""
    assert windowed.rate == pytest.approx(60 / 60)
    assert windowed.refused_rate == 2.0


def test_of_a_window_of_many_a_hundredth_is_left() -> None:
    """301 pages in 30.1 s: three fewer a minute."""
    played = served(Played(10.0), 300, 0.6, 12.0, 62.0, rate=10.0)
    assert played.rate == pytest.approx(0.99 * 301 / 60)


def test_below_it_is_what_was_served_from_recovery_to_recovery(windowed: Played) -> None:
    """61 in 30.5 + 74.6 s."""
    assert windowed.hold.held_rate == pytest.approx(0.99 * 61 / 105.1)


def served(
    played: Played, count: int, *waits: float, rate: float = 2.0, idle: float = 0.0
) -> Played:
    """So many are served at that rate, in 1/s; one is refused, and after these waits one served.

    Args:
        idle: seconds after the refusal in which nothing is asked for.
    """
    played.hold.state.bracket = Bracket(rate, lo=0.1, is_start=False)
    played.serve(count, binding=False)
    played.refuse()
    played.now += idle
    played.recover(*waits)
    return played


def test_a_refusal_by_chance_does_not_part_a_window() -> None:
    """41 pages in 20.5 s, a pause of .6 s, 61 in 30.5 s, and 74.6 s: 102 in all of that. By the
    second part alone it had been 61 in 105.1 s.
    """
    played = served(served(Played(2.0), 40, 0.6), 60, 0.6, 12.0, 62.0)
    assert played.hold.held_rate == pytest.approx(0.99 * 102 / (20.5 + 0.6 + 30.5 + 74.6))


def test_what_was_served_before_a_pause_that_was_tested_is_of_another_window() -> None:
    """41 pages, a wait of .6 s that was too short and one of 12 s; then 61 in 30.5 s, and 62 s."""
    played = served(served(Played(2.0), 40, 0.6, 12.0), 60, 62.0)
    assert played.hold.held_rate == pytest.approx(0.99 * 61 / (30.5 + 62.0))


def test_what_was_served_since_the_last_refusal_counts_alone_where_that_is_more() -> None:
    """A thousand pages at .5/s; then 201 in 50.25 s, and 62.6 s: the limit has risen."""
    played = served(served(Played(0.5), 1000, 0.6, rate=0.5), 200, 0.6, 62.0, rate=4.0)
    assert played.hold.held_rate == pytest.approx(0.99 * 201 / (50.25 + 62.6))


def test_an_hour_in_which_nothing_was_asked_for_is_no_part_of_a_window() -> None:
    """101 pages in 50.5 s, an hour idle and .6 s; then 61 in 30.5 s, and 74.6 s."""
    played = served(served(Played(2.0), 100, 0.6, idle=3600.0), 60, 0.6, 12.0, 62.0)
    assert played.hold.held_rate == pytest.approx(0.99 * 162 / (50.5 + 0.6 + 30.5 + 74.6))


def test_a_minute_at_a_slow_rate_is_no_window() -> None:
    """A gap of 50 s: 61 s are short, and a limit that has halved is followed down."""
    played = Played(0.02, Bracket(0.02, lo=0.02, hi=0.021, best=0.02, is_start=False))
    played.serve(300)
    for _ in range(3):
        played.serve(1)
        played.refuse()
        played.recover(61.0)
    assert played.rate < 0.6 * 0.02


def test_the_rate_of_a_window_that_is_refused_in_isolation_is_cut_a_little(
    windowed: Played,
) -> None:
    """By a hundredth, after forty pages: chance may have done it."""
    rate = windowed.rate
    windowed.serve(40)
    windowed.refuse()
    windowed.recover(0.6)
    assert 0.97 * rate < windowed.rate < rate


def test_what_passes_is_held(windowed: Played) -> None:
    rate = windowed.rate
    windowed.serve(2000)
    assert windowed.hold.held_rate >= rate


def test_a_trial_that_is_refused_leaves_what_was_held(windowed: Played) -> None:
    windowed.serve(10)
    windowed.refuse()
    windowed.recover(0.6)
    assert windowed.rate < 60 / 60


def test_a_window_may_be_of_a_few() -> None:
    """19 pages with the test request: 18 a minute, beside 19 in 9 + 74.6 s."""
    played = served(Played(2.0), 18, 0.6, 12.0, 62.0)
    assert played.rate == pytest.approx(18 / 60)


def test_a_first_wait_that_sufficed_is_no_window() -> None:
    """61 pages in 30.5 s, and 62 s at once."""
    played = served(Played(2.0), 60, 62.0)
    assert played.rate == played.hold.held_rate


def test_a_window_that_is_refused_at_once_leaves_what_was_served(windowed: Played) -> None:
    """Three pages, and waits of .6, 12 and 62 s: the rate below was never refused."""
    lo = windowed.hold.held_rate
    windowed.serve(3)
    windowed.refuse()
    windowed.recover(0.6, 12.0, 62.0)
    assert windowed.hold.held_rate == pytest.approx(lo)


def test_units_are_those_of_people() -> None:
    assert [unit_above(each) for each in (0.5, 9.0, 62.0, 1000.0)] == [1.0, 10.0, 300.0, 3600.0]
