"""What is put aside, recalled or paused from elsewhere comes back whole, and ends nothing else."""

import math

import pytest

from scrapy_adaptive.core.breaker.breaker import Phase
from scrapy_adaptive.core.breaker.shared_limit import SharedLimit
from scrapy_adaptive.core.ceiling.hold.ceiling import Hold
from scrapy_adaptive.core.headers.parse import Quota
from scrapy_adaptive.core.slot import Slot
from scrapy_adaptive.core.slot_config import Limits
from scrapy_adaptive.core.state.reading import AFTER_DAMAGE
from scrapy_adaptive.core.types import Event, Learned, Reason
from tests.core.virtual import Virtual

UNPACED = Limits(start_delay=0.0)

LEARNED = {"rate": 2.0, "refused_rate": 2.5, "concurrency": None, "price": 9.5, "silence": 0.0}
"""What an earlier run may have written of a slot."""


def refused(virtual: Virtual, key: str = "a") -> None:
    """The test request of its pause is refused."""
    virtual.wait_out(key)
    virtual.refuse(virtual.send(key))


class TestRecalled:
    """Of a slot that nobody has used in this run only a note is there."""

    def test_the_line_goes_down_beside_a_class_that_only_an_earlier_run_had(self) -> None:
        virtual = Virtual(UNPACED)
        virtual.governor.begin("a /search", {"learned": LEARNED}, 0.0, 0.0)
        for key in "abc":
            virtual.fetch(key=key)
        out = [virtual.send(key) for key in "abc"]
        for permit in out:
            virtual.fail(permit, silent=True)
        assert virtual.governor.stopped_by(virtual.now) is Reason.UPLINK

    def test_a_slot_that_requests_leave_unused_is_remembered(self) -> None:
        """A middleware sends them another way: what an earlier run learned is not lost."""
        before = Virtual(UNPACED, ceiling="hold")
        ceiling = before.slot().ceiling
        assert isinstance(ceiling, Hold)
        ceiling.recall(Learned(2.0, 2.5))
        ceiling.state.bracket.lo = 2.0
        state = before.governor.states(before.now)["a"]
        virtual = Virtual(UNPACED, ceiling="hold")
        virtual.governor.begin("a", state, 0.0, 0.0)
        assert virtual.governor.reserve("a", 0.0) is None
        virtual.governor.release("a")
        virtual.governor.forget_unused("a", 0.0)
        assert len(virtual.governor) == 0
        assert virtual.governor.states(0.0)["a"]["learned"] == state["learned"]
        assert virtual.slot().rate == 2.0

    def test_a_slot_of_which_more_is_known_than_a_state_may_hold_begins_anew(self) -> None:
        """Pages in no time, without an in-flight limit: the rate is beyond all that is read."""
        virtual = Virtual(UNPACED, ceiling="hold", max_slots=1)
        ceiling = virtual.slot().ceiling
        assert isinstance(ceiling, Hold)
        ceiling.recall(Learned(1e12, 2e12))
        ceiling.state.bracket.lo = 1e12
        virtual.fetch()
        virtual.wait(1.0)
        virtual.fetch(key="b")
        assert "a" not in virtual.governor
        virtual.fetch()

    def test_a_wait_that_no_site_asks_for_is_a_day_from_when_it_was_read(self) -> None:
        """Not from when the slot is first used."""
        before = Virtual(UNPACED)
        before.fetch()
        before.refuse(before.send(), announced=100.0)
        state = before.governor.states(0.0)["a"]
        state["whole"]["pause"].update(until=-1e9, _announced_until=-1e9, _parked_until=-1e9)
        virtual = Virtual(UNPACED)
        assert virtual.governor.begin("a", state, 0.0, 0.0)
        virtual.wait(0.5 * AFTER_DAMAGE)
        assert virtual.held_until(Reason.PARKED) == pytest.approx(AFTER_DAMAGE)

    def test_a_shorter_pause_that_is_read_later_ends_no_longer_one(self) -> None:
        virtual = Virtual(UNPACED)
        virtual.governor.begin("a", {"pause": 100.0}, 0.0, 0.0)
        virtual.governor.begin("a", {"pause": 10.0}, 0.0, 0.0)
        assert virtual.governor.paused_until("a", 0.0) == 100.0

    def test_of_an_own_wait_and_one_that_was_asked_for_the_longer_is_kept(self) -> None:
        virtual = Virtual(UNPACED)
        virtual.governor.begin("a", {"pause": 500.0, "asked": False}, 0.0, 0.0)
        virtual.governor.begin("a", {"pause": 10.0, "asked": True}, 0.0, 0.0)
        virtual.wait(5.0)
        assert virtual.governor.state("a", virtual.now) == {"pause": 495.0, "asked": False}

    def test_a_rule_does_not_replace_a_limit_that_an_earlier_run_had_met(self) -> None:
        """Its upper bound is gone, as it was passed since."""
        virtual = Virtual(UNPACED, ceiling="hold")
        slot = virtual.slot()
        assert isinstance(slot.ceiling, Hold)
        slot.ceiling.recall(Learned(2.0, 2.5))
        slot.ceiling.state.bracket.lift(1.0)
        slot.expect(10.0)
        assert slot.rate == 2.0


