"""The governor: the crawl as a whole stops, is paced, is counted and is forgotten."""

import math

import pytest

from scrapy_adaptive.core.permit import Permit
from scrapy_adaptive.core.slot_config import Limits
from scrapy_adaptive.core.types import Blocked, Event, Reason
from tests.core.virtual import Virtual

PACED = Limits(start_delay=1.0)
UNPACED = Limits(start_delay=0.0)


def trip(virtual: Virtual, key: str) -> None:
    """Send one request for that slot, and have it refused at once."""
    assert virtual.refuse(virtual.send(key)).event is Event.TRIPPED


class TestGlobalBreaker:
    """One slot's limit is no other's affair, unless there are enough of them."""

    def test_set_to_one_any_refusal_stops_the_whole_crawl(self) -> None:
        """Until what is in flight is back and five seconds have passed."""
        virtual = Virtual(PACED, global_slots=1)
        refused, other = virtual.send("a"), virtual.send("b")
        virtual.wait(1.0)
        virtual.refuse(refused)
        assert virtual.governor.is_stopped(virtual.now)
        assert virtual.blocked("c") == Blocked(math.inf, Reason.GLOBAL)
        virtual.wait(1.0)
        virtual.accept(other)
        for key in "abc":
            assert virtual.blocked(key) == Blocked(7.0, Reason.GLOBAL)
        virtual.wait_until(7.0)
        assert virtual.blocked("c") is None
        assert not virtual.governor.is_stopped(virtual.now)

    def test_after_the_stop_the_slot_that_tripped_begins_with_a_probe(self) -> None:
        virtual = Virtual(PACED, global_slots=1)
        virtual.fetch(key="b")
        trip(virtual, "a")
        virtual.wait_out("a")
        assert virtual.now == 5.0
        assert virtual.send("a").probe
        assert not virtual.send("b").probe

    def test_five_slots_within_the_window_stop_the_crawl_and_four_do_not(self) -> None:
        virtual = Virtual(PACED)
        for key in "abcd":
            trip(virtual, key)
            virtual.wait(2.0)
            assert virtual.blocked("z") is None
        trip(virtual, "e")
        assert virtual.blocked("z") == Blocked(13.0, Reason.CRAWL_WIDE)
        assert virtual.governor.counts.global_trips == 1

    def test_five_slots_over_a_longer_time_do_not_stop_it(self) -> None:
        """The first trip is 10 s old at the fifth."""
        virtual = Virtual(PACED)
        for key in "abcde":
            trip(virtual, key)
            virtual.wait(2.5)
        assert not virtual.governor.is_stopped(virtual.now)

    def test_the_stop_drains_every_bucket(self) -> None:
        """Three saved by the slot that trips, three by the one that does not."""
        virtual = Virtual(Limits(start_delay=1.0, burst=3.0), global_slots=1)
        virtual.fetch(key="b")
        permit = virtual.send("a")
        virtual.wait(60.0)
        virtual.refuse(permit)
        assert virtual.governor.counts.drained_tokens == 6.0
        assert virtual.slot("b").pace.tokens(virtual.now) == 0.0
        assert virtual.slot("b").pace.tokens(math.inf) == 1.0


class TestGlobalRate:
    """The crawl-wide bucket stands before every slot."""

    def test_two_a_second_are_shared_by_all_slots(self) -> None:
        virtual = Virtual(UNPACED, global_rate=2.0)
        virtual.send("a")
        assert virtual.blocked("b") == Blocked(0.5, Reason.GLOBAL_RATE)
        virtual.wait(0.5)
        virtual.send("b")
        assert virtual.blocked("a") == Blocked(1.0, Reason.GLOBAL_RATE)

    def test_a_slots_own_reason_comes_first(self) -> None:
        virtual = Virtual(PACED, global_rate=0.1)
        virtual.send("a")
        assert virtual.blocked("a") == Blocked(1.0, Reason.DELAY)
        assert virtual.blocked("b") == Blocked(10.0, Reason.GLOBAL_RATE)

    def test_a_global_stop_drains_it_too(self) -> None:
        """Drained at 20 s, full again at 30 s; the cool-down ends at 25 s."""
        virtual = Virtual(PACED, global_rate=0.1, global_slots=1)
        permit = virtual.send("a")
        virtual.wait(20.0)
        virtual.refuse(permit)
        virtual.wait_out("b")
        assert virtual.now == 30.0


