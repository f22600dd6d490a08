"""Trials of a faster rate."""

from __future__ import annotations

import pytest

from scrapy_adaptive.core.ceiling.hold.trial import Trial

ON_TIME = 1.0 / 1.15
"""Seconds between two requests of a trial that is 15 % faster than one a second."""


def trial(hits: int, pages: int, *, saved: float = 0.0, faster: float = 1.15) -> Trial:
    return Trial.begin(hits, pages, gap=1.0, wait=0.0, faster=faster, saved=saved, window=0.0)


def refused(found: Trial, *, served: int = 10, wait: float = 0.0) -> bool:
    return found.on_refused(served, wait, wait)


class TestTrials:
    """Would refusals come more often at a rate 15 % faster? A limit would refuse 13 % of them."""

    def test_pages_without_a_refusal_are_noise(self) -> None:
        """Each tells ln(.996 / (.996 / 1.15)) = .1398: 57 make 7.97, 58 make 8.11."""
        found = trial(4, 1000)
        assert [found.on_served(ON_TIME) for _ in range(58)] == [False] * 57 + [True]

    def test_a_second_refusal_early_on_is_the_rates(self) -> None:
        """ln(.1339 / .004) = 3.5: no proof yet, chance refuses too; twice that is one."""
        found = trial(4, 1000)
        found.on_served(ON_TIME)
        assert [refused(found) for _ in range(2)] == [False, True]

    def test_what_was_saved_up_in_the_pause_proves_nothing(self) -> None:
        """At 15 % above, each page but every 1.15th takes one that was saved: three last for 23."""
        found = trial(4, 1000, saved=3.0)
        assert [found.on_served(ON_TIME) for _ in range(81)] == [False] * 80 + [True]

    def test_a_window_may_let_so_many_pass_once_a_pause_saves_up_its_own_alone(self) -> None:
        """A window of 100 is free at first; what three seconds of a pause save lasts for 23.

        That tells ln(.1339 / .004) = 3.511, and -8 is proof: 83 pages of .1398.
        """
        found = Trial.begin(4, 1000, gap=1.0, wait=3.0, faster=1.15, saved=3.0, window=100.0)
        assert not any(found.on_served(ON_TIME) for _ in range(95))
        assert not refused(found, wait=3.0)
        assert [found.on_served(ON_TIME) for _ in range(106)] == [False] * 105 + [True]

    def test_a_trial_that_is_no_faster_proves_nothing(self) -> None:
        """The crawler is late: a request each 1.1 s where the slower rate was one a second."""
        found = trial(4, 1000)
        assert not any(found.on_served(1.1) for _ in range(10_000))

    def test_a_page_proves_no_more_than_the_trial_asks_for(self) -> None:
        """The gaps before were longer by far: the rate had only just become what was refused."""
        found = Trial.begin(4, 1000, gap=2.0, wait=0.0, faster=1.15, saved=0.0, window=0.0)
        assert [found.on_served(ON_TIME) for _ in range(58)] == [False] * 57 + [True]

    def test_half_as_much_faster_takes_twice_as_many_pages(self) -> None:
        """At 1 / 1.15 s a page takes .1304 of a page more than the slower rate, at .9348 half."""
        found = trial(4, 1000)
        assert [found.on_served(1.0 - 0.5 * (1.0 - ON_TIME)) for _ in range(116)].index(True) == 114

    def test_a_late_page_takes_back_what_the_saved_ones_would_have_proven(self) -> None:
        """One of 1.1304 s undoes one of .8696: with three of 23 used up, 23 are left again."""
        found = trial(4, 1000, saved=3.0)
        assert not any(found.on_served(ON_TIME) for _ in range(3))
        assert not any(found.on_served(2.0 - ON_TIME) for _ in range(100))
        assert [found.on_served(ON_TIME) for _ in range(81)] == [False] * 80 + [True]

    @pytest.mark.parametrize(("wait", "is_blamed"), [(1.0, False), (4.5, False), (5.5, True)])
    def test_a_wait_that_grows_by_what_was_saved_is_what_is_left_of_a_window(
        self, wait: float, is_blamed: bool
    ) -> None:
        """Sixty pages save 7.8 s; half of that is more than chance, beside the second before."""
        found = Trial.begin(4, 1000, gap=1.0, wait=1.0, faster=1.15, saved=0.0, window=60.0)
        assert refused(found, served=60, wait=wait) is is_blamed

    def test_a_tenth_that_is_refused_whatever_the_rate_is_noise_in_the_end(self) -> None:
        """Each served page tells -.14, each refused one ln(.2174 / .1) = .777: ten lose .48."""
        found = trial(2, 20)
        verdicts = [
            refused(found) if n % 10 == 5 else found.on_served(ON_TIME) for n in range(1, 200)
        ]
        assert 140 <= verdicts.index(True) <= 199
        assert found.found / found.of == pytest.approx(0.1, abs=0.01)

    def test_a_tenth_that_becomes_a_fifth_and_more_is_the_rates(self) -> None:
        """Three pages tell -.42, one refusal .777: .36 for four, so 56 or so."""
        found = trial(2, 20)
        verdicts = [
            refused(found) if n % 4 == 0 else found.on_served(ON_TIME) for n in range(1, 160)
        ]
        assert 40 <= verdicts.index(True) <= 80

    def test_half_that_is_refused_is_never_taken_for_noise(self) -> None:
        """Served at five times the rate a page tells -1.61, refused ln(.87 / .35) = .91: a dozen of
        each would do."""
        found = trial(5, 10, faster=5.0)
        verdicts = [refused(found) or found.on_served(0.2) for _ in range(200)]
        assert not any(verdicts)
        assert found.found > 0.4 * found.of

    def test_a_limit_between_both_rates_is_not_taken_for_noise(self) -> None:
        """Slower, 5 of 125 were refused; here one of seven, each with a pause that saves up 2.9.

        The other 3.1 tell -2.8, the refusal ln(.616 / .04) = 2.7: in the end the trial is over. But
        23 of 161, 14 %, are not 4 %: 23 ln(14.3 / 9.8) + 5 ln(4 / 9.8) = 4.2.
        """
        found, is_over = trial(5, 125, faster=2.5), False
        while not is_over:
            is_over = [found.on_served(0.4) for _ in range(6)].count(True) > 0
            refused(found, served=6, wait=1.75)
        assert found.found >= 23
        assert found.is_excess

    def test_as_often_as_before_is_no_excess(self) -> None:
        """Slower, 5 of 50; here 5 of 50 and 9 of 50, and 14 of 50, which is 28 %."""
        found = trial(5, 50)
        verdicts = []
        for count in (5, 9, 14):
            found.found, found.of = count, 50
            verdicts.append(found.is_excess)
        assert verdicts == [False, False, False]
