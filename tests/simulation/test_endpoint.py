"""A site that limits one class of its pages more than the rest."""

from __future__ import annotations

import pytest

from .crawled import HOUR, crawled


@pytest.mark.parametrize("seed", [1, 2])
def test_a_limited_class_costs_the_others_little(seed: int) -> None:
    """90 % of what an oracle with a rate for each class gets, under 0.35 % refused."""
    governor, _, readings = crawled("endpoint:10/1", seed, HOUR)
    assert list(governor.kinds["site"]) == ["search"]
    assert readings.whole.goodput_ratio is not None
    assert readings.whole.goodput_ratio >= 0.9
    assert readings.whole.refused_ratio <= 0.0035


def test_two_classes_under_one_limit_are_not_told_apart() -> None:
    """The searches have a limit of their own that nothing ever reaches."""
    governor, _, readings = crawled("endpoint:10/100", 1, HOUR)
    assert not governor.kinds
    assert readings.whole.goodput_ratio is not None
    assert readings.whole.goodput_ratio >= 0.99
    assert readings.whole.refused_ratio <= 0.003
