"""The bracket: what was refused and what passed close in on the limit."""

from __future__ import annotations

import math

import pytest

from scrapy_adaptive.core.ceiling.hold.bracket import Bracket
from tests.core.ceiling.hold.played import Played, held


@pytest.mark.parametrize("limit", [0.3, 5.0, 77.0])
def test_the_limit_is_found_to_five_percent_and_few_are_refused(limit: float) -> None:
    """A site that refuses whatever comes faster than its limit."""
    played, served, refused = Played(1.0), 0, 0
    while served < 3000:
        if played.rate > limit:
            played.refuse()
            played.recover(1.2 / played.rate)
            refused += 1
        else:
            played.serve(1)
            served += 1
    assert 0.95 * limit < played.hold.held_rate <= limit < played.refused_rate < 1.05 * limit
    assert refused <= 25


class TestSteps:
    """From the rate that passed to the one that was refused."""

    def test_a_step_goes_a_third_of_the_way_after_a_stage(self) -> None:
        """2 · 9.5 / ln 7.99 = 9.1 pages: ten; then the cube root of 7.99 up."""
        played = Played(10.0, Bracket(10.0, lo=5.0, hi=79.9, is_start=False))
        played.serve(9)
        assert played.rate == 10.0
        played.serve(1)
        assert played.rate == pytest.approx(10.0 * 7.99 ** (1 / 3))
        assert played.hold.held_rate == 10.0

    def test_far_below_the_bound_it_doubles_and_proves_nothing(self) -> None:
        """Eight pages are .75 s at 10/s."""
        played = Played(10.0, Bracket(10.0, lo=5.0, hi=80.0, is_start=False))
        played.serve(8)
        assert (played.rate, played.hold.held_rate) == (20.0, 5.0)

    def test_a_closed_bracket_is_probed_half_a_percent_above_its_bound(self) -> None:
        """After 2 · 9.5 / .03 = 633.3 pages."""
        played = held(10.0, hi=10.05)
        played.serve(633)
        assert played.rate == 10.0
        played.serve(1)
        assert played.rate == pytest.approx(10.10025)

    def test_half_a_stage_above_the_bound_lifts_it(self) -> None:
        """316.7 pages; then 6 % up; and after half of 19 / ln 1.12 pages, 84, 12 % more."""
        played = held(10.0, hi=10.05)
        played.serve(634 + 316)
        assert played.refused_rate == 10.05
        played.serve(1)
        assert played.refused_rate == math.inf
        assert played.rate == pytest.approx(10.70627, abs=1e-4)
        played.serve(math.ceil(9.5 / math.log(1.06)))
        assert played.rate == pytest.approx(11.99102, abs=1e-4)

    def test_a_refusal_above_the_bound_is_the_new_one_and_the_held_rate_stays(self) -> None:
        played = held(10.0, hi=10.05)
        played.serve(634 + 200)
        played.refuse()
        played.recover(0.12)
        assert (played.hold.held_rate, played.rate) == (10.0, 10.0)
        assert played.refused_rate == pytest.approx(10.10025)


class TestHeldRates:
    """A rate that passed before is refused: noise, or a limit that is a little lower."""

    def test_one_that_is_refused_in_isolation_is_cut_a_little(self) -> None:
        """101 pages in 10.1 + .12 s are 9.883/s; a hundredth less is 9.784/s."""
        played = held()
        played.serve(100)
        played.refuse()
        played.recover(0.12)
        assert played.rate == pytest.approx(9.7838, abs=1e-4)
        assert (played.hold.held_rate, played.refused_rate) == (played.rate, 10.0)

    @pytest.mark.parametrize(
        ("count", "wait", "rate"),
        [(100, 9.0, 9.702), (100, 11.0, 0.99 * 101 / 21.1), (60, 5.0, 9.702)],
    )
    def test_a_wait_that_was_asked_for_is_no_sign_of_a_limit_unless_it_is_long(
        self, count: int, wait: float, rate: float
    ) -> None:
        """Longer than what was served took; then the account is believed, as of a window. Else
        the cut is of 2 %, and the margin's one."""
        played = held()
        played.serve(count)
        played.refuse()
        played.recover(wait, announced=True)
        assert played.rate == pytest.approx(rate, rel=0.002)

    def test_several_refused_together_cut_to_what_was_served(self) -> None:
        """16 pages in 1.6 + 8 s; no token came back in the first wait."""
        played = held()
        played.serve(15)
        played.refuse(others=4)
        played.recover(3.0, 5.0)
        assert played.rate == pytest.approx(0.99 * 16 / 9.6)
        assert played.refused_rate == 10.0


class TestPrice:
    """What a refusal costs decides how long the next rate has to pass."""

    def test_a_refusal_costs_nine_pages_and_a_half_and_a_long_pause_its_pages_too(self) -> None:
        """Five refusals are 47.5; the 8 s of the outage are so many more as the rate now tried: 21
        pages in 2.1 + 8 s, as twenty in a window of ten seconds would be fewer.
        """
        played = held()
        played.serve(20)
        played.refuse(others=3)
        played.recover(3.0, 5.0)
        assert played.rate == pytest.approx(0.99 * 21 / 10.1)
        assert played.price == pytest.approx(47.5 + 8.0 * played.rate)

    @pytest.mark.parametrize(("served", "pages"), [(0, 299), (200, 99), (10_000, 61)])
    def test_what_was_served_counts_while_a_long_pause_is_the_price(
        self, served: int, pages: int
    ) -> None:
        """9.5 + 10 · 12 pages over ln 1.54 are 299.9; never less than 6.2 s, the usual pause."""
        played = Played(10.0, Bracket(10.0, lo=9.0, hi=15.4, outage=12.0, is_start=False))
        played.hold.state.served = served
        played.hold.state.quiet = 6.2
        played.serve(pages)
        assert played.rate == 10.0
        played.serve(1)
        assert played.rate == pytest.approx(10.0 * 1.54 ** (1 / 3))

    @pytest.mark.parametrize(("hi", "outage", "pages"), [(15.4, 0.0, 592), (10.2, 11.2, 7999)])
    def test_at_a_short_pause_or_a_closed_bracket_the_loss_is_half_the_gain_of_a_stage(
        self, hi: float, outage: float, pages: int
    ) -> None:
        """2 · 128 / ln 1.54 pages, or just under 2 · 120 / .03, however long the crawl is."""
        cost = 8.0 if outage else 128.0
        bracket = Bracket(10.0, lo=9.0, hi=hi, cost=cost, outage=outage, is_start=False)
        played = Played(10.0, bracket)
        played.hold.state.served = 10**6
        played.serve(pages)
        assert played.rate == 10.0
        played.serve(1)
        assert played.rate > 10.0
