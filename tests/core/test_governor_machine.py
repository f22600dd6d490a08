"""Whatever happens in whatever order, the governor keeps its laws.

Hypothesis plays the crawl: it sends, answers, loses, doubts, promises and waits. After each step
the observer, who knows facts only, says whether it was allowed.
"""

from __future__ import annotations

import math

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from scrapy_adaptive.core.breaker.backoff import BREATH
from scrapy_adaptive.core.breaker.breaker import Phase
from scrapy_adaptive.core.state.fields import SLOWEST
from scrapy_adaptive.core.types import Answer, Blocked, Event, Outcome, Page, Reason
from tests.core.observer import Observer
from tests.core.virtual import STEADY

KEYS = st.sampled_from("aaaaabcdef")
PICKS = st.integers(0, 63)
OUTCOMES = st.sampled_from([Outcome.ACCEPTED, Outcome.ACCEPTED, Outcome.REFUSED, Outcome.FAILED])
LATENCIES = st.none() | st.sampled_from([0.0, 0.05, 2.0, 300.0])
ANNOUNCED = st.none() | st.none() | st.sampled_from([0.0, 0.5, 30.0, 86_400.0])
PAGES = st.sampled_from(["x", "x", "y", "z", None])
SECONDS = st.sampled_from([0.0, 0.01, 0.3, 2.0, 20.0, 4000.0])
MICROSECOND = 2e-6
"""Seconds of rounding in an instant where a slot was forgotten meanwhile."""

THINKS = (Event.RECOVERED, Event.BROKEN, Event.LONE_FAILURE)
"""After these the law that holds a limit may go slower; the other one has cut before."""


