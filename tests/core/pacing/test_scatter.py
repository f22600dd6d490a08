"""Gaps that DOWNLOAD_DELAY holds are scattered as its user asked, and no others."""

from __future__ import annotations

from itertools import pairwise

import pytest

from scrapy_adaptive.core.ceiling.aimd import Aimd
from scrapy_adaptive.core.headers.parse import Quota
from scrapy_adaptive.core.pacing.pace import Pace
from scrapy_adaptive.core.slot_config import Limits
from scrapy_adaptive.core.types import Learned

CHANCES = (0.0, 0.999, 0.25, 0.75, 0.5)


def pace(jitter: float, *, floor: float = 2.0, start_delay: float = 0.0) -> Pace:
    limits = Limits(floor=floor, start_delay=start_delay, jitter=jitter)
    return Pace(limits, Aimd(0.5), 0.0)


def gaps(pace: Pace) -> list[float]:
    """Seconds between sends, each as early as it may be."""
    instants = []
    for chance in CHANCES:
        instants.append(pace.ready_at())
        pace.on_sent(pace.ready_at(), chance)
    instants.append(pace.ready_at())
    return [after - before for before, after in pairwise(instants)]


def test_the_users_own_delay_is_scattered_to_both_sides() -> None:
    """As Scrapy's own slot does: with .5, between half and one and a half times the delay."""
    assert gaps(pace(0.5)) == pytest.approx([1.0, 2.998, 1.5, 2.5, 2.0], abs=0.001)


def test_without_jitter_the_delay_is_exact() -> None:
    """Who sets it to 0 wants no chance in it."""
    assert gaps(pace(0.0)) == pytest.approx([2.0] * 5)


def test_where_nobody_asked_a_gap_is_never_shorter_than_the_delay() -> None:
    """Our own chance lengthens it by a little."""
    found = gaps(pace(Limits().jitter))
    assert min(found) >= 2.0
    assert 2.0 < max(found) <= 2.04


def test_what_latency_asks_for_is_not_scattered() -> None:
    """The delay of a slot that nobody knows is none of DOWNLOAD_DELAY's."""
    assert min(gaps(pace(0.5, start_delay=3.0))) >= 3.0


def test_no_gap_is_shorter_than_robots_txt_asks_for() -> None:
    """Nor than the whole delay, where it is longer than DOWNLOAD_DELAY."""
    crawl_delayed = pace(0.5)
    crawl_delayed.crawl_delay = 1.8
    assert min(gaps(crawl_delayed)) == pytest.approx(1.8)
    assert max(gaps(crawl_delayed)) > 2.0
    crawl_delayed.crawl_delay = 2.5
    assert min(gaps(crawl_delayed)) >= 2.5


def test_no_gap_is_shorter_than_headers_ask_for() -> None:
    """Ten requests are left for 19 s, of which a second may be rounded: 1.8 s each."""
    with_quota = pace(0.5)
    with_quota.on_quotas(0.0, [Quota(remaining=10, reset=19.0)], 0)
    with_quota.on_sent(with_quota.ready_at(), 0.0)
    assert with_quota.ready_at() == pytest.approx(1.8)


def test_no_gap_is_shorter_than_what_was_learned() -> None:
    """Refused at .55/s and slowed down to less: 1.9 s at least, and not scattered below."""
    slowed = pace(0.5)
    learned = Aimd(0.5)
    learned.recall(Learned(1 / 1.9))
    slowed.take_up(learned)
    assert min(gaps(slowed)) == pytest.approx(1.9, rel=0.01)
