"""The ceiling that holds a limit, heard and asked without a slot; numbers worked by hand."""

from __future__ import annotations

import math
import sys
from collections import deque
from copy import copy
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_adaptive.core.ceiling.base import SLOWEST
from scrapy_adaptive.core.ceiling.hold.bracket import stage
from scrapy_adaptive.core.ceiling.hold.ceiling import Hold
from scrapy_adaptive.core.ceiling.hold.epoch import ISOLATED
from scrapy_adaptive.core.ceiling.hold.history import Ledger
from scrapy_adaptive.core.ceiling.hold.runs import Run
from scrapy_adaptive.core.ceiling.hold.state import PRICE, Belief
from scrapy_adaptive.core.slot import Slot
from scrapy_adaptive.core.slot_config import Limits
from scrapy_adaptive.core.types import Learned, Permit, Recovery
from tests.core.virtual import STEADY, Virtual


class Played:
    """A ceiling, its clock, and a site that answers at once.

    Args:
        start_rate: the first rate, 1/s.
        belief: what is thought of the limit; by default what it begins with.
    """

    def __init__(self, start_rate: float = 1.0, belief: Belief | None = None) -> None:
        self.now = 0.0
        self.hold = Hold(start_rate)
        self.hold.on_sent(self.now, 1.0 / start_rate)
        if belief is not None:
            self.hold.belief = belief

    @property
    def rate(self) -> float:
        """The rate in use, 1/s."""
        return self.hold.rate

    def send(self, level: int = 1) -> Permit:
        """One request leaves, a gap after the last one."""
        gap = 1.0 / self.rate
        self.now += gap
        self.hold.on_sent(self.now, gap)
        return Permit("a", self.now, level=level)

    def serve(self, count: int, *, level: int = 1, binding: bool = True) -> None:
        """So many are served, one after the other."""
        for _ in range(count):
            permit = self.send(level)
            self.hold.on_accepted(self.now, permit, None, binding=binding)

    def refuse(self, *, others: int = 0, level: int = 1) -> None:
        """One is refused, and so many others that left before it."""
        permit = self.send(level)
        self.hold.on_pain(self.now, permit, rate=self.rate)
        for _ in range(1 + others):
            self.hold.on_refused()

    def recover(self, *waits: float, told: bool = False) -> None:
        """Probes are refused after each of these seconds but the last; then one is served."""
        for wait in waits[:-1]:
            self.now += wait
            self.hold.on_sent(self.now, 1.0 / self.rate)
            self.hold.on_refused()
        self.now += waits[-1]
        self.hold.on_sent(self.now, 1.0 / self.rate)
        self.hold.on_accepted(self.now, Permit("a", self.now, probe=True), None, binding=False)
        self.hold.on_recovered(self.now, Recovery(len(waits) - 1, waits[-1], told))


def settled(rate: float = 10.0, hi: float = 10.2) -> Played:
    """A rate that is held, just under the lowest refused one."""
    return Played(rate, Belief(rate, lo=rate, hi=hi, is_start=False))


class TestStart:
    """A hurry, until a refusal is believed."""

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

    @pytest.mark.parametrize(
        ("before", "pages", "after"),
        [
            pytest.param(0.3, 2, 0.6, id="nine tenths of one in flight: twice"),
            pytest.param(1.0, 6, 1.25, id="three in flight: a quarter more"),
        ],
    )
    def test_over_a_long_way_it_rises_each_second_round_trip(
        self, before: float, pages: int, after: float
    ) -> None:
        """3 s there and back, so a stage lasts 6 s."""
        played = Played(before)
        for number in range(pages):
            assert played.rate == before, number
            played.hold.on_accepted(played.now, played.send(), 3.0, binding=True)
        assert played.rate == after

    def test_pages_that_another_bound_held_back_prove_nothing(self) -> None:
        played = Played(1.0)
        played.serve(1000, binding=False)
        assert played.rate == 1.0

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
        """What a refusal means is thought over when the probe has been served."""
        played = Played(1.0)
        played.serve(3)
        played.refuse(others=3)
        assert played.rate == 4.0


class TestDoubt:
    """A lone refusal at the start may be chance: the same rate again."""

    @pytest.fixture
    def doubting(self) -> Played:
        """Alone refused at 4/s; 3.05 s when the probe is served."""
        played = Played(1.0)
        played.serve(5)
        played.refuse()
        played.recover(0.3)
        assert played.now == pytest.approx(3.05)
        return played

    def test_a_lone_refusal_leaves_the_rate(self, doubting: Played) -> None:
        assert doubting.rate == 4.0
        assert doubting.hold.belief.hi == math.inf

    def test_the_page_is_asked_again_after_four_times_the_usual_silence(
        self, doubting: Played
    ) -> None:
        """4 · 1.2 gaps of the rate that was served, 6 in 3.05 s; 1.2 once this one has passed."""
        assert doubting.hold.recheck == pytest.approx(4.8 * 3.05 / 6.0)
        doubting.serve(3)
        assert doubting.rate == 8.0
        assert doubting.hold.recheck == pytest.approx(1.2 * 3.05 / 6.0)

    def test_a_second_one_is_believed(self, doubting: Played) -> None:
        """Two pages and a probe in .75 + .3 s are 2.857/s; a hundredth less is held."""
        doubting.serve(2)
        doubting.refuse()
        doubting.recover(0.3)
        belief = doubting.hold.belief
        assert (belief.lo, belief.rate) == pytest.approx((2.82857, 2.82857), abs=1e-5)
        assert belief.hi == 4.0
        assert not belief.is_start

    def test_two_refused_together_are_believed_at_once(self) -> None:
        played = Played(1.0)
        played.serve(5)
        played.refuse(others=1)
        played.recover(0.3)
        assert (played.hold.belief.hi, played.rate < 4.0) == (4.0, True)

    def test_a_refusal_that_says_how_long_to_wait_is_believed_at_once(self) -> None:
        """Five pages and a probe in 2.75 + 8 s, less a hundredth."""
        played = Played(1.0)
        played.serve(5)
        played.refuse()
        played.recover(8.0, told=True)
        assert played.hold.belief.hi == 4.0
        assert played.rate == pytest.approx(0.99 * 6 / 10.75)


class TestUnlikely:
    """A lone refusal far under what the site was seen to allow may be chance: once more."""

    @pytest.fixture
    def unlikely(self) -> Played:
        """4/s, refused once; from one recovery to the next, 10/s were served before."""
        played = Played(4.0, Belief(4.0, lo=4.0, hi=4.1, is_start=False, shown=10.0))
        played.serve(20)
        return played

    def test_it_leaves_the_rate(self, unlikely: Played) -> None:
        unlikely.refuse()
        unlikely.recover(0.3)
        belief = unlikely.hold.belief
        assert (belief.rate, belief.lo, belief.hi) == (4.0, 4.0, 4.1)

    def test_a_second_one_is_believed_and_so_is_what_it_tells(self, unlikely: Played) -> None:
        for _ in range(2):
            unlikely.refuse()
            unlikely.recover(0.3)
            unlikely.serve(5)
        belief = unlikely.hold.belief
        assert belief.rate < 4.0
        assert belief.shown == pytest.approx(6 / 1.8), "six pages in 1.5 s and the pause"
        unlikely.refuse()
        rate = unlikely.rate
        unlikely.recover(0.3)
        assert unlikely.rate < rate

    def test_two_refused_together_are_believed_at_once(self, unlikely: Played) -> None:
        unlikely.refuse(others=1)
        unlikely.recover(0.3)
        assert unlikely.rate < 4.0

    def test_what_a_burst_served_at_the_start_shows_nothing(self) -> None:
        """100 pages in a moment, and one refusal: the next one at 2/s is believed."""
        played = Played(64.0)
        played.serve(40)
        for _ in range(2):
            played.refuse(others=1)
            played.recover(20.0)
        assert played.hold.belief.shown < 1.0


