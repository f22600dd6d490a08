"""The history: what was served from recovery to recovery, and in how many busy seconds."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_adaptive.core.ceiling.hold.history import History
from tests.core.virtual import STEADY


def sent(history: History, *instants: float, delay: float) -> History:
    """Requests leave at those instants."""
    for now in instants:
        history.on_sent(now, delay)
    return history


def test_nothing_took_any_time_before_the_first_request() -> None:
    assert History().seconds(1000.0, 1.0) == 0.0


def test_gaps_up_to_the_delay_count_whole() -> None:
    """At 100, 104 and 108 s, looked at 3 s later: 4 + 4 + 3."""
    history = sent(History(), 100.0, 104.0, 108.0, delay=4.0)
    assert history.seconds(111.0, 4.0) == pytest.approx(11.0)


def test_time_in_which_nothing_was_asked_for_does_not_count() -> None:
    """An hour idle counts as one delay of 4 s, or as one second if the delay is shorter."""
    history = sent(History(), 100.0, 104.0, delay=4.0)
    assert history.seconds(3704.0, 4.0) == pytest.approx(8.0)
    assert history.seconds(3704.0, 0.1) == pytest.approx(5.0)


def test_a_question_changes_nothing() -> None:
    history = sent(History(), 0.0, delay=1.0)
    assert [history.seconds(1.0, 1.0) for _ in range(3)] == [1.0, 1.0, 1.0]


def test_a_recovery_owes_nothing_and_starts_the_clock() -> None:
    """A page at 10 s, the recovery at 70 s, pages at 71 and 72 s: 2.5 s of work by 72.5 s."""
    history = sent(History(), 10.0, delay=60.0)
    history.served = 99
    history.on_recovered(70.0)
    assert (history.served, history.seconds(70.0, 1.0)) == (0, 0.0)
    sent(history, 71.0, 72.0, delay=1.0)
    assert history.seconds(72.5, 1.0) == pytest.approx(2.5)


def test_what_was_served_before_a_short_pause_is_of_the_same_window() -> None:
    """60 pages in 30 s and a pause of .6 s, 20 in 10 s and one of 1 s; one of 62 s ends it."""
    history = History()
    history.on_recovered(0.0)
    for served, seconds, outage in ((60, 30.0, 0.6), (20, 10.0, 1.0)):
        history.served = served
        history.on_recovered(100.0, outage, lasted=seconds + outage)
    assert history.before == 80
    assert history.before_seconds == pytest.approx(41.6)
    history.on_recovered(200.0, 62.0)
    assert (history.before, history.before_seconds) == (0, 0.0)


def test_a_crawl_that_idles_after_its_recovery_is_not_slow() -> None:
    """The next page comes an hour later: one second counts."""
    history = History()
    history.on_recovered(0.0)
    sent(history, 3600.0, delay=0.5)
    assert history.seconds(3600.0, 0.5) == pytest.approx(1.0)


@STEADY
@given(st.lists(st.floats(0.0, 1e3), min_size=1, max_size=40), st.floats(0.01, 100.0))
def test_no_second_is_counted_twice_and_none_is_lost_while_busy(
    gaps: list[float], delay: float
) -> None:
    """The sum of the gaps, each cut to the delay or a second; no more than has passed."""
    history, now = History(), 0.0
    history.on_recovered(now)
    instants = [now]
    for gap in gaps:
        now += gap
        instants.append(now)
        history.on_sent(now, delay)
    most = max(delay, 1.0)
    counted = sum(min(later - earlier, most) for earlier, later in pairwise(instants))
    assert history.seconds(now, delay) == pytest.approx(counted)
    assert history.seconds(now, delay) <= now * (1.0 + 1e-9)


@STEADY
@given(st.lists(st.floats(0.1, 10.0), min_size=2, max_size=20), st.integers(0, 19))
def test_the_epochs_of_a_busy_crawl_add_up_to_its_time(gaps: list[float], cut: int) -> None:
    """Wherever a recovery parts them."""
    cut %= len(gaps)
    history, now, total = History(), 0.0, 0.0
    history.on_recovered(now)
    for number, gap in enumerate(gaps):
        now += gap
        if number == cut:
            total += history.seconds(now, 10.0)
            history.on_recovered(now)
        else:
            history.on_sent(now, 10.0)
    assert total + history.seconds(now, 10.0) == pytest.approx(now)
