"""The start: the rate doubles until a refusal is believed."""

from __future__ import annotations

import math

import pytest

from scrapy_adaptive.core.slot_config import Limits
from scrapy_adaptive.core.types import Learned
from tests.core.ceiling.hold.played import Played, held
from tests.core.virtual import Virtual


class TestHurry:
    """Short stages that prove nothing."""

    def test_the_rate_doubles_in_three_quarters_of_a_second(self) -> None:
        """1 page at 1/s, 2 at 2/s, 3 at 4/s, 6 at 8/s."""
        played = Played(1.0)
        rates = []
        for count in (1, 2, 3, 6):
            played.serve(count - 1)
            before = played.rate
            played.serve(1)
            rates.append((before, played.rate))
        assert rates == [(1.0, 2.0), (2.0, 4.0), (4.0, 8.0), (8.0, 16.0)]
        assert played.hold.held_rate == 0.0

    def test_over_a_long_way_it_doubles_each_second_round_trip(self) -> None:
        """3 s there and back, so a stage lasts 6 s: six pages at 1/s."""
        played = Played(1.0)
        for number in range(6):
            assert played.rate == 1.0, number
            played.hold.on_accepted(played.now, played.send(), 3.0, binding=True)
        assert played.rate == 2.0

    def test_pages_that_another_bound_held_back_prove_nothing(self) -> None:
        played = Played(1.0)
        played.serve(1000, binding=False)
        assert played.rate == 1.0

    def test_nor_do_they_take_anything_back(self) -> None:
        """Two pages are needed at 2/s; a thousand that something else held back lie between."""
        played = Played(1.0)
        played.serve(2)
        played.serve(1000, binding=False)
        played.serve(1)
        assert played.rate == 4.0

    def test_pages_that_left_late_prove_nothing(self) -> None:
        played = Played(1.0)
        for _ in range(100):
            permit = played.send()
            permit.paced = False
            played.hold.on_accepted(played.now, permit, None, binding=True)
        assert played.rate == 1.0

    def test_answers_to_what_left_at_the_rate_before_prove_nothing(self) -> None:
        played = Played(1.0)
        early = [played.send() for _ in range(50)]
        played.serve(1)
        for permit in early:
            played.hold.on_accepted(played.now, permit, None, binding=True)
        assert played.rate == 2.0

    def test_nothing_is_cut_while_the_pause_lasts(self) -> None:
        """What a refusal means is thought over when the test request has been served."""
        played = Played(1.0)
        played.serve(3)
        played.refuse(others=3)
        assert played.rate == 4.0


class TestDoubt:
    """A lone refusal at the start may be chance: the same rate again."""

    @pytest.fixture
    def doubting(self) -> Played:
        """Alone refused at 4/s; 3.05 s when the test request is served."""
        played = Played(1.0)
        played.serve(5)
        played.refuse()
        played.recover(0.3)
        assert played.now == pytest.approx(3.05)
        return played

    def test_a_lone_refusal_leaves_the_rate(self, doubting: Played) -> None:
        assert doubting.rate == 4.0
        assert doubting.hold.learned is None

    def test_the_page_is_asked_again_after_a_gap_of_what_was_served(self, doubting: Played) -> None:
        """1.2 gaps of 6 pages in 3.05 s, which is slower than 4/s."""
        assert doubting.hold.sure_gap == pytest.approx(3.05 / 6.0)

    def test_a_second_one_is_believed(self, doubting: Played) -> None:
        """Two pages and a test request in .75 + .3 s are 2.857/s; a hundredth less is held."""
        doubting.serve(2)
        doubting.refuse()
        doubting.recover(0.3)
        assert (doubting.hold.held_rate, doubting.rate) == pytest.approx((2.8286, 2.8286), abs=1e-4)
        assert doubting.refused_rate == 4.0

    def test_two_refused_together_are_believed_at_once(self) -> None:
        played = Played(1.0)
        played.serve(5)
        played.refuse(others=1)
        played.recover(0.3)
        assert (played.refused_rate, played.rate < 4.0) == (4.0, True)

    def test_a_refusal_that_says_how_long_to_wait_is_believed_at_once(self) -> None:
        """Five pages and a test request in 2.75 + 8 s, less a hundredth."""
        played = Played(1.0)
        played.serve(5)
        played.refuse()
        played.recover(8.0, announced=True)
        assert played.refused_rate == 4.0
        assert played.rate == pytest.approx(0.99 * 6 / 10.75)


class TestLearned:
    """What the next crawl begins with."""

    def test_where_the_limit_fell_it_is_the_rate_that_is_held(self) -> None:
        """Not the best that ever was, which was refused since."""
        played = held(2.9, hi=3.1)
        played.hold.state.bracket.best = 10.0
        assert played.hold.learned == Learned(2.9, 3.1, math.inf, 9.5)

    def test_a_guess_has_to_pass_a_stage_before_it_is_held(self) -> None:
        """2 · 9.5 / ln 2 pages are 27.4."""
        played = Played(1.0)
        played.hold.recall(Learned(5.0, 10.0, 3.0))
        assert (played.rate, played.hold.held_rate, played.hold.concurrency) == (5.0, 0.0, 3.0)
        played.serve(28)
        assert played.hold.held_rate == 5.0

    def test_a_guess_is_passed_on_until_more_is_known(self) -> None:
        """A run that ends before a stage has passed loses nothing of what it went on from."""
        played = Played(1.0)
        learned = Learned(5.0, 10.0, 3.0, 9.5)
        played.hold.recall(learned)
        assert played.hold.learned == learned


def test_a_site_that_refuses_all_at_first_is_still_asked_at_the_rate_of_a_start() -> None:
    """Half a minute of maintenance, in which each refusal asks for four seconds."""
    virtual = Virtual(Limits(start_delay=0.5), ceiling="hold")
    for _ in range(5):
        virtual.wait_out()
        virtual.refuse(virtual.send(), announced=4.0)
    virtual.wait_out()
    virtual.accept(virtual.send())
    assert virtual.slot().ceiling.rate == 2.0
