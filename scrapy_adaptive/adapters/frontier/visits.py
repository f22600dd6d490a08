"""Visits that are open, and all that has to end before one is done.

Laws
----
* A visit is done when its request's callback or errback is exhausted, its items have ended, and
  every request that passed by the table under it is done too.
* What ends twice ends once; what vanishes without a word (a middleware dropped it) has ended when
  nobody refers to it any more.
* A visit that was taken back (its lease is lost, its order replaced) is never done.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING, Any

from .payload import VISIT_META_KEY

if TYPE_CHECKING:
    from scrapy import Request

    from scrapy_adaptive.frontier.protocol import Given, Lease, Visit

_NUMBERS = count(1)


class Mark(str):
    """Stands in the meta of a request that belongs to a visit, and of all copies of it.

    A text, so that who prints or stores meta finds nothing strange there, and nothing else is left
    of it in another process; when the last copy is gone, so is the request.
    """

    part: Part

    def __copy__(self) -> Mark:
        return self

    def __deepcopy__(self, memo: object) -> Mark:
        """A spider may copy its meta, and does not mean the crawl with it."""
        return self

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        return str, (str(self),)


class OpenVisit:
    """A visit that was given out, or a root of what passes by the table.

    Args:
        lease: of its host; None for a root, which is no row.
        given: the row.
        on_end: called once, when everything of it has ended.
    """

    __slots__ = (
        "digest",
        "error",
        "fingerprint",
        "given",
        "has_copy",
        "header_names",
        "held_items",
        "is_over",
        "is_taken_back",
        "item_count",
        "lease",
        "links",
        "on_end",
        "override",
        "passed",
        "pending",
        "requests_pending",
        "response",
        "was_sent",
    )

    def __init__(
        self,
        lease: Lease | None,
        given: Given | None,
        on_end: Callable[[OpenVisit], None],
        fingerprint: bytes | None = None,
    ) -> None:
        self.lease = lease
        self.given = given
        self.on_end = on_end
        self.fingerprint = fingerprint
        self.pending = 0
        """Requests and items that have not ended."""
        self.requests_pending = 0
        self.links: list[Visit] = []
        self.item_count = 0
        self.digest = 0
        self.error: str | None = None
        self.response: tuple[int, str | None, str | None] | None = None
        """Status, ETag and Last-Modified of its page."""
        self.passed: set[bytes] = set()
        """Fingerprints of requests that passed by the table under it."""
        self.override: Any = None
        """When to come again, as the callback says."""
        self.held_items: list[Any] | None = None
        """Items that are held until it is known whether the page has changed."""
        self.has_copy = False
        self.header_names: frozenset[bytes] = frozenset()
        """Headers that its request came with; others are of middlewares."""
        self.was_sent = False
        self.is_taken_back = False
        self.is_over = False

    @property
    def is_root(self) -> bool:
        """Whether it is no row of the table."""
        return self.lease is None

    def begin(self) -> None:
        """One more thing has to end."""
        self.pending += 1

    def end(self) -> None:
        """One thing has ended."""
        self.pending -= 1
        if self.pending == 0 and not self.is_over:
            self.is_over = True
            self.on_end(self)


class Part:
    """One request of a visit, whatever it is retried as.

    Args:
        visit: it cannot be done before.
        request: gets the mark.
        vanished: whom to tell, from whatever thread, when no request has the mark any more.
    """

    __slots__ = ("_request", "has_ended", "has_response", "is_back", "is_main", "visit")

    def __init__(
        self,
        visit: OpenVisit,
        request: Request,
        vanished: Callable[[Part], None],
        *,
        is_main: bool = False,
    ) -> None:
        self.visit = visit
        self.is_main = is_main
        self.has_ended = False
        self.has_response = False
        """Whether a response has reached the spider middlewares: then they see what comes of it."""
        self.is_back = False
        """Whether it has left the downloader for good, with a response or without."""
        mark = Mark(f"visit {next(_NUMBERS)}")
        mark.part = self
        request.meta[VISIT_META_KEY] = mark
        self._request = weakref.ref(request)
        visit.begin()
        visit.requests_pending += 1
        weakref.finalize(mark, vanished, self).atexit = False

    def is_of(self, request: Request) -> bool:
        """Whether this is the very object that was sent last."""
        return self._request() is request

    def is_foreign(self, request: Request) -> bool:
        """Whether a request that has the mark is none of it: it has come back, or ended, before."""
        return self.has_ended or (self.is_back and not self.is_of(request))

    def follow(self, request: Request) -> None:
        """It goes on as this request."""
        self._request = weakref.ref(request)

    def end(self) -> None:
        """Its callback or errback is exhausted, or it never had one called."""
        if not self.has_ended:
            self.has_ended = True
            self.visit.requests_pending -= 1
            self.visit.end()


def part_of(request: Request | None) -> Part | None:
    """The part of a visit that this request is."""
    mark = None if request is None else request.meta.get(VISIT_META_KEY)
    return mark.part if isinstance(mark, Mark) else None
