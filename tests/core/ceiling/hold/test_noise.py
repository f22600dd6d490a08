"""Noise: refusals that come whatever the rate, and how they differ from a limit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_adaptive.core.ceiling.hold.noise import Noise, excess
from tests.core.ceiling.hold.played import Played, held
from tests.core.virtual import STEADY


def noise() -> Noise:
    """A trial has shown that 4 of 800 requests were refused by chance: one in 200."""
    return Noise.found(4, 800)


class TestExcess:
    """How much more likely refusals are if something besides noise causes them."""

    @pytest.mark.parametrize(
        ("found", "of", "hits", "pages", "ratio"),
        [
            pytest.param(1, 100, 3, 300, 0.0, id="as often as before"),
            pytest.param(1, 100, 9, 300, 0.0, id="less often"),
            pytest.param(2, 100, 1, 100, 0.1699, id="2 ln 4/3 + ln 2/3"),
            pytest.param(3, 100, 1, 100, 0.5232, id="3 ln 3/2 + ln 1/2"),
            pytest.param(3, 100, 100, 10_000, 1.2762, id="3 ln 2.942 + 100 ln .981"),
        ],
    )
    def test_by_hand(self, found: int, of: int, hits: float, pages: float, ratio: float) -> None:
        assert excess(found, of, hits, pages) == pytest.approx(ratio, abs=5e-3)

    @STEADY
    @given(st.integers(1, 100), st.integers(100, 200), st.floats(0.1, 50.0))
    def test_more_refusals_are_never_less_evidence(self, found: int, of: int, hits: float) -> None:
        ratio = excess(found, of, hits, 200.0)
        assert 0.0 <= ratio <= excess(found + 1, of, hits, 200.0) + 1e-9

    def test_what_was_counted_before_weighs_as_much_as_its_pages(self) -> None:
        """The same shares, of a hundred pages and of ten thousand."""
        assert excess(4, 100, 1, 100) < excess(4, 100, 10, 1000) < excess(4, 100, 100, 10_000)


class TestClusters:
    """Once noise is known, only refusals that cluster mean anything."""

    def test_six_beside_two_hundred_are_explained_and_seven_are_not(self) -> None:
        """6 ln(6 / 2.05) + 4 ln(4 / 7.95) = 3.7, but 7 ln(7 / 2.26) + 4 ln(4 / 8.74) = 4.8."""
        known = noise()
        assert [known.on_refused(1, served=200) for _ in range(7)] == [*[True] * 6, False]
        assert known.unexpected(200) == pytest.approx(6.0), "seven, where one was expected"

    @pytest.mark.parametrize("count", [1, 6, 100])
    def test_one_refusal_at_a_rate_is_no_cluster(self, count: int) -> None:
        """However soon it comes; the second soon after is one."""
        known = noise()
        assert known.on_refused(1, served=count)
        assert known.on_refused(1, served=count) is (count == 100)

    def test_a_rate_that_passed_tells_how_often_noise_refuses(self) -> None:
        """4 of 800 before, 1 of 200 now; never more than 4 + √4 of 800."""
        known = noise()
        known.on_refused(1, served=200)
        known.on_held(served=200)
        assert known.ratio == pytest.approx(5 / 1000)
        for _ in range(20):
            known.refused = 13
            known.on_held(served=1000)
        assert known.ratio == pytest.approx(6 / 800)


class TestHeard:
    """Refusals that come whatever the rate do not slow the crawl down for long."""

    @pytest.mark.parametrize("spacing", [100, 40])
    def test_every_nth_page_refused_is_noise_in_the_end(self, spacing: int) -> None:
        """Cuts to 4 of 5, a trial, and then one in so many is expected."""
        played, slowest = held(), 10.0
        for _ in range(40):
            played.serve(spacing - 1)
            played.refuse()
            played.recover(1.2 / played.rate)
            slowest = min(slowest, played.rate)
        assert slowest > 6.0
        assert played.rate > 10.0
        assert played.hold.noise_ratio == pytest.approx(1 / spacing, rel=0.5)

    def test_a_third_that_is_refused_is_noise_in_the_end(self) -> None:
        """Two are served and one is refused, so that a rate is never held for long."""
        played = Played(10.0)
        for _ in range(40):
            played.serve(2)
            played.refuse()
            played.recover(1.2 / played.rate)
        assert played.rate > 5.0
        assert played.hold.noise_ratio == pytest.approx(0.33, abs=0.1)

    @pytest.mark.parametrize(("served", "is_tried"), [(7, True), (25, False)])
    def test_a_rate_that_was_served_is_hardly_refused_twice_soon_after(
        self, served: int, is_tried: bool
    ) -> None:
        """10/s had passed. Two of 16 are more than a tenth; two of 52 are not."""
        played = held()
        for _ in range(2):
            played.serve(served)
            played.refuse()
            played.recover(1.2 / played.rate)
        assert (played.rate > 10.0) is is_tried
        assert (played.hold.noise_ratio > 0.0) is is_tried, "how often is what the trial asks"

    def test_while_a_trial_asks_whether_many_are_refused_by_chance_one_page_tells_nothing(
        self,
    ) -> None:
        """One in a hundred: a page is rechecked all the same. One in three: it is not."""
        for served, is_taken in ((99, False), (2, True)):
            played = held()
            while played.hold.state.trial is None:
                played.serve(served)
                played.refuse()
                played.recover(1.2 / played.rate)
            assert (played.hold.noise_ratio > 0.0) is is_taken

    def test_a_limit_that_sank_is_not_taken_for_noise(self) -> None:
        """From 10/s to 6/s: whatever comes faster is refused, and the law ends below it."""
        played = held()
        for _ in range(3000):
            if played.rate > 6.0:
                played.refuse()
                played.recover(1.2 / played.rate)
            else:
                played.serve(1)
        assert played.hold.noise_ratio == 0.0
        assert 5.5 < played.hold.held_rate <= 6.0


class TestCaps:
    """Refusals of rare levels only: it is what is in flight that is limited."""

    def test_a_cap_is_found_one_below_the_level_refused_and_the_rate_is_free_then(self) -> None:
        """Levels up to 4 are served, level 5 is refused each time."""
        played = held(10.0, hi=30.0)
        for _ in range(3):
            assert played.hold.concurrency == float("inf")
            for level in (1, 2, 3, 4):
                played.serve(8, level=level)
            played.refuse(level=5)
            played.recover(0.12)
        assert played.hold.concurrency == 4
        assert played.refused_rate == float("inf")

    def test_a_cap_is_found_where_noise_explains_each_refusal_too(self) -> None:
        """Level 5 is refused after each 25 others: one in 26, as noise is; .01⁵ is under .0001²."""
        played = held(10.0, hi=30.0)
        played.hold.state.noise = Noise.found(10, 260)
        for count in range(1, 6):
            for level in (1, 2, 3, 4):
                played.serve(6, level=level)
            played.refuse(level=5)
            played.recover(0.12)
            assert played.hold.concurrency == (4 if count == 5 else float("inf"))
