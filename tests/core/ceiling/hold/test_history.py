"""What a site has served, and when."""

from __future__ import annotations

import math
from copy import copy

import pytest

from scrapy_adaptive.core.ceiling.hold.epoch import Epoch, Pain
from scrapy_adaptive.core.ceiling.hold.history import LATEST, MARKS, Ledger
from scrapy_adaptive.core.ceiling.hold.runs import Run
from scrapy_adaptive.core.ceiling.hold.state import Belief
from scrapy_adaptive.core.types import Recovery


def epoch(*, told: bool = False, rate: float = 10.0) -> Epoch:
    """Of 40 requests in 4 s at 10/s; the probe was accepted after 0.5 s."""
    pain = Pain(4.0, rate, 1, 40, 4.0, refusals=1)
    recovery = Recovery(0, 0.5, told)
    return pain.close(4.5, recovery, served=40, spacing=40, rate=5.0, held=0.0, rested=0.0)


@pytest.fixture
def ledger() -> Ledger:
    """Of a site that served 41 requests, the probe too, and refused once."""
    ledger = Ledger(served=20)
    ledger.mark(2.0, 2.0)
    ledger.served = 41
    ledger.close(epoch())
    return ledger


class TestMarks:
    def test_few_are_kept(self) -> None:
        ledger = Ledger()
        for number in range(10 * MARKS):
            ledger.served = number
            ledger.mark(0.0, 1.0)
        assert len(ledger.marks) == MARKS
        assert ledger.marks[-1].pages == number

    def test_a_run_begins_at_each_and_ends_with_the_refusal(self, ledger: Ledger) -> None:
        """The probe is not of it, nor is the silence."""
        assert ledger.runs(epoch()) == (Run(40, 4.0), Run(20, 2.0))

    def test_what_was_served_since_is_a_pace(self, ledger: Ledger) -> None:
        """21 requests since two seconds."""
        assert ledger.pace(5.0) == (7.0, 3.0)

    def test_at_once_that_is_none(self, ledger: Ledger) -> None:
        assert ledger.pace(2.0) == (0.0, 0.0)

    def test_before_the_first_it_is_none(self) -> None:
        assert Ledger(served=7).pace(5.0)[0] == 0.0


class TestLateness:
    @pytest.mark.parametrize(
        ("seconds", "lateness"), [(9.0, 1.0), (10.5, 1.05), (10.0 * LATEST + 0.1, 0.0)]
    )
    def test_it_is_the_stages_time_by_its_rate(self, seconds: float, lateness: float) -> None:
        """A hundred requests at 10/s."""
        ledger = Ledger()
        ledger.time(100, seconds, 10.0)
        assert ledger.lateness == lateness


class TestSavings:
    def test_before_the_first_refusal_they_are_unknown(self) -> None:
        assert Ledger().stock == math.inf

    def test_the_first_refusal_says_what_they_are_at_most(self, ledger: Ledger) -> None:
        """What was served before it, and two for the ends of a run."""
        ledger.blame(epoch(), is_first=True)
        assert ledger.stock == 40 + 2

    def test_a_later_one_leaves_that_as_it_was(self, ledger: Ledger) -> None:
        ledger.blame(epoch(), is_first=True)
        ledger.served = 400
        ledger.blame(epoch(), is_first=False)
        assert ledger.stock == 40 + 2

    def test_a_refusal_says_when_there_were_none(self, ledger: Ledger) -> None:
        """By the time of the refusal, half a second before the recovery; marks begin anew."""
        ledger.blame(epoch(), is_first=True)
        assert ledger.emptied == Run(40, 4.0)
        assert ledger.marks == (Run(41, 4.5),)

    def test_where_the_rate_was_not_to_blame_nothing_is_known(self, ledger: Ledger) -> None:
        ledger.blame(epoch(), is_first=True)
        ledger.acquit()
        assert ledger.stock == math.inf
        assert ledger.since_emptied(epoch(), 60.0) is None

    def test_a_silence_that_the_site_asked_for_is_no_time_to_save_up(self) -> None:
        ledger = Ledger()
        ledger.close(epoch())
        assert (ledger.rested, ledger.busy) == (0.5, 4.5)
        ledger.close(epoch(told=True))
        assert (ledger.rested, ledger.busy) == (0.0, 9.0)


class TestSinceEmptied:
    def test_it_counts_from_refusal_to_refusal(self, ledger: Ledger) -> None:
        """30 requests; half a second of silence, and 4 s."""
        ledger.blame(epoch(), is_first=True)
        ledger.served += 30
        ledger.close(epoch())
        assert ledger.since_emptied(epoch(), 1.0) == Run(30, 4.5)

    def test_a_window_may_have_turned_meanwhile(self, ledger: Ledger) -> None:
        """It serves 21 of the 42 at least, in three seconds."""
        ledger.blame(epoch(), is_first=True)
        ledger.served += 30
        ledger.close(epoch())
        assert ledger.since_emptied(epoch(), 3.0) is None

    def test_marks_since_have_to_be_known(self, ledger: Ledger) -> None:
        ledger.blame(epoch(), is_first=True)
        for _ in range(MARKS):
            ledger.served += 1
            ledger.mark(5.0, 0.0)
        ledger.served -= MARKS - 10
        assert ledger.since_emptied(epoch(), 1.0) is None


class TestWindows:
    @pytest.mark.parametrize(("served", "is_refuted"), [(124, False), (127, True)])
    def test_one_serves_its_count_twice_and_once_for_each_that_turned(
        self, ledger: Ledger, served: int, *, is_refuted: bool
    ) -> None:
        """Counts of 42 at most, each ten seconds: three of them in as long."""
        ledger.blame(epoch(), is_first=True)
        assert ledger.refutes_window(10.0, served, 10.0) == is_refuted

    @pytest.mark.parametrize(("quiet", "may"), [(0.0, False), (8.0, True), (8.1, False)])
    def test_one_has_turned_in_half_its_time_as_likely_as_not(
        self, ledger: Ledger, quiet: float, *, may: bool
    ) -> None:
        """4 s to the first refusal, which has to be known."""
        assert not ledger.may_have_turned(quiet)
        ledger.blame(epoch(), is_first=True)
        assert ledger.may_have_turned(quiet) == may

    def test_none_is_refuted_where_none_is_known(self, ledger: Ledger) -> None:
        ledger.blame(epoch(), is_first=True)
        assert not ledger.refutes_window(0.0, 10**6, 1.0)


def test_a_copy_of_a_belief_has_a_ledger_of_its_own() -> None:
    """A pardon takes back what was served, too."""
    belief = Belief(1.0)
    kept = copy(belief)
    belief.ledger.served = 5
    belief.ledger.mark(1.0, 1.0)
    assert kept.ledger == Ledger()
