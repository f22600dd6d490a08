"""What failures say of a host: nothing, congestion, or that it is dead.

Laws
----
* What a host usually fails at slower paces is what its pages fail by themselves. More than that
  are congestion: three in a row where a host had hardly failed, more where it often does.
* A host that never served and does not answer is dead: there is nobody to be polite to.
* A host that fails `TESTS` tests in a row is gone: no pause waits for it any more. If it does not
  even answer, it is dead; else it may be kept down by what it is asked, and is met by a pace that
  doubles as it fails on.
* Whatever it serves ends that.
* A host that is slowed down to what it had served fails less, if the failures are its own. If it
  fails about as much, and no more than at paces slower still, they are its pages'. What slowed it
  down is taken back then, but not what a refusal has taught meanwhile.

**Source**: A. Wald, Sequential Tests of Statistical Hypotheses, 1945; E. S. Page, Continuous
Inspection Schemes, 1954.
"""

from __future__ import annotations

import math
from typing import Annotated

from scrapy_adaptive.core.state.fields import Mark, Range, Seconds

from .tallies import Tally, begun, doublings, is_fewer, usual

HISTORY = 10
"""Answers looked back at."""

LATELY = 4
"""Requests over which the gap between them is averaged."""

TESTS = 4
"""Test requests in a row that fail before the host is gone: .25, .75, 1.75 and 2.75 s after it
failed. A server that is started anew is often back by then; a dead one holds no crawl up for
longer."""

EXCUSED = 0.4
"""Share of failures, at most, that is taken for its pages' before a slower pace was tried."""

LESS = 0.7
"""How much of what it usually serves a host in trouble serves, at most."""

FEWER = 8.0
"""How many times fewer it fails, at least, at a pace that it had served."""

MOST_RATIO = 0.9
"""Share of failures, at most, that a host or its pages are taken to have."""

GENTLE = 1.0
"""Requests a second, at least, that a host is asked for which is gone and answers."""

SURE = 6.5
"""Log likelihood ratio from which its failures are its pages', or below whose negative they are its
own: 665 to one."""

_ALL = 2**HISTORY - 1


