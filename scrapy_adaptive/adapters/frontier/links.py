"""How a request becomes a row of the frontier.

Laws
----
* What leads away from the spider's domains is no row; nor is what is known to be one.
* Start requests that are not to be filtered are as many rows as differ in anything, and the same
  rows at the next start: the first of them has the fingerprint that others have too.
* What JSON cannot hold, or is too large, is named, and passes by the table.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from hashlib import blake2b
from typing import TYPE_CHECKING

from scrapy.downloadermiddlewares.offsite import OffsiteMiddleware
from scrapy.exceptions import IgnoreRequest

from scrapy_adaptive.frontier.protocol import Visit

from .outcome import again_rule
from .payload import Payloads, UnstorableError
from .rights import NO_NAME, Rights, host_of

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler

    from scrapy_adaptive.frontier.revisits import Revisits

    from .outbox import Outbox

logger = logging.getLogger("scrapy_adaptive")

MOST_TOLD = 10
"""Requests in trouble that each bring a line."""

MOST_SEEDS = 10_000
"""Start requests of a run that are remembered: 2 MB."""

SIZE = 20
"""Bytes of a fingerprint, as Scrapy's."""


class Links:
    """The requests of one crawl that become rows.

    Args:
        crawler: the crawl.
        outbox: knows which have become rows already.
        policy: when pages are visited again.
        most_bytes: bytes of a row, at most.
    """

    def __init__(
        self, crawler: Crawler, outbox: Outbox, policy: Revisits | str | None, most_bytes: float
    ) -> None:
        assert crawler.stats is not None
        assert crawler.request_fingerprinter is not None
        self._crawler = crawler
        self._stats = crawler.stats
        self._fingerprint = crawler.request_fingerprinter.fingerprint
        self._outbox = outbox
        self._policy = policy
        self._most_bytes = most_bytes
        self._payloads: Payloads | None = None
        self._told = 0
        self._seeds: OrderedDict[bytes, bytes] = OrderedDict()
        """What the first start request of each fingerprint was."""

    @property
    def payloads(self) -> Payloads:
        """Reads and writes the spider's requests."""
        if self._payloads is None:
            assert self._crawler.spider is not None
            self._payloads = Payloads(self._crawler.spider)
        return self._payloads

    def row(self, request: Request, *, is_seed: bool = False) -> Visit | None:
        """The row of a request; None where it need not be one.

        Raises:
            UnstorableError: JSON cannot hold it, or it is too large.
        """
        fingerprint = None
        if is_seed or not request.dont_filter:
            fingerprint = self._fingerprint(request)
            if request.dont_filter:
                fingerprint = self._seed_fingerprint(fingerprint, self.payloads.write(request))
            if self._outbox.is_known(fingerprint):
                return None
        if not self.is_wanted(request):
            return None
        if not Rights.are_needed_for(request):
            raise UnstorableError(NO_NAME)
        payload = self.payloads.write(request)
        size = len(request.url) + len(payload)
        if size > self._most_bytes:
            raise UnstorableError(f"it has {size} bytes, more than {self._most_bytes:.0f}")
        again = again_rule(self._policy, is_seed=is_seed)
        return Visit(
            host_of(request), request.url, payload, fingerprint, request.priority, again=again
        )

    def _seed_fingerprint(self, fingerprint: bytes, payload: str) -> bytes:
        """Its own, where an earlier start request differs in what no fingerprint counts."""
        own = blake2b(payload.encode("utf-8", "surrogatepass"), digest_size=SIZE).digest()
        first = self._seeds.setdefault(fingerprint, own)
        while len(self._seeds) > MOST_SEEDS:
            self._seeds.popitem(last=False)
        if own == first:
            return fingerprint
        return blake2b(fingerprint + own, digest_size=SIZE).digest()

    def is_wanted(self, request: Request) -> bool:
        """Whether it stays within the spider's domains."""
        offsite = self._crawler.get_downloader_middleware(OffsiteMiddleware)
        if offsite is None:
            return True
        assert self._crawler.spider is not None
        try:
            offsite.request_scheduled(request, self._crawler.spider)
        except IgnoreRequest:
            return False
        return True

    def on_unstorable(self, request: Request, error: UnstorableError) -> None:
        """A request cannot be a row: it passes by the table."""
        self._stats.inc_value("adaptive/frontier/unstorable")
        if self.may_tell():
            logger.warning(
                "%s passes by the frontier, and does not survive a crash: %s", request, error
            )

    def may_tell(self) -> bool:
        """Whether one more line about a request in trouble is told."""
        self._told += 1
        return self._told <= MOST_TOLD
