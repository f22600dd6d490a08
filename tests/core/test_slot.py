"""One slot through trips, pauses, probes and rechecks, with numbers worked by hand.

Most stories start at one request a second (`PACED`): a first refusal leaves half of it, so
the delay is 2 s and the first wait 1.2 gaps of it, 2.4 s.
"""

import math
import random

import pytest

from scrapy_adaptive.core.breaker.breaker import Phase
from scrapy_adaptive.core.ceiling.hold import ceiling as holding
from scrapy_adaptive.core.headers.parse import Quota
from scrapy_adaptive.core.slot_config import Limits
from scrapy_adaptive.core.types import Answer, Blocked, Decision, Event, Outcome, Reason, Wanted
from tests.core.virtual import Virtual

PACED = Limits(start_delay=1.0)
UNPACED = Limits(start_delay=0.0)


def tripped(limits: Limits = PACED, *, page: str | None = None, chance: float = 0.0) -> Virtual:
    """A slot refused at t = 0.2, the answer to its first request."""
    virtual = Virtual(limits, chance=chance)
    permit = virtual.send()
    virtual.wait(0.2)
    assert virtual.refuse(permit, page=page).event is Event.TRIPPED
    return virtual


def refused_probe(virtual: Virtual, *, page: str | None = None) -> Decision:
    """Wait for the next probe, and have it refused 0.2 s later."""
    virtual.wait_out()
    permit = virtual.send()
    assert permit.probe
    virtual.wait(0.2)
    return virtual.refuse(permit, page=page)