class TestPermits:
    """Every permit ends once: measured, ignored or dropped."""

    def test_the_three_ends_of_a_permit_are_counted_apart(self) -> None:
        virtual = Virtual(UNPACED)
        served, cached, given_up, _out = virtual.send_many(4)
        virtual.accept(served)
        virtual.governor.on_ignored(cached, virtual.now)
        virtual.governor.on_dropped(given_up, virtual.now)
        counts = virtual.governor.counts
        assert (counts.granted, counts.measured, counts.ignored, counts.dropped) == (4, 1, 1, 1)
        assert counts.in_flight == virtual.slot().in_flight == 1

    def test_refusals_failures_trips_and_probes_are_counted(self) -> None:
        virtual = Virtual(UNPACED)
        virtual.fail(virtual.send())
        trip(virtual, "a")
        virtual.wait_out()
        virtual.refuse(virtual.send())
        counts = virtual.governor.counts
        assert (counts.refusals, counts.failures, counts.trips, counts.probes) == (2, 1, 1, 1)

    def test_a_slot_keeps_the_concurrency_of_its_own_limits(self) -> None:
        small = Limits(start_delay=0.0, concurrency=2)
        virtual = Virtual(UNPACED, slot_limits={"small": small})
        permit, _ = virtual.send_many(2, "small")
        assert virtual.blocked("small") == Blocked(math.inf, Reason.CONCURRENCY)
        virtual.send_many(8, "a")
        assert virtual.why_held("a") is Reason.CONCURRENCY
        virtual.accept(permit)
        assert virtual.blocked("small") is None

    def test_what_may_not_go_is_answered_with_what_blocks_it(self) -> None:
        virtual = Virtual(PACED)
        virtual.send()
        assert virtual.governor.take("a", 0.5) == Blocked(1.0, Reason.DELAY)
        assert isinstance(virtual.governor.take("a", 1.0), Permit)


