"""The additive-increase law: one cut, then as much back over 200 pages."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_adaptive.core.ceiling.aimd import Aimd
from scrapy_adaptive.core.permit import Permit
from scrapy_adaptive.core.types import Recovery
from tests.core.virtual import STEADY

PERMIT = Permit("a", 0.0)
"""Any one: this law does not ask when a request was sent."""

RECOVERY = Recovery(tries=0, waited=2.4, announced=False)


def accept(ceiling: Aimd, now: float, *, binding: bool) -> None:
    """One request is accepted."""
    ceiling.on_accepted(now, PERMIT, None, binding=binding)


def served(ceiling: Aimd, count: int, *, accepted: int, gap: float = 1.0) -> float:
    """Sends at 0, gap, 2 gap, …, of which the first are accepted; returns the last one's time."""
    for number in range(count):
        ceiling.on_sent(number * gap, gap)
        if number < accepted:
            accept(ceiling, number * gap, binding=False)
    return (count - 1) * gap


def test_nothing_is_forbidden_before_a_refusal() -> None:
    ceiling = Aimd(0.5)
    served(ceiling, 10, accepted=10)
    assert ceiling.rate == math.inf


def test_congestion_keeps_the_backoff_ratio_of_the_rate_in_use() -> None:
    """Ten pages in ten seconds at 1/s: half of 1/s is left, or 0.7 of it."""
    for ratio, left in ((0.5, 0.5), (0.7, 0.7)):
        ceiling = Aimd(ratio)
        last = served(ceiling, 10, accepted=10)
        ceiling.on_congestion(last + 1.0, PERMIT, rate=1.0)
        assert ceiling.rate == pytest.approx(left)


def test_congestion_cuts_from_what_was_accepted_when_that_is_less() -> None:
    """Five pages of ten in ten seconds: half of 0.5/s."""
    ceiling = Aimd(0.5)
    last = served(ceiling, 10, accepted=5)
    ceiling.on_congestion(last + 1.0, PERMIT, rate=1.0)
    assert ceiling.rate == pytest.approx(0.25)


def test_time_in_which_nothing_was_asked_for_does_not_count() -> None:
    """Nine seconds of work, an hour of idling of which one second counts: 10 pages in 10 s."""
    ceiling = Aimd(0.5)
    last = served(ceiling, 10, accepted=10)
    ceiling.on_congestion(last + 3600.0, PERMIT, rate=1.0)
    assert ceiling.rate == pytest.approx(0.5)


def test_gaps_up_to_the_delay_in_use_count_whole() -> None:
    """A page each 4 s: 10 pages in 40 s are 0.25/s, half of it 0.125/s.

    At a rate of 10/s just one second of the last gap counts: 10 pages in 37 s, 0.27027/s.
    """
    for rate, left in ((0.25, 0.125), (10.0, 0.135135)):
        ceiling = Aimd(0.5)
        last = served(ceiling, 10, accepted=10, gap=4.0)
        ceiling.on_congestion(last + 4.0, PERMIT, rate=rate)
        assert ceiling.rate == pytest.approx(left, abs=1e-6)


def test_a_first_request_refused_at_once_leaves_half_a_request_a_second() -> None:
    """Nothing is known: one a second is taken for what the site may accept."""
    ceiling = Aimd(0.5)
    ceiling.on_sent(7.0, 0.0)
    ceiling.on_congestion(7.0, PERMIT, rate=math.inf)
    assert ceiling.rate == 0.5


def test_two_hundred_accepted_requests_give_back_as_much_as_was_left() -> None:
    ceiling = Aimd(0.5)
    last = served(ceiling, 10, accepted=10)
    ceiling.on_congestion(last + 1.0, PERMIT, rate=1.0)
    ceiling.on_recovered(20.0, RECOVERY)
    for _ in range(100):
        accept(ceiling, 21.0, binding=True)
    assert ceiling.rate == pytest.approx(0.75)
    for _ in range(100):
        accept(ceiling, 22.0, binding=True)
    assert ceiling.rate == pytest.approx(1.0)


