"""The servers that the benchmark draws, and what it makes of a crawl."""

from __future__ import annotations

import math

import pytest

from benchmarks.drawn_servers import GROUPS, drawn
from benchmarks.random_servers import crawl


@pytest.mark.parametrize("group", sorted(GROUPS))
def test_the_same_seed_draws_the_same_servers_and_another_seed_others(group: str) -> None:
    first, again = (drawn(group, 1, 0) for _ in range(2))
    assert (first.text, first.own_rate, first.share) == (again.text, again.own_rate, again.share)
    assert 0.0 < first.oracle(0.0) < math.inf


@pytest.mark.parametrize("law", ["hold", "aimd", "cubic"])
def test_a_crawl_gets_no_more_than_the_oracle_and_no_less_than_a_tenth(law: str) -> None:
    """The first server of that seed is a token bucket."""
    found = crawl((law, "mixed", 2, 0), pages=500)
    assert 10.0 < found.goodput <= 100.0
    assert 0.0 <= found.refused <= 100.0