class Crawl(Observer):
    """What happens in a crawl, and what must hold after it."""

    # What happens

    @rule(seconds=SECONDS)
    def wait(self, seconds: float) -> None:
        """Time passes."""
        self.now += seconds

    @rule(key=KEYS, share=st.floats(0.0, 1.0))
    def wait_out(self, key: str, share: float) -> None:
        """Waiting less than promised does not admit; waiting it out does, but for a new reason.

        Where the slots share a limit, its pause hides what the slot asks for after its own, and its
        pause and its pace have one name.
        """
        self.governor.slot(key, self.now)
        blocked = self.governor.blocked(key, self.now)
        if blocked is None or blocked.until == math.inf:
            return
        early = self.now + share * (blocked.until - self.now)
        self.now = max(self.now, min(early, math.nextafter(blocked.until, self.now)))
        still = self.governor.blocked(key, self.now)
        assert still is not None
        if self.shares_limit:
            assert still.until >= blocked.until
        else:  # the reason may be another: nothing is awaited any more
            assert still.until == blocked.until
        self.now = blocked.until
        later = self.governor.blocked(key, self.now)
        assert later is None or later.until > self.now
        assert later is None or later.reason is not blocked.reason or self.shares_limit

    @rule(key=KEYS, count=st.integers(1, 3))
    def send_patiently(self, key: str, count: int) -> None:
        """Requests wait at the gate and go when they may, unless only an event can free them."""
        self.governor.slot(key, self.now)
        for _ in range(count):
            while (blocked := self.governor.blocked(key, self.now)) and blocked.until < math.inf:
                self.now = blocked.until
            self.send(key)

    @rule(key=KEYS)
    def send(self, key: str) -> None:
        """A request comes to the gate."""
        seen, mine = self.seen[key], self.out_of(key)
        blocked = self.governor.blocked(key, self.now)
        delay = self.governor.slot(key, self.now).delay
        permit = self.governor.take(key, self.now)
        if isinstance(permit, Blocked):
            assert blocked is not None
            assert permit._replace(until=blocked.until) == blocked
            assert permit.until == pytest.approx(blocked.until, abs=MICROSECOND)
            assert permit.until > self.now
            return
        assert blocked is None
        assert len(mine) < self.limits.concurrency
        assert not any(other.doubted for other in mine)
        if seen.was_forgotten:
            assert self.shares_limit or self.now >= seen.quiet_until - MICROSECOND
            seen.paused = seen.excusable = permit.probe
            seen.was_forgotten = False
        assert self.shares_limit or permit.probe == seen.paused
        if seen.paused and not self.shares_limit:
            assert self.is_drained(key)
            assert self.now >= seen.quiet_until
            seen.stragglers = mine
        if self.stopped:
            assert not self.out
            assert self.now >= self.end_at + self.cooldown
        if self.limits.burst == 1.0:
            assert self.now >= max(seen.sent_at + delay, seen.left_at + self.limits.floor)
        assert self.now >= self.grant_at + self.global_gap
        seen.sent_at = seen.left_at = self.grant_at = self.now
        self.stopped = False
        self.out.append(permit)
        self.ends["granted"] += 1

    @rule(key=KEYS, outcome=OUTCOMES, announced=ANNOUNCED, page=PAGES)
    def fetch(self, key: str, outcome: Outcome, announced: float | None, page: Page | None) -> None:
        """One request goes when it may, and it is answered before anything else happens."""
        before = len(self.out)
        self.send_patiently(key, 1)
        if len(self.out) > before:
            self.answer(before, outcome, None, announced, page, ok=True)

    @rule(key=KEYS, pages=st.sampled_from(["xyx", "xxxx", "xyxyx"]), announced=ANNOUNCED)
    def meet_a_broken_page(self, key: str, pages: str, announced: float | None) -> None:
        """Page x is refused whatever the pace, and the others are served."""
        for page in pages:
            refused = page == "x"
            outcome = Outcome.REFUSED if refused else Outcome.ACCEPTED
            self.fetch(key, outcome, announced if refused else None, page)

    @precondition(lambda self: self.out)
    @rule(
        pick=PICKS,
        outcome=OUTCOMES,
        latency=LATENCIES,
        announced=ANNOUNCED,
        page=PAGES,
        ok=st.booleans(),
    )
    def answer(
        self,
        pick: int,
        outcome: Outcome,
        latency: float | None,
        announced: float | None,
        page: Page | None,
        ok: bool,
    ) -> None:
        """The site answers, or fails to."""
        permit = self.ended(pick, "measured")
        seen, slot = self.seen[permit.key], self.governor.slot(permit.key, self.now)
        news = permit.sent_at >= seen.epoch_at and not seen.paused
        news |= permit.probe and seen.excusable
        rate = slot.ceiling.rate
        answer = Answer(outcome, latency, may_lower=ok, announced=announced, page=page)
        decision = self.governor.on_answer(permit, answer, self.now)
        stopped_by = self.governor.stopped_by(self.now)
        self.stopped |= stopped_by is Reason.GLOBAL
        self.shares_limit |= stopped_by is Reason.CRAWL_WIDE
        assert 0.0 <= decision.wait < math.inf
        assert self.limits.floor <= decision.delay < math.inf
        if self.shares_limit:
            return
        if decision.event is Event.TRIPPED:
            assert news, "a refusal sent before the epoch began cuts nothing"
            kept = self.limits.backoff_ratio if self.cuts_at_once else 1.0
            assert slot.ceiling.rate <= max(SLOWEST, kept * rate * (1.0 + 1e-9))
            seen.epoch_at, seen.excusable = self.now, False
        else:
            seen.excusable |= decision.event is Event.BROKEN
            is_idle = decision.event in (Event.LATE, Event.EXCUSED) and not seen.paused
            seen.excusable |= is_idle
            seen.excusable |= seen.paused and decision.event is Event.LONE_FAILURE
            thinks = not self.cuts_at_once and decision.event in THINKS
            assert slot.ceiling.rate >= rate or thinks
        pauses = outcome is Outcome.REFUSED and not slot.suspected.refuses_first
        assert not pauses or slot.phase is not Phase.CLOSED
        if outcome is Outcome.ACCEPTED:
            assert (decision.event is Event.RECOVERED) == permit.probe
            seen.paused &= not permit.probe
            seen.excusable &= seen.paused
        elif slot.phase is not Phase.CLOSED and decision.event is not Event.LONE_FAILURE:
            seen.paused, seen.refused_at = True, self.now
            least = max(announced or 0.0, BREATH)
            seen.quiet_until = max(seen.quiet_until, self.now + least)
            assert decision.wait >= least * (1.0 - 1e-9)

    @precondition(lambda self: self.out)
    @rule(pick=PICKS, end=st.sampled_from(["ignored", "dropped"]))
    def lose(self, pick: int, end: str) -> None:
        """Somebody else answers, or the request is given up."""
        permit = self.ended(pick, end)
        getattr(self.governor, f"on_{end}")(permit, self.now)

    @precondition(lambda self: self.ended_last and self.ended_last.key in self.governor)
    @rule(end=st.sampled_from(["ignored", "dropped", "answer"]))
    def end_again(self, end: str) -> None:
        """A permit ends once; a doubt that comes after its end is none."""
        permit = self.ended_last
        assert permit is not None
        args = (Answer(Outcome.REFUSED), self.now) if end == "answer" else (self.now,)
        with pytest.raises(ValueError, match="has ended before"):
            getattr(self.governor, f"on_{end}")(permit, *args)
        self.governor.on_doubt(permit)

    @precondition(lambda self: self.out)
    @rule(pick=PICKS)
    def doubt(self, pick: int) -> None:
        """An answer that looks like a refusal waits for its verdict."""
        self.governor.on_doubt(self.out[pick % len(self.out)])

    @rule(key=KEYS)
    def promise(self, key: str) -> None:
        """A queue asks for a place."""
        seen, taken = self.seen[key], len(self.out_of(key)) + self.seen[key].promised
        blocked = self.governor.reserve(key, self.now)
        if blocked is None:
            assert taken < self.limits.concurrency
            paused = seen.paused and not self.shares_limit
            assert not (paused and self.now < seen.quiet_until)
            assert not paused or self.is_drained(key)
            slot = self.governor.slot(key, self.now)
            if seen.promised and slot.delay:
                has_tokens = slot.pace.tokens(self.now) >= seen.promised + 1 - 1e-9
                assert has_tokens or self.now >= seen.promised_at + slot.delay - 1e-9
            assert not (seen.promised and slot.is_new)
            seen.promised += 1
            seen.promised_at = self.now

    @precondition(lambda self: any(seen.promised for seen in self.seen.values()))
    @rule(pick=PICKS)
    def release(self, pick: int) -> None:
        """A promised place is given back."""
        keys = [key for key, seen in self.seen.items() for _ in range(seen.promised)]
        key = keys[pick % len(keys)]
        self.governor.release(key)
        self.seen[key].promised -= 1

    @rule(key=KEYS, seconds=st.sampled_from([0.0, 3.0]))
    def obey_robots(self, key: str, seconds: float) -> None:
        """The site's robots.txt is read; the longest delay that it asked for counts."""
        pace = self.governor.slot(key, self.now).pace
        pace.crawl_delay = max(pace.crawl_delay, seconds)

    # What holds after each step

    @invariant()
    def every_permit_is_out_or_ended_once(self) -> None:
        counts = self.governor.counts
        for end in ("granted", "measured", "ignored", "dropped"):
            assert getattr(counts, end) == self.ends[end]
        assert counts.in_flight == len(self.out)
        for slot in self.governor:
            mine = self.out_of(slot.key)
            assert slot.in_flight == len(mine) <= self.limits.concurrency
            assert slot.doubts == sum(permit.doubted for permit in mine)

    @invariant()
    def memory_is_bounded_and_nothing_that_matters_is_forgotten(self) -> None:
        keys = {slot.key for slot in self.governor}
        made = keys - self.known
        for key in self.known - keys:
            assert made, "a slot is forgotten only when another is made"
            self.check_forgotten(key)
        self.check_kept(made)
        self.look()

    @invariant()
    def only_an_event_can_be_waited_for_without_end(self) -> None:
        slots = [*self.governor]
        found = {slot.key: self.governor.blocked(slot.key, self.now) for slot in slots}
        for key, blocked in found.items():
            if blocked is not None and blocked.reason is Reason.GLOBAL:
                assert blocked.until == (math.inf if self.out else self.end_at + self.cooldown)
            elif blocked is not None and blocked.until == math.inf:
                shared = blocked.reason is Reason.CRAWL_WIDE
                assert self.out if shared else self.out_of(key)

    @invariant()
    def every_number_is_a_number(self) -> None:
        assert 0.0 <= self.governor.counts.drained_tokens < math.inf
        for slot in self.governor:
            self.check_numbers(slot)


TestCrawl = Crawl.TestCase
TestCrawl.settings = settings(STEADY, max_examples=200, stateful_step_count=60)
