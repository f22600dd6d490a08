"""Hosts that fail: dead from the first, gone after a while, or cut off with everybody else."""

import math

import pytest

from scrapy_adaptive.core.breaker.breaker import Phase
from scrapy_adaptive.core.breaker.uplink import FIRST_TEST, GIVE_UP, HEAD_START
from scrapy_adaptive.core.permit import Permit
from scrapy_adaptive.core.slot_config import Limits
from scrapy_adaptive.core.types import Blocked, Event, Reason
from tests.core.virtual import Virtual

AUTO = Limits(target_concurrency=math.inf)


def served(limits: Limits = AUTO) -> Virtual:
    """A host that has served 24 pages."""
    virtual = Virtual(limits)
    virtual.fetch(24)
    return virtual


def cut_off(virtual: Virtual, key: str) -> None:
    """One more request of that host, for which nothing comes back."""
    virtual.wait_out(key)
    virtual.fail(virtual.send(key), silent=True)


class TestDead:
    """A host that never answered has nobody to be polite to."""

    def test_after_its_first_failure_only_the_users_bounds_hold(self) -> None:
        virtual = Virtual(Limits(target_concurrency=math.inf, concurrency=3))
        virtual.fail(virtual.send(), silent=True)
        assert virtual.slot().delay == 0.0
        virtual.send_many(3)
        assert virtual.blocked() == Blocked(math.inf, Reason.CONCURRENCY)

    def test_the_users_own_delay_holds_towards_it(self) -> None:
        virtual = Virtual(Limits(start_delay=1.0, floor=0.5))
        virtual.fail(virtual.send(), silent=True)
        assert virtual.blocked() == Blocked(0.5, Reason.DELAY)

    def test_a_host_that_answers_with_errors_is_not_dead(self) -> None:
        virtual = Virtual(Limits(start_delay=1.0))
        virtual.fail(virtual.send())
        assert virtual.blocked() == Blocked(1.0, Reason.DELAY)

    def test_when_it_serves_it_begins_as_any_new_host(self) -> None:
        virtual = Virtual(Limits(start_delay=1.0))
        for _ in range(5):
            virtual.fail(virtual.send(), silent=True)
        virtual.accept(virtual.send())
        assert virtual.blocked() == Blocked(1.0, Reason.DELAY)

    def test_before_the_first_answer_the_delay_alone_holds_what_is_in_flight(self) -> None:
        """Where nothing comes back for minutes, waiting for the first is waiting for nothing."""
        virtual = Virtual(AUTO)
        virtual.send()
        assert virtual.blocked() == Blocked(1.0, Reason.DELAY)
        virtual.wait(1.0)
        virtual.send()


class TestGone:
    """A host that was serving and fails is in trouble, for four tests; then it is gone."""

    def test_it_is_waited_for_less_than_three_seconds(self) -> None:
        virtual = served()
        for _ in range(3):
            cut_off(virtual, "a")
        waits = [virtual.slot().pause.until - virtual.now]
        while virtual.slot().phase is not Phase.CLOSED:
            cut_off(virtual, "a")
            waits.append(max(0.0, virtual.slot().pause.until - virtual.now))
        assert waits == [0.25, 0.5, 1.0, 1.0, 0.0]
        assert virtual.slot().delay == 0.0
        virtual.send_many(8)

    def test_one_that_answers_with_errors_keeps_the_pace_that_it_had(self) -> None:
        virtual = served(Limits(start_delay=1.0))
        pace = virtual.slot().delay
        for _ in range(12):
            virtual.wait_out()
            virtual.fail(virtual.send())
        assert virtual.slot().phase is Phase.CLOSED
        assert virtual.slot().delay == pace

    def test_such_a_one_is_met_by_a_pace_that_doubles_with_each_four_failures(self) -> None:
        """It may be kept down by what it is asked. It had served half of 20/s, or was taken to."""
        virtual = served(Limits(target_concurrency=math.inf, start_delay=0.05))
        rates = []
        for _ in range(7 + 8):
            virtual.wait_out()
            virtual.fail(virtual.send())
            rates.append(virtual.slot().rate)
        assert rates[6:] == pytest.approx([*[10.0] * 4, *[20.0] * 5])

    @pytest.mark.parametrize("ceiling", ["aimd", "hold"])
    def test_so_is_one_that_did_not_answer_for_long_before(self, ceiling: str) -> None:
        """What did not answer says nothing of what it can do."""
        virtual = Virtual(Limits(target_concurrency=math.inf, start_delay=0.05), ceiling=ceiling)
        virtual.fetch(24)
        for _ in range(5000):
            cut_off(virtual, "a")
        rates = []
        for _ in range(8):
            virtual.wait_out()
            virtual.fail(virtual.send())
            rates.append(virtual.slot().rate)
        assert rates == pytest.approx([*[10.0] * 4, *[20.0] * 4])

    def test_what_it_serves_ends_that_at_the_pace_that_it_has(self) -> None:
        virtual = served(Limits(target_concurrency=math.inf, start_delay=0.05))
        for _ in range(7):
            virtual.wait_out()
            virtual.fail(virtual.send())
        virtual.wait_out()
        virtual.accept(virtual.send())
        virtual.wait_out()
        virtual.fail(virtual.send())
        assert 10.0 <= virtual.slot().rate < 11.0

    def test_when_it_serves_again_the_pace_that_it_had_holds(self) -> None:
        virtual = served(Limits(start_delay=1.0))
        pace = virtual.slot().delay
        for _ in range(8):
            cut_off(virtual, "a")
        assert virtual.slot().delay == 0.0
        virtual.accept(virtual.send())
        assert virtual.slot().delay == pace
        assert virtual.blocked() is not None

    def test_no_failure_is_fetched_again_without_a_retry(self) -> None:
        virtual = served()
        for _ in range(12):
            virtual.wait_out()
            assert not virtual.fail(virtual.send(), silent=True).again


