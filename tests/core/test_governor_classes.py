"""A class of pages with a slot of its own under its host's."""

from __future__ import annotations

import json

import pytest

from scrapy_adaptive.core.ceiling.hold.ceiling import Hold
from scrapy_adaptive.core.permit import Permit
from scrapy_adaptive.core.slot_config import Limits
from scrapy_adaptive.core.types import Answer, Decision, Event, Outcome, Reason, Wanted
from tests.core.virtual import Virtual

SEARCH = "a /search"
HELD_1 = {
    "learned": {
        "rate": 1.0,
        "refused_rate": None,
        "concurrency": None,
        "price": 0.0,
        "silence": 0.0,
    }
}
"""What an earlier crawl says of a slot that has held 1/s."""

LIMITS = Limits(start_delay=0.1, target_concurrency=8.0, concurrency=4)


def answered(
    crawl: Virtual, permit: Permit, outcome: Outcome, kind: str, *, announced: float | None = None
) -> Decision:
    """The site answers a page of that class."""
    answer = Answer(outcome, page=(kind, crawl.now), kind=kind, announced=announced)
    return crawl.governor.on_answer(permit, answer, crawl.now)


def fetch(crawl: Virtual, kind: str, outcome: Outcome = Outcome.ACCEPTED) -> Decision:
    """Wait, send a page of that class as an adapter does, and have it answered at once."""
    key = crawl.governor.kinds.get("a", {}).get(kind, "a")
    crawl.wait_out(key)
    return answered(crawl, crawl.send(key), outcome, kind)


def split(limits: Limits = LIMITS, *, global_slots: int = 5) -> Virtual:
    """A crawl that has found out that only the searches are refused."""
    crawl = Virtual(limits, ceiling="hold", global_slots=global_slots)
    for _ in range(50):
        for n in range(20):
            fetch(crawl, "/page" if n % 5 else "/search")
        fetch(crawl, "/search", Outcome.REFUSED)
        if crawl.governor.kinds:
            return crawl
    raise AssertionError("no class was split off")


def recovered(crawl: Virtual) -> Virtual:
    """The host's pause after the last refusal is over."""
    fetch(crawl, "/page")
    fetch(crawl, "/page")
    return crawl


def test_a_class_that_alone_is_refused_gets_a_slot_under_its_hosts() -> None:
    crawl = split()
    assert crawl.governor.kinds == {"a": {"/search": SEARCH}}
    assert crawl.governor.host_of(SEARCH) == "a"
    assert crawl.governor.family("a") == ("a", SEARCH)
    assert crawl.slot(SEARCH).rate < 0.5 * crawl.slot("a").rate


def test_nothing_is_split_off_where_every_class_is_refused() -> None:
    crawl = Virtual(LIMITS, ceiling="hold")
    for epoch in range(100):
        for n in range(10):
            fetch(crawl, "/page" if n % 5 else "/search")
        fetch(crawl, "/page" if epoch % 5 else "/search", Outcome.REFUSED)
    assert not crawl.governor.kinds


def test_nothing_is_counted_before_the_first_refusal_nor_without_classes() -> None:
    crawl = Virtual(LIMITS, ceiling="hold")
    fetch(crawl, "/page")
    assert crawl.slot().classes is None
    crawl.wait_out()
    crawl.refuse(crawl.send())
    assert crawl.slot().classes is None
    fetch(crawl, "/page")
    crawl.wait(100.0)
    fetch(crawl, "/page", Outcome.REFUSED)
    assert crawl.slot().classes is not None


def test_a_refusal_of_the_class_is_no_news_for_the_host() -> None:
    crawl = recovered(split())
    host = crawl.slot("a")
    rate, refusals = host.ceiling.rate, host.refused_count
    decision = fetch(crawl, "/search", Outcome.REFUSED)
    assert decision.event is Event.TRIPPED
    assert crawl.why_held(SEARCH) is Reason.PAUSED
    assert crawl.why_held("a") in (None, Reason.DELAY)
    assert (host.ceiling.rate, host.refused_count) == (rate, refusals)
    assert host.in_flight == 0


def test_a_refusal_at_a_pace_that_the_class_holds_is_the_hosts_where_that_goes_faster() -> None:
    """All classes may have slots: nobody else would ever meet the host's limit."""
    crawl = recovered(split())
    own, host = crawl.slot(SEARCH), crawl.slot("a")
    assert isinstance(own.ceiling, Hold)
    fetch(crawl, "/search")
    own.ceiling.state.bracket.lo = own.ceiling.rate
    for _ in range(20):
        fetch(crawl, "/page")
    before = (own.refused_count, host.refused_count)
    assert host.ceiling.held_rate > 0.0
    decision = fetch(crawl, "/search", Outcome.REFUSED)
    assert decision.event is Event.TRIPPED
    assert (own.refused_count, host.refused_count) == (before[0], before[1] + 1)
    assert crawl.why_held("a") is Reason.PAUSED
    assert (own.in_flight, host.in_flight) == (0, 0)


def test_a_refusal_at_a_pace_that_both_hold_puts_the_hosts_in_doubt() -> None:
    """It is the class's own; the next one is the host's, if that holds no rate before."""
    crawl = recovered(split())
    own, host = crawl.slot(SEARCH), crawl.slot("a")
    assert isinstance(own.ceiling, Hold)
    fetch(crawl, "/search")
    own.ceiling.state.bracket.lo = own.ceiling.rate
    for _ in range(20):
        fetch(crawl, "/page")
    crawl.wait(2.0 / host.ceiling.held_rate)
    before = (own.refused_count, host.refused_count)
    fetch(crawl, "/search", Outcome.REFUSED)
    assert (own.refused_count, host.refused_count) == (before[0] + 1, before[1])
    assert host.ceiling.held_rate == 0.0


