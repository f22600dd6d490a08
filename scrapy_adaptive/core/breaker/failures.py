"""What failures say of a host: nothing, congestion, or that it is dead.

Laws
----
* A lone failure says nothing; half of the last ten answers, or three in a row, are congestion.
* A host that never served and does not answer is dead: there is nobody to be polite to.
* A host that fails `TESTS` tests in a row is gone: no pause waits for it any more. If it does not
  even answer, it is dead.
* Whatever it serves ends that.
* A host that is asked no faster than it had served fails less, if the failures are its own. If it
  does not, they are its pages'. What slowed it down is taken back, and only failures without an end
  are congestion; these show that the verdict was wrong, and the next takes twice the evidence. What
  a refusal has taught meanwhile is not taken back.

**Source**: A. Wald, Sequential Tests of Statistical Hypotheses, 1945.
"""

from __future__ import annotations

import math
from typing import Annotated

from scrapy_adaptive.core.state.fields import Range, Seconds

FAILURES = 5
"""Failures among the last `HISTORY` answers that are congestion."""

FAILURES_IN_A_ROW = 3
"""Failures with no acceptance between that are congestion."""

HISTORY = 10
"""Answers looked back at."""

LATELY = 4
"""Requests over which the gap between them is averaged."""

TESTS = 4
"""Test requests in a row that fail before the host is gone: .25, .75, 1.75 and 2.75 s after it
failed. A server that is started anew is often back by then; a dead one holds no crawl up for
longer."""

NEAR = 1.02
"""How much more than that a ceiling may allow meanwhile, as a multiple."""

FEWER = 8.0
"""How many times fewer a host in trouble fails, at least, at a pace that it had served."""

MOST_RATIO = 0.9
"""Share of failures, at most, that a host is taken to have had when it was slowed down."""

SURE = 6.5
"""Log likelihood ratio from which its failures are its pages': three failures in a row, which are
congestion, do not reach it."""

MOST_WRONG = 2
"""Verdicts that were wrong, at most, of which each doubles that, until ten pages in a row were
served."""

MOST_EVIDENCE = SURE * 2.0**MOST_WRONG
"""As much as is ever asked for: more is not kept."""

_ALL = 2**HISTORY - 1
_IN_A_ROW = 2**FAILURES_IN_A_ROW - 1


