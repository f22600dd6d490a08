"""Waits: what the site asks for, else what worked, else the units people write limits in."""

from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_adaptive.core.breaker.backoff import Backoff
from scrapy_adaptive.core.types import Recovery
from tests.core.virtual import STEADY


@pytest.mark.parametrize(
    ("rate", "seconds"),
    [
        pytest.param(2.0, 0.6, id="1.2 gaps of half a second"),
        pytest.param(0.5, 2.4, id="1.2 gaps of two seconds"),
        pytest.param(0.01, 120.0, id="1.2 gaps of 100 seconds"),
        pytest.param(4.8, 0.25, id="just the least wait"),
        pytest.param(1000.0, 0.25, id="never less than a quarter of a second"),
        pytest.param(float("inf"), 0.25, id="without a delay"),
    ],
)
def test_the_first_wait_lasts_a_gap_and_a_fifth(rate: float, seconds: float) -> None:
    assert Backoff().first(rate=rate, announced=None) == pytest.approx(seconds)


@STEADY
@given(st.floats(0.25, 1e8), st.floats(1e-3, 1e3), st.lists(st.none() | st.floats(0.25, 1e8)))
def test_what_the_site_asked_for_is_never_shortened(
    announced: float, rate: float, before: list[float | None]
) -> None:
    """Not by what was asked for before, nor by what worked before."""
    backoff = Backoff()
    assert backoff.first(rate=rate, announced=announced) >= announced
    for earlier in before:
        backoff.longer(rate=rate, announced=earlier)
    assert backoff.longer(rate=rate, announced=announced) >= announced
    backoff.on_recovered()
    assert backoff.first(rate=rate, announced=announced) >= announced


def test_a_word_of_the_site_replaces_the_guess_even_when_it_is_shorter() -> None:
    """1.2 gaps of 100 s would be two minutes; the site says one."""
    assert Backoff().first(rate=0.01, announced=60.0) == 60.0


def test_refused_probes_come_when_the_pause_is_just_over_a_human_unit() -> None:
    """1.2 gaps of 2 s, once more, and then the units; in the end twice as long as all before.

    Just over 5 s would be 0.7 s more, which is less than 2.4.
    """
    backoff = Backoff()
    waits = [backoff.first(rate=0.5, announced=None)]
    waits += [backoff.longer(rate=0.5, announced=None) for _ in range(10)]
    units = [16.0, 32.0, 62.0, 124.0, 305.0, 610.0, 1525.0, 3660.0]
    assert list(accumulate(waits)) == pytest.approx([2.4, 4.8, *units, 3 * 3660.0])


def test_each_of_them_waits_longer_than_the_one_before() -> None:
    """A ban that each test request restarts ends once a wait is longer than the ban.

    So 12 test requests are enough for two hours: the last comes after twice 3660 s.
    """
    backoff = Backoff()
    waits = [backoff.first(rate=10.0, announced=None)]
    waits += [backoff.longer(rate=10.0, announced=None) for _ in range(11)]
    assert waits[1:] == sorted(set(waits))
    assert waits[-1] == 2 * 3660.0 > 7200.0


@pytest.mark.parametrize(("noise", "excused"), [(0.000_01, 0), (0.005, 2), (0.05, 3), (0.5, 16)])
def test_as_many_test_requests_are_no_news_as_chance_explains(noise: float, excused: int) -> None:
    """.05³ is 12.5 in 100,000, and .05⁴ less than one: three, and one that any pause has."""
    backoff = Backoff()
    for _ in range(2):
        first = backoff.first(rate=0.5, announced=None)
        climbed = [
            backoff.longer(rate=0.5, announced=None, noise=noise) for _ in range(excused + 2)
        ]
        assert climbed[:-1] == [first] * (excused + 1)
        assert climbed[-1] > first


def test_a_wait_that_the_site_asked_for_grows_where_it_was_too_short_twice() -> None:
    """A ban of two minutes that always says one second."""
    backoff = Backoff()
    waits = [backoff.first(rate=10.0, announced=1.0)]
    waits += [backoff.longer(rate=10.0, announced=1.0) for _ in range(6)]
    assert list(accumulate(waits)) == [1.0, 2.0, 5.5, 16.0, 32.0, 62.0, 124.0]


