"""Old wounds kept visible: counter-examples that were found once, each in its shortest form."""

import math

import pytest

from scrapy_adaptive.core.breaker.backoff import BREATH, Backoff
from scrapy_adaptive.core.ceiling.hold.ceiling import Hold
from scrapy_adaptive.core.permit import Permit
from scrapy_adaptive.core.slot_config import Limits
from scrapy_adaptive.core.types import Blocked, Event, Reason
from tests.core.virtual import Virtual

PACED = Limits(start_delay=1.0)
UNPACED = Limits(start_delay=0.0)


@pytest.fixture
def excused() -> Virtual:
    """Page "x" asked for 600 s and was found to be at fault: a wait of a breath, and no cut."""
    virtual = Virtual(PACED)
    virtual.refuse(virtual.send(), page="x", announced=600.0)
    virtual.fetch(page="y")
    virtual.wait_out()
    assert virtual.refuse(virtual.send(), page="x").event is Event.EXCUSED
    virtual.wait_out()
    return virtual


class TestForgetting:
    """A slot made anew may send at once, so no slot may be forgotten that may not."""

    def test_a_slot_that_owes_a_delay_is_not_forgotten(self) -> None:
        virtual = Virtual(Limits(floor=60.0), max_slots=1)
        virtual.accept(virtual.send("a"))
        virtual.blocked("b")
        assert virtual.blocked("a") == Blocked(60.0, Reason.DELAY)

    def test_a_slot_that_awaits_a_recheck_is_not_forgotten(self) -> None:
        """Once it may be asked for the page it may: the page may never come."""
        virtual = Virtual(PACED, max_slots=1)
        virtual.refuse(virtual.send(), page="x")
        virtual.fetch(page="y")
        recheck_at = virtual.held_until(Reason.RECHECK)
        virtual.wait_until(math.nextafter(recheck_at, 0.0))
        virtual.blocked("b")
        assert "a" in virtual.governor
        virtual.wait(60.0)
        virtual.blocked("c")
        assert "a" not in virtual.governor

    def test_after_a_crowd_the_slots_shrink_back_to_the_most(self) -> None:
        """Four slots were busy at once, where one is the most."""
        virtual = Virtual(UNPACED, max_slots=1)
        for permit in [virtual.send(key) for key in "abcd"]:
            virtual.accept(permit)
        virtual.blocked("e")
        assert [slot.key for slot in virtual.governor] == ["e"]

    def test_more_paused_hosts_than_slots_are_each_left_alone_until_their_instant(self) -> None:
        """A thousand hosts, each refused once, until 2.4 s; ten slots are enough for them."""
        virtual = Virtual(PACED, max_slots=10, global_slots=10_000)
        hosts = [f"host-{number}" for number in range(1000)]
        for host in hosts:
            virtual.refuse(virtual.send(host))
        assert len(virtual.governor) == 10
        virtual.wait(2.39)
        assert {virtual.held_until(Reason.PAUSED, host) for host in hosts} == {2.4}
        for host in hosts:
            virtual.wait(2.5)
            virtual.fetch(key=host)
        assert len(virtual.governor) == 10


class TestBounds:
    """The user's floor and the site's word stand above what a law has learned."""

    def test_the_floor_stands_above_the_most_of_the_latency_law(self) -> None:
        virtual = Virtual(Limits(floor=100.0, max_delay=60.0))
        virtual.accept(virtual.send(), latency=1.0)
        assert virtual.slot().delay == 100.0

    def test_a_refusal_that_tells_no_wait_at_all_is_not_answered_at_once(self) -> None:
        virtual = Virtual(Limits(start_delay=0.01))
        assert virtual.refuse(virtual.send(), announced=0.0).wait == BREATH

    def test_nor_is_a_probe_that_was_refused_with_no_wait_at_all(self) -> None:
        virtual = Virtual(Limits(start_delay=0.01))
        virtual.refuse(virtual.send())
        virtual.wait_out()
        assert virtual.refuse(virtual.send(), announced=0.0).wait >= BREATH