def test_an_acceptance_of_the_class_counts_for_both() -> None:
    crawl = recovered(split())
    before = [crawl.slot(key).accepted_count for key in ("a", SEARCH)]
    fetch(crawl, "/search")
    assert [crawl.slot(key).accepted_count for key in ("a", SEARCH)] == [n + 1 for n in before]


def test_a_pause_of_the_host_holds_its_classes() -> None:
    crawl = recovered(split())
    crawl.wait_out("a")
    answered(crawl, crawl.send("a"), Outcome.REFUSED, "/page", announced=60.0)
    assert crawl.held_until(Reason.PAUSED, SEARCH) >= crawl.now + 60.0


def test_a_pause_of_the_class_holds_no_other_page() -> None:
    crawl = recovered(split())
    crawl.wait_out(SEARCH)
    answered(crawl, crawl.send(SEARCH), Outcome.REFUSED, "/search", announced=60.0)
    begun = crawl.now
    for _ in range(20):
        fetch(crawl, "/page")
    assert crawl.now < begun + 30.0


def test_permits_of_both_begin_and_end_together() -> None:
    crawl = recovered(split())
    counts = crawl.governor.counts
    for end in (crawl.governor.on_ignored, crawl.governor.on_dropped):
        crawl.wait_out(SEARCH)
        permit = crawl.send(SEARCH)
        assert [crawl.slot(key).in_flight for key in ("a", SEARCH)] == [1, 1]
        end(permit, crawl.now)
        assert [crawl.slot(key).in_flight for key in ("a", SEARCH)] == [0, 0]
    assert counts.in_flight == 0


def test_a_place_of_the_class_is_a_place_of_the_host() -> None:
    crawl = recovered(split())
    crawl.wait_out(SEARCH)
    assert crawl.governor.reserve(SEARCH, crawl.now) is None
    assert [crawl.slot(key).reserved for key in ("a", SEARCH)] == [1, 1]
    crawl.governor.release(SEARCH)
    assert [crawl.slot(key).reserved for key in ("a", SEARCH)] == [0, 0]


def test_in_flight_of_the_host_never_exceeds_its_concurrency() -> None:
    crawl = recovered(split(Limits(start_delay=0.0, target_concurrency=8.0, concurrency=1)))
    crawl.wait_out(SEARCH)
    crawl.wait_out("a")
    crawl.send("a")
    assert crawl.why_held(SEARCH) is Reason.CONCURRENCY


def test_a_doubt_about_the_class_holds_the_class_alone() -> None:
    crawl = recovered(split())
    crawl.wait_out(SEARCH)
    crawl.governor.on_doubt(crawl.send(SEARCH))
    assert crawl.why_held(SEARCH) is Reason.VERDICT
    crawl.wait(10.0)
    assert crawl.why_held("a") is None


def test_a_request_overtaken_by_its_hosts_congestion_is_not_used() -> None:
    crawl = recovered(split())
    crawl.wait_out("a")
    page = crawl.send("a")
    crawl.wait_out(SEARCH)
    search = crawl.send(SEARCH)
    answered(crawl, page, Outcome.REFUSED, "/page")
    assert crawl.governor.is_overtaken(search, crawl.now)


def test_a_class_has_the_users_bounds_of_its_host() -> None:
    own = Limits(floor=2.0)
    crawl = Virtual(LIMITS, slot_limits={"a": own})
    crawl.governor.begin(SEARCH, HELD_1, 0.0, crawl.now)
    assert crawl.slot(SEARCH).limits is own
    assert crawl.governor.limits_of("b") is LIMITS


def test_families_are_not_forgotten_and_nothing_else_is_kept() -> None:
    crawl = Virtual(LIMITS, max_slots=2)
    crawl.governor.begin(SEARCH, HELD_1, 0.0, crawl.now)
    crawl.fetch(key=SEARCH)
    crawl.wait(10_000.0)
    for key in "bcdef":
        crawl.fetch(key=key)
        crawl.wait(10_000.0)
    assert "a" in crawl.governor
    assert SEARCH in crawl.governor
    assert len(crawl.governor) <= 4


def test_what_was_learned_of_a_class_is_remembered_under_its_key() -> None:
    crawl = recovered(split())
    for _ in range(200):
        fetch(crawl, "/search")
    again = Virtual(LIMITS, ceiling="hold")
    for key, state in crawl.governor.states(crawl.now).items():
        again.governor.begin(key, json.loads(json.dumps(state)), 3600.0, again.now)
    assert again.governor.kinds == {"a": {"/search": SEARCH}}
    assert again.slot(SEARCH).ceiling.rate == pytest.approx(crawl.slot(SEARCH).ceiling.rate)


def test_a_host_and_its_classes_are_one_slot_for_the_global_breaker() -> None:
    crawl = recovered(split(global_slots=2))
    fetch(crawl, "/search", Outcome.REFUSED)
    crawl.wait_out("a")
    answered(crawl, crawl.send("a"), Outcome.REFUSED, "/page")
    assert not crawl.governor.is_stopped(crawl.now)


def test_the_class_asks_for_its_own_pages() -> None:
    crawl = recovered(split())
    fetch(crawl, "/search", Outcome.REFUSED)
    assert crawl.governor.wanted(SEARCH) is Wanted.UNSUSPECTED
    assert crawl.governor.wanted("a") is Wanted.ANY