class TestTrips:
    """Congestion: everything stops until what is in flight is back and the wait is over."""

    def test_five_in_flight_at_a_trip_and_none_leaves_until_the_last_is_back(self) -> None:
        """Without a delay one page a second is taken for accepted: 0.5/s, 2.4 s from t = 1.

        A response that does not come at all is waited for until t = 11.
        """
        virtual = Virtual(UNPACED)
        first, *others = virtual.send_many(5)
        virtual.wait(1.0)
        decision = virtual.refuse(first)
        assert (decision.event, decision.delay) == (Event.TRIPPED, 2.0)
        assert decision.wait == pytest.approx(2.4)
        for permit in others:
            assert virtual.held_until(Reason.IN_FLIGHT) == 11.0
            virtual.wait(1.0)
            assert virtual.accept(permit).event is Event.ACCEPTED
        assert virtual.now == 5.0
        assert virtual.send().probe
        assert virtual.blocked() == Blocked(math.inf, Reason.PROBE)

    def test_a_straggler_is_waited_for_ten_seconds_after_the_last_refusal(self) -> None:
        """Refused at 1 s and 4 s; of what takes longer than 14 s there is no news any more."""
        virtual = Virtual(UNPACED)
        first, second, straggler = virtual.send_many(3)
        virtual.wait(1.0)
        virtual.refuse(first)
        assert virtual.held_until(Reason.IN_FLIGHT) == 11.0
        virtual.wait(3.0)
        virtual.refuse(second)
        assert virtual.held_until(Reason.IN_FLIGHT) == 14.0
        virtual.wait_out()
        assert virtual.send().probe
        assert not straggler.ended

    def test_where_latency_is_known_a_straggler_is_waited_for_four_times_as_long(self) -> None:
        """Pages take half a second: what is not back after two is one that is never answered."""
        virtual = Virtual(UNPACED)
        served, first, straggler = virtual.send_many(3)
        virtual.wait(0.5)
        virtual.accept(served, latency=0.5)
        virtual.refuse(first)
        assert virtual.held_until(Reason.IN_FLIGHT) == pytest.approx(0.5 + 4.0 * 0.5)
        virtual.wait_out()
        assert virtual.send().probe
        assert not straggler.ended

    def test_a_straggler_is_not_waited_for_longer_than_the_pause_lasts(self) -> None:
        """The site asked for a minute: a response that takes longer does not prolong it."""
        virtual = Virtual(UNPACED)
        first, _ = virtual.send_many(2)
        virtual.wait(1.0)
        virtual.refuse(first, announced=60.0)
        virtual.wait_out()
        assert virtual.now == 61.0

    def test_a_straggler_that_is_served_while_the_probe_is_out_ends_no_pause(self) -> None:
        virtual = Virtual(UNPACED)
        first, straggler = virtual.send_many(2)
        virtual.refuse(first)
        virtual.wait_out()
        probe = virtual.send()
        assert virtual.accept(straggler).event is Event.ACCEPTED
        assert virtual.blocked() == Blocked(math.inf, Reason.PROBE)
        assert virtual.accept(probe).event is Event.RECOVERED

    def test_a_refusal_that_takes_seconds_is_of_the_pace_at_which_it_left(self) -> None:
        """At 2/s, and refused after four seconds: those slow the pace, which has left long ago."""
        virtual = Virtual(Limits(start_delay=0.5), ceiling="hold")
        virtual.fetch(3)
        permits = []
        for _ in range(2):
            virtual.wait_out()
            permits.append(virtual.send())
        rate = virtual.slot().rate
        virtual.wait(4.0)
        slow = Answer(Outcome.REFUSED, latency=4.0, may_lower=False)
        for permit in permits:
            virtual.governor.on_answer(permit, slow, virtual.now)
        assert virtual.slot().pace.latency_delay > 1.0
        virtual.wait_out()
        virtual.accept(virtual.send())
        learned = virtual.slot().learned
        assert learned is not None
        assert learned.refused_rate == pytest.approx(rate)

    def test_all_back_before_the_wait_is_over_leaves_the_wait(self) -> None:
        virtual = Virtual(UNPACED)
        first, second = virtual.send_many(2)
        virtual.wait(1.0)
        virtual.refuse(first)
        virtual.accept(second)
        assert virtual.held_until(Reason.PAUSED) == pytest.approx(3.4)

    def test_a_hundred_late_refusals_cut_the_rate_once(self) -> None:
        virtual = Virtual(Limits(start_delay=0.0, concurrency=101))
        first, *late = virtual.send_many(101)
        virtual.wait(1.0)
        virtual.refuse(first)
        decisions = [virtual.refuse(permit) for permit in late]
        assert {decision.event for decision in decisions} == {Event.LATE}
        assert {decision.delay_change for decision in decisions} == {0.0}
        assert virtual.slot().delay == 2.0

    def test_a_late_refusal_lengthens_the_pause_by_what_it_asks_for(self) -> None:
        """The trip at 1 s says until 3.4 s, the late refusal says until 31 s."""
        virtual = Virtual(UNPACED)
        first, second = virtual.send_many(2)
        virtual.wait(1.0)
        virtual.refuse(first)
        assert virtual.refuse(second, announced=30.0).wait == 30.0
        assert virtual.blocked() == Blocked(31.0, Reason.PAUSED)

    def test_a_late_refusal_never_shortens_the_pause(self) -> None:
        virtual = Virtual(UNPACED)
        first, second = virtual.send_many(2)
        virtual.wait(1.0)
        virtual.refuse(first, announced=60.0)
        virtual.refuse(second, announced=1.0)
        assert virtual.blocked() == Blocked(61.0, Reason.PAUSED)

    def test_a_wait_that_the_site_announced_is_kept_whole_even_for_a_day(self) -> None:
        virtual = Virtual(PACED)
        assert virtual.refuse(virtual.send(), announced=86_400.0).wait == 86_400.0
        assert virtual.blocked() == Blocked(86_400.0, Reason.PARKED)

    @pytest.mark.parametrize(("announced", "reason"), [(3600.0, "PAUSED"), (3600.5, "PARKED")])
    def test_only_a_longer_pause_than_the_user_allows_is_parked(
        self, announced: float, reason: str
    ) -> None:
        """An hour by default; once the probe is served it is no news any more."""
        virtual = Virtual(PACED)
        virtual.refuse(virtual.send(), announced=announced)
        assert virtual.why_held() is Reason[reason]
        assert virtual.governor.parked(virtual.now) == (
            {"a": announced} if reason == "PARKED" else {}
        )
        virtual.fetch()
        assert not virtual.governor.parked(virtual.now)

    @pytest.mark.parametrize(("reset", "reason"), [(3600.0, "QUOTA"), (3601.0, "PARKED")])
    def test_so_is_a_quota_that_is_spent_for_longer(self, reset: float, reason: str) -> None:
        """Nothing was refused: the last page that was served announced it."""
        virtual = Virtual(PACED)
        virtual.accept(virtual.send(), quotas=(Quota(0, reset),))
        assert virtual.blocked() == Blocked(reset, Reason[reason])
        assert virtual.governor.parked(virtual.now) == ({"a": reset} if reason == "PARKED" else {})
        virtual.wait(reset - 1.0)
        assert virtual.blocked() == Blocked(reset, Reason[reason])
        virtual.wait(1.0)
        assert not virtual.governor.parked(virtual.now), "whoever asked for it meanwhile"
        virtual.wait_out()
        virtual.fetch()
        assert not virtual.governor.parked(virtual.now)

    def test_a_slot_whose_quota_is_spent_is_paused_until_its_reset_once_forgotten(self) -> None:
        """Whatever its bucket has saved up."""
        virtual = Virtual(Limits(start_delay=1.0, burst=5.0), max_slots=1)
        virtual.accept(virtual.send(), quotas=(Quota(0, 7200.0),))
        virtual.blocked("b")
        assert "a" not in virtual.governor
        virtual.wait(7199.0)
        assert virtual.blocked() == Blocked(7200.0, Reason.PARKED)
        virtual.wait(1.0)
        assert virtual.blocked() is None

    def test_a_pause_that_nobody_asked_for_is_never_parked(self) -> None:
        """However long the ladder has become."""
        virtual = Virtual(Limits(start_delay=1.0, max_pause=0.0))
        virtual.refuse(virtual.send())
        for _ in range(5):
            virtual.wait_out()
            virtual.refuse(virtual.send())
            assert virtual.why_held() is Reason.PAUSED

    def test_a_pause_of_an_earlier_run_runs_on_and_ends_with_a_probe(self) -> None:
        virtual = Virtual(PACED)
        virtual.slot().resume_pause(virtual.now, 30.0)
        assert virtual.blocked() == Blocked(30.0, Reason.PAUSED)
        virtual.wait_out()
        assert virtual.send().probe

    def test_chance_lengthens_a_wait_by_two_percent_at_most(self) -> None:
        virtual = Virtual(PACED, chance=0.5)
        assert virtual.refuse(virtual.send(), announced=100.0).wait == pytest.approx(101.0)

    def test_a_trip_empties_the_bucket_and_the_burst_grows_back_slowly(self) -> None:
        """Three tokens saved, none left; capacity 1, then ten accepted pages for each token."""
        virtual = Virtual(Limits(start_delay=1.0, burst=3.0))
        permit = virtual.send()
        virtual.wait(10.0)
        assert virtual.slot().pace.tokens(virtual.now) == 3.0
        virtual.refuse(permit)
        assert virtual.slot().pace.tokens(virtual.now) == 0.0
        assert virtual.slot().pace.tokens(math.inf) == 1.0
        virtual.fetch(10)
        assert virtual.slot().pace.tokens(math.inf) == pytest.approx(2.0)
        virtual.fetch(10)
        assert virtual.slot().pace.tokens(math.inf) == 3.0

    def test_the_delay_is_the_longest_of_latency_ceiling_and_crawl_delay(self) -> None:
        virtual = tripped()
        slot = virtual.slot()
        assert (slot.pace.latency_delay, slot.delay) == (1.0, 2.0)
        slot.pace.crawl_delay = 7.0
        assert slot.delay == 7.0
        assert slot.rate == pytest.approx(0.142857, abs=1e-6)


