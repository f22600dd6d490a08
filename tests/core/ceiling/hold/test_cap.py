"""Caps: a limit on what is in flight is told from a limit on the rate."""

import math

import pytest

from scrapy_adaptive.core.ceiling.hold.concurrency_cap import Cap


def served(caps: Cap, *counts: int) -> Cap:
    """So many accepted that left as the first in flight, the second, …"""
    for level, count in enumerate(counts, start=1):
        for _ in range(count):
            caps.on_accepted(level)
    return caps


@pytest.fixture
def capped() -> Cap:
    """A cap of four, found in four epochs at level 5, which one page in 20 had."""
    caps = served(Cap(), 10, 10, 10, 8, 2)
    assert [caps.on_epoch(5) for _ in range(4)][-1]
    assert caps.cap == 4
    return caps


class TestShares:
    """How often a level occurs among what was served lately."""

    def test_a_share_counts_the_level_and_all_above_it(self) -> None:
        """Six, three and one of ten."""
        caps = served(Cap(), 6, 3, 1)
        shares = [caps.share(level) for level in (1, 2, 3, 4)]
        assert shares == pytest.approx([1.0, 0.4, 0.1, 0.0])

    def test_without_anything_served_every_level_is_common(self) -> None:
        assert Cap().share(7) == 1.0

    def test_older_pages_fade(self) -> None:
        """The 65th page of level 1 halves the counts: 32.5 of level 1, and 25 of level 2."""
        caps = served(Cap(), 64, 50)
        assert caps.share(2) == pytest.approx(50 / 114)
        served(caps, 1)
        assert caps.share(2) == pytest.approx(25 / 57.5)


class TestEvidence:
    """A limiter blind to levels refuses each as often as it occurs."""

    def test_shares_multiply_until_chance_is_ruled_out(self) -> None:
        """A fifth each time: .2⁵ = .00032, .2⁶ = .000064, less than one in ten thousand."""
        caps = served(Cap(), 20, 20, 20, 20, 20)
        assert [caps.on_epoch(5) for _ in range(6)] == [False] * 5 + [True]
        assert caps.cap == 4

    def test_no_epoch_counts_for_more_than_a_hundredth(self) -> None:
        """A level that never occurred is refused three times, not once."""
        caps = served(Cap(), 100)
        assert [caps.on_epoch(9) for _ in range(3)] == [False, False, True]

    def test_the_lowest_level_refused_is_one_too_many(self) -> None:
        caps = served(Cap(), 50, 50)
        found = [caps.on_epoch(level) for level in (8, 6, 7, 9, 8)]
        assert any(found)
        assert caps.cap == 5

    def test_a_refusal_at_a_common_level_begins_the_evidence_anew(self) -> None:
        caps = served(Cap(), 50, 50)
        assert not any(caps.on_epoch(level) for level in (8, 8, 1, 8, 8))
        assert caps.cap == math.inf

    def test_a_level_that_most_had_is_told_by_many_refusals(self) -> None:
        """Where delays vary little, six in ten are at the limit: .6¹⁹ is one in 16 400."""
        caps = served(Cap(), 10, 10, 10, 10, 60)
        assert [caps.on_epoch(5) for _ in range(19)] == [False] * 18 + [True]
        assert caps.cap == 4

    def test_a_level_that_all_had_tells_nothing(self) -> None:
        caps = served(Cap(), 0, 50)
        assert not any(caps.on_epoch(2) for _ in range(1000))

    def test_where_requests_are_refused_by_chance_twice_the_evidence_is_asked_for(self) -> None:
        """A fifth each time: .2¹² = 4.1e-9, the first under one in ten thousand, squared."""
        caps = served(Cap(), 20, 20, 20, 20, 20)
        assert [caps.on_epoch(5, is_noisy=True) for _ in range(12)] == [False] * 11 + [True]

    def test_evidence_that_found_a_cap_is_used_up(self, capped: Cap) -> None:
        assert not capped.on_epoch(5)

    def test_a_refusal_under_a_level_is_evidence_of_the_lower_ones_alone(self) -> None:
        """Level 5 begins anew; level 3, in the one half, has its eight: .5¹⁴ needs six more."""
        caps = served(Cap(), 25, 25, 20, 20, 10)
        found = [caps.on_epoch(level) for level in (5, 5, 3, 5, 5, 3, 3, 3)]
        assert not any(found)
        assert [caps.on_epoch(3) for _ in range(6)] == [False] * 5 + [True]
        assert caps.cap == 2

    def test_one_refusal_at_a_lower_level_does_not_make_that_the_cap(self) -> None:
        """Level 2, in one half, has .5 · .5³ by then, level 8 a hundredth three times."""
        caps = served(Cap(), 50, 50)
        for level in (2, 8, 8, 8):
            caps.on_epoch(level)
        assert caps.cap == 7

    def test_one_at_a_time_is_the_least_cap(self) -> None:
        caps = Cap()
        caps.set(0.5)
        assert caps.cap == 1


class TestRetests:
    """A cap is doubted: one more is tried now and then."""

    def test_after_four_hundred_at_the_cap_one_more_is_tried(self, capped: Cap) -> None:
        """Pages below the cap do not count."""
        served(capped, 1000, 0, 0, 399)
        assert capped.cap == 4
        served(capped, 0, 0, 0, 1)
        assert capped.cap == 5

    def test_refused_again_the_gap_doubles(self, capped: Cap) -> None:
        for gap in (400, 800, 1600):
            served(capped, 0, 0, 0, gap - 1)
            assert capped.cap == 4
            served(capped, 0, 0, 0, 1)
            assert capped.cap == 5
            assert capped.on_epoch(5)
            assert capped.cap == 4

    def test_a_trial_at_its_end_waits_as_long_again(self, capped: Cap) -> None:
        """Thirty served at five: five is the cap now, for 400 pages."""
        served(capped, 0, 0, 0, 400)
        served(capped, 0, 0, 0, 0, 30 + 399)
        assert capped.cap == 5
        served(capped, 0, 0, 0, 0, 1)
        assert capped.cap == 6

    def test_three_trials_that_passed_and_no_cap_is_believed_any_more(self, capped: Cap) -> None:
        """400 + 6 · 5 at levels 4 and 5, then 400 + 36, then 400 + 42."""
        caps = capped
        for level in (4, 5, 6):
            assert caps.cap == level
            for _ in range(400):
                caps.on_accepted(level)
            for _ in range(6 * (level + 1)):
                caps.on_accepted(level + 1)
        assert caps.cap == math.inf
        assert not any(caps.on_epoch(50) for _ in range(20))
        assert caps.cap == math.inf

    def test_a_refusal_below_the_level_on_trial_is_no_news_of_it(self, capped: Cap) -> None:
        served(capped, 0, 0, 0, 400)
        assert not capped.on_epoch(1)
        assert capped.cap == 5