class TestWaits:
    """A wait that was too short is followed by none that is shorter."""

    def test_a_wait_beyond_the_longest_rung_does_not_fall_back_to_it(self) -> None:
        """1.2 gaps of an hour are 4320 s; the longest rung is 3660 s. Twice as long, then."""
        backoff = Backoff()
        assert backoff.first(rate=1 / 3600, announced=None) == pytest.approx(4320.0)
        assert backoff.longer(rate=1 / 3600, announced=None) == pytest.approx(8640.0)

    def test_a_day_that_the_site_asked_for_is_not_shortened_by_the_ladder(self) -> None:
        backoff = Backoff()
        backoff.first(rate=1.0, announced=86_400.0)
        assert backoff.longer(rate=1.0, announced=None) == 86_400.0

    def test_what_worked_comes_before_the_shorter_rungs_of_the_ladder(self) -> None:
        """Half a minute, from 32 to 62 s, ended the last pause: ten seconds are not tried again."""
        backoff = Backoff()
        backoff.first(rate=0.5, announced=None)
        for _ in range(4):
            backoff.longer(rate=0.5, announced=None)
        assert backoff.on_recovered().waited == 30.0
        backoff.first(rate=0.5, announced=None)
        backoff.longer(rate=0.5, announced=None)
        assert backoff.longer(rate=0.5, announced=None) == 30.0

    def test_a_wait_that_a_late_refusal_asked_for_counts_as_outlasted(self) -> None:
        """15 s were asked for late: if they are too short, the rest of 32 s is tried, not of 16."""
        virtual = Virtual(UNPACED)
        first, late = virtual.send_many(2)
        virtual.wait(1.0)
        virtual.refuse(first)
        virtual.refuse(late, announced=15.0)
        virtual.wait_out()
        assert virtual.refuse(virtual.send()).wait == 32.0 - 15.0

    def test_the_cooldown_of_the_crawl_begins_with_the_last_answer_and_not_with_a_question(
        self,
    ) -> None:
        """The one refusal is back at once; a minute later the five seconds are long over."""
        virtual = Virtual(PACED, global_slots=1)
        virtual.refuse(virtual.send("a"))
        virtual.wait(60.0)
        assert virtual.blocked("b") is None


class TestBrokenPages:
    """What a broken page has caused says nothing about the pace."""

    def test_a_page_accepted_as_its_own_probe_needs_no_recheck(self) -> None:
        virtual = Virtual(PACED)
        virtual.refuse(virtual.send(), page="x")
        virtual.fetch(page="x")
        assert virtual.why_held() is Reason.DELAY

    def test_a_pause_of_a_broken_page_does_not_go_on_from_an_older_pause(
        self, excused: Virtual
    ) -> None:
        """At 1/s a first cut leaves 2.4 s, and not what comes after the 600 s of before."""
        assert excused.refuse(excused.send(), page="z").wait <= 12.0

    def test_its_late_refusal_does_not_begin_the_ladder_of_a_ban_anew(self) -> None:
        """It arrives in the wait that ends after 62 s; 124 s in all come next, and 305."""
        virtual = Virtual(UNPACED)
        assert virtual.refuse_always("x", after=100).event is Event.BROKEN
        virtual.fetch(60, page="a")
        virtual.wait_out()
        late = virtual.send()
        virtual.refuse(virtual.send(), page="b")
        waits = []
        for page in "cdefgh":
            virtual.wait_out()
            waits.append(virtual.refuse(virtual.send(), page=page).wait)
            if len(waits) == 4:  # 30 s, until 62 are over
                virtual.refuse(late, page="x")
        assert waits[-3:] == pytest.approx([30.0, 62.0, 181.0])

    def test_a_broken_page_causes_a_breath_whatever_an_earlier_run_had_waited(self) -> None:
        """600 s ended a ban then."""
        virtual = Virtual(UNPACED)
        learned = {"rate": 5.0, "refused_rate": 6.0, "concurrency": None, "price": 10.0}
        virtual.governor.begin("a", {"learned": {**learned, "silence": 600.0}}, 0.0, 0.0)
        decision = virtual.refuse_always("x", after=100)
        assert (decision.event, decision.wait) == (Event.BROKEN, BREATH)

    def test_a_fresh_page_refused_as_the_probe_of_a_broken_one_begins_an_epoch(
        self, excused: Virtual
    ) -> None:
        decision = excused.refuse(excused.send(), page="z")
        assert decision.event is Event.TRIPPED
        assert decision.delay_change > 0.0

    def test_a_second_refused_probe_after_that_cuts_nothing_more(self, excused: Virtual) -> None:
        excused.refuse(excused.send(), page="z")
        excused.wait_out()
        decision = excused.refuse(excused.send(), page="w")
        assert (decision.event, decision.delay_change) == (Event.PROBE_REFUSED, 0.0)


