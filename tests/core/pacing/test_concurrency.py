"""Slowness: a site that queues instead of refusing is told by its latency."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_adaptive.core.pacing.concurrency import Slowness
from tests.core.virtual import STEADY

GAP = 0.025
"""Seconds between two answers: 40 a second."""

BASE = 0.09
"""Seconds of a site that is not slow: 3.6 pages at once at 40 a second, so 4."""


class Site:
    """A site that answers each `GAP` seconds, however long each answer takes."""

    def __init__(self, slowness: Slowness) -> None:
        self.slowness = slowness
        self.now = 0.0

    def answers(self, count: int, *latencies: float, level: int = 99) -> float:
        """So many answers with these latencies in turn; returns the limit after them."""
        for number in range(count):
            self.now += GAP
            latency = latencies[number % len(latencies)]
            self.slowness.on_latency(self.now, self.now, latency, level)
        return self.slowness.limit

    def answers_until_limited(self, latency: float) -> int:
        """Answers with that latency until the limit changes."""
        before, count = self.slowness.limit, 0
        while self.answers(1, latency) == before:
            count += 1
            assert count < 1000
        return count + 1


@pytest.fixture
def site() -> Site:
    """A site known to answer in 90 ms."""
    site = Site(Slowness())
    assert site.answers(32, BASE) == math.inf
    return site


@pytest.fixture
def slow(site: Site) -> Site:
    """It slowed down to 300 ms: four in flight are enough for 40 a second of 90 ms."""
    site.answers_until_limited(0.3)
    assert site.slowness.limit == 4.0
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
    """Rate times base, once the site is slow; then steps of one."""

    def test_half_as_slow_again_is_not_slow_yet(self, site: Site) -> None:
        assert site.answers(2000, 1.45 * BASE) == math.inf

    def test_more_than_that_is_slow_once_it_lasts(self, site: Site) -> None:
        """300 ms: the mean passes 135 ms at once, but not its scatter before some 50 answers."""
        count = site.answers_until_limited(0.3)
        assert 45 <= count <= 70

    def test_what_the_site_works_on_at_once_may_be_in_flight(self, slow: Site) -> None:
        """40 a second for 90 ms are 3.6."""
        assert slow.slowness.limit == 4.0

    def test_answers_to_what_left_before_the_limit_are_left_out(self, slow: Site) -> None:
        mean = slow.slowness.mean
        for number in range(100):
            slow.slowness.on_latency(slow.now + number, slow.now - 0.001, 9.0, 4)
        assert (slow.slowness.mean, slow.slowness.limit) == (mean, 4.0)

    def test_a_site_that_is_quick_again_gets_one_more(self, slow: Site) -> None:
        """Nothing queued, after 32 answers; five and six after 32 each."""
        assert slow.answers(31, BASE) == 4.0
        assert slow.answers(1, BASE) == 5.0
        assert slow.answers(32, BASE) == 6.0

    def test_more_than_four_queued_and_there_is_one_less(self, slow: Site) -> None:
        """Of six at 300 ms 6 · (1 - 90/300) = 4.2 wait; of five 3.5, and so five stay."""
        slow.answers(64, BASE)
        assert slow.answers(32, 0.3) == 5.0
        assert slow.answers(320, 0.3) == 5.0

    def test_a_limit_that_is_not_reached_is_not_raised(self, slow: Site) -> None:
        assert slow.answers(320, BASE, level=3) == 4.0

    def test_one_may_always_be_in_flight(self) -> None:
        """A page in 25 ms, though it takes 1 ms: .04 pages at once."""
        site = Site(Slowness())
        site.answers(32, 0.001)
        site.answers_until_limited(0.1)
        assert site.slowness.limit == 1.0

    def test_latency_that_stays_was_no_queue_and_is_the_new_base(self, slow: Site) -> None:
        """Four in flight, and still 300 ms: the site is that slow."""
        assert slow.answers(32, 0.3) == math.inf
        assert slow.slowness.base == pytest.approx(0.3)
        assert slow.answers(1000, 0.3) == math.inf


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
        site = Site(Slowness(1.0))
        site.answers(32, BASE)
        while site.slowness.limit > 4.0:
            site.answers(1, 0.3)
        assert site.slowness.limit == 4.0
        assert site.answers(1, BASE) == 4.0

    def test_a_start_that_is_infinite_is_no_limit(self) -> None:
        assert Slowness().limit == math.inf


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
