"""Whose turn it is among those who are ready.

Laws
----
* The lowest rank goes first; of equal ranks, who has waited longest.
* Who waited longest is passed over at most `PASSED_OVER` times in a row, whatever its rank: of
  n that are ready, each has its turn within n * (`PASSED_OVER` + 1) turns.
* Filing, ranking anew and serving cost O(log n).
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Iterator

PASSED_OVER = 15
"""Turns in a row that go to others than who waited longest: one turn in 16 is theirs."""

MOST_STALE = 64
"""Ranks no longer valid that the heap may hold, beside as many as are valid."""


class Turns:
    """Keys that are ready, in the order of their turns.

    >>> queue = Turns()
    >>> for key, rank in (("a", 0.0), ("b", -1.0), ("c", 0.0)):
    ...     queue.file(key, rank)
    >>> turns = []
    >>> while (key := queue.next()) is not None:
    ...     queue.serve(key)
    ...     turns.append(key)
    >>> turns
    ['b', 'a', 'c']
    """

    __slots__ = ("_count", "_entries", "_heap", "_passed_over")

    def __init__(self) -> None:
        self._count = 0
        self._passed_over = 0
        self._entries: OrderedDict[str, tuple[float, int, str]] = OrderedDict()
        """Key to rank, number in the order of arrival, and key; in that order."""
        self._heap: list[tuple[float, int, str]] = []

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: str) -> bool:
        return key in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def file(self, key: str, rank: float) -> None:
        """The key is ready, at this rank; one that is ready already keeps its time of waiting."""
        known = self._entries.get(key)
        if known is None:
            self._count += 1
            entry = (rank, self._count, key)
        elif known[0] == rank:
            return
        else:
            entry = (rank, known[1], key)
        self._entries[key] = entry
        self._push(entry)

    def next(self) -> str | None:
        """Whose turn it is; None when nobody is ready."""
        if not self._entries:
            return None
        if self._passed_over >= PASSED_OVER:
            return next(iter(self._entries))
        heap, entries = self._heap, self._entries
        while entries.get(heap[0][2]) is not heap[0]:
            heapq.heappop(heap)
        return heap[0][2]

    def serve(self, key: str) -> None:
        """This key, which is ready, has its turn: it has to be filed again to have another."""
        self._passed_over = 0 if key == next(iter(self._entries)) else self._passed_over + 1
        del self._entries[key]

    def again(self, key: str, rank: float) -> None:
        """Serve this key, and file it again at this rank."""
        entries, heap = self._entries, self._heap
        self._count += 1
        self._passed_over = 0 if key == next(iter(entries)) else self._passed_over + 1
        former = entries[key]
        entries[key] = entry = (rank, self._count, key)
        entries.move_to_end(key)
        if heap[0] is former:
            heapq.heapreplace(heap, entry)
        else:
            self._push(entry)

    def remove(self, key: str) -> None:
        """The key is not ready, if it ever was; it had no turn."""
        self._entries.pop(key, None)

    def _push(self, entry: tuple[float, int, str]) -> None:
        heapq.heappush(self._heap, entry)
        if len(self._heap) > MOST_STALE + 2 * len(self._entries):
            self._heap = list(self._entries.values())
            heapq.heapify(self._heap)
