"""Long pauses: what is owed, and what a stage has to outlast."""

from __future__ import annotations

import math

import pytest

from scrapy_adaptive.core.ceiling.hold.bracket import Bracket
from tests.core.ceiling.hold.played import Played


class TestDebt:
    """What was served beyond the held pace is owed in seconds."""

    def test_a_pause_repays_it(self) -> None:
        """150 pages are worth 15 s, of which 10.067 have passed; 2 s later 2 s less are owed."""
        played = Played(15.0, Bracket(15.0, lo=10.0, hi=16.0, is_start=False))
        played.serve(150, binding=False)
        played.refuse()
        assert played.hold.debt() == pytest.approx(4.9333, abs=1e-4)

    def test_two_gaps_of_what_was_served_before_a_rate_was_held(self) -> None:
        played = Played(1.0)
        played.serve(50)
        played.refuse()
        assert played.hold.debt() == pytest.approx(2.0 * played.now / 50, abs=1e-4)

    @pytest.mark.parametrize(("rate", "most"), [(4.0, 0.75), (2.0, 1.0)])
    def test_two_gaps_of_the_rate_in_use_at_most_before_a_rate_was_held(
        self, rate: float, most: float
    ) -> None:
        """One page a second was served, as page after page was refused for itself: two seconds."""
        played = Played(rate)
        for _ in range(4):
            played.now += 1.0
            played.serve(1, binding=False)
        played.refuse()
        assert played.hold.debt() == most

    def test_nothing_is_owed_before_a_second_page_was_served(self) -> None:
        played = Played(1.0)
        played.serve(1)
        played.refuse()
        assert played.hold.debt() == 0.0

    @pytest.mark.parametrize("hi", [30.0, math.inf])
    def test_nothing_is_owed_of_what_was_served_for_over_a_minute_while_latency_held_the_crawl(
        self, hi: float
    ) -> None:
        """20/s for 70 s, where 10/s had passed before. A limit is back, or it was chance."""
        bracket = Bracket(20.0, lo=10.0, hi=hi, is_start=False, stage_at=0.0)
        played = Played(20.0, bracket)
        played.serve(1400, binding=False)
        played.refuse()
        assert played.hold.held_rate == pytest.approx(20.0, rel=0.01)
        assert played.hold.debt() == pytest.approx(0.0, abs=0.1)

    def test_where_nothing_was_asked_for_nothing_has_passed(self) -> None:
        """20/s in bursts of twenty, each after ten seconds of nothing: 1.8/s at most."""
        played = Played(20.0, Bracket(20.0, lo=10.0, hi=30.0, is_start=False, stage_at=0.0))
        for _ in range(10):
            played.now += 10.0
            played.serve(20, binding=False)
        played.refuse()
        assert played.hold.held_rate == 10.0


@pytest.mark.parametrize(
    ("waits", "announced", "seconds"), [((0.6, 12.0, 62.0), False, 74.6), ((62.0,), True, 62.0)]
)
def test_a_stage_outlasts_the_pause_that_was_needed(
    waits: tuple[float, ...], announced: bool, seconds: float
) -> None:
    """Else a rate would pass within one window. The price is low here."""
    played = Played(10.0, Bracket(10.0, lo=9.0, hi=20.0, best=9.0, is_start=False))
    played.serve(15)
    played.refuse()
    played.recover(*waits, announced=announced)
    rate = played.rate
    played.hold.state.bracket.cost, played.hold.state.bracket.outage = 8.0, 0.0
    played.serve(math.ceil(seconds * rate) - 1)
    assert played.rate == rate
    played.serve(1)
    assert played.rate > rate
