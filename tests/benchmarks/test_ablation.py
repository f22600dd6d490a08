"""Each part of the law can be left out, and is put back."""

from __future__ import annotations

import pytest

from benchmarks.ablation import PARTS, cell
from benchmarks.simulation import Row

ROW = Row("window:60/60,noise=0.01", 0.0)
"""Most of the parts are asked within an hour."""


def test_a_part_that_is_left_out_is_put_back() -> None:
    """Some of them change what the crawl comes to; after each, it comes to the same as before."""
    usual = cell(("", ROW, (1,), 20.0))
    without = [cell((name, ROW, (1,), 20.0)) for name in PARTS]
    assert cell(("", ROW, (1,), 20.0)) == usual
    assert len(set(without)) > 3


@pytest.mark.parametrize("name", ["debt", "human windows", "outlasting pauses"])
def test_a_window_is_held_by_the_parts_that_know_of_windows(name: str) -> None:
    """Goodput or refusals are worse without each of them."""
    row = Row("window:300/300", 0.0)
    goodput, refused = cell(("", row, (1,), 60.0))
    found, found_refused = cell((name, row, (1,), 60.0))
    assert found < goodput - 1.0 or found_refused > refused + 0.1