class TestBracket:
    """What was refused and what passed close in on the limit."""

    @pytest.mark.parametrize("limit", [0.3, 5.0, 77.0])
    def test_the_limit_is_found_to_five_percent_and_few_are_refused(self, limit: float) -> None:
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
        belief = played.hold.belief
        assert 0.95 * limit < belief.lo <= limit < belief.hi < 1.05 * limit
        assert refused <= 25

    def test_a_step_goes_a_third_of_the_way_after_a_stage(self) -> None:
        """2 · 9.5 / ln 8 = 9.1 pages: ten; then the cube root of 8 up."""
        played = Played(10.0, Belief(10.0, lo=5.0, hi=79.9, is_start=False))
        played.serve(9)
        assert played.rate == 10.0
        played.serve(1)
        assert played.rate == pytest.approx(10.0 * 7.99 ** (1 / 3))
        assert played.hold.belief.lo == 10.0

    @pytest.mark.parametrize(("late", "cost"), [(0.3, 20.0), (4.0, 28.0)])
    def test_the_price_of_a_silence_is_not_that_of_a_late_probe(
        self, late: float, cost: float
    ) -> None:
        """14 pages at 20/s in a silence of .7 s; a probe that takes four may not again."""
        played = settled(20.0, hi=20.1)
        played.serve(100)
        played.refuse()
        played.now += late
        played.recover(0.7)
        belief = played.hold.belief
        assert belief.cost == pytest.approx(cost * belief.lo / 20.0)

    def test_far_below_the_lid_it_doubles_and_proves_nothing(self) -> None:
        played = Played(10.0, Belief(10.0, lo=5.0, hi=80.0, is_start=False))
        played.serve(8)
        assert (played.rate, played.hold.belief.lo) == (20.0, 5.0)

    def test_a_stage_outlasts_the_silence_that_was_needed_up_to_a_minute(self) -> None:
        """Four probes in 12.6 + 62 s: a stage lasts 62 s from then on."""
        played = Played(10.0, Belief(10.0, lo=9.0, hi=20.0, is_start=False))
        played.serve(15)
        played.refuse()
        played.recover(0.6, 12.0, 62.0)
        rate = played.rate
        played.hold.belief.cost, played.hold.belief.outage = 8.0, 0.0
        played.serve(math.ceil(62.0 * rate) - 1)
        assert played.rate == rate
        played.serve(1)
        assert played.rate > rate

    def test_it_outlasts_a_silence_that_was_told_too(self) -> None:
        """30 s: what is left of a minute's window, and so the next has to pass as long."""
        played = Played(10.0, Belief(10.0, lo=9.0, hi=20.0, is_start=False))
        played.serve(15)
        played.refuse()
        played.recover(30.0, told=True)
        rate = played.rate
        played.hold.belief.cost, played.hold.belief.outage = 8.0, 0.0
        played.serve(math.ceil(30.0 * rate) - 1)
        assert played.rate == rate
        played.serve(1)
        assert played.rate > rate


class TestHeldRates:
    """A rate that passed before is refused: noise, or a limit that is a little lower."""

    def test_one_that_is_refused_in_isolation_is_cut_a_little(self) -> None:
        """101 pages in 10.1 + .12 s are 9.883/s; a hundredth less is 9.784/s."""
        played = settled()
        played.serve(100)
        played.refuse()
        played.recover(0.12)
        belief = played.hold.belief
        assert belief.rate == pytest.approx(9.7838, abs=1e-4)
        assert (belief.lo, belief.hi) == (belief.rate, 10.0)

    @pytest.mark.parametrize(
        ("count", "wait", "rate"),
        [(100, 9.0, 9.702), (100, 11.0, 0.99 * 101 / 21.1), (60, 5.0, 9.702)],
    )
    def test_a_wait_that_was_asked_for_is_no_sign_of_a_limit_unless_it_is_long(
        self, count: int, wait: float, rate: float
    ) -> None:
        """Longer than what was served took; then the account is believed, as of a window. Else
        the cut is of 2 %, and the margin's one."""
        played = settled()
        played.serve(count)
        played.refuse()
        played.recover(wait, told=True)
        assert played.rate == pytest.approx(rate, rel=0.002)

    def test_each_next_cut_is_deeper(self) -> None:
        played = settled()
        kept = []
        for _ in range(4):
            before = played.rate
            played.serve(100)
            played.refuse()
            played.recover(1.2 / played.rate)
            kept.append(played.rate / before)
        assert kept == sorted(kept, reverse=True)
        assert 0.87 < kept[-1] < 0.97 < kept[0] < 0.99

    def test_several_refused_together_cut_to_what_was_served(self) -> None:
        """16 pages in 1.6 + 8 s; no token came back in the first silence."""
        played = settled()
        played.serve(15)
        played.refuse(others=4)
        played.recover(3.0, 5.0)
        assert played.rate == pytest.approx(0.99 * 16 / 9.6)
        assert played.hold.belief.hi == 10.0

    def test_a_refusal_costs_nine_pages_and_a_half_and_a_long_silence_its_pages_too(self) -> None:
        """Five refusals are 47.5; the 8 s of the outage are so many more as the rate now tried."""
        played = settled()
        played.serve(20)
        played.refuse(others=3)
        played.recover(3.0, 5.0)
        belief = played.hold.belief
        assert belief.rate == pytest.approx(0.99 * 21 / 10.0), "21 pages in a window of ten seconds"
        assert belief.price == pytest.approx(47.5 + 8.0 * belief.rate)

    def test_two_short_accounts_in_a_row_are_no_chance(self) -> None:
        """After 5 pages and again 6 at the rate that was left: 13 pages in so many seconds."""
        played = settled(20.0, hi=21.0)
        played.serve(40)
        played.refuse()
        played.recover(0.25)
        first = played.rate
        played.serve(5)
        played.refuse()
        played.recover(0.25)
        second = played.rate
        played.serve(6)
        played.refuse()
        played.recover(0.25)
        seconds = 6 / first + 0.25 + 7 / second + 0.25
        assert first > second > 0.7 * first, "one may be"
        assert played.rate == pytest.approx(0.99 * 13 / seconds)

    def test_a_short_account_is_read_with_a_long_one_before_it(self) -> None:
        """101 and 6 pages in 10.22 + .83 s; alone, 6 in .83 s, or so, would be a third less."""
        played = settled()
        played.serve(100)
        played.refuse()
        played.recover(0.12)
        rate = played.rate
        played.serve(5)
        played.refuse()
        played.recover(1.2 / rate)
        seconds = 10.1 + 0.12 + 6.0 / rate + 1.2 / rate
        assert played.rate == pytest.approx(0.99 * 107 / seconds)

    def test_while_the_limit_is_sought_it_falls_back_to_the_rate_that_passed_before(self) -> None:
        """8/s and 10/s passed, 10/s is refused with others; the account alone would say less."""
        belief = Belief(10.0, lo=10.0, before=8.0, hi=20.0, is_start=False)
        played = Played(10.0, belief)
        played.serve(15)
        played.refuse(others=4)
        played.recover(3.0, 5.0)
        assert played.rate == 8.0
        played.refuse(others=4)
        played.recover(3.0, 5.0)
        assert played.hold.belief.lo == pytest.approx(0.99 / 8.125), "once"

    def test_never_back_to_a_rate_that_is_no_slower(self) -> None:
        """9.9/s had passed once; cuts since have led below it, and 9.8/s is refused."""
        played = Played(9.8, Belief(9.8, lo=9.8, before=9.9, hi=10.0, is_start=False))
        played.serve(5)
        played.refuse(others=2)
        played.recover(0.12)
        belief = played.hold.belief
        assert belief.rate == belief.lo < 9.8 == belief.hi