def test_a_ceiling_that_does_not_set_the_pace_does_not_rise() -> None:
    ceiling = Aimd(0.5)
    last = served(ceiling, 10, accepted=10)
    ceiling.on_congestion(last + 1.0, PERMIT, rate=1.0)
    for _ in range(1000):
        accept(ceiling, 20.0, binding=False)
    assert ceiling.rate == pytest.approx(0.5)


def test_recovery_starts_the_account_anew() -> None:
    """A hundred quick pages before the pause say nothing: 2 pages in 4 s after it are 0.5/s."""
    ceiling = Aimd(0.5)
    served(ceiling, 100, accepted=100, gap=0.1)
    ceiling.on_congestion(10.0, PERMIT, rate=10.0)
    ceiling.on_recovered(100.0, RECOVERY)
    for now in (102.0, 104.0):
        ceiling.on_sent(now, 2.0)
        accept(ceiling, now, binding=True)
    ceiling.on_congestion(104.0, PERMIT, rate=5.0)
    assert ceiling.rate == pytest.approx(0.25)


def test_a_rollback_takes_the_last_cut_back_and_only_that() -> None:
    ceiling = Aimd(0.5)
    last = served(ceiling, 10, accepted=10)
    ceiling.on_congestion(last + 1.0, PERMIT, rate=1.0)
    ceiling.on_recovered(20.0, RECOVERY)
    ceiling.on_sent(21.0, 2.0)
    ceiling.on_congestion(22.0, PERMIT, rate=0.5)
    assert ceiling.rate == pytest.approx(0.25)
    ceiling.on_rollback(23.0)
    assert ceiling.rate == pytest.approx(0.5)
    accept(ceiling, 24.0, binding=True)
    assert ceiling.rate == pytest.approx(0.5025)


def test_a_rollback_of_the_first_cut_leaves_nothing_forbidden() -> None:
    ceiling = Aimd(0.5)
    last = served(ceiling, 10, accepted=10)
    ceiling.on_congestion(last + 1.0, PERMIT, rate=1.0)
    ceiling.on_rollback(12.0)
    assert ceiling.rate == math.inf


def test_the_rate_never_falls_below_one_request_an_hour() -> None:
    ceiling = Aimd(0.5)
    for day in range(40):
        ceiling.on_sent(86_400.0 * day, 3600.0)
        ceiling.on_congestion(86_400.0 * day + 1.0, PERMIT, rate=min(1.0, ceiling.rate))
    assert ceiling.rate == pytest.approx(1.0 / 3600.0)


@STEADY
@given(
    st.floats(0.01, 0.99),
    st.lists(
        st.tuples(
            st.sampled_from(["sent", "accepted", "congestion", "recovered", "rollback"]),
            st.floats(0.001, 1e4),
            st.floats(1e-3, 1e3),
        ),
        max_size=60,
    ),
)
def test_the_rate_is_a_rate_whatever_happens(
    ratio: float, story: list[tuple[str, float, float]]
) -> None:
    """Never negative, never NaN, never under the least; congestion leaves the ratio or less."""
    ceiling, now = Aimd(ratio), 0.0
    for what, seconds, rate in story:
        now += seconds
        used = min(rate, ceiling.rate)
        if what == "sent":
            ceiling.on_sent(now, 1.0 / used)
        elif what == "accepted":
            accept(ceiling, now, binding=used == ceiling.rate)
        elif what == "congestion":
            ceiling.on_congestion(now, PERMIT, rate=used)
            assert ceiling.rate <= max(ratio * used, 1.0 / 3600.0)
        elif what == "recovered":
            ceiling.on_recovered(now, RECOVERY)
        else:
            ceiling.on_rollback(now)
        assert ceiling.rate >= 1.0 / 3600.0
