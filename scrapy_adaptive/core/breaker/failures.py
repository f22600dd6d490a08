"""What failures say of a host: nothing, congestion, or that it is dead.

Laws
----
* A lone failure says nothing; half of the last ten answers, or three in a row, are congestion.
* A host that never served and does not answer is dead: there is nobody to be polite to.
* A host that fails `TESTS` tests in a row is gone: no pause waits for it any more. If it does not
  even answer, it is dead.
* Whatever it serves ends that.
* A host that is slowed down to what it had served fails less, if the failures are its own. If it
  fails about as much, they are its pages'. What slowed it down is taken back then, but not what a
  refusal has taught meanwhile.
* What has failed while it was slow is what its pages fail by themselves. From then on failures are
  congestion if there are more of them at a faster pace, or no end of them; until it has served
  more pages in a row than such a share lets it by chance.

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
"""How many times fewer a host in trouble fails, at least, at a pace that it had served; and serves,
at most, at any pace that is faster."""

MOST_RATIO = 0.9
"""Share of failures, at most, that a host is taken to have had when it was slowed down."""

SURE = 6.5
"""Log likelihood ratio from which its failures are its pages', or below whose negative they are its
own: 665 to one."""

CHANCE = 1e-4
"""Chance of as many pages served in a row, below which what its pages fail by themselves is taken
for less by now."""

_ALL = 2**HISTORY - 1
_IN_A_ROW = 2**FAILURES_IN_A_ROW - 1


class Failures:
    """The latest answers of one slot: failed or not.

    Args:
        is_serving: whether it ever served a request.
    """

    __slots__ = (
        "_count",
        "_evidence",
        "_failed_count",
        "_failed_tests",
        "_gap",
        "_gap_before",
        "_is_silent",
        "_ratio",
        "_recent",
        "is_gone",
        "is_known",
        "is_serving",
        "is_slowed",
    )

    is_serving: bool
    is_gone: bool
    _recent: int
    _is_silent: bool
    _failed_tests: int
    is_slowed: bool
    is_known: bool
    _gap: Seconds
    _gap_before: Seconds
    _ratio: Annotated[float, Range(1e-9, MOST_RATIO)]
    _evidence: Annotated[float, Range(-SURE, SURE)]
    _count: Annotated[int, Range(0)]
    _failed_count: Annotated[int, Range(0)]

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
        self.is_known = False
        """Whether it was, and what its pages fail by themselves is known."""
        self._gap = 0.0
        """Mean seconds between its latest requests, since one failed."""
        self._gap_before = 0.0
        """The same when it was slowed down; once that is known, while it was slow."""
        self._ratio = 0.5
        """Share of the answers that were failures then."""
        self._evidence = 0.0
        """Log likelihood ratio that it fails as much since then, whatever its pace."""
        self._count = 0
        """Answers since it was slowed down; once that is known, pages served in a row."""
        self._failed_count = 0
        """Failures since it was slowed down."""

    @property
    def is_dead(self) -> bool:
        """Whether it does not answer and cannot be hurt: no pace but the user's own is needed."""
        return self._is_silent and (self.is_gone or not self.is_serving)

    def are_congestion(self, rate: float) -> bool:
        """Whether so many failed, by now at this rate, that a host that was serving is in
        trouble."""
        if not self.is_serving:
            return False
        are_many = self.are_its_own if self.is_known else self._are_many(rate)
        return are_many or self._recent == _ALL

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
    def are_its_own(self) -> bool:
        """Whether there are more of them at a faster pace than its pages' own."""
        return self.is_known and self._evidence <= -SURE

    @property
    def served_rate(self) -> float:
        """The rate that it had served when it was slowed down for failures, 1/s; 0 else."""
        if not (self.is_slowed and self._gap_before):
            return 0.0
        return (1.0 - self._ratio) / self._gap_before

    def on_slowed(self, rate: float) -> None:
        """They were taken for congestion, at this rate."""
        if self.are_its_own:  # what it served while it was slow is what it can
            self._compare(self._ratio, self._gap_before)
        elif not self.is_tested(rate):
            ratio = self._recent.bit_count() / HISTORY
            self._compare(max(0.5, ratio), self._gap)
        self.is_slowed, self.is_known = True, False

    def are_in_vain(self) -> bool:
        """Whether it was slowed down in vain; it says so once."""
        if not self.is_slowed or self._evidence < SURE:
            return False
        self._know()
        return True

    def _know(self) -> None:
        """What has failed while it was slow is what its pages fail by themselves."""
        self._compare(self._share, self._gap)
        self.is_slowed, self.is_known = False, True

    @property
    def _share(self) -> float:
        """What has failed since it was slowed down, as a share; even chances before any has."""
        return (self._failed_count + 1.0) / (self._count + 2.0)

    def _compare(self, ratio: float, gap: float) -> None:
        """What comes is compared with that share of failures, at that pace."""
        self._ratio, self._gap_before = min(ratio, MOST_RATIO), gap
        self._evidence, self._count, self._failed_count = 0.0, 0, 0

    def on_taught(self) -> None:
        """Refusals have taught something: it is not taken back with what failures have."""
        self.is_slowed = False

    def on_accepted(self, gap: float | None) -> None:
        """The site served a request, which left so many seconds after the one before; None if it
        left before the present pace was set."""
        if self._recent or self.is_slowed or self.is_known:
            self._weigh(gap, failed=False)
            self._remember(failed=False)
            self._look_whether_it_is_over()
        self.is_serving = True
        self.on_answered()

    def on_answered(self) -> None:
        """The site refused a request, or served it: it is there."""
        self.is_gone = self._is_silent = False
        self._failed_tests = 0

    def on_failed(self, gap: float | None, *, silent: bool, counts: bool) -> None:
        """The site broke.

        Args:
            gap: seconds from the request before to the one that failed; None if that left before
                the present pace was set.
            silent: nothing came back.
            counts: it is not known to be the fault of the page.
        """
        self._is_silent = silent
        self._weigh(gap, failed=True)  # a page that fails again counts: it does so at any pace
        if counts:
            self._remember(failed=True)

    def _look_whether_it_is_over(self) -> None:
        """It served a page: was that the end of its failures, or are they fewer by now?"""
        if self.is_known:
            self.is_known = (1.0 - self._ratio) ** self._count > CHANCE
        elif self.is_slowed and not self._recent and self._count >= HISTORY:
            if self._evidence > 0.0:
                self._evidence = SURE  # one more failure decides
            else:
                self._know()

    def _weigh(self, gap: float | None, *, failed: bool) -> None:
        """What one more answer says of whether fewer fail at a slower pace, and more at a faster
        one."""
        if gap is None:
            return
        is_first = not (self._gap and (self._recent or self.is_slowed or self.is_known))
        self._gap += gap - self._gap if is_first else (gap - self._gap) / LATELY
        if not (self.is_slowed or self.is_known):
            return
        pages = self._ratio
        if self.is_slowed:
            pages = min(self._share, MOST_RATIO)
        self._count = 0 if failed and self.is_known else self._count + 1
        self._failed_count += failed and self.is_slowed
        if not self._gap_before:
            return
        served = (1.0 - self._ratio) * gap / self._gap_before
        if self.is_slowed:
            own, most = max(self._ratio / FEWER, min(1.0 - served, self._ratio)), SURE
        else:
            own, most = min(1.0 - (1.0 - pages) / FEWER, max(1.0 - served, pages)), 0.0
        ratio = pages / own if failed else (1.0 - pages) / (1.0 - own)
        self._evidence = min(max(-SURE, self._evidence + math.log(ratio)), most)

    def _remember(self, *, failed: bool) -> None:
        self._recent = (self._recent << 1 | failed) & _ALL

    def on_test_failed(self) -> bool:
        """A test request of a pause failed; returns whether the host is gone."""
        self._failed_tests += 1
        if self._failed_tests >= TESTS:
            self.is_gone = True
            self.is_slowed = self.is_known = False
            self._failed_tests = 0
        return self.is_gone

    def forgive(self) -> None:
        """The failures of late were the crawler's own line's."""
        self._recent = 0
        self.is_slowed = self.is_known = False
        self.on_answered()


UNTRIED = Failures()
"""What a slot has of which nothing is known; it is shared, and nothing changes it."""

UNHURT = Failures(is_serving=True)
"""What a slot has that was served, and nothing else; it is shared, and nothing changes it."""