class TestSteps:
    """What a refused step shows, after a silence in which the site saved up all it can."""

    @pytest.fixture
    def stepped(self) -> Played:
        """A step up from .29/s: 10 pages passed it."""
        played = Played(0.29, Belief(0.29, lo=0.15, hi=2.0, is_start=False))
        played.serve(10)
        assert played.rate == pytest.approx(0.552, abs=1e-3)
        return played

    def test_one_refused_at_once_shows_a_gap_that_is_allowed(self, stepped: Played) -> None:
        """Nothing is saved up at such a site: the 2.2 s of the silence were just long enough."""
        rate = stepped.rate
        stepped.refuse()
        stepped.recover(2.2)
        belief = stepped.hold.belief
        assert belief.lo == pytest.approx(0.99 / 2.2)
        assert belief.hi == rate

    def test_at_the_start_it_shows_none(self) -> None:
        """The stage before may have used up a burst: two pages in .25 + .2 s are what counts."""
        played = Played(8.0, Belief(8.0, is_doubted=True))
        played.serve(1, binding=False)
        played.refuse()
        played.recover(0.2)
        assert played.hold.belief.lo == pytest.approx(0.99 * 2.0 / 0.45)

    def test_not_at_once_it_shows_no_gap(self, stepped: Played) -> None:
        """What is served after the refusal does not count."""
        stepped.serve(2)
        stepped.refuse()
        stepped.serve(2, binding=False)
        stepped.recover(2.2)
        assert stepped.hold.belief.lo < 0.35

    @pytest.fixture
    def drained(self) -> Played:
        """40 pages in 2 s were refused at first; so were 120 in 10 s, after 100 s of silence.

        So does a site with 20 saved up and a limit of 10/s.
        """
        return Played(12.0, drained_once(12.0))

    def test_by_how_much_two_runs_differ_encloses_the_limit(self, drained: Played) -> None:
        """80 pages in just over 8 s, give or take two."""
        drained.serve(120, binding=False)
        drained.refuse(others=2)
        drained.recover(0.25, 12.0)
        belief = drained.hold.belief
        assert belief.lo == pytest.approx(78.0 / (121.0 / 12.0 - 2.0))
        assert belief.hi == pytest.approx(87.0 / (121.0 / 12.0 - 1.5))
        assert drained.rate == belief.lo

    def test_where_a_window_may_have_turned_in_the_first_they_tell_nothing(
        self, drained: Played
    ) -> None:
        """The silence is less than twice as long as the 2 s of the first run."""
        drained.serve(120, binding=False)
        drained.refuse(others=2)
        drained.recover(0.25, 3.0)
        assert drained.hold.belief.hi == 12.0

    @pytest.mark.parametrize(("late", "found"), [(0.05, 1.05), (0.5, 0.0), (-0.5, 1.0)])
    def test_a_stage_tells_how_late_requests_leave(
        self, drained: Played, late: float, found: float
    ) -> None:
        """Where it took far longer than it should, it does not: was there anything to ask for?"""
        belief = drained.hold.belief
        belief.outage = 10.0
        while belief.lo < 12.0:
            drained.serve(1)
            drained.now += late / 12.0
        assert belief.ledger.lateness == pytest.approx(found, abs=0.01)

    def test_a_short_stage_tells_nothing_of_that(self) -> None:
        """A page is two in a hundred of fifty: the next may just not have been due."""
        played = Played(12.0, Belief(12.0, lo=8.0, hi=40.0, stage_at=0.0, is_start=False))
        while played.rate == 12.0:
            played.serve(1)
            played.now += 0.05 / 12.0
        assert played.hold.belief.ledger.lateness == 1.0

    def test_as_they_leave_late_more_may_be_asked_for(self, drained: Played) -> None:
        """A twentieth more than came."""
        drained.hold.belief.ledger.lateness = 1.05
        drained.serve(120, binding=False)
        drained.refuse(others=2)
        drained.recover(0.25, 12.0)
        belief = drained.hold.belief
        assert belief.lo == pytest.approx(1.05 * 78.0 / (121.0 / 12.0 - 2.0))
        assert belief.hi == pytest.approx(1.05 * 87.0 / (121.0 / 12.0 - 1.5))

    def test_what_passed_before_may_have_been_refused_already(self, drained: Played) -> None:
        """12/s passes its stage, and used up what was saved: the next step is refused soon."""
        belief = drained.hold.belief
        belief.outage = 10.0
        while belief.lo < 12.0:
            drained.serve(1)
        assert drained.rate > 12.0
        drained.serve(4, binding=False)
        drained.refuse(others=2)
        drained.recover(0.25, 12.0)
        assert 9.0 < belief.lo < 10.0 < belief.hi < 11.0
        assert belief.before == 0.0

    @pytest.mark.parametrize(
        "belief",
        [
            pytest.param({"outage": 0.0}, id="after a short silence"),
            pytest.param({"drained": ()}, id="the first refusal is not known"),
            pytest.param({"lo": 12.0}, id="a rate that is held"),
            pytest.param({"unit": 10.0}, id="a window may explain it"),
        ],
    )
    def test_it_shows_nothing(self, drained: Played, belief: dict[str, Any]) -> None:
        drained.hold.belief = varied(drained.hold.belief, **belief)
        drained.serve(120, binding=False)
        drained.refuse(others=2)
        drained.recover(0.25, 12.0)
        assert drained.hold.belief.hi == 12.0

    def test_what_no_window_would_have_served_is_no_windows(self, drained: Played) -> None:
        """Two windows of 42, and the one of ten seconds that is over, are 126; 135 were served."""
        drained.hold.belief.unit = 10.0
        drained.serve(135, binding=False)
        drained.refuse(others=2)
        drained.recover(0.25, 12.0)
        assert drained.hold.belief.hi < 12.0

    def test_what_was_not_the_rates_fault_tells_nothing_of_what_is_saved_up(self) -> None:
        """A class of pages was to blame for all that was refused."""
        played = Played(12.0, drained_once(12.0))
        played.hold.on_acquittal(played.now)
        assert played.hold.belief.ledger.stock == math.inf

    def test_once_a_class_of_pages_is_to_blame_the_rate_doubles_again(self) -> None:
        """Half of 19 / ln 1.5 pages are 24; those that had passed count."""
        played = settled(2.0, hi=2.05)
        played.serve(20)
        played.refuse()
        played.recover(0.6)
        played.hold.on_acquittal(played.now)
        played.serve(3)
        assert played.rate == 2.0
        played.serve(1)
        assert played.rate == 4.0

    def test_the_site_saves_up_no_more_than_it_served_when_it_first_refused(self) -> None:
        """23 pages, and two for the ends of the account; less what the limit let through."""
        played = Played(1.0)
        played.serve(23)
        played.refuse(others=3)
        played.recover(0.25)
        belief = played.hold.belief
        assert belief.ledger.stock == 23 + 2
        assert len(belief.ledger.drained) == 5, "begun at 1, 2, 4, 8 and 16/s"
        assert [run.pages for run in belief.ledger.drained] == [23, 22, 20, 17, 11]
        drained = belief.ledger.drained
        played.serve(5)
        played.refuse(others=3)
        played.recover(0.25)
        assert belief.ledger.drained == drained, "and learns no more later"

    def test_a_limit_behind_a_burst_is_known_with_the_next_refusal(self) -> None:
        """104 pages at the start. In the 21 s since, 49: no limit over 51 / 21 refuses then."""
        played = Played(5.0, emptied())
        played.serve(48, binding=False)
        played.refuse()
        played.recover(0.25, 11.0)
        belief = played.hold.belief
        assert belief.hi == pytest.approx((49 + 2) / (11.0 + 49 / 5.0 + 0.25))
        assert belief.lo == pytest.approx(0.99 * 49 / (49 / 5.0 + 0.25 + 11.0))
        assert played.rate == belief.lo, "what passed before had passed on what was saved up"

    @pytest.mark.parametrize(
        ("belief", "count"),
        [
            pytest.param({"emptied": None}, 48, id="no refusal was believed before"),
            pytest.param(
                {"drained": (), "marks": (Run(106, 10.0),)}, 48, id="the first run is not known"
            ),
            pytest.param({"marks": (Run(130, 30.0),)}, 48, id="marks are missing since"),
            pytest.param({}, 60, id="a window of half the burst may have turned in the silence"),
        ],
    )
    def test_between_refusals_it_shows_nothing(self, belief: dict[str, Any], count: int) -> None:
        played = Played(5.0, varied(emptied(), **belief))
        played.serve(count, binding=False)
        played.refuse()
        played.recover(0.25, 11.0)
        assert played.hold.belief.hi == 5.0

    def test_one_refusal_alone_may_be_chance(self) -> None:
        """Or the fault of a class of pages: no probe was refused, and 2.4/s is far under 4/s."""
        played = Played(5.0, varied(emptied(), rested=11.0))
        played.serve(48, binding=False)
        played.refuse()
        played.recover(0.25)
        assert played.hold.belief.hi == 5.0

    @pytest.fixture
    def near(self) -> Belief:
        """So far the limit is thought to lie between 4/s and 5.1/s."""
        return varied(emptied(), hi=5.1, rested=11.0)

    def test_a_lone_refusal_is_believed_if_it_moves_the_bracket_a_little(
        self, near: Belief
    ) -> None:
        """101 pages in the 31 s since: what passed at 4/s had passed on what was saved up.

        5/s is not far under the best rate that passed, 5.5/s: no reason to look at that.
        """
        played = Played(5.0, replace(near, best=5.5))
        played.serve(100)
        played.refuse()
        played.recover(0.25)
        belief = played.hold.belief
        seconds = 11.0 + 101 / 5.0
        assert belief.hi == pytest.approx((101 + 2) / seconds)
        assert belief.lo == played.rate == pytest.approx(0.99 * 101 / seconds, rel=0.001)

    @pytest.mark.parametrize(
        ("belief", "count", "others", "quiet"),
        [
            pytest.param({"outage": 10.0}, 100, 0, 0.0, id="a long silence before it"),
            pytest.param({"lateness": 0.0}, 100, 0, 0.0, id="who knows what was asked for"),
            pytest.param({"lo": 2.4}, ISOLATED - 2, 0, 0.0, id="soon after the last"),
            pytest.param({}, 100, 1, 0.0, id="not alone"),
            pytest.param({}, 100, 0, 11.0, id="a window may have turned"),
        ],
    )
    def test_else_not(
        self, near: Belief, belief: dict[str, Any], count: int, others: int, quiet: float
    ) -> None:
        played = Played(5.0, varied(near, **belief))
        played.hold._quiet = quiet
        played.serve(count)
        played.refuse(others=others)
        played.recover(0.25)
        assert played.hold.belief.hi == 5.0

    def test_a_window_that_a_silence_outlasts_does_not_refuse_so_slow_a_rate(
        self, near: Belief
    ) -> None:
        """Half of the 106 that were saved up is more than 10 s of 5/s."""
        played = Played(5.0, near)
        played.hold._quiet = 10.0
        played.serve(100)
        played.refuse()
        played.recover(0.25)
        assert played.hold.belief.hi < 4.0

    @pytest.fixture
    def rested(self) -> Played:
        """11 pages in 2.75 s: after a silence of 11 s they are no 4/s, but 11 in 13.75 s."""
        played = Played(4.0)
        played.serve(1)
        played.refuse(others=2)
        played.recover(0.25, 11.0)
        played.hold._move(played.now, 4.0)
        played.serve(10, binding=False)
        played.refuse()
        played.recover(0.25)
        return played

    def test_what_a_silence_saved_up_counts_for_what_was_served_after_it(
        self, rested: Played
    ) -> None:
        assert rested.hold.belief.shown == pytest.approx(11 / (11 / 4.0 + 11.0))

    def test_a_silence_counts_for_how_soon_a_page_is_asked_again(self, rested: Played) -> None:
        """One gap of .8/s, and a fifth."""
        assert rested.hold.recheck == pytest.approx(1.2 * (11 / 4.0 + 11.0) / 11)

    def test_a_slower_second_account_shows_that_the_first_was_a_bursts(self) -> None:
        """100 pages came at once; 41 in 20 s and the silence before them."""
        played = Played(4.0, burst())
        played.serve(40, binding=False)
        played.refuse(others=1)
        played.recover(0.25, 10.0)
        belief = played.hold.belief
        assert belief.lo == pytest.approx(0.99 * 41 / (41 / 4.0 + 10.25))

    @pytest.mark.parametrize(
        "belief",
        [
            pytest.param({"drained": ()}, id="the lower rate was remembered"),
            pytest.param({"before": 1.0}, id="it has passed a stage"),
            pytest.param({"shown": 2.5}, id="it is not the first account"),
        ],
    )
    def test_else_what_was_served_faster_is_allowed(self, belief: dict[str, Any]) -> None:
        played = Played(4.0, varied(burst(), **belief))
        played.serve(40, binding=False)
        played.refuse(others=1)
        played.recover(0.25, 10.0)
        assert played.hold.belief.lo == 3.0

    def test_silences_are_kept_like_stages(self) -> None:
        """A site may have saved up all it can by the end of one."""
        played = settled()
        played.serve(10)
        played.now += 2.0
        played.hold.on_resumed(played.now)
        pages, seconds = played.hold.belief.ledger.marks[-1]
        assert pages == 10
        assert seconds == pytest.approx(2.0)
        played.hold.noise.on_found(2, 100)
        played.serve(40)
        played.refuse()
        played.recover(0.3)
        marks = played.hold.belief.ledger.marks
        assert marks[-1].pages == 51, "of a refusal that noise explains too"


