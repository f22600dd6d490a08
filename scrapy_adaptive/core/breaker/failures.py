"""What failures say of a host: nothing, congestion, or that it is dead.

Laws
----
* A lone failure says nothing; half of the last ten answers, or three in a row, are congestion.
* A host that never served and does not answer is dead: there is nobody to be polite to.
* A host that fails `TESTS` tests in a row is gone: no pause waits for it any more. If it does not
  even answer, it is dead.
* Whatever it serves ends that.
* A host that is slowed down for its failures, to an eighth of its rate or a gentle one, fails as
  much less if they are its own. If it does not, they are its pages'. What slowed it down is taken
  back, and only failures without an end are congestion. What a refusal has taught meanwhile is not
  taken back.

**Source**: A. Wald, Sequential Tests of Statistical Hypotheses, 1945.
"""

from __future__ import annotations

import math
from typing import Annotated

from scrapy_adaptive.core.state.fields import Amount, Range

FAILURES = 5
"""Failures among the last `HISTORY` answers that are congestion."""

FAILURES_IN_A_ROW = 3
"""Failures with no acceptance between that are congestion."""

HISTORY = 10
"""Answers looked back at."""

TESTS = 4
"""Test requests in a row that fail before the host is gone: .25, .75, 1.75 and 2.75 s after it
failed. A server that is started anew is often back by then; a dead one holds no crawl up for
longer."""

SLOWER = 8.0
"""How many times slower a host in trouble is asked until it must fail less, and how much less."""

GENTLE = 2.0
"""Requests a second at which it must fail less in any case: to half of it failures slow a host down
at most."""

MOST_RATIO = 0.9
"""Share of failures, at most, that a host is taken to have had at its full rate."""

SURE = FAILURES_IN_A_ROW * math.log(SLOWER)
"""Log likelihood ratio beyond which its failures are its pages': those that are congestion by
themselves do not reach it."""

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
        "_is_silent",
        "_rate",
        "_ratio",
        "_recent",
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
    _rate: Amount
    _ratio: Annotated[float, Range(0.0, MOST_RATIO)]
    _evidence: Annotated[float, Range(-SURE, 2.0 * SURE)]

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
        self._rate = 0.0
        """The first rate at which it was, 1/s; infinite while that had no bound."""
        self._ratio = 0.0
        """Share of its latest answers that were failures then."""
        self._evidence = 0.0
        """Log likelihood ratio that it fails as much since it is so slow."""

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
        """Whether it was slowed down so far that failures would be fewer, were they the host's."""
        return self.is_slowed and rate <= max(self._rate / SLOWER, GENTLE) < math.inf

    @property
    def floor(self) -> float:
        """The rate, 1/s, to which failures slow it down at most; 0 where they have not."""
        return min(self._rate, 0.5 * GENTLE) if self.is_slowed else 0.0

    def on_slowed(self, rate: float) -> None:
        """They were taken for congestion, at this rate."""
        is_first = not self.is_slowed or self._rate == math.inf
        if is_first:
            self._rate = rate
        self.is_slowed, self.is_in_vain = True, False
        if is_first or not self.is_slow(rate):
            ratio = self._recent.bit_count() / HISTORY
            self._ratio, self._evidence = min(max(0.5, ratio), MOST_RATIO), 0.0

    def are_in_vain(self) -> bool:
        """Whether it was slowed down in vain; it says so once."""
        if not self.is_slowed or self._evidence <= SURE:
            return False
        self.is_slowed, self.is_in_vain = False, True
        return True

    def on_taught(self) -> None:
        """Refusals have taught something: it is not taken back with what failures have."""
        self.is_slowed = False

    def on_accepted(self, rate: float) -> None:
        """The site served a request, by now at this rate, 1/s."""
        self._remember(failed=False)
        if self.is_slow(rate):
            beyond = (1.0 - self._ratio) / (1.0 - self._ratio / SLOWER)
            self._evidence = max(-SURE, self._evidence + math.log(beyond))
        if not self._recent:
            self.is_slowed = self.is_in_vain = False
        self.is_serving = True
        self.on_answered()

    def on_answered(self) -> None:
        """The site refused a request, or served it: it is there."""
        self.is_gone = self._is_silent = False
        self._failed_tests = 0

    def on_failed(self, rate: float, *, silent: bool, counts: bool) -> None:
        """The site broke.

        Args:
            rate: by now, 1/s.
            silent: nothing came back.
            counts: it is not known to be the fault of the page.
        """
        self._is_silent = silent
        if counts:
            self._remember(failed=True)
        if self.is_slow(rate):  # a page that fails again counts here: it does so at any pace
            self._evidence += math.log(SLOWER)

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
