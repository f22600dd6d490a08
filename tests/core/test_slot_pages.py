"""A broken page is distinguished from a pace that is too high, at the cost of one recheck."""

import pytest

from scrapy_adaptive.core.breaker.breaker import Phase
from scrapy_adaptive.core.slot_config import Limits
from scrapy_adaptive.core.types import Event, Reason, Wanted
from tests.core.virtual import Virtual

PACED = Limits(start_delay=1.0)


@pytest.fixture
def suspecting() -> Virtual:
    """Page "x" was refused alone at 0.2 s, and 2.4 s later page "y" was accepted, at 2.8 s."""
    virtual = Virtual(PACED)
    permit = virtual.send()
    virtual.wait(0.2)
    virtual.refuse(permit, page="x")
    virtual.wait_until(2.6)
    permit = virtual.send()
    virtual.wait(0.2)
    assert virtual.accept(permit, page="y").event is Event.RECOVERED
    return virtual


def rechecked(virtual: Virtual, *, page: str, accepted: bool) -> Event:
    """Send that page as the recheck, and answer at once."""
    virtual.wait_out()
    permit = virtual.send()
    assert permit.recheck
    answer = virtual.accept if accepted else virtual.refuse
    return answer(permit, page=page).event


class TestRechecks:
    """An isolated refusal: after one more wait the page itself is asked for."""

    def test_a_recheck_waits_a_gap_and_a_fifth(self, suspecting: Virtual) -> None:
        """2.4 s at 0.5/s, from the probe's acceptance at 2.8 s."""
        assert suspecting.held_until(Reason.RECHECK) == pytest.approx(5.2)
        assert suspecting.slot().wanted is Wanted.SUSPECTED

    def test_beside_a_recheck_no_other_suspect_goes_out(self, suspecting: Virtual) -> None:
        """Another refusal would hide what the recheck's own means."""
        suspecting.wait_out()
        permit = suspecting.send()
        assert permit.recheck
        assert suspecting.slot().wanted is Wanted.UNSUSPECTED
        suspecting.accept(permit, page="x")
        assert suspecting.slot().wanted is Wanted.ANY

    def test_a_first_wait_that_the_site_asked_for_is_not_repeated(self) -> None:
        """600 s were announced, and sufficed; 2.4 s at 0.5/s are enough before the recheck."""
        virtual = Virtual(PACED)
        virtual.refuse(virtual.send(), page="x", announced=600.0)
        virtual.fetch(page="y")
        assert virtual.held_until(Reason.RECHECK) == pytest.approx(602.4)

    def test_a_recheck_waits_as_long_as_the_probe_that_was_not_the_first(self) -> None:
        """Refused at 0 s and, as a probe, at 2.4 s with 7 s to wait: 7 s again from 9.4 s."""
        virtual = Virtual(PACED)
        virtual.refuse(virtual.send(), page="x")
        virtual.wait_out()
        virtual.refuse(virtual.send(), page="x", announced=7.0)
        virtual.fetch(page="y")
        assert virtual.now == pytest.approx(9.4)
        assert virtual.held_until(Reason.RECHECK) == pytest.approx(16.4)

    def test_after_one_that_came_too_early_the_next_waits_longer(self) -> None:
        """x is refused at its recheck, which counts twice, and served after it: of the five pages
        with the four that each site begins with 1.4 visits each, to the third power."""
        virtual = Virtual(Limits(start_delay=0.5))
        virtual.refuse(virtual.send(), page="x")
        virtual.fetch(page="y")
        virtual.wait_out()
        assert rechecked(virtual, page="x", accepted=False) is Event.EXCUSED
        for page in "yx":
            virtual.fetch(page=page)
        virtual.wait_out()
        virtual.refuse(virtual.send(), page="z")
        virtual.fetch(page="y")
        longer = virtual.now + 1.4**3 * 1.2 * virtual.slot().ceiling.sure_gap
        assert virtual.held_until(Reason.RECHECK) == pytest.approx(longer)

    def test_a_recheck_waits_twelve_seconds_at_most(self) -> None:
        """Refused twice, the second time with 600 s to wait: 12 s from 602.4 s."""
        virtual = Virtual(PACED)
        virtual.refuse(virtual.send(), page="x")
        virtual.wait_out()
        virtual.refuse(virtual.send(), page="x", announced=600.0)
        virtual.fetch(page="y")
        assert virtual.held_until(Reason.RECHECK) == pytest.approx(614.4)

    def test_a_recheck_asks_for_the_sole_page_and_not_for_those_refused_before(self) -> None:
        """v and w were refused together; x alone after them."""
        virtual = Virtual(Limits(start_delay=0.0))
        for page, permit in zip("vw", virtual.send_many(2), strict=True):
            virtual.refuse(permit, page=page)
        assert virtual.slot().is_suspected("v")
        virtual.fetch(page="y")
        virtual.wait_out()
        virtual.refuse(virtual.send(), page="x")
        assert [virtual.slot().is_suspected(page) for page in "vwxy"] == [True, True, True, False]
        virtual.fetch(page="y")
        assert virtual.slot().wanted is Wanted.SUSPECTED
        assert [virtual.slot().is_suspected(page) for page in "vwxy"] == [False, False, True, False]

    def test_a_suspect_refused_at_its_recheck_is_excused_and_the_cut_is_taken_back(
        self, suspecting: Virtual
    ) -> None:
        """It is asked for again: too little was served to tell that it is broken."""
        assert suspecting.slot().delay == 2.0
        assert rechecked(suspecting, page="x", accepted=False) is Event.EXCUSED
        assert suspecting.slot().delay == 1.0

    def test_after_an_excused_page_there_is_a_breath_and_a_probe(self, suspecting: Virtual) -> None:
        """Refused at 5.2 s: paused until 5.45 s, and the pace of 1/s is kept too."""
        rechecked(suspecting, page="x", accepted=False)
        assert suspecting.held_until(Reason.PAUSED) == pytest.approx(5.45)
        suspecting.wait_until(5.45)
        assert suspecting.held_until(Reason.DELAY) == pytest.approx(6.2)
        suspecting.wait_out()
        permit = suspecting.send()
        assert permit.probe
        suspecting.accept(permit, page="z")
        assert suspecting.slot().wanted is Wanted.ANY

    def test_an_excused_page_is_excused_at_once_the_next_time(self, suspecting: Virtual) -> None:
        rechecked(suspecting, page="x", accepted=False)
        suspecting.fetch(page="y")
        suspecting.wait_out()
        decision = suspecting.refuse(suspecting.send(), page="x")
        assert (decision.event, decision.again) == (Event.EXCUSED, True)
        assert decision.delay == 1.0

    def test_a_suspect_is_broken_where_chance_does_not_explain_its_refusals(self) -> None:
        """A recheck counts twice; one page of 11 is refused, five times in a row: 6.2e-6."""
        virtual = Virtual(Limits(start_delay=1.0))
        decision = virtual.refuse_always("x", after=7)
        assert (decision.event, decision.again) == (Event.BROKEN, False)

    def test_a_wait_that_a_broken_page_asks_for_is_kept(self, suspecting: Virtual) -> None:
        suspecting.wait_out()
        assert suspecting.refuse(suspecting.send(), page="x", announced=40.0).wait == 40.0

    def test_a_suspect_accepted_at_its_recheck_was_refused_for_the_pace(
        self, suspecting: Virtual
    ) -> None:
        assert rechecked(suspecting, page="x", accepted=True) is Event.ACCEPTED
        assert suspecting.slot().delay == pytest.approx(1 / 0.5025)
        assert suspecting.slot().wanted is Wanted.ANY

    def test_another_page_refused_at_the_recheck_is_congestion(self, suspecting: Virtual) -> None:
        assert rechecked(suspecting, page="z", accepted=False) is Event.TRIPPED

    def test_pages_refused_together_are_not_rechecked(self) -> None:
        virtual = Virtual(Limits(start_delay=0.0))
        for page, permit in zip("xy", virtual.send_many(2), strict=True):
            virtual.refuse(permit, page=page)
        virtual.fetch(page="z")
        assert virtual.why_held() is Reason.DELAY

    def test_a_queue_keeps_the_page_until_its_recheck(self, suspecting: Virtual) -> None:
        """No other leaves before it."""
        blocked = suspecting.governor.reserve("a", suspecting.now)
        assert blocked is not None
        assert blocked.reason is Reason.RECHECK
        suspecting.wait_until(blocked.until)
        assert suspecting.governor.reserve("a", suspecting.now) is None


