"""What the memory of a first crawl is good for."""

from __future__ import annotations

import pytest

from .crawled import HOUR, crawled


@pytest.mark.parametrize("site", ["ban:10/20/60,doubling", "ban:1/5/60,doubling"])
@pytest.mark.parametrize("seed", [1, 2])
def test_a_site_whose_bans_double_bans_the_second_crawl_once_at_most(site: str, seed: int) -> None:
    """And that one is waited out with two hits at most: the first crawl had met more."""
    first, _, met = crawled(site, seed, HOUR)
    assert met.banned_count > 1
    _, _, second = crawled(site, seed + 100, 2 * HOUR, states=first.states(HOUR))
    assert second.ban_count <= 1
    assert second.banned_count <= 2
    assert second.whole.goodput_ratio is not None
    assert met.whole.goodput_ratio is not None
    assert second.whole.goodput_ratio > 2.0 * met.whole.goodput_ratio
