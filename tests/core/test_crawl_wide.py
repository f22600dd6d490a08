"""A limit that many hosts share is learned; limits of their own are none.

Simulated crawls of many hosts, judged by what their servers served and refused. The worlds were
tuned on seeds 0 to 5; the tests draw others.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable

import pytest

from scrapy_adaptive.core.breaker.pause import Pause
from scrapy_adaptive.core.slot_config import Limits
from scrapy_adaptive.core.types import Blocked, Event, Reason
from scrapy_adaptive.simulation.servers.base import Server
from scrapy_adaptive.simulation.servers.rates import constant
from scrapy_adaptive.simulation.servers.token_bucket import BucketServer
from scrapy_adaptive.simulation.servers.windows import WindowServer
from tests.core.crowd import Crowd
from tests.core.virtual import Virtual

SETTLED = 120.0
"""Seconds after which a limit has to be known."""


def names(count: int) -> Iterable[str]:
    return [f"host-{number}" for number in range(count)]


def bucket(rate: float, burst: float = 1.0) -> BucketServer:
    return BucketServer(constant(rate), burst)


def jitter(seed: int) -> Callable[[], float]:
    """A round trip on a quiet network."""
    chance = random.Random(seed)
    return lambda: chance.uniform(0.05, 0.054)


@pytest.mark.parametrize("seed", [11, 12])
@pytest.mark.parametrize("burst", [1, 20])
@pytest.mark.parametrize("count", [20, 40])
def test_the_limit_of_one_egress_is_learned_and_held(count: int, burst: int, seed: int) -> None:
    """20/s in front of many hosts: .9 of it, at no more than one refusal in a hundred."""
    egress = bucket(20.0, burst)
    crawl = Crowd(dict.fromkeys(names(count)), egress, latency=jitter(seed), seed=seed)
    crawl.run(240.0)
    assert crawl.pages(SETTLED, 240.0) >= 0.9 * 20.0 * (240.0 - SETTLED)
    assert crawl.share_refused(SETTLED, 240.0) <= 0.01
    assert crawl.fewest(SETTLED) > 0


def same(chance: random.Random) -> Server:
    return bucket(2.0)


def bursting(chance: random.Random) -> Server:
    return bucket(2.0, chance.choice([1, 5, 10, 20]))


def differing(chance: random.Random) -> Server:
    return bucket(math.exp(chance.uniform(math.log(0.3), math.log(10.0))), chance.choice([1, 5]))


def by_the_minute(chance: random.Random) -> Server:
    return WindowServer(constant(100), 60.0)


@pytest.mark.parametrize("count", [20, 60])
@pytest.mark.parametrize("own", [same, bursting, differing, by_the_minute])
def test_hosts_that_meet_limits_of_their_own_are_left_alone(
    own: Callable[[random.Random], Server], count: int
) -> None:
    """They start at the same instant: .95 of the pages of a crawl that looks for no such limit."""
    pages = []
    for trip_slots in (5, 1_000_000):
        chance = random.Random(f"{own.__name__} {count}")
        servers: dict[str, Server | None] = {key: own(chance) for key in names(count)}
        crawl = Crowd(servers, latency=jitter(count), seed=count, trip_slots=trip_slots)
        crawl.run(90.0)
        pages.append(crawl.pages(0.0, 90.0))
    assert pages[0] >= 0.95 * pages[1]


def refused_everywhere() -> Virtual:
    """Five hosts of which all requests were refused."""
    virtual = Virtual(Limits(start_delay=1.0))
    for key in "abcde":
        virtual.refuse(virtual.send(key))
    return virtual


def test_where_everything_is_refused_everywhere_the_whole_crawl_waits_and_tests() -> None:
    """For the cool-down; then one request, and the others when it was served."""
    virtual = refused_everywhere()
    assert virtual.blocked("z") == Blocked(5.0, Reason.CRAWL_WIDE)
    virtual.wait_until(5.0)
    test = virtual.send("a")
    assert virtual.blocked("z") == Blocked(math.inf, Reason.CRAWL_WIDE)
    virtual.accept(test)
    virtual.wait_out("z")
    virtual.send("z")


def test_the_next_crawl_waits_for_what_is_left_of_a_pause_of_the_whole_crawl() -> None:
    """Two of five seconds are over."""
    virtual = refused_everywhere()
    virtual.wait_until(2.0)
    virtual.governor.end(virtual.now)
    after = Virtual(Limits(start_delay=1.0))
    for key, state in virtual.governor.states(virtual.now).items():
        after.governor.begin(key, state, 1.0, after.now)
    assert {key: after.held_until(Reason.PAUSED, key) for key in "abcde"} == pytest.approx(
        dict.fromkeys("abcde", 2.0)
    )


def test_who_is_refused_by_the_limit_of_the_whole_crawl_is_not_to_blame() -> None:
    virtual = refused_everywhere()
    virtual.wait_until(5.0)
    decision = virtual.refuse(virtual.send("z"))
    assert (decision.event, decision.again) == (Event.EXCUSED, True)
    assert virtual.slot("z").ceiling.rate == math.inf
    assert virtual.why_held("a") is Reason.CRAWL_WIDE


def test_a_pause_that_a_site_asked_for_is_kept_by_that_site_alone() -> None:
    virtual = refused_everywhere()
    virtual.wait_until(5.0)
    virtual.refuse(virtual.send("z"), announced=600.0)
    virtual.wait_out("a")
    virtual.accept(virtual.send("a"))
    virtual.wait_out("b")
    assert virtual.now < 60.0
    assert virtual.why_held("z") in (Reason.PAUSED, Reason.CRAWL_WIDE)
    assert virtual.slot("z").pause.until == 605.0


def test_six_small_hosts_that_are_refused_once_stop_no_healthy_one() -> None:
    """The seventh was served meanwhile."""
    virtual = Virtual(Limits(start_delay=0.1))
    for key in "abcdef":
        virtual.refuse(virtual.send(key))
        virtual.fetch(3, key="healthy")
    virtual.wait_out("healthy")
    assert virtual.blocked("healthy") is None
    assert virtual.governor.counts.global_trips == 0


def test_a_parked_slot_is_parked_no_longer_than_its_site_asked_where_the_crawl_begins_anew() -> (
    None
):
    """Its pause was a little longer than asked for; a shared limit takes that back."""
    virtual = Virtual(Limits(start_delay=1.0, max_pause=60.0))
    slot = virtual.slot("z")
    slot.pause = Pause()
    slot.pause.begin(0.0, 110.0, announced=100.0, most=60.0)
    slot.begin_anew(slot.ceiling, 1.0)
    assert virtual.blocked("z") == Blocked(100.0, Reason.PARKED)
    virtual.wait_until(100.0)
    assert virtual.blocked("z") is None
