"""Noise: refusals that come whatever the rate, and how they are told from a limit."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_adaptive.core.ceiling.hold.noise import Look, Noise, excess
from tests.core.virtual import STEADY


@pytest.fixture
def noise() -> Noise:
    """A look has shown that 4 of 800 requests were refused by chance: one in 200."""
    noise = Noise()
    noise.on_found(4, 800)
    return noise


def served(noise: Noise, count: int) -> None:
    """So many requests in a row are served."""
    for _ in range(count):
        noise.on_served()


def held(noise: Noise, *, times: int, served_count: int, refused_count: int) -> None:
    """So many stages in a row pass, with so many served and refused in each."""
    for _ in range(times):
        served(noise, served_count)
        for _ in range(refused_count):
            noise.on_refused()
        noise.on_held()
        noise.on_rate()


class TestExcess:
    """How much more likely refusals are if something besides noise causes them."""

    @pytest.mark.parametrize(
        ("found", "expected", "ratio"),
        [
            pytest.param(1, 1.0, 0.0, id="as many as expected"),
            pytest.param(1, 3.0, 0.0, id="fewer"),
            pytest.param(2, 1.0, 0.3863, id="2 ln 2 - 1"),
            pytest.param(3, 1.0, 1.2958, id="3 ln 3 - 2"),
            pytest.param(4, 1.0, 2.5452, id="4 ln 4 - 3"),
        ],
    )
    def test_by_hand(self, found: int, expected: float, ratio: float) -> None:
        assert excess(found, expected) == pytest.approx(ratio, abs=1e-4)

    @STEADY
    @given(st.integers(1, 100), st.floats(1e-3, 100.0))
    def test_more_refusals_are_never_less_evidence(self, found: int, expected: float) -> None:
        assert 0.0 <= excess(found, expected) <= excess(found + 1, expected)


class TestClusters:
    """Once noise is known, only refusals that cluster mean anything."""

    def test_before_noise_is_known_every_refusal_means_something(self) -> None:
        noise = Noise()
        served(noise, 10_000)
        assert not noise.on_refused()
        assert noise.ratio == 0.0

    def test_a_lone_refusal_is_explained(self, noise: Noise) -> None:
        """One in 200 is just what is expected."""
        assert noise.ratio == pytest.approx(0.005)
        served(noise, 200)
        assert noise.on_refused()

    def test_three_in_two_hundred_are_explained_and_four_are_not(self, noise: Noise) -> None:
        """3 ln 3 - 2 = 1.3, but 4 ln 4 - 3 = 2.55."""
        served(noise, 200)
        assert [noise.on_refused() for _ in range(4)] == [True, True, True, False]

    def test_where_nothing_faster_was_refused_it_takes_five(self, noise: Noise) -> None:
        """5 ln 5 - 4 = 4.05: more than 4, so it takes no sixth; 4 ln 4 - 3 is less."""
        served(noise, 200)
        found = [noise.on_refused(is_open=True) for _ in range(5)]
        assert found == [True, True, True, True, False]

    @pytest.mark.parametrize("count", [1, 6, 100])
    def test_one_refusal_at_a_rate_is_no_cluster(self, noise: Noise, count: int) -> None:
        """However soon it comes; the second soon after is one."""
        served(noise, 500)
        noise.on_rate()
        served(noise, count)
        assert noise.on_refused()
        assert noise.on_refused() is (count == 100)

    def test_what_noise_does_not_explain_is_counted(self, noise: Noise) -> None:
        """Three in 200 where one was expected: two too many."""
        served(noise, 200)
        for _ in range(3):
            noise.on_refused()
        assert noise.unexpected == pytest.approx(2.0)


class TestEstimate:
    """The share is learned where the rate has passed."""

    def test_a_rate_that_passed_tells_how_often_noise_refuses(self, noise: Noise) -> None:
        """4 of 800 before, 3 of 200 now: 7 of 1000."""
        served(noise, 200)
        for _ in range(3):
            noise.on_refused()
        noise.on_held()
        assert noise.ratio == pytest.approx(0.007)

    def test_a_rate_that_was_refused_tells_nothing_of_it(self, noise: Noise) -> None:
        served(noise, 200)
        noise.on_refused()
        noise.on_rate()
        assert noise.ratio == pytest.approx(0.005)

    def test_it_never_seems_more_than_what_was_counted_before_allows(self, noise: Noise) -> None:
        """13 in 1000 at a rate just over a limit, of which 8 may be the limit's. The four that
        were counted may as well have been six: 4 + √4."""
        held(noise, times=20, served_count=1000, refused_count=13)
        assert noise.ratio == pytest.approx(6 / 800)

    def test_the_more_was_counted_the_less_more_it_may_be(self, noise: Noise) -> None:
        """36 of 7200 at slower rates: 36 + √36 are the most of as many, then."""
        held(noise, times=8, served_count=800, refused_count=4)
        held(noise, times=50, served_count=1000, refused_count=13)
        assert noise.ratio == pytest.approx(42 / 7200)

    def test_ten_spacings_without_a_refusal_and_noise_is_forgotten(self, noise: Noise) -> None:
        """One in 200: 2000 pages are not enough, one more is."""
        served(noise, 2000)
        assert noise.ratio > 0.0
        served(noise, 1)
        assert noise.ratio == 0.0

    def test_a_refusal_starts_the_forgetting_anew(self, noise: Noise) -> None:
        for _ in range(2):
            served(noise, 1500)
            noise.on_refused()
        assert noise.ratio > 0.0

    def test_noise_that_was_forgotten_is_not_learned_from_a_rate_that_passes(
        self, noise: Noise
    ) -> None:
        served(noise, 2001)
        noise.on_refused()
        noise.on_held()
        assert noise.ratio == 0.0


class TestLooks:
    """Would refusals come more often at a rate 15 % faster? A limit would refuse 13 % of them."""

    def test_pages_without_a_refusal_are_noise(self) -> None:
        """Each tells .1304 - .004 = .1264: 31 make 3.92, 32 make 4.05."""
        look = Look(0.004, saved=0.0, faster=1.15)
        assert [look.on_served() for _ in range(32)] == [False] * 31 + [True]

    def test_a_second_refusal_early_on_is_the_rates(self) -> None:
        """ln(.1304 / .004) = 3.5 is no proof yet: chance refuses at a look as well."""
        look = Look(0.004, saved=0.0, faster=1.15)
        look.on_served()
        assert [look.on_refused() for _ in range(2)] == [False, True]

    def test_what_was_saved_up_in_the_pause_proves_nothing(self) -> None:
        """At 15 % above, each page but every 1.15th takes one that was saved: three last for 23."""
        look = Look(0.004, saved=3.0, faster=1.15)
        assert [look.on_served() for _ in range(55)] == [False] * 54 + [True]

    def test_far_above_the_limit_they_prove_nothing_either(self) -> None:
        """At three times the limit two of three take one: eleven last for 16, and 7 count."""
        look = Look(0.02, saved=11.0, faster=3.0)
        assert [look.on_served() for _ in range(23)] == [False] * 22 + [True]

    def test_a_refusal_before_that_is_spent_counts_as_any_other(self) -> None:
        """And what is saved up in its pause has to be spent again."""
        look = Look(0.004, saved=3.0, faster=1.15)
        for _ in range(15):
            look.on_served()
        assert not look.on_refused()
        assert not any(look.on_served() for _ in range(23 + 31))

    def test_a_refusal_after_many_pages_may_be_noise_still(self) -> None:
        """At 2 % noise: 10 · -.1104 + ln 6.52 = .77 is no proof; 44 pages more are one."""
        look = Look(0.02, saved=0.0, faster=1.15)
        assert not any(look.on_served() for _ in range(10))
        assert not look.on_refused()
        assert [look.on_served() for _ in range(44)] == [False] * 43 + [True]

    def test_a_third_refusal_soon_after_is_the_rates(self) -> None:
        look = Look(0.02, saved=0.0, faster=1.15)
        for _ in range(10):
            look.on_served()
        assert [look.on_refused() for _ in range(3)] == [False, False, True]

    def test_more_than_two_percent_is_never_taken_for_noise(self) -> None:
        """One in five refused: a page served tells as much as at 2 %, so 37 are needed."""
        look = Look(0.2, saved=0.0, faster=1.15)
        assert [look.on_served() for _ in range(37)] == [False] * 36 + [True]

    def test_twice_as_fast_is_told_sooner(self) -> None:
        """A limit would refuse a half: nine pages tell .496 each."""
        look = Look(0.004, saved=0.0, faster=2.0)
        assert [look.on_served() for _ in range(9)] == [False] * 8 + [True]
