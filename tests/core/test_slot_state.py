"""The whole state of a slot as JSON, and the slot that goes on with it."""

from __future__ import annotations

import json
import math
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scrapy_adaptive.core.headers.parse import Quota
from scrapy_adaptive.core.headers.values import MAX_WAIT
from scrapy_adaptive.core.permit import Permit
from scrapy_adaptive.core.slot_config import Limits
from scrapy_adaptive.core.slot_state import MOST_BYTES, MOST_OF_CLASS, STALE_AFTER
from scrapy_adaptive.core.state.reading import AFTER_DAMAGE, Clock, read_into
from scrapy_adaptive.core.types import Answer, Decision, Outcome, Page, Reason
from tests.core.test_governor_classes import SEARCH, fetch, recovered, split
from tests.core.virtual import STEADY, Virtual

LATER = 123_456.75
"""The next holder's clock, less the first one's."""

LIMITS = [
    Limits(target_concurrency=8.0, concurrency=8, start_delay=0.1),
    Limits(target_concurrency=math.inf, concurrency=8),
    Limits(burst=4.0, floor=0.05),
]

SERVED = Answer(Outcome.ACCEPTED, latency=0.05, kind="/page")
FACTS = st.sampled_from(
    [
        *[SERVED] * 6,
        Answer(Outcome.ACCEPTED, latency=0.4, kind="/page"),
        Answer(Outcome.ACCEPTED, latency=0.05, quotas=(Quota(3, 20.0),), kind="/page"),
        Answer(Outcome.REFUSED, latency=0.05, may_lower=False, kind="/page"),
        Answer(Outcome.REFUSED, latency=0.05, may_lower=False, announced=7.0, kind="/page"),
        Answer(Outcome.FAILED, may_lower=False, kind="/page"),
        Answer(Outcome.FAILED, silent=True, may_lower=False, kind="/page"),
    ]
)
"""What comes of one request; runs of it are repeated."""

STORIES = st.lists(st.tuples(FACTS, st.sampled_from([1, 1, 2, 40])), min_size=1, max_size=12)


def play(crawl: Virtual, answer: Answer, page: Page) -> Decision:
    """Wait until one request may go, send it, and let that come of it."""
    crawl.wait_out()
    permit = crawl.send()
    crawl.wait(0.05)
    return crawl.governor.on_answer(permit, answer._replace(page=page), crawl.now)


def handed_over(crawl: Virtual, limits: Limits, ceiling: str, *, age: float = 0.0) -> Virtual:
    """The next holder, whose clock is another."""
    after = Virtual(limits, ceiling=ceiling)
    after.now = crawl.now + LATER
    for key, state in crawl.governor.states(crawl.now).items():
        assert not after.governor.begin(key, json.loads(json.dumps(state)), age, after.now)
    return after


@settings(parent=STEADY, max_examples=150)
@given(
    before=STORIES,
    after=STORIES,
    limits=st.sampled_from(LIMITS),
    ceiling=st.sampled_from(["hold", "aimd"]),
)
def test_a_slot_that_was_handed_over_decides_as_the_one_that_was_not(
    before: list[tuple[Answer, int]], after: list[tuple[Answer, int]], limits: Limits, ceiling: str
) -> None:
    """The same facts at the same times, by another clock: the same instants and delays."""
    crawl = Virtual(limits, ceiling=ceiling)
    page = 0
    for answer, count in before:
        for _ in range(count):
            page += 1
            play(crawl, answer, page)
    if crawl.governor.state("a", crawl.now) is None:
        return
    other = handed_over(crawl, limits, ceiling)
    for answer, count in after:
        for _ in range(count):
            page += 1
            both = [play(each, answer, page) for each in (crawl, other)]
            assert both[0].event is both[1].event
            assert both[1].delay == pytest.approx(both[0].delay, rel=1e-5, abs=1e-5)
            assert both[1].wait == pytest.approx(both[0].wait, rel=1e-5, abs=1e-4)
            assert other.now - LATER == pytest.approx(crawl.now, rel=1e-6, abs=1e-3)
            crawl.now = max(crawl.now, other.now - LATER) + 0.001
            other.now = crawl.now + LATER


