"""What binds a slot: each reason is named where it is the one, and no other."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from scrapy_adaptive.core import binding
from scrapy_adaptive.core.binding import Binding, limit_of
from scrapy_adaptive.core.headers.parse import Quota
from scrapy_adaptive.core.slot_config import Limits
from scrapy_adaptive.core.types import Answer, Outcome
from scrapy_adaptive.report.reasons import REASONS
from tests.core.virtual import Virtual

FREE = Limits(start_delay=0.0, concurrency=8, target_concurrency=8.0)
"""Nothing of the user's slows this slot down."""


def bound(virtual: Virtual, key: str = "a") -> Binding | None:
    return binding.binding(virtual.governor, key, virtual.now)


def by(virtual: Virtual, key: str = "a") -> str:
    found = bound(virtual, key)
    return found.by if found else ""


def value(virtual: Virtual, key: str = "a") -> float:
    found = bound(virtual, key)
    assert found is not None
    return found.value


def served(limits: Limits, count: int = 2, *, latency: float | None = None) -> Virtual:
    """A slot that was served so many pages a moment ago, the last one left just now."""
    virtual = Virtual(limits)
    for _ in range(count):
        virtual.wait_out()
        permit = virtual.send()
        virtual.wait(latency or 0.0)
        virtual.accept(permit, latency=latency)
    virtual.wait_out()
    virtual.accept(virtual.send(), latency=latency)
    return virtual


def test_every_name_has_words() -> None:
    names = {
        value for name, value in vars(binding).items() if name.isupper() and isinstance(value, str)
    }
    assert names <= REASONS.keys()


def test_a_slot_that_nobody_knows_is_not_made() -> None:
    virtual = Virtual(FREE)
    assert bound(virtual) is None
    assert "a" not in virtual.governor


def test_nothing_of_the_core_binds_a_slot_that_may_send() -> None:
    virtual = Virtual(FREE)
    virtual.slot()
    assert bound(virtual) is None


def test_the_users_delay() -> None:
    assert bound(served(replace(FREE, floor=2.0))) == Binding("delay", 2.0)


def test_the_users_delay_at_the_start_too_where_it_is_the_first_delay() -> None:
    assert by(served(replace(FREE, floor=1.0, start_delay=1.0))) == "delay"


def test_crawl_delay() -> None:
    virtual = Virtual(FREE)
    virtual.slot().pace.crawl_delay = 10.0
    virtual.fetch(2)
    assert bound(virtual) == Binding("crawl-delay", 10.0)


def test_latency() -> None:
    """A page of eight seconds, N = 2: four seconds apart."""
    virtual = served(replace(FREE, target_concurrency=2.0), latency=8.0)
    assert bound(virtual) == Binding("latency", 2.0)


def test_the_users_concurrency() -> None:
    virtual = Virtual(replace(FREE, concurrency=3))
    virtual.send_many(3)
    assert bound(virtual) == Binding("concurrency", 3)


def test_a_concurrency_that_was_learned() -> None:
    virtual = Virtual(replace(FREE, concurrency=8), ceiling="hold")
    virtual.fetch()
    virtual.slot().slowness.limit = 2.0
    virtual.wait(100.0)
    virtual.send()
    virtual.wait(100.0)
    virtual.send()
    assert bound(virtual) == Binding("places", 2)


def test_a_rate_that_is_still_rising() -> None:
    """The start of a crawl: nothing was refused yet."""
    virtual = Virtual(replace(FREE, start_delay=1.0), ceiling="hold")
    for _ in range(4):
        virtual.wait_out()
        virtual.accept(virtual.send(), latency=0.01)
    assert by(virtual) == "search"
    assert limit_of(virtual.slot()).rate == 0.0


@pytest.mark.parametrize("ceiling", ["aimd", "hold"])
def test_a_limit_that_was_learned(ceiling: str) -> None:
    """Two pages a second are refused until one a second and less is left."""
    virtual = Virtual(replace(FREE, start_delay=0.1), ceiling=ceiling)
    since = -1.0
    for _ in range(400):
        virtual.wait_out()
        permit, gap = virtual.send(), virtual.now - since
        since = virtual.now
        virtual.accept(permit) if gap >= 0.5 else virtual.refuse(permit)
    virtual.wait_out()
    virtual.accept(virtual.send())
    assert by(virtual) == "limit"
    assert 0.5 < limit_of(virtual.slot()).rate < 2.1