class TestStragglers:
    """What was in flight when a pause began may be refused when it is over: no news."""

    @pytest.fixture
    def probing(self) -> tuple[Virtual, Permit, Permit]:
        """Refused at 0.1 s; the probe left at 10.1 s, beside a straggler of 0 s."""
        virtual = Virtual(UNPACED)
        refused, straggler = virtual.send_many(2)
        virtual.wait(0.1)
        virtual.refuse(refused)
        virtual.wait_out()
        return virtual, virtual.send(), straggler

    def test_a_probe_accepted_after_a_stragglers_refusal_ends_no_pause(
        self, probing: tuple[Virtual, Permit, Permit]
    ) -> None:
        """The pause goes on, and each of its seconds counts once."""
        virtual, probe, straggler = probing
        virtual.refuse(straggler, announced=5.0)
        assert virtual.accept(probe).event is Event.ACCEPTED
        assert virtual.slot().pause.seconds(virtual.now) == pytest.approx(10.0)

    def test_no_later_pause_waits_for_it(self, probing: tuple[Virtual, Permit, Permit]) -> None:
        """Ten seconds were given to it once; the next pause is as short as any."""
        virtual, probe, straggler = probing
        virtual.accept(probe)
        virtual.wait_out()
        virtual.refuse(virtual.send())
        refused_at = virtual.now
        virtual.wait_out()
        assert virtual.now < refused_at + 2.0
        assert virtual.send().probe
        virtual.accept(straggler)

    def test_the_end_of_an_older_probe_makes_no_room_beside_the_present_one(
        self, probing: tuple[Virtual, Permit, Permit]
    ) -> None:
        virtual, older, straggler = probing
        virtual.refuse(straggler)
        virtual.wait_out()
        assert virtual.send().probe
        virtual.accept(older)
        assert virtual.blocked() == Blocked(math.inf, Reason.PROBE)

    def test_a_straggler_refused_after_the_recovery_changes_no_rate(self) -> None:
        virtual = Virtual(Limits(start_delay=0.1, concurrency=8), ceiling="hold")
        straggler = virtual.send()
        virtual.fetch(50)
        for _ in range(2):
            virtual.wait_out()
            virtual.refuse(virtual.send())
            virtual.fetch()
        virtual.fetch(400)
        ceiling = virtual.slot().ceiling
        assert isinstance(ceiling, Hold)
        before = ceiling.learned
        assert virtual.refuse(straggler).event is Event.LATE
        virtual.fetch()
        assert ceiling.learned == before


class TestEarlierRuns:
    """A pause of an earlier run has no epoch in this one."""

    @pytest.mark.parametrize("start_delay", [0.0, 1.0])
    def test_the_probe_after_it_teaches_no_rate(self, start_delay: float) -> None:
        virtual = Virtual(Limits(start_delay=start_delay), ceiling="hold")
        virtual.wait(1000.0)
        rate = virtual.slot().ceiling.rate
        virtual.slot().resume_pause(virtual.now, 30.0)
        virtual.wait_out()
        assert virtual.accept(virtual.send()).event is Event.RECOVERED
        assert virtual.slot().ceiling.rate == rate


class TestPermits:
    """A permit ends once, and a place is promised once."""

    def test_a_permit_that_ended_is_refused_and_counted_once(self) -> None:
        virtual = Virtual(UNPACED)
        permit = virtual.send()
        virtual.accept(permit)
        with pytest.raises(ValueError, match="has ended before"):
            virtual.governor.on_dropped(permit, virtual.now)
        assert virtual.slot().in_flight == virtual.governor.counts.in_flight == 0
        assert virtual.governor.counts.dropped == 0

    def test_a_doubt_about_a_permit_that_ended_stops_nothing(self) -> None:
        virtual = Virtual(UNPACED)
        permit = virtual.send()
        virtual.accept(permit)
        virtual.governor.on_doubt(permit)
        assert virtual.blocked() is None

    def test_one_place_is_promised_for_a_probe_however_long_the_pause_was(self) -> None:
        """60 s were announced; a second place is not free 3 s later, when the first is promised."""
        virtual = Virtual(PACED)
        virtual.refuse(virtual.send(), announced=60.0)
        virtual.wait_out()
        assert virtual.governor.reserve("a", virtual.now) is None
        virtual.wait(3.0)
        assert virtual.governor.reserve("a", virtual.now) is not None

    def test_one_token_is_promised_to_one_queued_request(self) -> None:
        virtual = Virtual(Limits(start_delay=60.0))
        assert virtual.governor.reserve("a", 0.0) is None
        virtual.send()
        virtual.wait(60.0)
        virtual.governor.release("a")
        assert virtual.governor.reserve("a", 60.0) is None
        assert virtual.governor.reserve("a", 60.0) == Blocked(121.2, Reason.DELAY)


def test_the_wait_before_a_recheck_does_not_count_as_slowness() -> None:
    """A second trip right after it cuts to a half of the pace, not to a page a second."""
    virtual = Virtual(Limits(start_delay=0.01))
    virtual.fetch(20)
    virtual.wait_out()
    virtual.refuse(virtual.send(), page="x", announced=5.0)
    virtual.fetch(page="y")
    virtual.fetch(page="x")
    rate = virtual.slot().rate
    virtual.fetch(2)
    virtual.wait_out()
    virtual.refuse(virtual.send(), page="z")
    assert virtual.slot().rate > 0.4 * rate