def refused_often(ceiling: str = "hold") -> Virtual:
    """A crawl that has met all there is to meet."""
    crawl = Virtual(LIMITS[0], ceiling=ceiling)
    chance = random.Random(1)
    for page in range(3000):
        kind = f"/a/rather/long/path/number/{chance.choice('aaaaaaaabbbcdefghijklm') * 20}"
        share = 0.7 if "/bb" in kind and page > 500 else 0.01
        outcome = Outcome.REFUSED if chance.random() < share else Outcome.ACCEPTED
        answer = Answer(outcome, latency=chance.random(), kind=kind)
        play(crawl, answer, f"{page:040x}".encode())
    return crawl


@pytest.mark.parametrize("ceiling", ["hold", "aimd"])
def test_a_state_is_at_most_four_kilobytes_and_a_classs_one(ceiling: str) -> None:
    """What is spare is left out, or all but what every version reads."""
    assert 300 < sizes(refused_often(ceiling))["a"] <= MOST_BYTES
    crawl = recovered(split())
    for _ in range(300):
        fetch(crawl, "/search")
    assert 100 < sizes(crawl)[SEARCH] <= MOST_OF_CLASS


def sizes(crawl: Virtual) -> dict[str, int]:
    """Bytes of each slot's state."""
    states = crawl.governor.states(crawl.now)
    return {key: len(json.dumps(each)) for key, each in states.items()}


def state_of(crawl: Virtual) -> dict[str, Any]:
    """The state of its only slot."""
    state = crawl.governor.state("a", crawl.now)
    assert state is not None
    return json.loads(json.dumps(state))  # type: ignore[no-any-return]


def announced(seconds: float) -> Virtual:
    """A crawl whose site has asked it to wait for so many seconds."""
    crawl = Virtual()
    crawl.refuse(crawl.send(), announced=seconds)
    return crawl


def test_a_pause_is_shorter_by_its_age_and_never_longer() -> None:
    """A clock that was set back adds nothing to it."""
    state = state_of(announced(100.0))
    for age, left in ((30.0, 70.0), (-1e9, 100.0)):
        after = Virtual()
        after.governor.begin("a", state, age, 5.0)
        after.now = 5.0
        assert after.held_until(Reason.PAUSED) == pytest.approx(5.0 + left)
    after = Virtual()
    after.governor.begin("a", state, 101.0, 0.0)
    assert after.blocked() is None


def test_a_pause_of_thirty_years_is_one_of_a_day() -> None:
    """No site may ask for so long: it must not park every later run."""
    state = state_of(announced(100.0))
    state["whole"]["pause"].update(until=-1e9, _announced_until=-1e9, _parked_until=-1e9)
    after = Virtual()
    doubts = after.governor.begin("a", state, 0.0, 0.0)
    assert doubts
    assert after.held_until(Reason.PARKED) == AFTER_DAMAGE
    for former in ({"pause": 1e9}, {"pause": MAX_WAIT + 1.0, "asked": True}):
        after = Virtual()
        assert after.governor.begin("a", former, 0.0, 0.0)
        assert after.held_until(Reason.PARKED) == AFTER_DAMAGE


def test_what_a_site_may_ask_for_is_believed() -> None:
    """Three years: the site itself has said so."""
    after = Virtual()
    assert not after.governor.begin("a", state_of(announced(1e8)), 0.0, 0.0)
    assert after.held_until(Reason.PARKED) == pytest.approx(1e8)


def test_another_law_begins_with_the_few_numbers_that_all_have() -> None:
    """As an earlier version of the program does: by the rate that was held."""
    crawl = refused_often("hold")
    state = state_of(crawl)
    for stranger in ("hold", "aimd"):
        after = Virtual(LIMITS[0], ceiling=stranger)
        after.governor.begin("a", {**state, "fields": "another"}, 0.0, 0.0)
        assert after.slot().ceiling.rate == pytest.approx(state["learned"]["rate"])