def test_a_backoff_of_our_own() -> None:
    virtual = Virtual(FREE)
    virtual.refuse(virtual.send())
    assert by(virtual) == "backoff"
    virtual.wait_out()
    probe = virtual.send()
    assert by(virtual) == "backoff", "the test request is out"
    virtual.accept(probe)
    assert by(virtual) != "backoff"


def test_a_wait_that_the_site_asked_for() -> None:
    virtual = Virtual(FREE)
    virtual.refuse(virtual.send(), announced=30.0)
    virtual.wait(10.0)
    assert by(virtual) == "retry-after"
    assert value(virtual) == pytest.approx(20.0)


def test_a_wait_after_the_one_asked_for_is_our_own() -> None:
    """The test request after it was refused without a word on the time."""
    virtual = Virtual(FREE)
    virtual.refuse(virtual.send(), announced=30.0)
    virtual.wait_out()
    virtual.refuse(virtual.send())
    assert by(virtual) == "backoff"


def test_a_wait_longer_than_the_user_wants() -> None:
    virtual = Virtual(replace(FREE, max_pause=60.0))
    virtual.refuse(virtual.send(), announced=120.0)
    assert by(virtual) == "parked"
    assert value(virtual) == pytest.approx(120.0)


def test_a_quota_that_is_spread() -> None:
    virtual = Virtual(FREE)
    virtual.accept(virtual.send(), quotas=(Quota(remaining=3, reset=31.0),))
    assert bound(virtual) == Binding("quota", 10.0)


def test_a_quota_that_is_spent() -> None:
    virtual = Virtual(FREE)
    virtual.accept(virtual.send(), quotas=(Quota(remaining=0, reset=30.0),))
    assert bound(virtual) == Binding("quota-spent", 30.0)


def test_the_rate_of_the_whole_crawl() -> None:
    virtual = Virtual(FREE, global_rate=0.5)
    virtual.slot("a")
    virtual.send("b")
    assert by(virtual) == "global-rate"


def test_the_breaker_of_the_whole_crawl() -> None:
    virtual = Virtual(FREE, global_slots=1)
    virtual.slot("a")
    virtual.refuse(virtual.send("b"))
    assert by(virtual) == "breaker"


def test_a_stop_of_the_whole_crawl_is_named_before_a_sites_own_pause() -> None:
    """But not before a wait of hours that the site itself asked for."""
    virtual = Virtual(replace(FREE, max_pause=60.0), global_slots=1)
    virtual.refuse(virtual.send("a"), announced=30.0)
    assert by(virtual) == "breaker"
    virtual = Virtual(replace(FREE, max_pause=60.0), global_slots=1)
    virtual.refuse(virtual.send("a"), announced=7200.0)
    assert by(virtual) == "parked"


def test_a_limit_that_sites_share() -> None:
    virtual = Virtual(Limits(start_delay=1.0))
    virtual.slot("z")
    for key in "abcde":
        virtual.refuse(virtual.send(key))
        virtual.wait(2.0)
    assert by(virtual, "z") == "shared"


def test_the_crawlers_own_connection() -> None:
    virtual = Virtual(FREE)
    for key in "abc":
        virtual.fetch(key=key)
    for permit in [virtual.send(key) for key in "abc"]:
        virtual.fail(permit, silent=True)
    assert by(virtual) == "uplink"


def test_robots_txt_that_is_awaited() -> None:
    virtual = Virtual(FREE)
    virtual.slot().robots_count = 1
    assert by(virtual) == "robots"


def test_an_answer_that_is_examined() -> None:
    virtual = Virtual(FREE)
    virtual.governor.on_doubt(virtual.send())
    assert by(virtual) == "verdict"


def test_a_class_of_pages_is_bound_by_its_host_where_that_waits_longer() -> None:
    virtual = Virtual(FREE)
    key = virtual.governor._families.add("a", "/search")
    assert key is not None
    virtual.slot(key)
    virtual.refuse(virtual.send("a"), announced=30.0)
    assert by(virtual, key) == "retry-after"


def test_what_holds_a_slot_back_is_a_number_where_latency_has_no_n() -> None:
    """Under "auto" an error of a host that has served nothing yet slows it: one at a time."""
    crawl = Virtual(Limits(target_concurrency=math.inf, start_delay=0.01))
    crawl.governor.on_answer(crawl.send(), Answer(Outcome.FAILED, latency=0.6), crawl.now)
    assert binding.of_pace(crawl.slot()) == ("latency", 1.0)