class TestOnlyRefusedPagesLeft:
    """A host with nothing else queued: the third refused probe in a row is a broken page."""

    def test_the_third_refused_probe_of_refused_pages_is_broken(self) -> None:
        """Paused for 2.4, 4.8 and 16 s in all; then the page goes, and its cut is taken back."""
        virtual = Virtual(PACED)
        virtual.refuse(virtual.send(), page="x")
        events, sent_at = [], []
        for _ in range(3):
            virtual.wait_out()
            sent_at.append(virtual.now)
            events.append(virtual.refuse(virtual.send(), page="x").event)
        assert events == [Event.PROBE_REFUSED, Event.PROBE_REFUSED, Event.BROKEN]
        assert sent_at == [pytest.approx(2.4), pytest.approx(4.8), pytest.approx(16.0)]
        assert virtual.slot().delay == 1.0
        assert virtual.slot().phase is Phase.OPEN

    def test_at_a_host_that_has_served_one_it_comes_after_a_minute_and_the_others_at_once(
        self,
    ) -> None:
        """5 a minute may be all that it allows."""
        virtual = Virtual(PACED)
        virtual.fetch(page="a")
        virtual.wait_out()
        refused_at = virtual.now
        broken_at: dict[str, float] = {}
        virtual.refuse(virtual.send(), page="x")
        while len(broken_at) < 2:
            for page in [page for page in "xy" if page not in broken_at]:
                virtual.wait_out()
                if virtual.refuse(virtual.send(), page=page).event is Event.BROKEN:
                    broken_at[page] = virtual.now - refused_at
        assert 60.0 < min(broken_at.values()) < max(broken_at.values()) < 70.0

    @pytest.mark.parametrize("count", [6, 8, 14])
    @pytest.mark.parametrize("ceiling", ["hold", "aimd"])
    def test_the_last_pages_of_a_host_that_allows_five_a_minute_are_not_lost(
        self, count: int, ceiling: str
    ) -> None:
        """A window that begins with the first hit, and says nothing."""
        virtual, began, served = Virtual(PACED, ceiling=ceiling), -60.0, 0
        waiting = [f"page {n}" for n in range(count)]
        refused: set[str] = set()
        while waiting:
            virtual.wait_out()
            sole = virtual.slot().suspected.sole
            wanted = virtual.slot().wanted
            pages = [page for page in waiting if (page in refused) is (wanted is Wanted.SUSPECTED)]
            if wanted is Wanted.SUSPECTED and sole in waiting:
                pages = [str(sole)]
            page = (pages or waiting)[0]
            waiting.remove(page)
            permit = virtual.send()
            if virtual.now >= began + 60.0:
                began, served = virtual.now, 0
            if served < 5:
                served += 1
                virtual.accept(permit, page=page)
            else:
                refused.add(page)
                assert virtual.refuse(permit, page=page).event is not Event.BROKEN
                waiting.append(page)

    def test_a_refused_probe_of_a_fresh_page_starts_the_count_anew(self) -> None:
        virtual = Virtual(PACED)
        virtual.refuse(virtual.send(), page="x")
        for page in "xxy":
            virtual.wait_out()
            assert virtual.refuse(virtual.send(), page=page).event is Event.PROBE_REFUSED

    def test_pages_refused_together_go_one_after_the_other(self) -> None:
        """x and y were refused together, so neither clears the pace of blame."""
        virtual = Virtual(Limits(start_delay=0.0))
        for page, permit in zip("xy", virtual.send_many(2), strict=True):
            virtual.refuse(permit, page=page)
        delay, events = virtual.slot().delay, []
        for page in "xyxy":
            virtual.wait_out()
            events.append(virtual.refuse(virtual.send(), page=page).event)
        assert events == [Event.PROBE_REFUSED, Event.PROBE_REFUSED, Event.BROKEN, Event.BROKEN]
        assert virtual.slot().delay == delay
