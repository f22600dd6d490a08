"""The bracket: how far a step goes, and how long a rate must pass before it."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_adaptive.core.ceiling.hold.bracket import stage, step
from tests.core.virtual import STEADY

RATES = st.floats(1e-3, 1e3)
WIDTHS = st.floats(1e-6, 20.0)
"""Of brackets, in logarithms."""


class TestSteps:
    """A third of the bracket, in logarithms."""

    @pytest.mark.parametrize(
        ("hi", "rate"),
        [
            pytest.param(1.331, 1.1, id="the cube root of 1.331"),
            pytest.param(8.0, 2.0, id="the cube root of 8"),
            pytest.param(1000.0, 2.0, id="never more than twice, and not the cube root of 1000"),
            pytest.param(1.02, 1.0251, id="closed to 2 %: half a percent above the bound"),
            pytest.param(1.0, 1.005, id="nothing between"),
        ],
    )
    def test_the_next_rate_above_one_a_second(self, hi: float, rate: float) -> None:
        assert step(1.0, hi) == pytest.approx(rate)

    def test_three_percent_is_closed_and_a_little_more_is_not(self) -> None:
        """ln 1.03 is .0296 and ln 1.031 is .0305; the cube root of 1.031 is 1.0102."""
        assert step(1.0, 1.03) > 1.03
        assert step(1.0, 1.031) == pytest.approx(1.0102, abs=1e-4)

    def test_eight_steps_close_a_bracket_of_two(self) -> None:
        """Two thirds of the width are left each time: .693 · (2/3)⁸ = .027, and .041 before."""
        rate, widths = 1.0, []
        for _ in range(8):
            rate = step(rate, 2.0)
            widths.append(math.log(2.0 / rate))
        assert widths[-2:] == pytest.approx([0.0406, 0.0270], abs=1e-4)
        assert step(rate, 2.0) > 2.0

    @STEADY
    @given(RATES, WIDTHS)
    def test_a_step_goes_up_and_passes_the_bound_by_half_a_percent_only_when_closed(
        self, rate: float, width: float
    ) -> None:
        hi = rate * math.exp(width)
        after = step(rate, hi)
        assert rate < after <= 2.0 * rate
        if math.log(hi / rate) > 0.03:
            assert after < hi
        else:
            assert after == pytest.approx(1.005 * hi)


class TestStages:
    """Requests to pass, so that the expected loss of a step is half its expected gain."""

    @pytest.mark.parametrize(
        ("rate", "hi", "count"),
        [
            pytest.param(1.0, math.e, 16.0, id="twice the price, at a width of 1"),
            pytest.param(3.0, 3.0 * math.e**0.5, 32.0, id="at half the width twice as long"),
            pytest.param(1.0, 1.0 * math.e**0.03, 533.333, id="a bracket just closed"),
            pytest.param(1.0, 1.001, 533.333, id="nor longer when it is narrower"),
            pytest.param(1.005, 1.0, 266.667, id="above the bound half as long"),
        ],
    )
    def test_with_a_price_of_eight_pages(self, rate: float, hi: float, count: float) -> None:
        assert stage(rate, hi, 8.0) == pytest.approx(count, abs=1e-3)

    def test_a_refusal_that_costs_ten_times_as_much_is_risked_a_tenth_as_often(self) -> None:
        assert stage(1.0, 2.0, 80.0) == pytest.approx(10.0 * stage(1.0, 2.0, 8.0))

    @STEADY
    @given(RATES, WIDTHS, WIDTHS, st.floats(1.0, 1e4))
    def test_a_wider_bracket_needs_no_longer_stage(
        self, rate: float, one: float, other: float, price: float
    ) -> None:
        narrow, wide = sorted([one, other])
        short = stage(rate, rate * math.exp(wide), price)
        assert 0.0 < short <= stage(rate, rate * math.exp(narrow), price)