def varied(belief: Belief, **changes: Any) -> Belief:
    """That belief but for these: what is of its ledger goes there."""
    names = {each.name for each in fields(Ledger)}
    kept = {name: value for name, value in changes.items() if name in names}
    others = {name: value for name, value in changes.items() if name not in names}
    return replace(belief, ledger=replace(belief.ledger, **kept), **others)


def drained_once(rate: float) -> Belief:
    """Of a site that had saved up 20 requests, with a limit of 10/s, and refuses for long."""
    ledger = Ledger(drained=(Run(40, 2.0), Run(35, 1.5)))
    return Belief(rate, lo=8.0, hi=40.0, outage=100.0, stage_at=0.0, is_start=False, ledger=ledger)


def burst() -> Belief:
    """Of a site that let through 100 requests in the first 33 s, and was refused once."""
    ledger = Ledger(served=100, busy=33.0, drained=(Run(98, 32.0),))
    return Belief(4.0, lo=3.0, hi=64.0, is_start=False, ledger=ledger)


def emptied() -> Belief:
    """Of a site that had saved up 100 requests, and was found empty before 11 s of silence."""
    ledger = Ledger(
        served=106,
        busy=17.0,
        drained=(Run(104, 5.0), Run(50, 1.0)),
        emptied=Run(105, 6.0),
        marks=(Run(106, 17.0),),
    )
    return Belief(5.0, lo=4.0, hi=19.5, before=0.3, is_start=False, ledger=ledger)


class TestSearch:
    """While the bracket is open, the gain of a step counts for the rest of the crawl."""

    @pytest.mark.parametrize(("served", "pages"), [(0, 299), (200, 99), (10_000, 61)])
    def test_what_was_served_counts_while_a_long_silence_is_the_price(
        self, served: int, pages: int
    ) -> None:
        """9.5 + 10 · 12 pages over ln 1.54 are 299.9; never less than 6.2 s, the usual silence."""
        ledger = Ledger(served=served)
        belief = Belief(10.0, lo=9.0, hi=15.4, outage=12.0, is_start=False, ledger=ledger)
        played = Played(10.0, belief)
        played.hold._quiet = 6.2
        played.serve(pages)
        assert played.rate == 10.0
        played.serve(1)
        assert played.rate == pytest.approx(10.0 * 1.54 ** (1 / 3))

    @pytest.mark.parametrize(("hi", "outage", "pages"), [(15.4, 0.0, 592), (10.2, 11.2, 7999)])
    def test_at_a_short_silence_or_a_closed_bracket_the_loss_is_half_the_gain_of_a_stage(
        self, hi: float, outage: float, pages: int
    ) -> None:
        """2 · 128 / ln 1.54 pages, or just under 2 · 120 / .03, however long the crawl is."""
        cost = 8.0 if outage else 128.0
        belief = Belief(10.0, lo=9.0, hi=hi, cost=cost, outage=outage, is_start=False)
        belief.ledger.served = 10**6
        played = Played(10.0, belief)
        played.serve(pages)
        assert played.rate == 10.0
        played.serve(1)
        assert played.rate > 10.0