class Failures:
    """The latest answers of one slot: failed or not.

    Args:
        is_serving: whether it ever served a request.
    """

    __slots__ = (
        "_count",
        "_evidence",
        "_excess",
        "_failed_count",
        "_failed_tests",
        "_gap",
        "_gap_before",
        "_is_silent",
        "_ratio",
        "_recent",
        "_tallies",
        "is_gone",
        "is_known",
        "is_serving",
        "is_slowed",
    )

    is_serving: bool
    is_gone: bool
    _recent: int
    _is_silent: bool
    _failed_tests: Annotated[int, Range(0, 1000)]
    is_slowed: bool
    is_known: bool
    _gap: Seconds
    _gap_before: Seconds
    _ratio: Annotated[float, Range(1e-9, MOST_RATIO)]
    _evidence: Annotated[float, Range(-SURE, 2.0 * SURE)]
    _excess: Annotated[float, Range(0.0, SURE)]
    _count: Annotated[int, Range(0)]
    _failed_count: Annotated[int, Range(0)]
    _tallies: Annotated[dict[int, Tally], Mark.SPARE]

    def __init__(self, *, is_serving: bool = False) -> None:
        self.is_serving = is_serving
        self.is_gone = False
        """Whether it failed every test of a pause, and has served nothing since."""
        self._recent = 0
        """The latest answers, one bit each, the last of them lowest: whether it failed."""
        self._is_silent = False
        """Whether nothing came back for the last request."""
        self._failed_tests = 0
        """In a row; once it is gone, what it has answered with an error since, too."""
        self.is_slowed = False
        """Whether it was slowed down for its failures, and that is not taken back."""
        self.is_known = False
        """Whether it was, and it has shown what it fails by itself while it was slow."""
        self._gap = 0.0
        """Mean seconds between its latest requests."""
        self._gap_before = 0.0
        """The same when it was slowed down; once that is known, while it was slow."""
        self._ratio = 0.5
        """Share of the answers that were failures then."""
        self._evidence = 0.0
        """Log likelihood ratio that it fails as much since it was slowed down, whatever its
        pace."""
        self._excess = 0.0
        """Log likelihood ratio that it fails more than usual by now: a CUSUM."""
        self._count = 0
        """Answers since it was slowed down."""
        self._failed_count = 0
        """Failures since it was slowed down."""
        self._tallies: dict[int, Tally] = {}
        """What was served and what failed, by the doublings of the gap."""

    @property
    def is_dead(self) -> bool:
        """Whether it does not answer and cannot be hurt: no pace but the user's own is needed."""
        return self._is_silent and (self.is_gone or not self.is_serving)

    @property
    def are_more(self) -> bool:
        """Whether more fail than usual by now, at slower paces."""
        return self._excess >= SURE

    @property
    def are_congestion(self) -> bool:
        """Whether so many failed that a host that was serving is in trouble."""
        return self.is_serving and self.are_more

    @property
    def served_rate(self) -> float:
        """The rate that it had served when it was slowed down for failures, 1/s; 0 else."""
        if not (self.is_slowed and self._gap_before):
            return 0.0
        return (1.0 - self._ratio) / self._gap_before

    def on_slowed(self) -> None:
        """They were taken for congestion."""
        if self.is_known:  # what it served while it was slow is what it can
            self._compare(self._ratio, self._gap_before)
        else:
            self._compare(max(0.5, self._recent.bit_count() / HISTORY), self._gap)
        self.is_slowed, self.is_known = True, False

    def are_in_vain(self) -> bool:
        """Whether it was slowed down in vain; it says so once."""
        if not self.is_slowed or self._evidence - self._excess < SURE:
            return False
        is_helped = is_fewer(self._tallies, doublings(self._gap))
        self._know()
        return not is_helped

    def _know(self) -> None:
        """What has failed while it was slow is what its pages fail by themselves."""
        self._compare(self._share, self._gap)
        self.is_slowed, self.is_known = False, True

    @property
    def _share(self) -> float:
        """What has failed since it was slowed down, as a share; even chances before any has."""
        return min((self._failed_count + 1.0) / (self._count + 2.0), MOST_RATIO)

    def _compare(self, ratio: float, gap: float) -> None:
        """What comes is compared with that share of failures, at that pace."""
        self._ratio, self._gap_before = min(ratio, MOST_RATIO), gap
        self._evidence = self._excess = 0.0
        self._count = self._failed_count = 0

    def on_taught(self) -> None:
        """Refusals have taught something: it is not taken back with what failures have."""
        self.is_slowed = False

    def on_accepted(self, gap: float | None, *, is_test: bool) -> None:
        """The site served a request, which left so many seconds after the one before; None if it
        left before the present pace was set."""
        if self._tallies or self.is_slowed:  # it has failed
            self._weigh(gap, failed=False, is_test=is_test)
            self._remember(failed=False)
            is_over = not self._recent and self._count >= HISTORY and self._evidence <= 0.0
            if self.is_slowed and is_over:
                self._know()
        self.is_serving = True
        self.on_answered()

    def on_answered(self) -> None:
        """The site refused a request, or served it: it is there."""
        self.is_gone = self._is_silent = False
        self._failed_tests = 0

    def on_failed(
        self, gap: float | None, *, silent: bool, counts: bool, is_test: bool, served: int
    ) -> None:
        """The site broke.

        Args:
            gap: seconds from the request before to the one that failed; None if that left before
                the present pace was set.
            silent: nothing came back.
            counts: it is not known to be the fault of the page. One that fails again does so at any
                pace: it is weighed all the same.
            is_test: it was the test request of a pause.
            served: requests that the slot was ever served.
        """
        self._is_silent = silent
        if gap is not None and not self._tallies:
            self._tallies = begun(served, doublings(gap))
        self._weigh(gap, failed=True, is_test=is_test)
        if counts:
            self._remember(failed=True)

    def _weigh(self, gap: float | None, *, failed: bool, is_test: bool) -> None:
        """What one more answer says of whether fewer fail at a slower pace, and more at a faster
        one."""
        if gap is None:
            return
        self._gap += (gap - self._gap) / (LATELY if self._gap else 1)
        if not (is_test or self.is_gone):  # these say nothing of pages
            self._count_at(doublings(self._gap), failed=failed)
        if self.is_slowed:
            self._compare_with_before(gap, failed=failed)

    def _count_at(self, pace: int, *, failed: bool) -> None:
        """Is that more than usual? And is it usual from here?"""
        if failed:
            is_tried = self.is_slowed or self.is_known
            most = max(EXCUSED, self._ratio) if is_tried else EXCUSED
            pages = min(usual(self._tallies, pace), most)
            self._excess += math.log((1.0 - LESS * (1.0 - pages)) / pages)
        else:
            self._excess += math.log(LESS)
        self._excess = min(max(0.0, self._excess), SURE)
        known = self._tallies.get(pace, Tally()).after(failed=failed)
        self._tallies = {**self._tallies, pace: known}  # a new one, as it may be shared

    def _compare_with_before(self, gap: float, *, failed: bool) -> None:
        """Does it fail as much as before it was slowed down, or less?"""
        pages = self._share
        self._count += 1
        self._failed_count += failed
        if not self._gap_before:
            return
        served = (1.0 - self._ratio) * gap / self._gap_before
        own = max(self._ratio / FEWER, min(1.0 - served, self._ratio))
        ratio = pages / own if failed else (1.0 - pages) / (1.0 - own)
        self._evidence = min(max(-SURE, self._evidence + math.log(ratio)), 2.0 * SURE)

    def _remember(self, *, failed: bool) -> None:
        self._recent = (self._recent << 1 | failed) & _ALL

    def on_test_failed(self) -> bool:
        """A test request of a pause failed; returns whether the host is gone."""
        self._failed_tests += 1
        if self._failed_tests >= TESTS:
            self.is_gone = True
            if not self.is_slowed:
                self._gap_before = 0.0
            self.is_slowed = self.is_known = False
        return self.is_gone

    def on_gone_failed(self) -> float | None:
        """It is gone, and failed once more; returns the pace from here, 1/s: what it had served,
        and twice as much each `TESTS` errors; infinite once, when that is its pace before; None
        where it stays."""
        if not self._gap_before:
            return None
        tests, more = divmod(self._failed_tests, TESTS)
        self._failed_tests += not self._is_silent
        if more:
            return None
        served = max(GENTLE * self._gap_before, 1.0 - self._ratio)  # of the pace before
        share = served * 2.0 ** (tests - 1)
        if share < 1.0:
            return share / self._gap_before
        self._gap_before = 0.0
        return math.inf

    def forgive(self) -> None:
        """The failures of late were the crawler's own line's."""
        self._recent = 0
        self._excess = 0.0
        self._tallies = {}
        self.is_slowed = self.is_known = False
        self.on_answered()


UNTRIED = Failures()
"""What a slot has of which nothing is known; it is shared, and nothing changes it."""

UNHURT = Failures(is_serving=True)
"""What a slot has that was served, and nothing else; it is shared, and nothing changes it."""
