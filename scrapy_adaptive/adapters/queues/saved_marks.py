"""The mark on a request that went back and was saved with the job.

Laws
----
* Nothing is marked while the crawl runs: there a request is known by identity, as spiders copy
  meta. The mark is set when the request is saved, and taken off when it comes out again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scrapy import Request

    from .cache_marks import CacheMarks

TRIP_META_KEY = "adaptive_trip"
"""Marks a saved request that came back, and holds what of it is ours: a `dont_cache`, and its
own `dont_filter` where the duplicate filter had to be passed once more."""


class SavedMarks:
    """Marks requests on their way to the job's folder, and knows them again.

    Args:
        cache_marks: requests that carry a `dont_cache` of ours.
    """

    def __init__(self, cache_marks: CacheMarks) -> None:
        self._cache_marks = cache_marks

    def mark(self, request: Request, *, back_at: int = 0, past_filter: bool = False) -> None:
        """The request is about to be saved.

        Args:
            back_at: when it came back, in nanoseconds of the wall clock.
            past_filter: it has to pass the duplicate filter to be saved.
        """
        trip: dict[str, int] = {"back_at": back_at}
        if past_filter:
            trip["dont_filter"] = request.dont_filter
            request.dont_filter = True
        if request in self._cache_marks:
            trip["dont_cache"] = False
        request.meta[TRIP_META_KEY] = trip

    def restore(self, request: Request) -> int:
        """Take the mark off, if there is one; returns when it came back (wall clock, ns)."""
        trip = request.meta.pop(TRIP_META_KEY, {})
        request.dont_filter = trip.get("dont_filter", request.dont_filter)
        if "dont_cache" in trip:
            self._cache_marks.claim(request)
        return int(trip.get("back_at", 0))
