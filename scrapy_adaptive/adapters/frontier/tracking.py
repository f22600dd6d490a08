"""Follows what becomes of each visit through Scrapy.

Laws
----
* A page's requests become links of its visit; those that pass by the table carry the visit on.
* A redirect of a visit is a link as any other: of whoever holds its host, fetched once.
* What is handed to the engine with the meta of a page that has come back is no redirect of it: it
  passes by the table, and the visit is not done before it.
* A user's errback is wrapped, not replaced, and what it yields belongs to the visit: a download
  that failed goes past the spider middlewares. Where there is none, the spider finds none.
* Where a page is visited again, its items wait until it is known whether they have changed.
"""

from __future__ import annotations

import logging
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable
from inspect import isasyncgen, isawaitable
from typing import TYPE_CHECKING, Any

from scrapy import Request
from scrapy.exceptions import CloseSpider, IgnoreRequest
from scrapy.spidermiddlewares.httperror import HttpError, HttpErrorMiddleware
from scrapy.utils.defer import ensure_awaitable
from scrapy.utils.misc import arg_to_iter
from twisted.python.failure import Failure

from scrapy_adaptive.adapters.closing import GivenUpError
from scrapy_adaptive.frontier.revisits import Revisits

from .outcome import (
    NEXT_META_KEY,
    NOT_MODIFIED,
    REVISIT_META_KEY,
    digest_of,
    is_unchanged,
    outcome_of,
)
from .payload import PASSES_META_KEY, VISIT_META_KEY, UnreadableError, UnstorableError
from .rights import TakenBackError
from .visits import OpenVisit, Part, part_of

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from scrapy_adaptive.frontier.protocol import Given, Lease

    from .links import Links
    from .outbox import Outbox

logger = logging.getLogger("scrapy_adaptive")

MOST_PASSED = 100_000
"""Requests remembered that passed by the table."""


class NotModifiedError(IgnoreRequest):
    """The page is as it was: nothing of it is told to the spider."""


class Errback:
    """Around the errback of a request that belongs to a visit."""

    __slots__ = ("_tracking", "errback")

    def __init__(self, tracking: Tracking, errback: Callable[[Failure], Any] | None) -> None:
        self._tracking = tracking
        self.errback = errback

    @property
    def __func__(self) -> Any:
        """By which Scrapy finds the user's own among the spider's methods, in `Request.to_dict`."""
        return self.errback.__func__  # type: ignore[union-attr]

    def __call__(self, failure: Failure) -> Any:
        """What the user's own errback makes of the failure."""
        return self._tracking.on_failure(failure, self.errback)


