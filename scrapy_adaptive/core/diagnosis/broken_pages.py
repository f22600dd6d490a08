"""Which refusals are the fault of one page and not of the pace.

Laws
----
* A page is suspected when it alone was refused in its congestion epoch.
* A suspected page refused again at its recheck is broken: another page was accepted after
  the same silence, so the pace is not to blame.
* A page whose probe is the third in a row to be refused while only refused pages are left is
  broken too.
* A site that serves pages at their second visit alone refuses each of them once: that is neither
  the pace nor the page.
* A page is broken only until another page makes an epoch: then the site refuses others too.
* An accepted page is neither suspected nor broken.
* A page that fails again, though its host accepted others since it failed first, is at fault.
* Memory is bounded; the oldest page is forgotten first.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias, TypeVar

from scrapy_adaptive.core.evidence import UNLIKELY
from scrapy_adaptive.core.state.fields import Latest, Mark
from scrapy_adaptive.core.types import Page

V = TypeVar("V")

STUCK_PROBES = 3
"""Refused probes in a row, each of a page refused before, that make the last one's page broken."""

FEW = 0.05
"""Share of all acceptances that such second visits in a row must be, before a site is taken for one
that refuses the first."""

MOST_PAGES = 256
"""Most pages remembered per slot and kind."""


MOST_CARRIED = 4
"""Most of them that travel with the slot's state."""

Carried: TypeAlias = Annotated[dict[Page, V], Latest(MOST_CARRIED), Mark.SPARE]
"""Pages, of which a few travel."""


_NO_PAGES: dict[Page, None] = {}
_NO_FAILURES: dict[Page, int] = {}
"""What most slots have."""


class Suspects:
    """Pages of one slot that were refused, and what is thought of them."""

    __slots__ = (
        "_accepted_count",
        "_broken",
        "_crowded",
        "_doubted",
        "_failed",
        "_is_new_refused",
        "_refused",
        "_second",
        "_sole",
        "_stuck",
        "looks_again",
    )

    _accepted_count: int
    _failed: Carried[int]
    _refused: Carried[int]
    _broken: Carried[None]
    _doubted: Carried[None]
    _sole: Annotated[Page | None, Mark.SPARE]
    _crowded: bool
    _second: int
    _is_new_refused: bool
    _stuck: int
    looks_again: bool

    def __init__(self) -> None:
        self._accepted_count = 0
        self._failed = _NO_FAILURES
        """Page to the acceptances of its host before it failed first."""
        self._refused = _NO_FAILURES
        """Page to its refusals."""
        self._broken = self._doubted = _NO_PAGES
        """Those that were broken before the present epoch."""
        self._sole = None
        self._crowded = False
        self._second = 0
        """Times in a row that a page was refused at its first visit, and the next one that was
        served had been refused before."""
        self._is_new_refused = False
        self._stuck = 0
        self.looks_again = False
        """Whether the next test request is a page that was refused before: the last one was of
        another page, and was refused."""

    def __bool__(self) -> bool:
        return bool(self._refused or self._broken or self._failed)

    def __contains__(self, page: Page) -> bool:
        return page in self._refused or page in self._broken

    @property
    def sole(self) -> Page | None:
        """The page that alone was refused in the latest epoch."""
        return None if self._crowded else self._sole

    @property
    def refuses_first(self) -> bool:
        """Whether the site refuses each page's first visit.

        A pace that is far too fast shows the same for a while; but then pages were served at their
        first visit before.
        """
        return self._second >= max(STUCK_PROBES, FEW * self._accepted_count)

    def on_accepted(self, page: Page | None) -> None:
        """A page was accepted; `page` is needed while any is remembered."""
        self._accepted_count += 1
        if page not in self._refused:
            self._second = 0
        elif self._is_new_refused:
            self._second += 1
        self._is_new_refused = False
        self._stuck = 0
        self.looks_again = False
        if page is not None:
            self._failed.pop(page, None)
            if page == self._sole:
                self._sole = None
                self._crowded = False
            self._refused.pop(page, None)
            self._broken.pop(page, None)
            self._doubted.pop(page, None)

    def on_epoch(self) -> None:
        """A congestion epoch begins: no page is broken for certain any more."""
        for page in self._broken:
            self._refused = _with(self._refused, page, 1)
        self._doubted, self._broken = self._broken, _NO_PAGES
        self._sole = None
        self._crowded = self.looks_again = False

    def on_pardon(self) -> None:
        """The page of the present epoch is known to be broken: nothing more is learned of it.

        What was known to be broken before it still is.
        """
        for page in self._doubted:
            self._broken = _with(self._broken, page, None)
        self._doubted = _NO_PAGES
        self._sole = None
        self._crowded = False

    def is_broken(
        self, page: Page | None, *, probe: bool, recheck: bool, noise: float = 0.0
    ) -> bool:
        """Whether a refusal that has just arrived is the page's own fault.

        Args:
            noise: share of the requests that are refused by chance: as often as that explains, a
                page may be refused.
        """
        if page is None:
            return False
        if noise and noise ** (1 + self._refused.get(page, 0)) > UNLIKELY:
            return False
        if page in self._broken:
            return True
        if probe:
            self.looks_again = page not in self._refused
            self._stuck = 0 if self.looks_again else self._stuck + 1
        is_alone = recheck and page == self.sole and not self.refuses_first
        if is_alone or self._stuck >= STUCK_PROBES:
            self._refused.pop(page, None)
            self._broken = _with(self._broken, page, None)
            return True
        return False

    def is_failing(self, page: Page | None) -> bool:
        """Whether a failure that has just arrived is the page's own fault."""
        if page is None:
            return False
        if page not in self._failed:
            self._failed = _with(self._failed, page, self._accepted_count)
        return self._failed[page] < self._accepted_count

    def on_refused(self, page: Page | None) -> None:
        """Remember a refusal that counted as pain in the present epoch."""
        if page is None:
            return
        self._is_new_refused |= page not in self._refused
        self._refused = _with(self._refused, page, 1 + self._refused.get(page, 0))
        self._crowded |= self._sole not in (None, page)
        self._sole = page


def _with(pages: dict[Page, V], page: Page, value: V) -> dict[Page, V]:
    """These pages and one more; the empty ones are shared, so others are made of them."""
    pages = pages or {}
    pages.pop(page, None)
    pages[page] = value
    if len(pages) > MOST_PAGES:
        del pages[next(iter(pages))]
    return pages


NO_SUSPECTS = Suspects()
"""What a slot has of which nothing was refused or failed; it is shared, and told nothing."""