class TestPutAside:
    """A limit that hosts share puts what each had learned aside, and may be refuted."""

    @pytest.fixture
    def failing(self) -> tuple[Virtual, Slot]:
        """A host that was never refused fails while a shared limit holds, which then ends."""
        virtual = Virtual(UNPACED, ceiling="hold")
        virtual.fetch(24)
        slot = virtual.slot()
        taught = slot.begin_anew(Hold(math.inf), virtual.now)
        for _ in range(3):
            virtual.wait_out()
            virtual.fail(virtual.send())
        assert slot.phase is Phase.OPEN
        slot.take_up(taught)
        return virtual, slot

    def test_a_pause_from_before_teaches_nothing(self, failing: tuple[Virtual, Slot]) -> None:
        virtual, slot = failing
        rate = slot.ceiling.rate
        virtual.wait_out()
        assert virtual.accept(virtual.send()).event is Event.RECOVERED
        assert slot.ceiling.rate == rate

    def test_a_test_request_that_is_refused_in_it_waits(
        self, failing: tuple[Virtual, Slot]
    ) -> None:
        virtual, slot = failing
        virtual.wait_out()
        assert virtual.refuse(virtual.send()).wait >= 0.25
        assert slot.phase is Phase.OPEN


class TestPausedFromElsewhere:
    """Most slots of its host are refused: this one waits as long, whatever it does just now."""

    @pytest.fixture
    def virtual(self) -> Virtual:
        """Two refused test requests, and a third is out."""
        virtual = Virtual(UNPACED, ceiling="hold")
        virtual.fetch(5)
        virtual.refuse(virtual.send())
        refused(virtual)
        refused(virtual)
        virtual.wait_out()
        return virtual

    def test_an_epoch_that_is_under_way_goes_on(self, virtual: Virtual) -> None:
        """The next wait is longer than the last, not the first again."""
        before = virtual.now
        virtual.slot().pause_for(virtual.now, 60.0)
        virtual.wait_out()
        assert virtual.now == before + 60.0
        assert virtual.refuse(virtual.send()).wait > 5.0

    def test_a_probe_that_is_out_ends_nothing(self, virtual: Virtual) -> None:
        probe = virtual.send()
        virtual.slot().pause_for(virtual.now, 60.0)
        virtual.accept(probe)
        assert virtual.held_until(Reason.PAUSED) == virtual.now + 60.0

    def test_a_wait_that_nobody_asked_for_is_not_parked(self, virtual: Virtual) -> None:
        """More than the user would sit through, but the site has not asked for it."""
        other = virtual.slot("b")
        other.pause_for(virtual.now, 10_000.0)
        virtual.slot().pause_with(other, virtual.now)
        assert virtual.held_until(Reason.PAUSED) == virtual.now + 10_000.0
        asking = virtual.slot("c")
        asking.resume_pause(virtual.now, 20_000.0)
        virtual.slot().pause_with(asking, virtual.now)
        assert virtual.held_until(Reason.PARKED) == virtual.now + 20_000.0


def test_a_header_that_tells_no_quota_ends_none() -> None:
    """A response that was in flight has a policy alone, after another said that all is spent."""
    virtual = Virtual(UNPACED)
    spent, late = virtual.send(), virtual.send()
    virtual.accept(spent, quotas=(Quota(remaining=0, reset=60.0),))
    virtual.accept(late, quotas=(Quota(limit=100, window=60.0), Quota(remaining=5)))
    assert virtual.held_until(Reason.QUOTA) == 60.0


@pytest.mark.parametrize("resets", [(3.0, 3000.0), (3000.0, 3.0)])
def test_of_two_quotas_that_are_spent_the_last_to_be_there_again_counts(
    resets: tuple[float, float],
) -> None:
    virtual = Virtual(UNPACED)
    virtual.accept(virtual.send(), quotas=tuple(Quota(0, reset) for reset in resets))
    assert virtual.held_until(Reason.QUOTA) == 3000.0


def test_pages_alone_in_flight_do_not_outweigh_the_latest() -> None:
    """A thousand at level 1, then 64 at level 2: more than half of the last ones are at 2."""
    virtual = Virtual(Limits(start_delay=0.0, concurrency=2), ceiling="hold")
    virtual.fetch(1000)
    for _ in range(64):
        virtual.wait_out()
        first = virtual.send()
        virtual.wait_out()
        virtual.accept(virtual.send())
        virtual.accept(first)
    ceiling = virtual.slot().ceiling
    assert isinstance(ceiling, Hold)
    assert ceiling.state.cap.share(2) > 0.4


def test_a_pause_that_another_law_began_teaches_the_one_that_is_back_nothing() -> None:
    """As where a test of a shared limit ends while its host is paused."""
    virtual = Virtual(UNPACED, ceiling="hold")
    for _ in range(2):
        virtual.fetch(40)
        virtual.refuse(virtual.send())
        virtual.wait_out()
    virtual.fetch(20)
    slot = virtual.slot()
    learned = slot.learned
    lent = slot.swap(Hold(math.inf))
    virtual.wait(600.0)
    virtual.refuse(virtual.send())
    slot.swap(lent)
    virtual.fetch()
    assert slot.phase is Phase.CLOSED
    assert slot.learned == learned


def test_a_state_that_is_asked_for_ends_the_test_of_no_other_host() -> None:
    shared = SharedLimit(lambda limits: Hold(limits.start_rate))
    slot = Virtual(UNPACED, ceiling="hold").slot("b")
    known = slot.ceiling
    shared.begin_test(slot, 0.0)
    shared.end_test("a")
    assert slot.ceiling is not known
    shared.end_test("b")
    assert slot.ceiling is known