class TestProbes:
    """Half-open: one request, and only its acceptance closes the breaker."""

    def test_an_accepted_probe_closes_the_breaker_at_the_rate_after_the_cut(self) -> None:
        virtual = tripped()
        virtual.wait_until(2.6)
        decision = virtual.accept(virtual.send())
        assert (decision.event, decision.delay, decision.wait) == (Event.RECOVERED, 2.0, 0.0)
        assert virtual.slot().phase is Phase.CLOSED
        assert virtual.held_until(Reason.DELAY) == pytest.approx(4.6)

    def test_refused_probes_wait_longer_and_cut_nothing(self) -> None:
        virtual = tripped()
        decisions = [refused_probe(virtual) for _ in range(5)]
        assert {decision.event for decision in decisions} == {Event.PROBE_REFUSED}
        waits = [decision.wait for decision in decisions]
        assert waits == pytest.approx([2.4, 16.0 - 4.8, 32.0 - 16.0, 62.0 - 32.0, 124.0 - 62.0])
        assert virtual.slot().delay == 2.0

    def test_a_probe_that_fails_is_no_better_than_a_refused_one(self) -> None:
        virtual = tripped()
        virtual.wait_out()
        assert virtual.fail(virtual.send()).event is Event.PROBE_REFUSED

    def test_a_lost_probe_makes_room_for_the_next_at_the_slots_pace(self) -> None:
        """Dropped or answered by somebody else, it says nothing about the site."""
        virtual = tripped()
        for end in (virtual.governor.on_dropped, virtual.governor.on_ignored):
            virtual.wait_out()
            permit = virtual.send()
            assert permit.probe
            end(permit, virtual.now)
            assert virtual.slot().phase is Phase.HALF_OPEN
            assert virtual.why_held() is Reason.DELAY

    def test_two_hundred_accepted_pages_double_the_rate_that_the_cut_left(self) -> None:
        """From 0.5/s in steps of 0.0025/s up to the 1/s of the latency law, and no further."""
        virtual = tripped()
        virtual.fetch()
        virtual.fetch(100)
        assert virtual.slot().rate == pytest.approx(0.75)
        virtual.fetch(300)
        assert virtual.slot().rate == pytest.approx(1.0)
        assert virtual.slot().ceiling.rate == pytest.approx(1.0, rel=0.003)

    def test_probes_prefer_a_page_that_was_not_refused(self) -> None:
        virtual = tripped(page="x")
        assert virtual.slot().wanted is Wanted.UNSUSPECTED

    def test_the_time_paused_runs_from_the_trip_to_the_probes_acceptance(self) -> None:
        virtual = tripped()
        virtual.wait_until(2.6)
        permit = virtual.send()
        assert virtual.slot().pause.seconds(3.0) == pytest.approx(2.8)
        virtual.wait_until(3.2)
        virtual.accept(permit)
        assert virtual.slot().pause.seconds(99.0) == pytest.approx(3.0)

    def test_the_account_of_the_next_cut_begins_at_the_recovery(self) -> None:
        """Twenty pages at 1/s before the pause do not count: none in the 6 s after it does.

        One is the least that is counted, so 1/6 per second, and half of it is a delay of 12 s.
        """
        virtual = Virtual(PACED)
        virtual.fetch(20)
        virtual.wait_until(20.0)
        virtual.refuse(virtual.send())
        virtual.fetch()
        permits = []
        for sent_at in (24.4, 26.4, 28.4):
            virtual.wait_out()
            assert virtual.now == pytest.approx(sent_at)
            permits.append(virtual.send())
        assert virtual.refuse(permits[0]).delay == pytest.approx(12.0)