def test_what_was_learned_is_forgotten_after_a_week_and_a_pause_is_not() -> None:
    """Sites change; what a site asked for is owed."""
    crawl = refused_often("hold")
    crawl.wait_out()
    crawl.refuse(crawl.send(), announced=2 * STALE_AFTER)
    after = Virtual(LIMITS[0], ceiling="hold")
    after.governor.begin("a", state_of(crawl), STALE_AFTER + 1.0, 0.0)
    assert after.slot().ceiling.learned is None
    assert after.held_until(Reason.PARKED) == pytest.approx(STALE_AFTER - 1.0)


def test_a_rate_that_no_law_goes_by_is_not_believed() -> None:
    """One request in thirty years would stop a host for good; a law falls to one an hour."""
    state = state_of(refused_often("hold"))
    state["whole"]["ceiling"]["state"]["bracket"]["rate"] = 1e-9
    with pytest.raises(ValueError, match="rate"):
        Virtual(LIMITS[0], ceiling="hold").governor.begin("a", state, 0.0, 0.0)
    state = state_of(refused_often("aimd"))
    state["whole"]["ceiling"]["_rate"] = 1e-9
    with pytest.raises(ValueError, match="rate"):
        Virtual(LIMITS[0], ceiling="aimd").governor.begin("a", state, 0.0, 0.0)


@pytest.mark.parametrize("ceiling", ["hold", "aimd"])
def test_the_slowest_rate_of_a_law_is_read_as_it_was(ceiling: str) -> None:
    """Whether refusals taught it, or the user's own first delay of two hours."""
    limits = Limits(start_delay=7200.0, floor=7200.0)
    crawl = Virtual(limits, ceiling=ceiling)
    for _ in range(3):
        crawl.fetch(3)
        crawl.wait_out()
        crawl.refuse(crawl.send())
    crawl.fetch()
    after = Virtual(limits, ceiling=ceiling)
    assert not after.governor.begin("a", state_of(crawl), 0.0, 0.0)
    assert after.slot().ceiling.rate == pytest.approx(crawl.slot().ceiling.rate)


def test_what_has_happened_is_not_still_to_come() -> None:
    """Three years ahead: a token that was spent then would be waited for."""
    state = state_of(refused_often("hold"))
    whole = state["whole"]
    whole["pace"]["_bucket"]["_updated_at"] = -1e8
    whole["_sent_at"] = whole["ceiling"]["state"]["bracket"]["stage_at"] = -1e8
    after = Virtual(LIMITS[0], ceiling="hold")
    assert len(after.governor.begin("a", state, 0.0, 0.0)) == 3
    after.wait_out()
    assert after.now < 60.0


@pytest.mark.parametrize("ceiling", ["hold", "aimd"])
def test_damage_is_refused_or_does_no_harm(ceiling: str) -> None:
    """Each number, one after the other, becomes something else: the slot is refused, or goes on."""
    crawl = refused_often(ceiling)
    state = state_of(crawl)
    written = json.dumps(state)
    refused = 0
    for path in _paths(state):
        for value in DAMAGE:
            damaged = json.loads(written)
            place = damaged
            for part in path[:-1]:
                place = place[part]
            place[path[-1]] = value
            after = Virtual(LIMITS[0], ceiling=ceiling)
            try:
                after.governor.begin("a", damaged, 0.0, 0.0)
            except ValueError:
                refused += 1
                continue
            slot = after.slot()
            assert 0.0 <= slot.delay < math.inf
            assert slot.paused_until <= MAX_WAIT
            blocked = after.blocked()
            assert blocked is None or blocked.until < math.inf
    assert refused > 0.75 * len(_paths(state)) * len(DAMAGE)


def test_a_best_rate_without_end_is_refused() -> None:
    """It would be tried again after each stage, for ever."""
    state = state_of(refused_often("hold"))
    path = next(each for each in _paths(state) if each[-2:] == ("state", "peak"))
    place = state
    for part in path[:-1]:
        place = place[part]
    place["peak"] = "inf"
    with pytest.raises(ValueError, match="peak"):
        Virtual(LIMITS[0], ceiling="hold").governor.begin("a", state, 0.0, 0.0)