class TestUplink:
    """While the crawler's own line is down nothing is learned and nothing is spent."""

    def cut(self, start_delay: float = 1.0) -> tuple[Virtual, list[Permit]]:
        """Six hosts that answered; one request of each is out when the line is cut."""
        virtual = Virtual(Limits(start_delay=start_delay))
        for key in "abcdef":
            virtual.fetch(5, key=key)
        virtual.wait(10.0)
        return virtual, [virtual.send(key) for key in "abcdef"]

    def test_who_fails_after_the_third_spends_no_retry(self) -> None:
        virtual, out = self.cut()
        decisions = [virtual.fail(permit, silent=True) for permit in out]
        assert [decision.again for decision in decisions] == [False] * 2 + [True] * 4
        assert decisions[-1].event is Event.UPLINK_DOWN
        assert virtual.governor.stopped_by(virtual.now) is Reason.UPLINK

    def test_one_request_leaves_now_and_then_of_whatever_host(self) -> None:
        virtual, out = self.cut()
        for permit in out:
            virtual.fail(permit, silent=True)
        at = virtual.now + FIRST_TEST
        assert {virtual.blocked(key) for key in "abcdz"} == {
            Blocked(at + HEAD_START, Reason.PAUSED),
            Blocked(at, Reason.UPLINK),
        }
        virtual.wait_until(at)
        virtual.fail(virtual.send("z"), silent=True)
        assert virtual.blocked("y") == Blocked(at + FIRST_TEST, Reason.UPLINK)

    def test_hosts_that_are_not_known_to_fail_leave_first(self) -> None:
        virtual, out = self.cut(start_delay=0.1)
        for permit in out[:3]:
            virtual.fail(permit, silent=True)
        known, other = (permit.key for permit in (out[0], out[-1]))
        at = virtual.now + FIRST_TEST
        virtual.wait_until(at)
        assert virtual.blocked(known) == Blocked(at + HEAD_START, Reason.PAUSED)
        assert virtual.blocked(other) is None
        virtual.wait_until(at + HEAD_START)
        assert virtual.blocked(known) is None

    def test_hosts_that_are_not_known_to_fail_leave_their_queues_first(self) -> None:
        virtual, out = self.cut(start_delay=0.1)
        for permit in out[:3]:
            virtual.fail(permit, silent=True)
        governor = virtual.governor
        known, other = (permit.key for permit in (out[0], out[-1]))
        virtual.wait_until(virtual.now + FIRST_TEST)
        blocked = Blocked(virtual.now + HEAD_START, Reason.PAUSED)
        assert governor.blocked_in_queue(known, virtual.now) == blocked
        assert governor.reserve(known, virtual.now) == blocked
        assert governor.reserve(other, virtual.now) is None

    def test_the_first_answer_lets_everybody_go_on_at_the_pace_they_had(self) -> None:
        virtual, out = self.cut()
        paces = {key: virtual.slot(key).delay for key in "abcdef"}
        for permit in out:
            virtual.fail(permit, silent=True)
        virtual.wait_out("a")
        virtual.accept(virtual.send("a"))
        assert all(virtual.blocked(key) is None for key in "bcdef")
        assert {key: virtual.slot(key).delay for key in "abcdef"} == paces

    def test_an_answer_of_one_host_means_that_the_line_is_up(self) -> None:
        virtual, out = self.cut()
        virtual.fail(out[0], silent=True)
        virtual.fail(out[1], silent=True)
        virtual.fail(out[2])
        assert not virtual.fail(out[3], silent=True).again
        assert virtual.governor.stopped_by(virtual.now) is None

    def test_after_ten_minutes_failures_are_the_pages_own(self) -> None:
        virtual, out = self.cut()
        for permit in out:
            virtual.fail(permit, silent=True)
        virtual.wait(GIVE_UP)
        assert not virtual.fail(virtual.send("a"), silent=True).again
        assert virtual.governor.stopped_by(virtual.now) is None


class TestForgiven:
    """What the crawler's own line did is forgiven, and nothing else."""

    def test_a_pause_that_the_site_asked_for_stays(self) -> None:
        """The host had failed once, and recovered long ago."""
        virtual = served(Limits(start_delay=0.1))
        for _ in range(3):
            virtual.wait_out()
            virtual.fail(virtual.send())
        virtual.wait_out()
        virtual.accept(virtual.send())
        virtual.fetch(100)
        slot = virtual.slot()
        rate = slot.rate
        slot.resume_pause(virtual.now, 500.0)
        slot.forgive_failures(virtual.now)
        assert slot.paused_for(virtual.now) == pytest.approx(500.0)
        assert slot.rate == rate