class Tracking:
    """The visits of one crawl that are open.

    Args:
        crawler: the crawl.
        outbox: where what is done goes.
        links: makes rows of requests.
        policy: when pages are visited again.
        on_over: told of each visit that has ended, done or not.
    """

    def __init__(
        self,
        crawler: Crawler,
        outbox: Outbox,
        links: Links,
        policy: Revisits | str | None,
        on_over: Callable[[OpenVisit], None],
    ) -> None:
        assert crawler.stats is not None
        assert crawler.request_fingerprinter is not None
        self._crawler = crawler
        self._stats = crawler.stats
        self._fingerprint = crawler.request_fingerprinter.fingerprint
        self._outbox = outbox
        self._policy = policy
        self._on_over = on_over
        self._vanished: deque[Part] = deque()
        self._links = links
        self._passed: OrderedDict[bytes, bytes | None] = OrderedDict()
        """What passes by the table, or has passed, and under which page."""
        self._periods: dict[int, Any] = {}
        """Periods that requests ask for themselves, by visit."""

    # What comes from the table

    def open(self, lease: Lease, given: Given) -> tuple[OpenVisit, Request | None]:
        """The request of a visit that was given; None where its row cannot be read."""
        visit = OpenVisit(lease, given, self._on_end)
        try:
            request = self._links.payloads.read(given.url, given.payload)
            visit.fingerprint = self._fingerprint(request)
        except (UnreadableError, UnstorableError, ValueError) as error:
            self._stats.inc_value("adaptive/frontier/unreadable")
            if self._links.may_tell():
                logger.warning(
                    "row %d of the frontier is skipped, %r is no request: %s",
                    given.id,
                    given.url[:200],
                    str(error)[:200],
                )
            visit.error = f"unreadable: {error}"[:500]
            visit.begin()
            return visit, None
        visit.header_names = frozenset(request.headers)
        if REVISIT_META_KEY in request.meta:
            self._periods[id(visit)] = request.meta[REVISIT_META_KEY]
        last = given.last
        has_periods = isinstance(self._policy, Revisits) or REVISIT_META_KEY in request.meta
        if has_periods and last.digest is not None:
            self._ask_for_changes(visit, request, given)
        self._join(visit, request, is_main=True)
        return visit, request

    def _ask_for_changes(self, visit: OpenVisit, request: Request, given: Given) -> None:
        """The page is only wanted if it has changed, and its items only if they have."""
        visit.held_items = []
        if given.last.etag:
            request.headers.setdefault("If-None-Match", given.last.etag)
        if given.last.last_modified:
            request.headers.setdefault("If-Modified-Since", given.last.last_modified)
        if "dont_cache" not in request.meta:  # the cache would answer a 304 by its own copy
            request.meta["dont_cache"] = visit.has_copy = True

    def _join(self, visit: OpenVisit, request: Request, *, is_main: bool = False) -> Part:
        """The request belongs to the visit."""
        part = Part(visit, request, self._vanished.append, is_main=is_main)
        errback = request.errback
        own = errback.errback if isinstance(errback, Errback) else errback
        request.errback = Errback(self, own)
        return part

    def _adopt(self, part: Part | None, request: Request) -> Part:
        """A request that somebody has handed to the engine: the visit whose mark it has is not done
        before it, where that is not too late."""
        if part is not None and not part.visit.is_over:
            return self._join(part.visit, request)
        return self._join(OpenVisit(None, None, self._on_end), request, is_main=True)

    # What comes from the spider

    def seed(self, request: Request, *, is_start: bool = True) -> bool:
        """A start request becomes a row; returns whether it does not pass by the table.

        Args:
            is_start: it comes again with each start, and is one visit all the same.
        """
        if request.meta.get(PASSES_META_KEY) is False:
            return False
        try:
            link = self._links.row(request, is_seed=is_start)
        except UnstorableError as error:
            self._links.on_unstorable(request, error)
            return False
        if link is not None:
            self._outbox.add_links([link])
        return True

    def pass_by(self, request: Request, on_end: Callable[[OpenVisit], None]) -> None:
        """A start request passes by: what it gives are links of no row."""
        self._stats.inc_value("adaptive/frontier/passed_by")

        def ended(visit: OpenVisit) -> None:
            self._on_end(visit)
            on_end(visit)

        self._join(OpenVisit(None, None, ended), request, is_main=True)

    def on_input(self, response: Response) -> None:
        """A response has reached the spider's middlewares.

        Raises:
            NotModifiedError: the spider need not see it.
        """
        assert response.request is not None
        request = response.request
        part = part_of(request)
        if part is None:
            return
        part.has_response = part.is_back = True
        visit = part.visit
        if visit.has_copy and part.is_main:
            request.meta.pop("dont_cache", None)
        if part.is_main:
            etag, modified = (
                None if value is None else value.decode("latin-1")
                for value in (response.headers.get("ETag"), response.headers.get("Last-Modified"))
            )
            visit.response = (response.status, etag, modified)
            if response.status == NOT_MODIFIED and visit.held_items is not None:
                self._stats.inc_value("adaptive/frontier/not_modified")
                raise NotModifiedError(f"{request} is as it was")
        if isinstance(request.errback, Errback) and request.errback.errback is None:
            visit.error = visit.error or self._error_of(response)
            request.errback = None

    def _error_of(self, response: Response) -> str | None:
        """Why the spider is not told of a page, where it has no errback: its status."""
        middleware = self._crawler.get_spider_middleware(HttpErrorMiddleware)
        try:
            if middleware is not None:
                middleware.process_spider_input(response)
        except HttpError as error:
            return _told(error)
        return None

    async def on_output(self, response: Response, result: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """What a callback, or an errback of a response, has yielded."""
        assert response.request is not None
        part = part_of(response.request)
        if part is None or part.has_ended:
            part = self._adopt(part, response.request)
        async for each in self._exhaust(part, result):
            yield each
        if part.is_main:
            part.visit.override = response.meta.get(NEXT_META_KEY, part.visit.override)
        part.end()

    async def _exhaust(self, part: Part, result: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """Pass on what is to go on; what raises ends the visit as failed."""
        visit, is_exhausted = part.visit, False
        try:
            async for each in result:
                found = self._pass_on(part, each)
                if found is not None:
                    yield found
            for item in self._changed_items(visit):
                yield item
            is_exhausted = True
        except Exception as error:
            is_exhausted = True
            self.on_exception(part, error)
            raise
        finally:
            if not is_exhausted:  # nobody wants the rest: the crawl ends
                visit.is_taken_back = True
                part.end()

    def _pass_on(self, part: Part, each: Any) -> Any:
        """A request or an item that goes on to the engine; None where it does not."""
        if isinstance(each, Request):
            return self._on_request(part, each)
        if each is None:
            return None
        visit = part.visit
        visit.item_count += 1
        if not visit.is_root:
            if isinstance(self._policy, Revisits) or id(visit) in self._periods:
                visit.digest += digest_of(each)
            if visit.held_items is not None:
                visit.held_items.append(each)
                return None
        visit.begin()
        return each

    def _changed_items(self, visit: OpenVisit) -> list[Any]:
        """Items that were held, where this was the last request, and they are others now."""
        if not visit.held_items or visit.requests_pending > 1:
            return []
        items, visit.held_items = visit.held_items, None
        if visit.error is None and is_unchanged(visit):
            self._stats.inc_value("adaptive/frontier/unchanged")
            return []
        for _ in items:
            visit.begin()
        return items

    def _on_request(self, part: Part, request: Request) -> Request | None:
        visit = part.visit
        if request.meta.get(PASSES_META_KEY) is False:
            self._passing(visit, request)
            return None
        if self._is_same_again(part, request):
            self._join(visit, request, is_main=True)
            return request
        try:
            if (link := self._links.row(request)) is not None:
                visit.links.append(link)
        except UnstorableError as error:
            self._links.on_unstorable(request, error)
            self._passing(visit, request)
        return None

    def _passing(self, visit: OpenVisit, request: Request) -> None:
        """The request passes by the table, under the visit.

        Scrapy's own filter of duplicates would drop what was asked for by a visit that was taken
        back: here that is forgotten. What comes again after a crash counts at once, a root's only
        when it is done: a page that relied on it would be done without it.
        """
        request.meta.pop(VISIT_META_KEY, None)
        if not request.dont_filter:
            fingerprint = self._fingerprint(request)
            if self._has_passed(visit, fingerprint) or not self._links.is_wanted(request):
                return
            visit.passed.add(fingerprint)
            if not visit.is_root:
                self._remember(visit, {fingerprint})
        self._stats.inc_value("adaptive/frontier/passed_by")
        self._join(visit, request)
        self.crawl(request)

    def _has_passed(self, visit: OpenVisit, fingerprint: bytes) -> bool:
        """Whether it was asked for before; a page that is visited again asks again."""
        if fingerprint in visit.passed:
            return True
        if fingerprint not in self._passed:
            return False
        return visit.is_root or self._passed[fingerprint] != visit.fingerprint

    def _remember(self, visit: OpenVisit, fingerprints: set[bytes]) -> None:
        self._passed.update(dict.fromkeys(fingerprints, visit.fingerprint))
        while len(self._passed) > MOST_PASSED:
            self._passed.popitem(last=False)

    def _forget_passed(self, visit: OpenVisit) -> None:
        for fingerprint in visit.passed:
            if self._passed.get(fingerprint) == visit.fingerprint:
                del self._passed[fingerprint]

    def crawl(self, request: Request) -> None:
        """Hand a request to the engine, past Scrapy's filter of duplicates alone."""
        asked, request.dont_filter = request.dont_filter, True
        self._crawler.engine.crawl(request)
        request.dont_filter = asked

    def _is_same_again(self, part: Part, request: Request) -> bool:
        """Whether a callback asks for the very page again, as `get_retry_request` does."""
        if not (part.is_main and request.dont_filter and part_of(request) is part):
            return False
        return part.visit.is_root or self._fingerprint(request) == part.visit.fingerprint

    # What becomes of requests and items

    def on_exception(self, part: Part, error: BaseException) -> None:
        """A callback, or what is between it and the engine, has raised."""
        if isinstance(error, (CloseSpider, GivenUpError)):
            part.visit.is_taken_back = True
        else:
            part.visit.error = _told(error)
        part.end()

    def on_failure(self, failure: Failure, errback: Callable[[Failure], Any] | None) -> Any:
        """A request of a visit has failed; returns what its user's errback makes of it."""
        part = part_of(failure.request)  # type: ignore[attr-defined]
        error = failure.value
        if part is None:
            return failure if errback is None else errback(failure)
        part.is_back = True
        visit = part.visit
        if isinstance(error, (TakenBackError, GivenUpError)):
            visit.is_taken_back = True
            part.end()
            return None
        if isinstance(error, NotModifiedError):
            return None
        visit.error = visit.error or _told(failure.value or failure)
        if errback is None:
            if not part.has_response:
                part.end()
            return failure
        try:
            result = errback(failure)
        except BaseException:
            part.end()
            raise
        if part.has_response:
            return result
        if isinstance(result, Failure):
            part.end()
            return result
        return self._errback_output(part, result)

    async def _errback_output(self, part: Part, result: Any) -> AsyncIterator[Any]:
        """What the errback of a failed download yields: no middleware of the spider sees it."""
        async for each in self._exhaust(part, _iterated(result)):
            yield each
        part.end()

    def on_scheduled(self, request: Request) -> None:
        """A request is about to be queued.

        Raises:
            IgnoreRequest: it is a redirect of a visit, and a link now.
        """
        part = part_of(request)
        if part is None or part.is_foreign(request):
            self._stats.inc_value("adaptive/frontier/passed_by")
            if part is not None and self._links.is_wanted(request):
                self._adopt(part, request)
            return
        visit = part.visit
        if part.is_main and not part.is_back:
            visit.was_sent = False
        if part.is_of(request):
            return
        if part.is_main and not visit.is_root and self._fingerprint(request) != visit.fingerprint:
            self._redirect(part, request)
        part.follow(request)

    def _redirect(self, part: Part, request: Request) -> None:
        visit = part.visit
        for name in set(request.headers) - visit.header_names:
            del request.headers[name]
        try:
            link = self._links.row(request)
        except UnstorableError as error:
            self._links.on_unstorable(request, error)
            return
        if link is not None:
            visit.links.append(link)
        part.end()
        raise IgnoreRequest(f"{request} is a link of the page that redirects to it")

    def on_dropped(self, request: Request) -> None:
        """The scheduler did not take a request: a duplicate."""
        part = part_of(request)
        if part is not None and part.is_of(request):
            part.end()

    def on_item_ended(self, response: Any) -> None:
        """An item was scraped or dropped, or a pipeline has failed on it."""
        part = part_of(getattr(response, "request", None))
        if part is not None and part.visit.pending > part.visit.requests_pending:
            part.visit.end()

    def sweep(self, *, is_closing: bool) -> None:
        """Requests that somebody dropped without a word have ended; those of a crawl that ends come
        again."""
        while self._vanished:
            part = self._vanished.popleft()
            if part.has_ended:
                continue
            if is_closing:
                part.visit.is_taken_back = True
            else:
                part.visit.error = part.visit.error or "it was dropped without a word"
            part.end()

    def _on_end(self, visit: OpenVisit) -> None:
        own = self._periods.pop(id(visit), None)
        if visit.is_root:
            self._outbox.add_links(visit.links)
            if not visit.is_taken_back:
                self._remember(visit, visit.passed)
        elif visit.is_taken_back:
            self._stats.inc_value("adaptive/frontier/taken_back")
            self._forget_passed(visit)
        else:
            self._outbox.add_done(self._outcome(visit, own), visit.links)
            self._stats.inc_value("adaptive/frontier/done")
            if visit.error is not None:
                self._stats.inc_value("adaptive/frontier/failed")
        self._on_over(visit)

    def _outcome(self, visit: OpenVisit, own: Any) -> Any:
        try:
            return outcome_of(visit, self._policy, own)
        except ValueError as error:
            assert visit.given is not None
            if self._links.may_tell():
                logger.warning(
                    "the next visit of %s is by ADAPTIVE_REVISIT: %s", visit.given.url, error
                )
            visit.override = None
            return outcome_of(visit, self._policy, None)


def _told(error: object) -> str:
    return f"{type(error).__name__}: {error}"[:500]


async def _iterated(result: Any) -> AsyncIterator[Any]:
    """What an errback has returned, as Scrapy reads it: what is awaited first may be any of it."""
    if isawaitable(result):
        result = await ensure_awaitable(result)
    if isasyncgen(result):
        async for each in result:
            yield each
    else:
        for each in arg_to_iter(result):
            yield each