class TestHope:
    """A limit that fell far may return to what it was."""

    @pytest.fixture
    def fallen(self) -> Played:
        """40/s had been held; the limit is 10/s now, and its bracket is closed."""
        return Played(10.0, Belief(10.0, lo=10.0, hi=10.05, lost=40.0, is_start=False))

    def test_after_a_stage_most_of_what_was_lost_is_asked_for(self, fallen: Played) -> None:
        """633.3 pages; three quarters of 40/s."""
        fallen.serve(633)
        assert fallen.rate == 10.0
        fallen.serve(1)
        assert fallen.rate == pytest.approx(30.0)

    def test_a_hope_that_passes_is_held_and_the_climb_goes_on_from_there(
        self, fallen: Played
    ) -> None:
        fallen.serve(634 + 317)
        assert fallen.hold.belief.lo == pytest.approx(30.0)
        assert fallen.rate == pytest.approx(30.0 * 1.06)
        assert fallen.hold.belief.lost == 0.0
        fallen.refuse()
        fallen.recover(0.3)
        assert fallen.rate == pytest.approx(30.0), "no hope any more"

    def test_one_that_is_refused_leaves_the_step_that_was_due(self, fallen: Played) -> None:
        fallen.serve(634)
        fallen.refuse()
        fallen.recover(0.3)
        belief = fallen.hold.belief
        assert (belief.lo, belief.hi) == (10.0, 10.05)
        assert belief.rate == pytest.approx(1.005 * 10.05)

    def test_the_next_hope_has_to_wait_for_a_quarter_more_of_the_pages(
        self, fallen: Played
    ) -> None:
        """Served since the fall: 634 now; those that wait are at rates of which none is a hope."""
        fallen.serve(634)
        fallen.refuse()
        fallen.recover(0.3)
        belief = fallen.hold.belief
        assert belief.hope_at == 634 * 1.25
        belief.rate = 10.0
        assert belief.hoped == 0.0
        belief.ledger.served = 793
        assert belief.hoped == pytest.approx(30.0)

    def test_a_lid_that_is_lifted_is_a_reason_to_hope_at_any_time(self, fallen: Played) -> None:
        """316.7 pages above it; if the hope is vain, the climb begins."""
        belief = fallen.hold.belief
        belief.rate, belief.hope_at = 10.1, math.inf
        fallen.serve(317)
        assert fallen.rate == pytest.approx(30.0)
        fallen.refuse()
        fallen.recover(0.3)
        assert fallen.rate == pytest.approx(10.1 * 1.06)

    def test_the_first_hope_waits_for_as_many_pages_as_a_closed_bracket(self) -> None:
        """40/s were held; at 20/s a refusal is believed."""
        played = settled(20.0, hi=21.0)
        played.hold.belief.best = 40.0
        played.serve(10)
        played.refuse(others=2)
        played.recover(0.3)
        belief = played.hold.belief
        assert (belief.lost, belief.lost_at) == (40.0, 11)
        assert belief.hope_at == pytest.approx(11 + 633.3, abs=0.1)

    @pytest.mark.parametrize(
        ("outage", "pages", "rate"), [(1.0, 1300, 1.005 * 10.05), (0.9, 1234, 30.0)]
    )
    def test_where_a_silence_costs_more_than_the_refusal_nothing_is_hoped(
        self, fallen: Played, outage: float, pages: int, rate: float
    ) -> None:
        """10 pages, or 9; 9.5 are a refusal's. Due are 2 · 19.5 / .03 pages, or 2 · 18.5 / .03."""
        fallen.hold.belief.outage = outage
        fallen.serve(pages - 1)
        assert fallen.rate == 10.0
        fallen.serve(1)
        assert fallen.rate == pytest.approx(rate)

    def test_a_broken_page_that_ends_it_brings_the_hope_back(self, fallen: Played) -> None:
        fallen.serve(634)
        fallen.refuse()
        fallen.recover(0.3)
        fallen.hold.on_pardon(fallen.now)
        assert fallen.rate == pytest.approx(30.0)


class TestLids:
    """A rate above the lowest refused one that passes lifts the lid."""

    def test_a_closed_bracket_is_probed_half_a_percent_above_its_lid(self) -> None:
        """After 2 · 9.5 / .03 = 633.3 pages."""
        played = settled(10.0, hi=10.05)
        played.serve(633)
        assert played.rate == 10.0
        played.serve(1)
        assert played.rate == pytest.approx(10.10025)

    def test_half_a_stage_above_the_lid_lifts_it(self) -> None:
        """316.7 pages; then 6 % up, and at half a stage of each step 12 % and 24 %."""
        played = settled(10.0, hi=10.05)
        played.serve(634 + 316)
        assert played.hold.belief.hi == 10.05
        played.serve(1)
        assert played.hold.belief.hi == math.inf
        rates = [played.rate]
        for _ in range(2):
            played.serve(math.ceil(0.5 * stage(1.0, 1.0 + played.hold.belief.climb, PRICE)))
            rates.append(played.rate)
        assert rates == pytest.approx([10.70627, 11.99102, 14.86886], abs=1e-4)

    def test_a_refusal_above_the_lid_is_the_new_lid_and_the_held_rate_stays(self) -> None:
        played = settled(10.0, hi=10.05)
        played.serve(634 + 200)
        played.refuse()
        played.recover(0.12)
        belief = played.hold.belief
        assert (belief.lo, belief.rate) == (10.0, 10.0)
        assert belief.hi == pytest.approx(10.10025)

    def test_a_rate_refused_while_climbing_leaves_the_one_that_passed(self) -> None:
        played = settled(10.0, hi=10.05)
        played.serve(634 + 317 + 5)
        played.refuse()
        played.recover(0.12)
        belief = played.hold.belief
        assert belief.rate == pytest.approx(10.10025)
        assert belief.hi == pytest.approx(10.70627, abs=1e-4)