def test_where_a_word_of_the_site_was_too_short_before_a_debt_is_slept_off() -> None:
    """A window of a minute that always says one second: 1.2 times 20 s are owed."""
    backoff = Backoff()
    backoff.recall(60.0)
    backoff.failed_debts = 0
    assert backoff.first(rate=10.0, announced=1.0, debt=20.0) == pytest.approx(24.0)
    assert backoff.first(rate=10.0, announced=1.0, debt=0.5) == 1.0, "never shortened"
    assert backoff.first(rate=10.0, announced=90.0, debt=20.0) == 90.0, "longer than what worked"


def test_a_site_that_asks_for_no_wait_is_tested_each_second() -> None:
    """It refuses each page once: rungs would hold the host for minutes."""
    backoff = Backoff()
    waits = [backoff.first(rate=10.0, announced=0.0)]
    waits += [backoff.longer(rate=10.0, announced=0.0) for _ in range(4)]
    assert waits == [0.25, 0.5, 1.0, 1.0, 1.0]


@pytest.mark.parametrize(("announced", "failed"), [(7.0, False), (7.0, True), (None, True)])
def test_chance_excuses_neither_a_word_of_the_site_nor_a_failure(
    announced: float | None, failed: bool
) -> None:
    """Of .25 s, twice as long."""
    backoff = Backoff()
    backoff.first(rate=100.0, announced=None)
    wait = backoff.longer(rate=100.0, announced=announced, failed=failed, noise=0.05)
    assert wait == (7.0 if announced else 0.5)


def test_the_ladder_begins_above_the_first_wait() -> None:
    """62 s in all would be 22 more, which is less than 40."""
    backoff = Backoff()
    assert backoff.first(rate=0.03, announced=None) == pytest.approx(40.0)
    assert backoff.longer(rate=0.03, announced=None) == pytest.approx(124.0 - 40.0)


def test_the_ladder_begins_above_what_the_site_asked_for() -> None:
    backoff = Backoff()
    backoff.first(rate=0.5, announced=90.0)
    assert backoff.longer(rate=0.5, announced=None) == 305.0 - 90.0


def test_a_wait_that_worked_is_tried_when_the_first_is_too_short() -> None:
    """Five seconds that a refused probe asked for ended the first pause: the next has that rung."""
    backoff = Backoff()
    backoff.first(rate=0.5, announced=None)
    assert backoff.longer(rate=0.5, announced=5.0) == 5.0
    assert backoff.on_recovered() == Recovery(tries=1, waited=5.0, announced=True)
    assert backoff.worked == 5.0
    assert backoff.first(rate=0.5, announced=None) == pytest.approx(2.4)
    assert backoff.longer(rate=0.5, announced=None) == pytest.approx(2.4), "chance, perhaps"
    assert backoff.longer(rate=0.5, announced=None) == 5.0
    assert backoff.longer(rate=0.5, announced=None) == pytest.approx(16.0 - 2.4 - 2.4 - 5.0)


def test_a_wait_that_worked_outlasts_a_shorter_word_of_the_site() -> None:
    backoff = Backoff()
    backoff.first(rate=0.5, announced=None)
    backoff.longer(rate=0.5, announced=30.0)
    backoff.on_recovered()
    backoff.first(rate=0.5, announced=1.0)
    assert backoff.longer(rate=0.5, announced=1.0) == 30.0


def test_a_wait_that_a_late_refusal_lengthened_is_the_one_outlasted() -> None:
    """2.4 s at first, then ten; a shorter word changes nothing."""
    backoff = Backoff()
    backoff.first(rate=0.5, announced=None)
    backoff.lengthen(10.0)
    backoff.lengthen(1.0)
    assert backoff.on_recovered().waited == 10.0


def test_a_first_wait_that_sufficed_is_not_remembered() -> None:
    backoff = Backoff()
    backoff.first(rate=0.5, announced=None)
    recovery = backoff.on_recovered()
    assert (recovery.tries, recovery.announced) == (0, False)
    assert recovery.waited == pytest.approx(2.4)
    assert backoff.worked == 0.0