class TestDoubts:
    """An answer that looks like a refusal stops the slot before the classifier has spoken."""

    def test_nothing_leaves_while_a_verdict_is_awaited(self) -> None:
        virtual = Virtual(UNPACED)
        permit, other = virtual.send_many(2)
        virtual.governor.on_doubt(permit)
        virtual.governor.on_doubt(permit)
        assert virtual.blocked() == Blocked(math.inf, Reason.VERDICT)
        virtual.accept(other)
        assert virtual.why_held() is Reason.VERDICT
        virtual.accept(permit)
        assert virtual.blocked() is None

    def test_a_doubt_ends_with_its_permit_however_that_ends(self) -> None:
        virtual = Virtual(UNPACED)
        for end in (virtual.governor.on_dropped, virtual.governor.on_ignored):
            permit = virtual.send()
            virtual.governor.on_doubt(permit)
            end(permit, virtual.now)
            assert virtual.blocked() is None


def fail_until(virtual: Virtual, why: str) -> None:
    """Four of five fail by chance, until that is what comes of it."""
    chance = random.Random(1)
    for _ in range(1000):
        virtual.wait_out()
        answer = virtual.fail if chance.random() < 0.8 else virtual.accept
        decision = answer(virtual.send())
        if why in (decision.event.value, decision.why):
            return
    raise AssertionError(why)