class TestWindows:
    """People write limits as so many in a second, ten, a minute, five, …"""

    @pytest.fixture
    def windowed(self) -> Played:
        """60 pages by 30 s; silences of .6 and 12 s were too short, one of 62 s was not."""
        played = Played(2.0, Belief(2.0, lo=0.5, is_start=False))
        for _ in range(60):
            played.serve(1, binding=False)
        played.refuse()
        played.recover(0.6, 12.0, 62.0)
        return played

    def test_the_first_rate_tried_is_that_of_the_smallest_window_that_explains_it(
        self, windowed: Played
    ) -> None:
        """61 pages, and 30.5 + 12.6 s were not enough: so many a minute, less a hundredth."""
        assert windowed.rate == pytest.approx(0.99 * 61 / 60)
        assert windowed.hold.belief.hi == 2.0

    def test_below_it_is_what_was_served_from_recovery_to_recovery(self, windowed: Played) -> None:
        """61 in 30.5 + 74.6 s."""
        assert windowed.hold.belief.lo == pytest.approx(0.99 * 61 / 105.1)

    def test_a_trial_does_not_hurry_and_what_passes_is_held(self, windowed: Played) -> None:
        rate = windowed.rate
        windowed.serve(2000)
        assert windowed.hold.belief.lo >= rate

    def test_a_unit_that_passed_explains_later_silences_as_several_of_it(
        self, windowed: Played
    ) -> None:
        """A minute: 122 pages by 1.8 minutes, and a silence that lasted too long at once."""
        windowed.serve(2000)
        windowed.hold.belief.hi = 100.0
        windowed.hold._account.on_recovered(windowed.now)
        windowed.hold.belief.rate = 1.13
        windowed.serve(120, binding=False)
        windowed.refuse()
        windowed.hold.belief.lo = 0.5
        windowed.recover(62.0)
        assert windowed.hold.belief.unit == 60.0
        assert windowed.rate == pytest.approx(0.99 * 121 / 120)

    def test_a_unit_whose_trial_is_refused_explains_nothing(self, windowed: Played) -> None:
        assert windowed.hold.belief.unit == 60.0
        windowed.serve(10)
        windowed.refuse()
        windowed.recover(0.6)
        assert windowed.hold.belief.unit == 0.0

    @pytest.mark.parametrize(
        ("unit", "is_trial", "seconds"),
        [(0.0, False, 11.0), (60.0, False, 0.0), (60.0, True, 11.0)],
    )
    def test_a_silence_saves_up_nothing_where_a_window_explains_it(
        self, unit: float, is_trial: bool, seconds: float
    ) -> None:
        """It counts until the window has passed its trial."""
        belief = Belief(1.0, unit=unit, is_trial=is_trial, ledger=Ledger(rested=11.0))
        assert belief.carried == seconds

    def test_one_that_passed_a_trial_before_is_not_refuted_by_that(self, windowed: Played) -> None:
        """The count may have been that of two windows, in part."""
        windowed.serve(200)
        assert not windowed.hold.belief.is_trial
        windowed.hold.belief.is_trial = True
        windowed.refuse()
        windowed.recover(0.6)
        assert windowed.hold.belief.unit == 60.0

    def test_a_handful_of_pages_is_no_window(self) -> None:
        """19 with the probe."""
        played = Played(2.0, Belief(2.0, lo=0.1, is_start=False))
        played.serve(18, binding=False)
        played.refuse()
        played.recover(0.6, 12.0, 62.0)
        assert played.rate == played.hold.belief.lo

    def test_a_first_silence_that_sufficed_speaks_for_no_window(self) -> None:
        played = Played(2.0, Belief(2.0, lo=0.5, is_start=False))
        played.serve(60, binding=False)
        played.refuse()
        played.recover(62.0)
        assert played.rate == played.hold.belief.lo

    @pytest.fixture
    def turned(self) -> Played:
        """A window of 40 in ten seconds turned when the wait was over that the site had told."""
        belief = Belief(20.0, lo=20.0, before=15.0, hi=20.1, cost=100.0, best=20.0, is_start=False)
        played = Played(20.0, belief)
        played.serve(39)
        played.refuse(others=1)
        played.recover(10.0 - played.now, told=True)
        played.hold._move(played.now, 16.0)
        played.hold.belief.cost, played.hold.belief.lost = 100.0, 20.0
        return played

    def test_two_windows_in_a_row_that_served_the_same_are_the_limit(self, turned: Played) -> None:
        """Forty in ten seconds, at 20/s and at 16/s; what had passed had passed within one."""
        turned.serve(39)
        turned.refuse()
        turned.recover(20.0 - turned.now, told=True)
        belief = turned.hold.belief
        assert belief.hi == pytest.approx(1.03 * 4.0)
        assert belief.lo == turned.rate == pytest.approx(0.99 * 4.0)
        assert belief.best == pytest.approx(4.0)
        assert belief.lost == 0.0

    @pytest.mark.parametrize(
        ("pages", "seconds", "told"),
        [
            pytest.param(39, 10.0, False, id="the site told nothing"),
            pytest.param(37, 10.0, True, id="it served fewer"),
            pytest.param(45, 11.5, True, id="it is no human unit"),
        ],
    )
    def test_else_they_are_not(
        self, turned: Played, pages: int, seconds: float, *, told: bool
    ) -> None:
        turned.serve(pages)
        turned.refuse()
        turned.recover(10.0 + seconds - turned.now, told=told)
        assert turned.hold.belief.hi == 16.0

    @pytest.mark.parametrize(("rate", "is_refuted"), [(4.13, True), (4.11, False)])
    def test_it_shows_nothing_of_a_rate_that_the_window_serves(
        self, turned: Played, rate: float, *, is_refuted: bool
    ) -> None:
        """Forty in ten seconds, and 3 %."""
        belief = turned.hold.belief
        assert belief.last is not None
        assert belief.is_window(replace(belief.last, rate=rate)) == is_refuted


class TestDebt:
    """What was served beyond the held pace is owed in seconds."""

    @pytest.fixture
    def owing(self) -> Played:
        """150 pages at 15/s by 10 s, where 10/s are held; refused 1/15 s later."""
        played = Played(15.0, Belief(15.0, lo=10.0, hi=16.0, is_start=False))
        played.serve(150, binding=False)
        played.refuse()
        return played

    def test_a_silence_repays_it(self, owing: Played) -> None:
        """150 pages are worth 15 s, of which 10.067 have passed; 2 s later 2 s less are owed."""
        assert owing.hold.debt(owing.now) == pytest.approx(4.9333, abs=1e-4)
        assert owing.hold.debt(owing.now + 2.0) == pytest.approx(2.9333, abs=1e-4)
        assert owing.hold.debt(owing.now + 60.0) == 0.0

    def test_two_gaps_of_what_was_served_before_a_rate_was_held(self) -> None:
        played = Played(1.0)
        played.serve(50)
        played.refuse()
        assert played.hold.debt(played.now) == pytest.approx(2.0 * played.now / 50, abs=1e-4)

    def test_nothing_is_owed_before_a_second_page_was_served(self) -> None:
        played = Played(1.0)
        played.serve(1)
        played.refuse()
        assert played.hold.debt(played.now) == 0.0

    def test_nothing_is_owed_where_no_window_would_have_served_so_many(self, owing: Played) -> None:
        """Two windows of 40, and the one of ten seconds that is over, are 120."""
        belief = owing.hold.belief
        belief.ledger.drained, belief.unit = (Run(38, 2.0),), 10.0
        assert owing.hold.debt(owing.now) == 0.0
        belief.ledger.drained = (Run(48, 2.0),)
        assert owing.hold.debt(owing.now) > 4.0

    @pytest.mark.parametrize("hi", [30.0, math.inf])
    def test_nothing_is_owed_of_what_was_served_for_over_a_minute_while_latency_held_the_crawl(
        self, hi: float
    ) -> None:
        """20/s for 70 s, where 10/s had passed before. A limit is back, or it was chance."""
        played = Played(
            20.0, Belief(20.0, lo=10.0, hi=hi, is_start=False, ledger=Ledger(marked_at=0.0))
        )
        played.serve(1400, binding=False)
        played.refuse()
        belief = played.hold.belief
        assert (belief.before, belief.lo) == pytest.approx((10.0, 20.0), rel=0.01)
        assert played.hold.debt(played.now) == pytest.approx(0.0, abs=0.1)

    def test_where_nothing_was_asked_for_nothing_has_passed(self) -> None:
        """20/s in bursts of twenty, each after ten seconds of nothing."""
        played = Played(
            20.0, Belief(20.0, lo=10.0, hi=30.0, is_start=False, ledger=Ledger(marked_at=0.0))
        )
        for _ in range(60):
            played.now += 10.0
            played.serve(20, binding=False)
        played.refuse()
        assert played.hold.belief.lo == 10.0

    @pytest.mark.parametrize(("count", "binding"), [(1000, False), (1400, True)])
    def test_else_it_is_owed(self, count: int, *, binding: bool) -> None:
        """A window of a minute may explain it; and a rate that binds has to pass its stage."""
        ledger = Ledger(marked_at=0.0)
        belief = Belief(20.0, lo=10.0, hi=20.1, is_start=False, cost=100.0, ledger=ledger)
        played = Played(20.0, belief)
        played.serve(count, binding=binding)
        played.refuse()
        assert played.hold.belief.lo == 10.0
        assert played.hold.debt(played.now) == pytest.approx(count / 20.0, rel=0.01)

    def test_nothing_is_owed_where_refusals_are_noise(self, owing: Played) -> None:
        owing.hold.noise.on_found(4, 800)
        assert owing.hold.debt(owing.now) == 0.0