def test_the_next_pause_begins_with_the_first_wait_again() -> None:
    backoff = Backoff()
    backoff.first(rate=0.5, announced=None)
    for _ in range(4):
        backoff.longer(rate=0.5, announced=None)
    backoff.on_recovered()
    assert backoff.first(rate=0.5, announced=None) == pytest.approx(2.4)


def slept(backoff: Backoff, *waits: float, debt: float) -> list[float]:
    """The waits of one pause at 10/s whose debt is `debt` seconds: `waits` of them are refused."""
    found = [backoff.first(rate=10.0, announced=None, debt=debt)]
    found += [backoff.longer(rate=10.0, announced=None) for _ in waits]
    backoff.on_recovered()
    return found


class TestDebts:
    """What was served beyond the pace is slept off first, where that may be all there is to it."""

    @pytest.fixture
    def backoff(self) -> Backoff:
        """Five and a half seconds were needed before, the last five of them at once."""
        backoff = Backoff()
        backoff.first(rate=10.0, announced=None)
        backoff.longer(rate=10.0, announced=None)
        backoff.longer(rate=10.0, announced=None)
        backoff.on_recovered()
        assert backoff.worked == 5.5 - 0.25 - 0.25
        return backoff

    def test_one_that_was_too_short_is_slept_off_once_more(self) -> None:
        """1.2 times 25 s, beyond the five that chance is given; then what worked."""
        backoff = Backoff()
        backoff.recall(60.0)
        backoff.failed_debts = 0
        assert slept(backoff, 1, 2, debt=25.0) == pytest.approx([30.0, 30.0, 60.0])

    def test_one_of_less_than_a_gap_is_as_any_first_wait(self, backoff: Backoff) -> None:
        assert slept(backoff, 1, 2, debt=0.05) == pytest.approx([0.25, 0.25, 5.0])

    @pytest.mark.parametrize(
        ("announced", "failed", "then"), [(7.0, False, 32.0 - 2.4 - 7.0), (None, True, 5.0)]
    )
    def test_after_a_word_of_the_site_or_a_failure_it_is_not(
        self, backoff: Backoff, announced: float | None, failed: bool, then: float
    ) -> None:
        """With the site's word, what worked before has been outlasted: 2.4 and 7 s went by.

        The rest of 16 s would be 6.6, which is less than seven.
        """
        backoff.first(rate=10.0, announced=None, debt=2.0)
        backoff.longer(rate=10.0, announced=announced, failed=failed)
        assert backoff.longer(rate=10.0, announced=None) == pytest.approx(then)

    def test_a_pause_that_owed_nothing_wins_no_credit_back(self, backoff: Backoff) -> None:
        """That of a late refusal, which began with no first wait."""
        slept(backoff, 1, 2, debt=2.0)
        backoff.lengthen(0.25)
        backoff.on_recovered()
        assert slept(backoff, 1, 2, debt=2.0)[-1] == 5.0
        assert slept(backoff, debt=2.0) == [5.0]

    def test_two_in_a_row_that_failed_are_not_believed_any_more(self, backoff: Backoff) -> None:
        for _ in range(2):
            assert slept(backoff, 1, 2, debt=2.0)[-1] == 5.0
        assert slept(backoff, debt=2.0) == [5.0]

    def test_one_that_was_enough_the_second_time_wins_the_credit_back(
        self, backoff: Backoff
    ) -> None:
        for _ in range(4):
            slept(backoff, 1, 2, debt=2.0)
            slept(backoff, 1, debt=2.0)
        assert slept(backoff, debt=2.0) == pytest.approx([2.4])


@STEADY
@given(
    st.floats(1e-4, 1e3), st.none() | st.floats(0.0, 1e5), st.integers(0, 8), st.floats(0.0, 1e5)
)
def test_each_try_waits_at_least_as_long_as_the_one_before(
    rate: float, announced: float | None, tries: int, worked: float
) -> None:
    """Whatever the rate, whatever the site asked for at first and whatever worked before."""
    backoff = Backoff()
    backoff.worked = worked
    waits = [backoff.first(rate=rate, announced=announced)]
    waits += [backoff.longer(rate=rate, announced=None) for _ in range(tries)]
    assert waits == sorted(waits)
    assert waits[0] >= max(0.25, 1.2 / rate if announced is None else announced)
