"""What a slot begins with where rules say what its site allows, and what it makes of them."""

from __future__ import annotations

import math

from scrapy_adaptive.core.limits.book import Book
from scrapy_adaptive.core.limits.known import KnownLimits
from scrapy_adaptive.core.limits.rule import Rule
from scrapy_adaptive.core.permit import Permit
from scrapy_adaptive.core.slot_admission import HEADROOM
from scrapy_adaptive.core.slot_config import Limits
from scrapy_adaptive.core.types import Answer, Outcome
from tests.core.virtual import Virtual


def virtual(**words: float) -> Virtual:
    """A governor with one rule of these words; a slot begins at one request in 2 s."""
    crawl = Virtual(Limits(start_delay=2.0))
    crawl.governor.known = KnownLimits(Book([Rule(id="1", **words)]))  # type: ignore[arg-type]
    return crawl


def leaf(crawl: Virtual) -> str:
    """The leaf of any request."""
    assert crawl.governor.known is not None
    return crawl.governor.known.leaf_key("a", "a", "/", {})


def test_a_slot_begins_at_the_rate_of_its_rule() -> None:
    """A little above it, so that the meter holds the pace; above or below the first rate of a slot
    of which nobody knows anything."""
    for rate in (0.01, 10.0):
        crawl = virtual(rate=rate)
        crawl.governor.blocked(leaf(crawl), 0.0)
        assert crawl.governor.slot("a", 0.0).ceiling.rate == rate * HEADROOM


def test_what_a_rule_holds_is_not_climbed_beyond() -> None:
    """However long it is never refused: its rate passes nothing."""
    crawl = virtual(rate=1.0)
    for second in range(300):
        crawl.now = float(second)
        permit = crawl.governor.take(leaf(crawl), crawl.now)
        assert isinstance(permit, Permit)
        crawl.accept(permit)
    assert crawl.governor.slot("a", crawl.now).ceiling.rate == HEADROOM


def test_a_rule_that_is_gone_leaves_a_slot_as_one_without_rules() -> None:
    crawl = virtual(rate=0.01)
    crawl.governor.blocked(leaf(crawl), 0.0)
    crawl.governor.on_book(Book())
    assert crawl.governor.slot("a", 0.0).ceiling.rate == 0.5


def test_with_known_places_the_first_answer_gives_the_rate() -> None:
    """Before it the slot begins as any other."""
    crawl = virtual(concurrency=4, rate=math.inf)
    permit = crawl.governor.take(leaf(crawl), 0.0)
    assert isinstance(permit, Permit)
    slot = crawl.governor.slot("a", 0.0)
    assert slot.delay == 2.0
    crawl.wait(0.5)
    crawl.accept(permit, latency=0.5)
    assert slot.ceiling.rate == 4 / 0.5 * HEADROOM
    assert slot.pace.latency_delay == 0.5 / slot.limits.target_concurrency


def test_an_answer_that_tells_no_latency_leaves_the_guess_to_the_next() -> None:
    """A 403 is served, and says nothing of how long a page takes."""
    crawl = virtual(concurrency=4, rate=math.inf)
    permit = crawl.governor.take(leaf(crawl), 0.0)
    assert isinstance(permit, Permit)
    crawl.governor.on_answer(permit, Answer(Outcome.ACCEPTED, 0.5, may_lower=False), 0.5)
    crawl.wait(10.0)
    permit = crawl.governor.take(leaf(crawl), crawl.now)
    assert isinstance(permit, Permit)
    crawl.accept(permit, latency=0.5)
    assert crawl.governor.slot("a", crawl.now).ceiling.rate == 4 / 0.5 * HEADROOM
