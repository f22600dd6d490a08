"""Marks of ours on requests that wait to be fetched again.

Laws
----
* A mark is set when a refused request sets out for its queue, and taken off when it gets there
  or at the gate: no spider sees it.
* What a mark holds is what the request was before: its own `dont_filter`, without which a later
  redirect would pass the duplicate filter, and whether its `dont_cache` is ours.
* A `dont_cache` of the user's own is never touched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakSet

if TYPE_CHECKING:
    from scrapy import Request

CACHE_META_KEY = "dont_cache"

REQUEUED_META_KEY = "adaptive_requeued"
"""Marks a request that goes back, on its way and while it is saved with the job."""


class CacheMarks:
    """Which requests carry a `dont_cache` of ours: the HTTP cache must not keep their answer."""

    def __init__(self) -> None:
        self._marked: WeakSet[Request] = WeakSet()

    def __contains__(self, request: Request) -> bool:
        return request in self._marked

    def keep_out(self, request: Request) -> None:
        """The HTTP cache must neither store nor serve this request's answer."""
        if CACHE_META_KEY not in request.meta:
            request.meta[CACHE_META_KEY] = True
            self._marked.add(request)

    def claim(self, request: Request) -> None:
        """The mark on it is ours: it was set before the crawl was interrupted."""
        self._marked.add(request)

    def let_in(self, request: Request) -> None:
        """Take our own mark off again."""
        if self._marked and request in self._marked:
            self._marked.discard(request)
            request.meta.pop(CACHE_META_KEY, None)


class SavedMarks:
    """Marks requests that go back to where they wait, and knows them again.

    Args:
        cache_marks: requests that carry a `dont_cache` of ours.
    """

    def __init__(self, cache_marks: CacheMarks) -> None:
        self._cache_marks = cache_marks

    def mark(self, request: Request, *, back_at: int = 0, past_filter: bool = True) -> None:
        """The request goes back, or is saved with the job where it waits.

        Args:
            back_at: when it came back, in nanoseconds of the wall clock, if it is saved.
            past_filter: it has to pass the duplicate filter once more.
        """
        mark: dict[str, int] = {"back_at": back_at}
        if past_filter:
            mark["dont_filter"] = request.dont_filter
            request.dont_filter = True
        if request in self._cache_marks:
            mark["dont_cache"] = False
        request.meta[REQUEUED_META_KEY] = mark

    def restore(self, request: Request) -> int | None:
        """Take the mark off; returns when it came back (wall clock, ns), None if it had none."""
        if REQUEUED_META_KEY not in request.meta:
            return None
        mark = request.meta.pop(REQUEUED_META_KEY)
        request.dont_filter = bool(mark.get("dont_filter", request.dont_filter))
        if "dont_cache" in mark:
            self._cache_marks.claim(request)
        return int(mark["back_at"])