def fails_above(rate: float, chance: random.Random) -> list[bool]:
    """Which of 600 pages failed: nine of ten at more than so many a second, one of ten below."""
    virtual = Virtual(Limits(target_concurrency=math.inf, start_delay=0.05), ceiling="hold")
    virtual.fetch(20)
    failed = []
    for _ in range(600):
        virtual.wait_out()
        permit = virtual.send()
        failed.append(chance.random() < (0.9 if virtual.slot().rate > rate else 0.1))
        (virtual.fail if failed[-1] else virtual.accept)(permit)
    return failed


class TestFailures:
    """Other 5xx and lost connections: congestion only when they are not alone."""

    @pytest.mark.parametrize(("served", "failures"), [(5, 5), (10, 4), (24, 3), (1000, 3)])
    def test_failures_in_a_row_are_congestion_the_sooner_the_more_was_served(
        self, served: int, failures: int
    ) -> None:
        """Of 24 served pages .4 / 28 would fail, two standard errors more are .059: three failures
        are ln(.31 / .0143) + ln(.334 / .0483) + ln(.341 / .059) = 6.76, more than 6.5."""
        virtual = Virtual(UNPACED)
        virtual.fetch(served)
        events = [virtual.fail(virtual.send()).event for _ in range(failures)]
        assert events == [*[Event.LONE_FAILURE] * (failures - 1), Event.TRIPPED]

    @pytest.mark.parametrize(("gap", "failures"), [(1, 3), (2, 4)])
    def test_so_are_failures_close_together(self, gap: int, failures: int) -> None:
        """Each page served between takes ln(1 / .7) = .36 from that."""
        virtual = Virtual(UNPACED)
        virtual.fetch(30)
        for _ in range(failures - 1):
            assert virtual.fail(virtual.send()).event is Event.LONE_FAILURE
            virtual.fetch(gap)
        assert virtual.fail(virtual.send()).event is Event.TRIPPED

    def test_as_many_as_before_are_none_at_a_faster_pace(self) -> None:
        """One of five fails from the start, by chance, and three in a row come now and then."""
        chance = random.Random(1)
        virtual = Virtual(Limits(target_concurrency=math.inf, start_delay=1.0), ceiling="hold")
        virtual.fetch()
        events = []
        for _ in range(1000):
            virtual.wait_out()
            answer = virtual.fail if chance.random() < 0.2 else virtual.accept
            events.append(answer(virtual.send()).event)
        in_a_row = [Event.LONE_FAILURE] * 3
        assert sum(events[n : n + 3] == in_a_row for n in range(998)) >= 3
        assert events.count(Event.TRIPPED) <= 1

    def test_a_page_that_fails_again_while_others_are_served_is_never_congestion(self) -> None:
        """Its retries come in a row at the end of a crawl: the host is not to blame."""
        virtual = Virtual(UNPACED)
        for page in "abcd":
            virtual.fail(virtual.send(), page=page)
            virtual.fetch(3)
        events = {virtual.fail(virtual.send(), page=page).event for page in "abcd"}
        assert events == {Event.LONE_FAILURE}
        assert virtual.blocked() is None

    def test_where_every_other_page_fails_the_pace_is_taken_back_after_a_few_pauses(self) -> None:
        """Slowness has not helped: the failures are the pages'."""
        virtual = Virtual(Limits(target_concurrency=math.inf))
        virtual.fetch(20)
        delay, events = virtual.slot().delay, []
        for _ in range(100):
            virtual.wait_out()
            events.append(virtual.fail(virtual.send()).event)
            virtual.fetch()
        assert 1 <= events.count(Event.TRIPPED) <= 4
        assert virtual.slot().delay <= delay

    @pytest.mark.parametrize("ceiling", ["aimd", "hold"])
    def test_a_host_whose_pages_fail_is_asked_no_slower_than_it_had_served(
        self, ceiling: str
    ) -> None:
        """Two of three come back; the law goes by what was served since, and would ask ever
        less."""
        limits = Limits(target_concurrency=math.inf, start_delay=0.05)
        virtual = Virtual(limits, ceiling=ceiling)
        virtual.fetch(3)
        rates = []
        for _ in range(30):
            for answer in (virtual.fail, virtual.fail, virtual.accept):
                virtual.wait_out()
                answer(virtual.send())
            if virtual.slot().phase is Phase.CLOSED:
                rates.append(virtual.slot().rate)
        assert min(rates) >= 0.9
        assert rates[-1] > 10.0

    def test_pages_that_fail_again_while_a_host_is_slow_are_the_pages_own(self) -> None:
        """They come back from RetryMiddleware, and are no evidence of a host in trouble."""
        limits = Limits(target_concurrency=math.inf, start_delay=0.05)
        virtual = Virtual(limits, ceiling="hold")
        virtual.fetch(3)
        rate = virtual.slot().rate
        for pages in ("ab", "cd", "ef", "gh", *("abcd" * 3)):
            for page in pages:
                virtual.wait_out()
                virtual.fail(virtual.send(), page=page)
            virtual.wait_out()
            virtual.fetch()
        assert virtual.slot().rate >= rate

    def test_a_host_that_fails_less_when_it_is_slow_is_kept_slow_in_the_end(self) -> None:
        """Nine of ten fail at more than two a second, one of ten below: a verdict that comes too
        soon is seen to be wrong. At any pace but a slow one it is nine of ten to the end."""
        failed = [fails_above(2.0, random.Random(seed)) for seed in range(6)]
        assert sum(sum(each[300:]) for each in failed) < 0.3 * 6 * 300

    def test_a_host_that_fails_above_a_rate_is_kept_slow(self) -> None:
        """More than four requests a second bring it down."""
        virtual = Virtual(Limits(target_concurrency=math.inf))
        failed = []
        for _ in range(400):
            virtual.wait_out()
            permit = virtual.send()
            failed.append(virtual.slot().delay < 0.25)
            (virtual.fail if failed[-1] else virtual.accept)(permit)
        assert sum(failed[100:]) < 30

    @pytest.mark.parametrize(("rate", "left", "burst"), [(50, 4, 5), (50, 2, 10), (20, 2, 10)])
    def test_a_host_of_which_little_is_left_is_not_asked_as_fast_as_before(
        self, rate: int, left: int, burst: int
    ) -> None:
        """The law goes above what is left to look for it, and some pages fail each time."""
        limits = Limits(target_concurrency=math.inf, start_delay=1.0 / rate)
        virtual = Virtual(limits, ceiling="hold")
        virtual.fetch(100)
        began_at, asked, tokens = virtual.now, 0, float(burst)
        while virtual.now < began_at + 100.0:
            before = virtual.now
            virtual.wait_out()
            tokens = min(burst, tokens + left * (virtual.now - before))
            asked += 1
            (virtual.fail if tokens < 1.0 else virtual.accept)(virtual.send())
            tokens -= tokens >= 1.0
        assert asked <= 2.1 * left * 100

    @pytest.mark.parametrize("ceiling", ["aimd", "hold"])
    def test_what_a_refusal_has_taught_is_not_taken_back_with_that(self, ceiling: str) -> None:
        """It came after the first of the pauses that the failures made."""
        virtual = Virtual(Limits(target_concurrency=math.inf, start_delay=0.05), ceiling=ceiling)
        virtual.fetch(20)

        fail_until(virtual, "tripped")
        virtual.wait_out()
        virtual.fetch()
        for _ in range(3):
            virtual.wait_out()
            assert virtual.refuse(virtual.send()).event is Event.TRIPPED
            virtual.fetch()
        taught = virtual.slot().rate
        fail_until(virtual, "as many fail at any pace")
        assert virtual.slot().rate == pytest.approx(taught, rel=0.05)

    def test_nor_is_what_refusals_had_taught_before_another_ceiling_was_tried(self) -> None:
        """Failures slowed that one down, and then this one."""
        limits = Limits(target_concurrency=math.inf, start_delay=0.05)
        virtual = Virtual(limits, ceiling="hold")
        virtual.fetch(20)
        for _ in range(3):
            virtual.wait_out()
            virtual.refuse(virtual.send())
            virtual.fetch()
        rate = virtual.slot().rate
        taught = virtual.slot().begin_anew(holding.Hold(limits.start_rate), virtual.now)
        fail_until(virtual, "tripped")
        virtual.slot().take_up(taught)
        fail_until(virtual, "as many fail at any pace")
        assert virtual.slot().rate == pytest.approx(rate, rel=0.05)

    def test_a_host_that_never_answered_is_dead_and_not_throttling(self) -> None:
        virtual = Virtual(UNPACED)
        events = {virtual.fail(virtual.send()).event for _ in range(20)}
        assert events == {Event.LONE_FAILURE}

    def test_a_failure_spends_a_retry_and_a_refusal_spends_none(self) -> None:
        virtual = Virtual(UNPACED)
        virtual.fetch()
        again = [virtual.fail(virtual.send()).again for _ in range(3)]
        assert again == [False, False, False]
        virtual.wait_out()
        assert virtual.refuse(virtual.send()).again


def test_a_late_refusal_in_a_pause_that_another_slot_began_changes_no_other() -> None:
    """It is this slot's own, which never met congestion; the fixture looks at what slots share."""
    virtual = Virtual(ceiling="hold")
    permit = virtual.send()
    virtual.slot().pause_for(virtual.now, 5.0)
    virtual.refuse(permit)
    virtual.wait_out()
    virtual.accept(virtual.send())
    assert virtual.blocked("b") is None


def test_who_pauses_with_another_is_not_parked_for_what_the_site_has_not_asked_for() -> None:
    """It asked for 5 s; the rest is the first slot's own backoff, 100 s by now."""
    virtual = Virtual(Limits(max_pause=60.0))
    first, other = virtual.slot("a"), virtual.slot("b")
    first.pause_for(0.0, 100.0, announced=5.0)
    other.pause_with(first, 0.0)
    assert virtual.why_held("b") is Reason.PAUSED
    assert other.paused_until == 100.0
    asked = virtual.slot("c")
    first.pause_for(0.0, 200.0, announced=200.0)
    asked.pause_with(first, 0.0)
    assert virtual.why_held("c") is Reason.PARKED