class TestPardons:
    """A broken page's epoch never was."""

    def test_a_pardon_takes_all_back(self) -> None:
        played = settled()
        played.serve(40)
        before, debt = copy(played.hold.belief), played.hold.debt(played.now)
        played.refuse(others=2)
        played.recover(0.6, 12.0)
        assert played.rate < 9.9
        played.hold.on_pardon(played.now)
        assert played.hold.belief == before
        assert played.hold.debt(played.now) == debt

    def test_the_wait_that_it_asked_for_lengthens_no_stage(self) -> None:
        played = settled(10.0, hi=20.0)
        needed = played.hold._needed
        played.refuse()
        played.recover(60.0, told=True)
        assert played.hold._needed > 500.0 > needed
        played.hold.on_pardon(played.now)
        assert played.hold._needed == needed

    def test_the_next_page_that_seems_broken_is_asked_again_after_a_longer_silence(self) -> None:
        """Four times, until thirty pages were served."""
        played = settled()
        played.serve(40)
        played.refuse()
        played.recover(0.12)
        usual = played.hold.recheck
        played.hold.on_pardon(played.now)
        assert played.hold.recheck == pytest.approx(4.0 * usual, rel=0.02)
        played.serve(30)
        assert played.hold.recheck == pytest.approx(usual, rel=0.02)

    def test_a_stage_goes_on_where_it_was(self) -> None:
        """633 of 633.3 pages before; one more after."""
        played = settled(10.0, hi=10.05)
        played.serve(633)
        played.refuse()
        played.recover(0.12)
        played.hold.on_pardon(played.now)
        played.serve(1)
        assert played.rate == pytest.approx(10.10025)

    def test_a_doubt_at_the_start_is_taken_back_too(self) -> None:
        """The next lone refusal is the first one."""
        played = Played(1.0)
        played.serve(5)
        played.refuse()
        played.recover(0.3)
        played.hold.on_pardon(played.now)
        played.refuse()
        played.recover(0.3)
        assert (played.rate, played.hold.belief.hi) == (4.0, math.inf)

    def test_epochs_of_broken_pages_are_no_evidence_of_a_cap(self) -> None:
        """Each was the only one of ten that was sixth in flight."""
        played = settled(10.0, hi=30.0)
        for _ in range(8):
            for level in (1, 2, 3, 4, 5):
                played.serve(4, level=level)
            played.refuse(level=6)
            played.recover(0.12)
            played.hold.on_pardon(played.now)
        assert played.hold.concurrency == math.inf


class TestCaps:
    """Refusals of rare levels only: it is what is in flight that is limited."""

    @pytest.fixture
    def capped(self) -> Played:
        """Levels up to 4 are served, level 5 is refused each time."""
        played = settled(10.0, hi=30.0)
        for _ in range(5):
            for level in (1, 2, 3, 4):
                played.serve(5, level=level)
            played.refuse(level=5)
            played.recover(0.12)
        return played

    def test_a_cap_is_found_one_below_the_level_refused(self, capped: Played) -> None:
        assert capped.hold.concurrency == 4

    def test_the_rate_is_free_then(self, capped: Played) -> None:
        """No lid, and it doubles after half of 19 / ln 1.5 pages: 24."""
        assert capped.hold.belief.hi == math.inf
        rate = capped.rate
        capped.serve(23, level=4)
        assert capped.rate == rate
        capped.serve(1, level=4)
        assert capped.rate == 2.0 * rate

    def test_before_there_is_enough_evidence_nothing_is_capped(self) -> None:
        assert Played(1.0).hold.concurrency == math.inf


class TestNoise:
    """Refusals that come whatever the rate do not slow the crawl down for long."""

    def test_every_hundredth_page_refused_is_noise_in_the_end(self) -> None:
        """By hand: cuts to 4 of 5, a look, and then one in a hundred is expected."""
        played, slowest = settled(10.0, hi=10.2), 10.0
        for _ in range(40):
            played.serve(99)
            played.refuse()
            played.recover(1.2 / played.rate)
            slowest = min(slowest, played.rate)
        assert slowest > 6.0
        assert played.rate > 10.0
        assert played.hold.noise.ratio == pytest.approx(0.01, rel=0.5)

    @pytest.mark.parametrize(
        "belief",
        [
            pytest.param({"shown": 10.0}, id="an account showed more"),
            pytest.param({"best": 10.0}, id="more was held"),
            pytest.param({"best": 10.0, "lo": 8.0}, id="it is a step"),
        ],
    )
    def test_one_refusal_well_under_what_was_seen_to_be_allowed_is_looked_at(
        self, belief: dict[str, Any]
    ) -> None:
        """A look would go no faster than that."""
        played = settled(8.6, hi=9.0)
        played.hold.belief = replace(played.hold.belief, **belief)
        played.serve(ISOLATED)
        played.refuse()
        played.recover(0.25)
        assert played.rate == 10.0
        assert (played.hold.belief.best, played.hold.belief.shown) == (8.6, 8.6), "once"

    @pytest.mark.parametrize(
        ("belief", "count", "others"),
        [
            pytest.param({"shown": 9.8}, ISOLATED, 0, id="not well under"),
            pytest.param({"shown": 10.0}, ISOLATED - 2, 0, id="not in isolation"),
            pytest.param({"shown": 10.0}, ISOLATED, 1, id="not alone"),
            pytest.param({"shown": 10.0, "unit": 60.0}, ISOLATED, 0, id="a window is short of it"),
        ],
    )
    def test_other_refusals_there_are_not(
        self, belief: dict[str, Any], count: int, others: int
    ) -> None:
        played = settled(8.6, hi=9.0)
        played.hold.belief = replace(played.hold.belief, **belief)
        played.serve(count)
        played.refuse(others=others)
        played.recover(0.25)
        assert played.rate < 8.6

    def test_a_step_costs_all_that_it_was_refused(self) -> None:
        """Five of 101, where noise explains half a refusal: the next costs four more."""
        played = settled(10.0, hi=40.0)
        played.hold.noise.on_found(5, 1000)
        played.hold._move(played.now, 20.0)
        for _ in range(4):
            played.hold.noise.on_refused()
        played.serve(100, binding=False)
        played.refuse()
        played.recover(0.25)
        assert played.hold.belief.hi == 20.0
        assert played.hold.belief.cost == pytest.approx(PRICE * (1 + 5 - 0.505 - 1))

    @pytest.mark.parametrize(
        ("hi", "is_believed"),
        [pytest.param(10.4, True, id="known"), pytest.param(math.inf, False, id="not known")],
    )
    def test_two_refusals_count_for_less_while_no_lid_is_known(
        self, hi: float, is_believed: bool
    ) -> None:
        """Noise explains .15 of them: 2 ln(2/.15) - 2 + .15 = 3.3, more than 2.5, less than 4."""
        played = settled(10.0, hi=hi)
        played.hold.noise.on_found(5, 1000)
        played.serve(30, binding=False)
        for _ in range(2):
            played.refuse()
            played.recover(0.25)
        assert (played.rate < 10.0) is is_believed

    def test_what_was_refused_between_the_cuts_is_noise_too(self) -> None:
        """Five cuts, and a step between them that was refused by chance: six epochs.

        What was refused before the first, several at once, was the limit's.
        """
        played = settled(10.0, hi=10.2)
        played.serve(100)
        played.refuse(others=2)
        played.recover(1.2 / played.rate)
        for cut in range(5):
            played.serve(100)
            played.refuse()
            played.recover(1.2 / played.rate)
            if cut == 1:
                played.hold._move(played.now, 1.005 * played.hold.belief.hi)
                played.serve(50)
                played.refuse()
                played.recover(1.2 / played.rate)
        belief = played.hold.belief
        assert played.hold._look is not None
        assert (belief.cuts, belief.hits) == (5, 6)
        assert played.hold._look._ratio == pytest.approx(6 / belief.series)
        played.serve(100)
        assert played.hold.noise.ratio == pytest.approx(6 / belief.series)

    def test_a_look_lasts_longer_than_a_window_that_is_known(self) -> None:
        """10 pages a second in 10 s: nobody is refused the first hundred of the next."""
        played = settled(10.0, hi=10.2)
        played.hold.belief.unit = 10.0
        for _ in range(5):
            played.serve(100)
            played.refuse()
            played.recover(1.2 / played.rate)
        held = played.hold.belief.hi
        assert played.hold._look is not None
        played.serve(math.ceil(10.0 * held))
        assert played.hold._look is not None
        played.serve(40)
        assert played.hold._look is None

    @pytest.mark.parametrize(
        ("silences", "forgiven", "is_over"),
        [
            ((10.0, 10.0), "none", False),
            ((10.0,), "none", True),
            ((10.0, 10.0), "last", True),
            ((10.0, 10.0, 10.0), "all", True),
        ],
    )
    def test_a_look_outlasts_the_longest_silence_that_was_met_twice(
        self, silences: tuple[float, ...], forgiven: str, *, is_over: bool
    ) -> None:
        """Ten seconds may have been a window's, which serves a hundred pages; once, chance's.

        Not where a page was broken, or a class of pages was to blame.
        """
        played = settled(10.0, hi=10.2)
        for silence in silences:
            played.refuse()
            played.recover(1.2, silence - 1.2)
        if forgiven == "last":
            played.hold.on_pardon(played.now)
        elif forgiven == "all":
            played.hold.on_acquittal(played.now)
        played.hold.belief = settled(10.0, hi=10.2).hold.belief
        for _ in range(5):
            played.serve(100)
            played.refuse()
            played.recover(1.2 / played.rate)
        held = played.hold.belief.hi
        assert played.hold._look is not None
        played.serve(math.ceil(10.0 * held))
        assert (played.hold._look is None) == is_over
        played.serve(40)
        assert played.hold._look is None

    def test_a_look_outlasts_the_window_that_a_told_wait_may_be_the_rest_of(self) -> None:
        """Waits of 50 s may be the rest of a minute, whose count is free; 65 pages are without."""
        played = settled(10.0, hi=10.2)
        played.hold._quiet = 50.0
        for _ in range(5):
            played.serve(100)
            played.refuse()
            played.recover(1.0, told=True)
        assert played.hold._look is not None
        played.serve(300)
        assert played.hold._look is not None

    def test_what_a_held_rate_is_refused_counts_for_noise(self) -> None:
        """Else it would seem ever rarer: what stages met that did not pass would be forgotten.

        The first is explained, the second is not: two of 102 requests more.
        """
        played = settled()
        played.hold.noise.on_found(4, 2000)
        played.serve(100)
        for _ in range(3):
            played.refuse()
            played.recover(0.25)
        assert played.rate < 10.0
        assert played.hold.noise.ratio == pytest.approx(6 / 2102)

    def test_a_limit_that_sank_is_not_taken_for_noise(self) -> None:
        """From 10/s to 6/s: whatever comes faster is refused, and the law ends below it."""
        played = settled(10.0, hi=10.2)
        for _ in range(3000):
            if played.rate > 6.0:
                played.refuse()
                played.recover(1.2 / played.rate)
            else:
                played.serve(1)
        assert played.hold.noise.ratio == 0.0
        assert 5.5 < played.hold.belief.lo <= 6.0


