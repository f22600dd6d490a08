"""What failures say of a host: nothing, congestion, or that it is dead.

Laws
----
* A lone failure says nothing; half of the last ten answers, or three in a row, are congestion.
* A host that never served and does not answer is dead: there is nobody to be polite to.
* A host that fails `TESTS` tests in a row is gone: no pause waits for it any more. If it does not
  even answer, it is dead.
* Whatever it serves ends that.
* If a host fails as much after it was slowed down again and again, to an eighth of its rate, its
  failures are its pages'. What slowed it down is taken back, and only failures without an end are
  congestion. What a refusal has taught meanwhile is not taken back.
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


SLOWED = 3
"""Times that a host is slowed down for its failures, with no `HISTORY` of answers without one
between: at an eighth of the rate a host in trouble fails less."""

_ALL = 2**HISTORY - 1
_IN_A_ROW = 2**FAILURES_IN_A_ROW - 1


class Failures:
    """The latest answers of one slot: failed or not.

    Args:
        is_serving: whether it ever served a request.
    """

    __slots__ = (
        "_failed_tests",
        "_is_silent",
        "_old",
        "_rate",
        "_recent",
        "is_gone",
        "is_serving",
        "slowed",
    )

    is_serving: bool
    is_gone: bool
    _recent: int
    _is_silent: bool
    _failed_tests: int
    slowed: int
    _rate: Amount
    _old: Annotated[int, Range(0, HISTORY)]

    def __init__(self, *, is_serving: bool = False) -> None:
        self.is_serving = is_serving
        self.is_gone = False
        """Whether it failed every test of a pause, and has served nothing since."""
        self._recent = 0
        """The latest answers, one bit each, the last of them lowest: whether it failed."""
        self._is_silent = False
        """Whether nothing came back for the last request."""
        self._failed_tests = 0
        self.slowed = 0
        """Times that it was slowed down for its failures; one more than `SLOWED` where that was in
        vain."""
        self._rate = 0.0
        """The first rate at which it was, 1/s; infinite while that had no bound."""
        self._old = 0
        """Those of the latest answers that came before it was so slow: they say nothing of whether
        that has helped."""

    @property
    def is_dead(self) -> bool:
        """Whether it does not answer and cannot be hurt: no pace but the user's own is needed."""
        return self._is_silent and (self.is_gone or not self.is_serving)

    def are_congestion(self, rate: float) -> bool:
        """Whether so many failed, by now at this rate, that a host that was serving is in
        trouble."""
        return self.is_serving and (
            self._recent == _ALL or (self.slowed <= SLOWED and self._are_many(rate))
        )

    def _are_many(self, rate: float) -> bool:
        recent = self._recent
        if self._is_slow(rate):  # some of them must be of late
            lately = recent & 2 ** (HISTORY - self._old) - 1
            if lately.bit_count() < FAILURES_IN_A_ROW:
                return False
        return recent & _IN_A_ROW == _IN_A_ROW or recent.bit_count() >= FAILURES

    def _is_slow(self, rate: float) -> bool:
        """Whether this is so slow that failures would be fewer, were they the host's."""
        return self.slowed == SLOWED and rate <= self._rate / 2**SLOWED

    @property
    def go_on(self) -> bool:
        """Whether it was slowed down for them already, and that is not taken back."""
        return 0 < self.slowed <= SLOWED

    def on_slowed(self, rate: float) -> None:
        """They were taken for congestion, at this rate."""
        if not self.go_on or self._rate == math.inf:
            self._rate = rate
        self.slowed = min(self.slowed + 1, SLOWED)
        if rate > self._rate / 2**SLOWED:
            self._old = HISTORY

    def are_in_vain(self, rate: float) -> bool:
        """Whether it was slowed down in vain, to this rate; it says so once."""
        if not (self._is_slow(rate) and self._are_many(rate)):
            return False
        self.slowed += 1
        return True

    def on_taught(self) -> None:
        """Refusals have taught something: it is not taken back with what failures have."""
        if self.go_on:
            self.slowed = 0

    def on_accepted(self) -> None:
        """The site served a request."""
        self._remember(failed=False)
        if not self._recent:
            self.slowed = 0
        self.is_serving = True
        self.on_answered()

    def on_answered(self) -> None:
        """The site refused a request, or served it: it is there."""
        self.is_gone = self._is_silent = False
        self._failed_tests = 0

    def on_failed(self, *, silent: bool, counts: bool) -> None:
        """The site broke.

        Args:
            silent: nothing came back.
            counts: it is not known to be the fault of the page.
        """
        self._is_silent = silent
        if counts:
            self._remember(failed=True)

    def _remember(self, *, failed: bool) -> None:
        self._recent = (self._recent << 1 | failed) & _ALL
        self._old = max(0, self._old - 1)

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
