"""Slowness: a site that queues instead of refusing is told by its latency."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_adaptive.core.pacing.concurrency import Slowness
from scrapy_adaptive.core.state.reading import Clock, read_into
from scrapy_adaptive.core.state.writing import written
from tests.core.virtual import STEADY

BASE = 0.09
"""Seconds of a site that is not slow."""

MOST = 64
"""Requests that a crawl may have in flight at all."""


class Site:
    """A site that answers each page at once, however long each is said to have taken."""

    def __init__(self, slowness: Slowness) -> None:
        self.slowness = slowness
        self.now = 0.0

    def answers(self, count: int, *latencies: float, level: int = 12) -> float:
        """So many answers with these latencies in turn; returns the limit after them."""
        for number in range(count):
            self.now += 1.0
            latency = latencies[number % len(latencies)]
            self.slowness.on_latency(self.now, self.now, latency, level)
        return self.slowness.limit

    def works(self, rounds: int, places: int) -> list[float]:
        """The limits after so many rounds in which as many are in flight as the limit lets, and a
        site of so many places queues what is more."""
        limits = []
        for _ in range(32 * rounds):
            limit = self.slowness.limit
            level = int(min(limit, MOST))
            self.answers(1, BASE * max(1.0, level / places), level=level)
            if self.slowness.limit != limit:
                limits.append(self.slowness.limit)
        return limits


@pytest.fixture
def site() -> Site:
    """A site known to answer in 90 ms."""
    site = Site(Slowness())
    assert site.answers(32, BASE) == math.inf
    return site


@pytest.fixture
def slow(site: Site) -> Site:
    """It slowed down with twelve in flight. What it was is measured with three, in a round."""
    while site.slowness.limit == math.inf:
        site.answers(1, 2.0 * BASE)
    return site


class TestBase:
    """The least latency that was sure."""

    def test_the_base_is_the_mean_of_the_first_thirty_two(self) -> None:
        site = Site(Slowness())
        site.answers(31, BASE)
        assert site.slowness.base == math.inf
        site.answers(1, BASE)
        assert site.slowness.base == pytest.approx(BASE)

    def test_latency_that_scatters_fakes_no_low_base(self) -> None:
        """50 and 130 ms in turn: not the 50 ms, and not even a mean that is low by chance."""
        site = Site(Slowness())
        site.answers(1000, 0.05, 0.13)
        assert 0.09 <= site.slowness.base < 0.12

    def test_a_quicker_site_has_a_lower_base(self, site: Site) -> None:
        site.answers(500, 0.045)
        assert site.slowness.base == pytest.approx(0.045, rel=0.02)

    def test_scatter_alone_is_no_queue(self) -> None:
        """Ten times as long now and then."""
        site = Site(Slowness())
        assert site.answers(3000, 0.05, 0.05, 0.5, 0.05, 0.05) == math.inf


class TestLimit:
    """What is in flight times base / mean, once the site is slow; then steps of one."""

    def test_a_quarter_longer_is_not_slow_yet(self, site: Site) -> None:
        assert site.answers(2000, 1.25 * BASE) == math.inf

    def test_more_than_that_is_slow_once_it_lasts(self, site: Site) -> None:
        """A weight of a 32nd: after n answers of 180 ms the mean is 180 - 90 · (31/32)ⁿ, and passes
        1.33 · 90 = 120 ms at 13, and two standard errors more a few later."""
        count = 0
        while site.answers(1, 2.0 * BASE) == math.inf:
            count += 1
        assert 13 <= count <= 24

    def test_half_of_what_was_worked_on_is_let_in_flight_while_the_base_is_measured(
        self, slow: Site
    ) -> None:
        """Twelve were in flight; the mean has risen by a third, and some: 12 · 90 / 130 / 2."""
        assert slow.slowness.limit == 4.0

    def test_what_the_site_works_on_at_once_may_be_in_flight_after_that(self, slow: Site) -> None:
        """The measure tells 90 ms as well: 12 · 90 / 130."""
        assert 8.0 <= slow.answers(32, BASE, level=4) <= 9.0
        assert slow.slowness.base == pytest.approx(BASE)

    def test_answers_to_what_left_before_the_limit_are_left_out(self, slow: Site) -> None:
        before = slow.slowness.mean, slow.slowness.limit
        for number in range(100):
            slow.slowness.on_latency(slow.now + number, slow.now - 0.001, 9.0, 4)
        assert (slow.slowness.mean, slow.slowness.limit) == before

    def test_latency_that_stays_was_no_queue(self, slow: Site) -> None:
        """Half as many in flight, and still 180 ms: that is the base, and the limit goes back."""
        assert slow.answers(32, 2.0 * BASE, level=4) >= 12.0
        assert slow.slowness.base == pytest.approx(2.0 * BASE)
        assert slow.answers(32, 2.0 * BASE, level=64) >= 13.0

    def test_one_more_after_a_quick_round_and_one_less_after_a_slow_one(self, slow: Site) -> None:
        limit = slow.answers(32, BASE, level=4)
        assert slow.answers(32, BASE) == limit + 1.0
        assert slow.answers(32, 1.4 * BASE) == limit

    def test_a_limit_that_is_not_reached_is_not_raised(self, slow: Site) -> None:
        limit = slow.answers(32, BASE, level=4)
        assert slow.answers(320, BASE, level=3) == limit

    def test_one_may_always_be_in_flight(self) -> None:
        site = Site(Slowness())
        site.answers(32, 0.001, level=1)
        site.answers(64, 0.1, level=1)
        assert site.slowness.limit == 1.0

    def test_the_base_is_measured_ever_more_rarely(self, slow: Site) -> None:
        """After 4, 16 and 36 rounds; each time half of the limit, for a round."""
        slow.answers(32, BASE, level=4)
        limits = slow.works(70, places=8)
        measures = [n for n, limit in enumerate(limits) if limit <= 6.0]
        assert measures == [3, 3 + 1 + 16, 3 + 1 + 16 + 1 + 36]

    def test_a_third_more_than_the_site_works_on_is_in_flight(self, slow: Site) -> None:
        """Eight places: 1.33 · 8 = 10.6, so ten and eleven in turn."""
        slow.answers(32, BASE, level=4)
        limits = slow.works(200, places=8)
        assert {limit for limit in limits[-60:] if limit > 6.0} == {10.0, 11.0}

    @pytest.mark.parametrize("low", [0.6, 1.6])
    def test_a_base_that_chance_made_wrong_is_measured_away(self, slow: Site, low: float) -> None:
        """It would be 60 % of what it is, and starve the crawl, or 160 %, and crowd the site."""
        slow.answers(32, low * BASE, level=4)
        slow.works(1000, places=8)
        assert slow.slowness.base == pytest.approx(BASE, rel=0.1)


class TestGrowth:
    """Without a target the limit grows from one until the site is slow."""

    def test_each_answer_at_the_limit_lets_one_more_in_flight(self) -> None:
        """One answer of one, two of two, four of four: it doubles each round trip."""
        slowness = Slowness(1.0)
        limits = []
        for number in range(1, 8):
            slowness.on_latency(number, 0.0, BASE, int(slowness.limit))
            limits.append(slowness.limit)
        assert limits == [2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]

    def test_answers_below_the_limit_do_not_raise_it(self) -> None:
        slowness = Slowness(1.0)
        slowness.on_latency(1.0, 0.0, BASE, 1)
        for number in range(100):
            slowness.on_latency(2.0 + number, 0.0, BASE, 1)
        assert slowness.limit == 2.0

    def test_growth_ends_where_the_site_gets_slow(self) -> None:
        """Twenty places: at more than 26 in flight it takes a third longer, a round later less."""
        site = Site(Slowness(1.0))
        limits = site.works(40, places=20)
        assert 26.0 < max(limits) < 64.0
        assert {limit for limit in limits[-8:] if limit > 20.0} <= {25.0, 26.0, 27.0}

    def test_a_start_that_is_infinite_is_no_limit(self) -> None:
        assert Slowness().limit == math.inf


class TestDamage:
    """What was read of a file is refused, or learned from here on."""

    @pytest.mark.parametrize("rounds", [0, 1, 2, 8])
    @pytest.mark.parametrize("value", [0, 1, 0.5, 1e11, "inf"])
    def test_any_number_in_place_of_another_is_refused_or_does_no_harm(
        self, slow: Site, value: float, rounds: int
    ) -> None:
        slow.works(rounds, places=8)
        data = written(slow.slowness, None, slow.now)
        for name in data:
            site = Site(Slowness())
            site.now = slow.now
            try:
                read_into(site.slowness, {**data, name: value}, Clock(now=slow.now, at=slow.now))
            except ValueError:
                continue
            site.works(40, places=8)
            assert site.slowness.limit >= 1.0
            assert 0.0 <= site.slowness.base < math.inf

    def test_a_limit_without_a_base_is_refused(self, slow: Site) -> None:
        data = {**written(slow.slowness, None, 0.0), "base": "inf"}
        with pytest.raises(ValueError, match=r"base is inf, though its limit is 4\.0"):
            read_into(Slowness(), data, Clock(now=0.0, at=0.0))


@STEADY
@given(
    st.sampled_from([1.0, math.inf]),
    st.lists(
        st.tuples(st.floats(1e-3, 10.0), st.floats(0.0, 100.0), st.integers(1, 64)), max_size=300
    ),
)
def test_the_limit_is_one_or_more_and_a_number_whatever_happens(
    starts_at: float, story: list[tuple[float, float, int]]
) -> None:
    slowness, now = Slowness(starts_at), 0.0
    for gap, latency, level in story:
        now += gap
        slowness.on_latency(now, now - latency, latency, level)
        assert slowness.limit >= 1.0
        assert 0.0 <= slowness.mean < math.inf
        assert slowness.base >= 0.0