class TestReservations:
    """A queue promises places; a request at the gate needs no promise."""

    def test_promised_places_count_for_queues_and_not_at_the_gate(self) -> None:
        virtual = Virtual(Limits(burst=5.0, concurrency=2))
        virtual.fetch()
        virtual.wait(10.0)
        governor, now = virtual.governor, virtual.now
        assert [governor.reserve("a", now) for _ in range(2)] == [None, None]
        assert governor.reserve("a", now) == Blocked(math.inf, Reason.CONCURRENCY)
        assert virtual.blocked() is None
        governor.release("a")
        assert governor.reserve("a", now) is None

    def test_each_promised_place_takes_a_token_of_its_own(self) -> None:
        """Two are there at once, and the third a delay after the second was promised."""
        virtual = Virtual(Limits(start_delay=1.0, burst=2.0))
        virtual.fetch()
        virtual.wait(2.0)
        governor, now = virtual.governor, virtual.now
        assert [governor.reserve("a", now) for _ in range(2)] == [None, None]
        assert governor.reserve("a", now) == Blocked(now + 1.02, Reason.DELAY)
        governor.release("a")
        assert governor.reserve("a", now) is None

    def test_what_is_slow_on_its_way_to_the_gate_is_not_waited_for(self) -> None:
        """A delay, and 2 % for chance, lies between two promises, however many are on their way."""
        virtual = Virtual(Limits(start_delay=1.0, concurrency=4))
        virtual.fetch()
        virtual.wait(1.0)
        assert virtual.governor.reserve("a", virtual.now) is None
        for _ in range(3):
            blocked = virtual.governor.reserve("a", virtual.now)
            assert blocked is not None
            assert blocked.until == pytest.approx(virtual.now + 1.02)
            virtual.wait(1.03)
            assert virtual.governor.reserve("a", virtual.now) is None
        assert virtual.governor.reserve("a", virtual.now) == Blocked(math.inf, Reason.CONCURRENCY)

    def test_until_the_first_request_was_sent_no_other_leaves_its_queue(self) -> None:
        """It may be waiting for a robots.txt that refuses them all."""
        virtual = Virtual(Limits(start_delay=0.0))
        governor = virtual.governor
        assert governor.reserve("a", 0.0) is None
        assert governor.reserve("a", 0.0) == Blocked(math.inf, Reason.FIRST)
        governor.release("a")
        virtual.send()
        assert governor.reserve("a", 0.0) is None

    def test_while_robots_txt_is_awaited_no_request_leaves_its_queue(self) -> None:
        """And those at the gate do."""
        virtual = Virtual(Limits(start_delay=0.0))
        virtual.fetch()
        virtual.slot().robots_count = 1
        assert virtual.governor.reserve("a", 0.0) == Blocked(math.inf, Reason.ROBOTS)
        assert virtual.blocked() is None

    def test_the_rate_of_the_whole_crawl_holds_what_is_queued(self) -> None:
        """One promise at a time, half a second apart."""
        virtual = Virtual(UNPACED, global_rate=2.0)
        governor = virtual.governor
        virtual.wait(1.0)
        assert governor.reserve("a", 1.0) is None
        assert governor.reserve("b", 1.0) == Blocked(1.5, Reason.GLOBAL_RATE)
        assert governor.reserve("b", 1.5) is None

    def test_only_one_place_is_promised_for_a_probe(self) -> None:
        virtual = Virtual(PACED)
        trip(virtual, "a")
        virtual.wait_out()
        assert virtual.governor.reserve("a", virtual.now) is None
        blocked = virtual.governor.reserve("a", virtual.now)
        assert blocked is not None
        assert blocked.reason is Reason.IN_FLIGHT


class TestNumbers:
    """Every knob is refused at construction when it is out of its range."""

    @pytest.mark.parametrize("max_slots", [0, -1])
    def test_no_slots_are_refused(self, max_slots: int) -> None:
        with pytest.raises(ValueError, match="max_slots"):
            Virtual(max_slots=max_slots)

    @pytest.mark.parametrize("global_rate", [-1.0, math.nan])
    def test_a_negative_rate_of_the_crawl_is_refused(self, global_rate: float) -> None:
        with pytest.raises(ValueError, match="global_rate"):
            Virtual(global_rate=global_rate)


class TestForgetting:
    """Memory is bounded, and nothing that matters is forgotten."""

    def test_the_least_recently_used_idle_slot_is_forgotten_first(self) -> None:
        virtual = Virtual(PACED, max_slots=2)
        for key in "aba":
            virtual.fetch(key=key)
        virtual.wait(10.0)
        virtual.blocked("c")
        assert [slot.key for slot in virtual.governor] == ["a", "c"]

    def test_slots_that_are_busy_or_promised_are_never_forgotten(self) -> None:
        virtual = Virtual(PACED, max_slots=1)
        virtual.send("busy")
        virtual.governor.reserve("promised", virtual.now)
        for number in range(50):
            virtual.blocked(f"other-{number}")
        assert {"busy", "promised"} <= {slot.key for slot in virtual.governor}
        assert len(virtual.governor) == 3

    def test_a_slot_that_is_paused_keeps_the_instant_that_ends_its_pause(self) -> None:
        virtual = Virtual(PACED, max_slots=1)
        trip(virtual, "paused")
        until = virtual.held_until(Reason.PAUSED, "paused")
        virtual.blocked("other")
        assert "paused" not in virtual.governor
        assert virtual.held_until(Reason.PAUSED, "paused") == until
        assert "paused" not in virtual.governor, "nor is it made to say so"