FACTS = st.lists(
    st.tuples(
        st.sampled_from(["serve", "serve", "serve", "refuse", "cluster", "pardon", "idle"]),
        st.integers(1, 60),
        st.floats(0.01, 100.0),
    ),
    max_size=60,
)


@STEADY
@given(st.sampled_from([0.01, 1.0, 1000.0, math.inf]), FACTS)
def test_what_is_believed_makes_sense_whatever_happens(
    start_rate: float, story: list[tuple[str, int, float]]
) -> None:
    """A rate that is a number, between what was held and what is possible; nothing owed twice."""
    played = Played(start_rate)
    for what, count, seconds in story:
        tell(played, what, count, seconds)
        hold, belief = played.hold, played.hold.belief
        assert hold.rate >= SLOWEST
        assert 0.0 <= belief.lo <= belief.hi * (1.0 + 1e-9)
        assert belief.lo <= hold.rate * (1.0 + 1e-9)
        assert 8.0 <= belief.price < math.inf
        assert hold.concurrency >= 1.0
        assert hold.recheck >= 0.0
        assert 0.0 <= hold.debt(played.now) < math.inf
        assert 0.0 <= hold.noise.ratio <= 1.0


def tell(played: Played, what: str, count: int, seconds: float) -> None:
    """One chapter of a story."""
    if what == "serve":
        played.serve(count, level=1 + count % 8)
    elif what == "refuse":
        played.refuse(level=1 + count % 8)
        played.recover(seconds)
    elif what == "cluster":
        played.refuse(others=count % 4)
        played.recover(*[seconds] * (1 + count % 3), told=count % 2 == 0)
    elif what == "pardon":
        played.refuse()
        played.recover(seconds)
        played.serve(count % 3)
        played.hold.on_pardon(played.now)
    else:
        played.now += 1000.0 * seconds


class TestLearned:
    """What the next crawl begins with."""

    def test_where_the_limit_fell_it_is_the_rate_that_is_held(self) -> None:
        """Not the best that ever was, which was refused since."""
        played = Played(3.0, Belief(3.0, lo=2.9, hi=3.1, best=10.0, is_start=False))
        assert played.hold.learned == Learned(2.9, 3.1, math.inf, 9.5)


class TestMemory:
    """What a slot remembers does not grow with what it has seen."""

    def test_twenty_thousand_pages_take_no_more_than_a_thousand(self) -> None:
        """A limit of 8/s, and each 50th page refused once whatever the rate."""
        after = {}
        virtual = Virtual(Limits(start_delay=0.1, concurrency=16), ceiling="hold")
        for number in range(1, 20_001):
            crawl_page(virtual, number)
            if number in (1_000, 20_000):
                after[number] = size(virtual.slot())
        assert after[20_000] <= after[1_000] + 1024


def crawl_page(virtual: Virtual, page: int) -> None:
    """The page is refused once, if its number says so or the rate is too high; then served."""
    virtual.wait_out()
    permit = virtual.send()
    virtual.wait(0.01)
    if virtual.slot().rate > 8.0 or page % 50 == 0:
        virtual.refuse(permit, page=page)
        virtual.wait_out()
        permit = virtual.send()
    virtual.accept(permit, page=page, latency=0.01)


def size(thing: object, seen: set[int] | None = None) -> int:
    """Bytes of a slot and of all that it holds."""
    seen = set() if seen is None else seen
    if id(thing) in seen or isinstance(thing, type):
        return 0
    seen.add(id(thing))
    parts: list[object] = []
    if isinstance(thing, dict):
        parts = [*thing.keys(), *thing.values()]
    elif isinstance(thing, list | tuple | deque | set):
        parts = [*thing]
    elif type(thing).__module__.startswith(Slot.__module__.partition(".")[0]):
        parts = [*getattr(thing, "__dict__", {}).values()]
        slots = [name for each in type(thing).__mro__ for name in getattr(each, "__slots__", ())]
        parts += [getattr(thing, name) for name in slots if hasattr(thing, name)]
    return sys.getsizeof(thing) + sum(size(part, seen) for part in parts)


def test_a_site_that_refuses_from_the_first_request_on_has_told_nothing_of_a_rate() -> None:
    """A minute of maintenance: the crawl then begins as if it had not been."""
    virtual = Virtual(Limits(start_delay=0.5), ceiling="hold")
    for _ in range(15):
        virtual.wait_out()
        virtual.refuse(virtual.send(), told=4.0)
    virtual.wait_out()
    virtual.accept(virtual.send())
    assert virtual.slot().ceiling.rate == 2.0