DAMAGE: list[Any] = [
    *(None, True, "x", -1, math.nan, math.inf, 10**400, {}, [], 0, 1e11, "inf", "-inf"),
]


def _paths(thing: Any) -> list[tuple[Any, ...]]:
    """Where there are numbers and the like."""
    if isinstance(thing, dict):
        return [(key, *rest) for key, each in thing.items() for rest in _paths(each)]
    if isinstance(thing, list) and thing:
        return [(0, *rest) for rest in _paths(thing[0])]
    return [()]


def test_who_has_a_slot_back_goes_on_with_what_another_found_meanwhile() -> None:
    """Its rate is the other's; its counts are its own."""
    mine, other = Virtual(), Virtual()
    mine.fetch(20)
    mine.wait_out()
    mine.refuse(mine.send())
    other.governor.begin("a", mine.governor.states(mine.now)["a"], 0.0, other.now)
    other.wait_out()
    other.fetch(40)
    other.wait(1.0)
    assert mine.slot().delay != other.slot().delay
    mine.wait(100.0)
    assert not mine.governor.begin("a", other.governor.states(other.now)["a"], 0.0, mine.now)
    assert mine.slot().delay == pytest.approx(other.slot().delay)
    assert mine.slot().accepted_count == 20


def test_a_slot_that_was_used_since_takes_over_the_pause_alone() -> None:
    """It has learned more since."""
    after = Virtual()
    after.fetch(3)
    delay = after.slot().delay
    after.governor.begin("a", state_of(announced(100.0)), 0.0, after.now)
    assert after.slot().delay == delay
    assert after.held_until(Reason.PAUSED) == pytest.approx(after.now + 100.0)


def test_what_robots_txt_asks_for_is_read_again_by_each_run() -> None:
    """It may ask for less by now, or not be obeyed any more."""
    limits = Limits(start_delay=0.0)
    crawl = Virtual(limits)
    crawl.fetch()
    crawl.refuse(crawl.send())
    crawl.fetch()
    crawl.slot().pace.crawl_delay = 60.0
    assert handed_over(crawl, limits, "aimd").slot().delay < 60.0


def test_what_is_kept_of_a_host_that_starts_again_is_what_it_had_learned() -> None:
    """To find out whether eight hosts share a limit one of them starts again, now and then."""
    crawl = Virtual(Limits(start_delay=0.25, target_concurrency=math.inf), ceiling="hold")
    served: dict[str, list[float]] = {f"h{number}": [] for number in range(8)}
    kept: set[str] = set()
    rounds = 0
    while crawl.now < 20.0:
        for key, instants in served.items():
            permit = crawl.governor.take(key, crawl.now)
            if not isinstance(permit, Permit):
                continue
            fresh = [at for at in instants if at > crawl.now - 2.0]
            served[key] = fresh if len(fresh) >= 4 else [*fresh, crawl.now]
            outcome = Outcome.REFUSED if len(fresh) >= 4 else Outcome.ACCEPTED
            answer = Answer(outcome, latency=0.02, page=len(kept), kind="/#")
            crawl.governor.on_answer(permit, answer, crawl.now + 0.02)
        crawl.wait(0.02)
        rounds += 1
        if rounds % 10 == 0:
            learned = {
                key for key in served if "learned" in (crawl.governor.state(key, crawl.now) or {})
            }
            assert kept <= learned
            kept = learned
    assert len(kept) == 8


@pytest.mark.parametrize("tally", [[0.0, 5.0], [1e11, 0.0], [0.0, 1e11], [0.0, 0.0]])
def test_whatever_a_state_says_of_failures_a_slot_goes_on(tally: list[float]) -> None:
    """Numbers that are allowed each by itself."""
    failing = {"is_serving": True, "_gap": 0.05, "_tallies": [[12, tally]]}
    crawl = Virtual(LIMITS[0], ceiling="hold")
    read_into(crawl.slot(), {"_failures": failing, "accepted_count": 9}, Clock(0.0, 0.0))
    for _ in range(50):
        crawl.wait_out()
        crawl.fail(crawl.send())
    assert crawl.slot().rate > 0.0
