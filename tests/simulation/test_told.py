"""Sites that tell their limit, truly or not."""

from __future__ import annotations

import pytest

from .crawled import HOUR, crawled

LONG = HOUR / 6.0
"""Seconds of a crawl: ten of the longest windows, 6000 pages of the fastest site."""

SEEDS = (1, 2)

SITES = ["window:100/10", "window:60/60", "log:300/60", "bucket:10/20"]


@pytest.mark.parametrize("site", SITES)
def test_nothing_is_refused_by_a_site_that_tells_what_remains(site: str) -> None:
    """Not in the first window, nor later; and the limit is used."""
    _, _, readings = crawled(f"{site},ratelimit", 1, LONG)
    assert readings.whole.refused_count == 0
    assert readings.whole.goodput_ratio is not None
    assert readings.whole.goodput_ratio >= 0.98


@pytest.mark.parametrize("site", SITES)
def test_resets_that_are_past_and_absurd_numbers_change_nothing(site: str) -> None:
    """Page by page the crawl is that of a site that tells nothing."""
    _, bare, _ = crawled(site, 1, LONG)
    for lie in ("reset", "absurd"):
        _, lied_to, _ = crawled(f"{site},lying={lie}", 1, LONG)
        assert (lied_to.accepted, lied_to.refused) == (bare.accepted, bare.refused), lie


@pytest.mark.parametrize("site", SITES)
def test_a_site_that_says_that_all_remains_is_asked_no_faster(site: str) -> None:
    """A quota only ever slows a slot down: no more are refused, and hardly fewer served.

    Where it slows, other rates are tried, and a limit is found a little later.
    """
    bare, lied_to = (
        [crawled(spec, seed, LONG)[2].whole for seed in SEEDS]
        for spec in (site, f"{site},lying=remaining")
    )
    refused = sum(part.refused_count for part in bare)
    assert sum(part.refused_count for part in lied_to) <= refused
    served = sum(part.accepted_count for part in bare)
    assert sum(part.accepted_count for part in lied_to) >= 0.97 * served