class Failures:
    """The latest answers of one slot: failed or not.

    Args:
        is_serving: whether it ever served a request.
    """

    __slots__ = (
        "_evidence",
        "_failed_tests",
        "_gap",
        "_gap_before",
        "_is_silent",
        "_ratio",
        "_recent",
        "_wrong",
        "is_gone",
        "is_in_vain",
        "is_serving",
        "is_slowed",
    )

    is_serving: bool
    is_gone: bool
    _recent: int
    _is_silent: bool
    _failed_tests: int
    is_slowed: bool
    is_in_vain: bool
    _gap: Seconds
    _gap_before: Seconds
    _ratio: Annotated[float, Range(0.0, MOST_RATIO)]
    _evidence: Annotated[float, Range(-SURE, MOST_EVIDENCE)]
    _wrong: Annotated[int, Range(0, MOST_WRONG)]

    def __init__(self, *, is_serving: bool = False) -> None:
        self.is_serving = is_serving
        self.is_gone = False
        """Whether it failed every test of a pause, and has served nothing since."""
        self._recent = 0
        """The latest answers, one bit each, the last of them lowest: whether it failed."""
        self._is_silent = False
        """Whether nothing came back for the last request."""
        self._failed_tests = 0
        self.is_slowed = False
        """Whether it was slowed down for its failures, and that is not taken back."""
        self.is_in_vain = False
        """Whether it was, in vain."""
        self._gap = 0.0
        """Mean seconds between its latest requests, since one failed."""
        self._gap_before = 0.0
        """The same when it was slowed down."""
        self._ratio = 0.0
        """Share of its latest answers that were failures then; half at least, as they were many."""
        self._evidence = 0.0
        """Log likelihood ratio that it fails as much since then, whatever its pace."""
        self._wrong = 0
        """Verdicts by that which were wrong."""

    @property
    def is_dead(self) -> bool:
        """Whether it does not answer and cannot be hurt: no pace but the user's own is needed."""
        return self._is_silent and (self.is_gone or not self.is_serving)

    def are_congestion(self, rate: float) -> bool:
        """Whether so many failed, by now at this rate, that a host that was serving is in
        trouble."""
        return self.is_serving and (
            self._recent == _ALL or (not self.is_in_vain and self._are_many(rate))
        )

    def _are_many(self, rate: float) -> bool:
        if self._recent & _IN_A_ROW == _IN_A_ROW:
            return True
        return self._recent.bit_count() >= FAILURES and not self.is_slow(rate)

    def is_slow(self, rate: float) -> bool:
        """Whether it was slowed down to a rate that it had served: failures would be fewer, were
        they the host's."""
        return self.is_slowed and rate <= NEAR * self.served_rate

    def is_tested(self, rate: float) -> bool:
        """Whether it is so slow, and seems to fail as much as before: this pace is kept, to be
        sure."""
        return self.is_slow(rate) and self._evidence > 0.0

    @property
    def served_rate(self) -> float:
        """The rate that it had served when it was slowed down for failures, 1/s; 0 else."""
        if not (self.is_slowed and self._gap_before):
            return 0.0
        return (1.0 - self._ratio) / self._gap_before

    def on_slowed(self, rate: float) -> None:
        """They were taken for congestion, at this rate."""
        if self.is_in_vain:
            self._wrong = min(self._wrong + 1, MOST_WRONG)
        if not self.is_tested(rate):
            ratio = self._recent.bit_count() / HISTORY
            self._ratio, self._gap_before = min(max(0.5, ratio), MOST_RATIO), self._gap
            self._evidence = 0.0
        self.is_slowed, self.is_in_vain = True, False

    def are_in_vain(self) -> bool:
        """Whether it was slowed down in vain; it says so once."""
        if not self.is_slowed or self._evidence < SURE * 2.0**self._wrong:
            return False
        self.is_slowed, self.is_in_vain = False, True
        return True

    def on_taught(self) -> None:
        """Refusals have taught something: it is not taken back with what failures have."""
        self.is_slowed = False

    def on_accepted(self, gap: float) -> None:
        """The site served a request, which left so many seconds after the one before."""
        if self._recent or self.is_slowed or self.is_in_vain:
            self._weigh(gap, failed=False)
            self._remember(failed=False)
            if not self._recent:
                self.is_slowed = self.is_in_vain = False
                self._gap, self._wrong = 0.0, 0
        self.is_serving = True
        self.on_answered()

    def on_answered(self) -> None:
        """The site refused a request, or served it: it is there."""
        self.is_gone = self._is_silent = False
        self._failed_tests = 0

    def on_failed(self, gap: float, *, silent: bool, counts: bool) -> None:
        """The site broke.

        Args:
            gap: seconds from the request before to the one that failed.
            silent: nothing came back.
            counts: it is not known to be the fault of the page.
        """
        self._is_silent = silent
        self._weigh(gap, failed=True)  # a page that fails again counts: it does so at any pace
        if counts:
            self._remember(failed=True)

    def _weigh(self, gap: float, *, failed: bool) -> None:
        """What one more answer says of whether fewer fail at a slower pace."""
        self._gap += (gap - self._gap) / LATELY if self._gap else gap
        if not (self.is_slowed and self._gap_before):
            return
        before = self._ratio
        served = (1.0 - before) * gap / self._gap_before
        expected = min(before, max(before / FEWER, 1.0 - served))
        ratio = before / expected if failed else (1.0 - before) / (1.0 - expected)
        self._evidence = min(max(-SURE, self._evidence + math.log(ratio)), MOST_EVIDENCE)

    def _remember(self, *, failed: bool) -> None:
        self._recent = (self._recent << 1 | failed) & _ALL

    def on_test_failed(self) -> bool:
        """A test request of a pause failed; returns whether the host is gone."""
        self._failed_tests += 1
        if self._failed_tests >= TESTS:
            self.is_gone = True
            self._failed_tests = 0
        return self.is_gone

    def forgive(self) -> None:
        """The failures of late were the crawler's own line's."""
        self._recent = 0
        self.on_answered()


UNTRIED = Failures()
"""What a slot has of which nothing is known; it is shared, and nothing changes it."""

UNHURT = Failures(is_serving=True)
"""What a slot has that was served, and nothing else; it is shared, and nothing changes it."""
