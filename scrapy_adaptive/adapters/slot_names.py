"""The name of a request's slot, and who has chosen it.

Laws
----
* ADAPTIVE_SLOT names it first, then the request's own meta, then Scrapy. An error in it loses no
  request: it has named none then.
* A class of pages that has a slot of its own under its host's has the name of that.
* The leaf of a request names its slot, and what known limits count it under; without rules it is
  the slot's own name.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from scrapy.utils.httpobj import urlparse_cached

from .errors import KindsSeen
from .scrapy_internals import SLOT_META_KEY, kind_of

if TYPE_CHECKING:
    from scrapy import Request

    from scrapy_adaptive.core.governor import Governor

    from .identities import Identify
    from .scrapy_internals import Engine
    from .setting_types import SlotRule


logger = logging.getLogger(__name__)


def ruled_host(request: Request) -> str:
    """The request's host, as rules name it; empty where it has none."""
    return (urlparse_cached(request).hostname or "").removesuffix(".")


class SlotNames:
    """The slots of one crawl's requests.

    Args:
        governor: knows the classes of pages that have slots of their own.
        engine: Scrapy's private parts.
        rule: names a request's slot, or returns None for Scrapy's own; None for no such rule.
        identify: tells whom a request is sent as, for known limits.
    """

    def __init__(
        self,
        governor: Governor,
        engine: Engine,
        rule: SlotRule | None,
        identify: Identify,
    ) -> None:
        self._governor = governor
        self._identify = identify
        self._engine = engine
        self._rule = rule
        self._errors = KindsSeen()

    def of_queued(self, request: Request) -> str | None:
        """The slot of a request on its way in, classes of pages aside; None without a host."""
        chosen = self._chosen(request)
        return self._engine.own_key(request) if chosen is None else chosen

    def of(self, request: Request) -> str | None:
        """The request's slot; None where there is no host."""
        key = self._engine.slot_key(request)
        return None if key is None else self.under(key, request)

    def at_gate(self, request: Request) -> str | None:
        """The slot of a request that has reached the gate; None where there is no host."""
        return self._engine.claim_key(request, self._chosen(request))

    def _chosen(self, request: Request) -> str | None:
        """What ADAPTIVE_SLOT says; a number of an account or a proxy is a name too. It is not asked
        where there is no site, as of a link that Scrapy cannot download."""
        if self._rule is None or not self._engine.may_download(request):
            return None
        try:
            chosen = self._rule(request)
        except Exception as error:
            self._on_error(error, request)
            return None
        return None if chosen is None else str(chosen)

    def _on_error(self, error: Exception, request: Request) -> None:
        if self._errors.is_new(error):
            logger.error(
                "ADAPTIVE_SLOT raised %s on %s; it has named no slot (further errors of this kind "
                "are not logged)",
                type(error).__qualname__,
                request,
                exc_info=True,
            )

    def under(self, key: str, request: Request) -> str:
        """The slot of the request's class under the slot `key`, if it has one; else `key`."""
        kinds = self._governor.kinds
        return kinds[key].get(kind_of(request), key) if kinds and key in kinds else key

    def leaf(self, key: str, request: Request) -> str:
        """The leaf of this request in the slot `key`: with whom it waits."""
        known = self._governor.known
        if known is None:
            return key
        host = ruled_host(request)
        identities = self._identify(request, known.book.sources)
        return known.leaf_key(key, host, kind_of(request), identities)

    def host_elsewhere(self, request: Request, key: str) -> str | None:
        """The request's host, where somebody has chosen another slot for it."""
        if self._rule is None and SLOT_META_KEY not in request.meta:
            return None
        host = urlparse_cached(request).hostname or ""
        return None if self._governor.host_of(key) == host else host
