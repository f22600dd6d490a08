"""Answers that the HTTP cache must not store.

Laws
----
* The mark is Scrapy's own `dont_cache`; it is taken off again before a spider sees it.
* A `dont_cache` of the user's own is never touched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scrapy import Request

CACHE_META_KEY = "dont_cache"


class CacheMarks:
    """Which requests carry a `dont_cache` of ours."""

    def __init__(self) -> None:
        self._marked: set[Request] = set()

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
        if request in self._marked:
            self._marked.discard(request)
            request.meta.pop(CACHE_META_KEY, None)
