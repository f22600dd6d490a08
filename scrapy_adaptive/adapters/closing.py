"""What becomes of requests of a paused slot once nobody will wait for it.

Laws
----
* A closing spider is served what is merely paced, as Scrapy serves it. What a paused slot holds is
  saved with the job, or given up and counted. What waits in a queue is counted when the spider
  has closed, what goes back to it from the gate too: once.
* At a prompt (`scrapy shell`, `scrapy fetch`) the user is told of a pause, and does not wait.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING
from weakref import WeakSet

from scrapy.exceptions import IgnoreRequest

from .queues.saved_marks import mark

if TYPE_CHECKING:
    from scrapy import Request

    from scrapy_adaptive.core.governor import Governor

    from .reporting import Reporting

PATIENCE = 1.0
"""Seconds of a pause that a closing spider, and a slot chosen after the queue, still wait out."""

PATIENCE_AT_PROMPT = 5.0
"""Seconds of a pause that the user of `scrapy shell` or `scrapy fetch` still waits out."""


class GivenUpError(IgnoreRequest):
    """The crawl ends before this request may be sent."""


class Closing:
    """Whether anybody waits for a paused slot.

    Args:
        governor: knows the pauses.
        is_saved: whether what goes back there is saved with a job.
        is_interactive: a user waits for this one answer.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        governor: Governor,
        *,
        is_saved: bool,
        is_interactive: bool,
        clock: Callable[[], float],
    ) -> None:
        self.has_begun = False
        """Whether the spider was asked to close."""
        self._governor = governor
        self._is_saved = is_saved
        self._clock = clock
        self._patience = PATIENCE_AT_PROMPT if is_interactive else math.inf
        self._given_up: Counter[str] = Counter()
        """Requests given up as the spider closed, by slot."""
        self._sent_back: WeakSet[Request] = WeakSet()
        """Requests for a queue that is not ours; who comes again was none of the scheduler's: it is
        not saved with a job, and without one it has been counted."""

    def is_too_long(self, key: str) -> bool:
        """Whether the slot's pause is longer than anybody waits."""
        patience = PATIENCE if self.has_begun else self._patience
        return patience < math.inf and (
            self._governor.is_stopped_by_rule(key, self._clock()) or self.is_paused(key, patience)
        )

    def is_paused(self, key: str, seconds: float = 0.0) -> bool:
        """Whether the slot, or the whole crawl, will still be silent in so many seconds."""
        governor, now = self._governor, self._clock()
        stop = governor.blocked_by_stop(now)
        if stop is not None and stop.until > now + seconds:
            return True
        if governor.crawl_paused_until > now + seconds:
            return True
        key = governor.slot_key(key)
        keys = {key, governor.host_of(key)}
        return any(governor.paused_until(each, now) > now + seconds for each in keys)

    def give_up(self, request: Request, key: str, *, scheduled: bool, is_kept: bool) -> Request:
        """The request will not be sent; returns it where the scheduler takes it back.

        Args:
            scheduled: the scheduler gave it out, as far as is known.
            is_kept: the scheduler's queue is ours, and keeps it.

        Raises:
            IgnoreRequest: it is given up.
        """
        if not self.has_begun:
            raise IgnoreRequest(f"{key} is paused: it refused an earlier request")
        is_again = request in self._sent_back
        goes_back = scheduled and not is_again
        if not scheduled or (not is_kept and is_again == self._is_saved):
            self._given_up[key] += 1
        if not goes_back:
            raise GivenUpError(f"{key} is paused, and the spider is closing")
        if not is_kept:
            self._sent_back.add(request)
        mark(request)
        return request

    def count_unsaved(self, waiting: Iterable[tuple[Sequence[str], int]]) -> None:
        """The spider has closed: what waits in queues that end with the process is given up where
        its slot is paused.

        Args:
            waiting: how many requests wait, and the leaves by which they might have been sent.
        """
        self.has_begun = True
        for leaves, count in waiting:
            if all(map(self.is_too_long, leaves)):
                self._given_up[self._governor.slot_key(leaves[0])] += count

    def tell(self, reporting: Reporting) -> None:
        """Say how many requests were given up, if any were."""
        if self._given_up:
            reporting.on_given_up(self._given_up)
