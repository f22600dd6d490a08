"""What many slots cost, and what clocks that jump do to them."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.memory import HOSTILE_BYTES, hostile, quiet
from scrapy_adaptive.core.breaker.backoff import LONGEST
from scrapy_adaptive.core.slot_config import Limits
from scrapy_adaptive.core.types import Answer, Blocked, Outcome, Reason
from tests.core.virtual import STEADY, Virtual

QUIET_BYTES = 2700
"""Most bytes of a quiet slot, with what the crawl knows of hosts that answered in the last seconds:
a thousand are too few to leave that aside."""


def test_a_quiet_slot_is_small() -> None:
    """`benchmarks/memory.py` measures a hundred thousand."""
    assert quiet(1000).bytes < QUIET_BYTES * 1000


def test_a_hostile_sites_hosts_are_remembered_by_an_instant_and_none_is_asked_again() -> None:
    """Far more than there are slots; what four thousand more cost tells of each."""
    few, many = hostile(1000, 50), hostile(5000, 50)
    assert many.hits == few.hits == 0
    assert (many.bytes - few.bytes) / 4000 <= HOSTILE_BYTES


JUMPS = st.lists(
    st.tuples(st.sampled_from(["served", "refused", "announced"]), st.floats(0.0, 1e5)),
    min_size=1,
    max_size=15,
)


@settings(parent=STEADY, max_examples=60)
@given(story=JUMPS, ceiling=st.sampled_from(["hold", "aimd"]))
def test_after_a_clock_that_jumps_nothing_is_sent_early_and_no_slot_sleeps_for_ever(
    story: list[tuple[str, float]], ceiling: str
) -> None:
    """As where a machine sleeps and its clock goes on: the answers to what was in flight are as old
    as the sleep, one request leaves and not all that time would have allowed."""
    crawl = Virtual(Limits(concurrency=4, target_concurrency=math.inf), ceiling=ceiling)
    owed = -math.inf
    for what, asleep in story:
        crawl.wait_out()
        assert crawl.now >= owed
        permit = crawl.send()
        crawl.wait(asleep)
        outcome = Outcome.ACCEPTED if what == "served" else Outcome.REFUSED
        announced = 500.0 if what == "announced" else None
        answer = Answer(outcome, latency=asleep, may_lower=what == "served", announced=announced)
        crawl.governor.on_answer(permit, answer, crawl.now)
        owed = max(owed, crawl.now + (announced or 0.0))
        blocked = crawl.blocked()
        assert blocked is None or blocked.until < crawl.now + 1.1 * LONGEST
    crawl.wait(1e6)
    crawl.send()
    assert crawl.blocked() is not None


def test_a_wakeup_is_asked_for_anew_where_a_clock_stood_still() -> None:
    """A machine that slept, whose clock slept too: the pause is as long as it was, no longer."""
    crawl = Virtual()
    crawl.refuse(crawl.send(), announced=60.0)
    crawl.wait(30.0)
    assert crawl.blocked() == Blocked(60.0, Reason.PAUSED)
    crawl.wait(30.0)
    assert crawl.blocked() is None


def test_a_governor_with_chance_of_its_own_forgets_nobody_who_asked_for_a_wait() -> None:
    """Sites in any order: what one has asked for holds, whoever was forgotten meanwhile."""
    chance = random.Random(1)
    crawl = Virtual(max_slots=3, global_slots=1000, ceiling="hold")
    until: dict[str, float] = {}
    for _ in range(1000):
        key = chance.choice("abcdefghijklmnop")
        crawl.wait(chance.random())
        permit = crawl.governor.take(key, crawl.now)
        if isinstance(permit, Blocked):
            continue
        assert crawl.now >= until.get(key, 0.0)
        crawl.wait(0.05)
        if chance.random() < 0.3:
            wait = chance.choice([5.0, 50.0, 5000.0])
            crawl.refuse(permit, announced=wait)
            until[key] = crawl.now + wait
        else:
            crawl.accept(permit, latency=0.05)
    assert len(crawl.governor) <= 4
    assert pytest.approx(max(until.values())) == max(
        crawl.governor.paused_until(key, crawl.now) for key in until
    )


def test_a_slot_whose_suspected_page_never_comes_again_is_forgotten() -> None:
    """Else a crawl of many hosts with a dead page each would keep all of them."""
    crawl = Virtual(Limits(), max_slots=2)
    for number in range(6):
        key = f"host-{number}"
        crawl.fetch(3, key=key, page="served")
        crawl.wait_out(key)
        crawl.refuse(crawl.send(key), page="dead")
        crawl.fetch(1, key=key, page="served")
        assert crawl.why_held(key) is Reason.RECHECK
        crawl.wait(60.0)
    assert len(crawl.governor) <= 2
