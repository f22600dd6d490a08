"""What a host queue must do, in plain lists: each question is a scan of all there is.

Laws
----
* Order within a host: priority, then what is new before what came back; start requests after the
  others, first in first out.
* A host's place among the others: topmost priority, but for one turn in `PASSED_OVER` + 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from scrapy import Request

from scrapy_adaptive.core.turns import PASSED_OVER
from scrapy_adaptive.core.types import Wanted

NEW, START, BACK = range(3)
"""A request is new, a start request, or one that came back."""


@dataclass(eq=False)
class Entry:
    """A request that waits."""

    request: Request
    host: str
    number: int
    """In the order of arrival."""
    kind: int
    can_be_saved: bool = True
    was_saved: bool = False
    """Whether it came back before the crawl was interrupted: the queue knows it again when it is
    the topmost."""


class Turns:
    """Turns among those who are ready."""

    def __init__(self) -> None:
        self._count = 0
        self._overdue_at = 0

    def check(self, served: int, others: Iterable[int]) -> None:
        """Who was served had the highest priority, or was overdue."""
        self._count += 1
        if served < max(others, default=served):
            assert self._count > self._overdue_at + PASSED_OVER
            self._overdue_at = self._count


class Pile:
    """One queue.

    Args:
        lifo: whether the latest of equal priority goes first.
    """

    def __init__(self, lifo: bool) -> None:
        self.entries: list[Entry] = []
        self._lifo = lifo
        self._turns = Turns()

    def of(self, host: str) -> list[Entry]:
        """What waits for a host, in its order."""
        return sorted((each for each in self.entries if each.host == host), key=self._place)

    @property
    def hosts(self) -> set[str]:
        """Hosts for which anything waits."""
        return {each.host for each in self.entries}

    def top(self, host: str) -> int:
        """Priority of the host's topmost request."""
        return self.of(host)[0].request.priority

    def next(self, host: str, wanted: Wanted, is_suspected: Callable[[Request], bool]) -> Entry:
        """Which of the host's requests goes next."""
        queued = self.of(host)
        back = [each for each in queued if each.kind == BACK]
        fitting = queued
        if wanted is Wanted.SUSPECTED:
            fitting = [each for each in back if is_suspected(each.request)]
        elif wanted is Wanted.UNSUSPECTED:
            fitting = [each for each in queued if each.kind != BACK]
            fitting = fitting or [each for each in back if not is_suspected(each.request)]
        return (fitting or queued)[0]

    def check_turn(self, host: str, others: Iterable[str]) -> None:
        """It was the turn of this host among those that may send, each through its own slot."""
        self._turns.check(self.top(host), map(self.top, others))

    def save(self) -> None:
        """Keep what survives the process."""
        self.entries = [each for each in self.entries if each.can_be_saved]
        for each in self.entries:
            each.was_saved = each.kind == BACK

    def _place(self, entry: Entry) -> tuple[int, int, int]:
        newest_first = self._lifo and entry.kind == NEW
        number = -entry.number if newest_first else entry.number
        return -entry.request.priority, entry.kind, number
