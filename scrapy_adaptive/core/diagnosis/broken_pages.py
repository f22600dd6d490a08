"""Which refusals are the fault of one page and not of the pace.

Laws
----
* A page is suspected when it alone was refused in its congestion epoch, or was again, with others.
* A suspected page refused again at its recheck is excused: another page was accepted after the same
  wait, so the pace is not to blame, nor for its next refusals. The recheck follows that other page
  no sooner than pages followed each other, on average, since the pause before: a limit that fell
  refuses what comes sooner.
* An excused page is broken once it was refused more often in a row than chance explains, as often
  as the site refuses pages at their first visit, or at a later one pages that it serves in the end.
  Refusals at the pace itself prove nothing: a page may come back whenever a bucket is empty.
* In the minute after an excused page came back first, more refusals are asked for: until a page
  was served after all, nobody can tell them from those of a slow backend.
* A page whose probe is the third in a row to be refused while only refused pages are left is
  broken too; but a host that has served others may have a limit a minute, which is waited for once,
  unless the page is excused.
* A site that serves pages at their second visit alone refuses each of them once: that is neither
  the pace nor the page.
* The more later visits are in vain, the longer rechecks wait, and the pauses of excused pages last.
* An accepted page is neither suspected, excused nor broken.
* A page that fails again, though its host accepted others since it failed first, is at fault.
* Memory is bounded; the oldest page is forgotten first.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Annotated, TypeAlias, TypeVar

from scrapy_adaptive.core.evidence import MEMORY, UNLIKELY
from scrapy_adaptive.core.state.fields import LONG_AGO, Instant, Latest, Mark, Range
from scrapy_adaptive.core.types import Page

V = TypeVar("V")

STUCK_PROBES = 3
"""Refused probes in a row, each of a page refused before, that make the last one's page broken;
refusals of a page before which it is never called so; and second visits in a row that are served
after a first that was not, before a site is taken for one that refuses the first."""

MINUTE = 60.0
"""Seconds of the pause before the third of those refused probes, at a host that has served any
page: people write limits per minute."""

AT_RECHECK = 2
"""Refusals that one at a recheck counts for, as another page was accepted after the same wait;
not where refusals come by chance."""

SOON = 0.2
"""Share of their visits in which excused pages are thought to be refused until a minute has passed
since the first of them came back."""

AT_FIRST = 4.0
"""Pages served at their second visit that every site is thought to have served: a few others tell
little."""

MOST_PAGES = 256
"""Most pages remembered per slot and kind."""

MOST_CARRIED = 4
"""Most of them that travel with the slot's state."""

Carried: TypeAlias = Annotated[dict[Page, V], Latest(MOST_CARRIED), Mark.SPARE]
"""Pages, of which a few travel."""


class Blame(Enum):
    """What a refusal is the fault of."""

    PACE = auto()
    PAGE = auto()
    """Of this page or of what is behind it; nobody knows yet whether it is ever served."""
    BROKEN = auto()
    """Of this page, which is refused whatever the pace."""


@dataclass(slots=True)
class SuspectedPages:
    """Pages of one slot that were refused, and what is thought of them."""

    _accepted_count: int = 0
    """Requests that were accepted; at first, before the first refusal."""
    _failed: Carried[int] = field(default_factory=dict)
    """Page to the acceptances of its host before it failed first."""
    _refused: Carried[int] = field(default_factory=dict)
    """Page to its refusals."""
    _excused: Carried[None] = field(default_factory=dict)
    """Those whose refusals say nothing of the pace."""
    excused_at: Instant = LONG_AGO
    """The instant at which an excused page was refused again, the first of all."""
    _late: Annotated[float, Range(0.0, MEMORY)] = 0.0
    """Pages that were served after they had been refused; old ones fade."""
    _vain: Annotated[float, Range(0.0, MEMORY)] = 0.0
    """Refusals beyond one each of those that were excused."""
    suspect: Annotated[Page | None, Mark.SPARE] = None
    """The page that was refused last in the latest epoch: the one that a recheck asks for."""
    _crowded: bool = False
    _recovered_at: Instant = LONG_AGO
    """When the last pause was over."""
    _served_before: int = 0
    """Requests accepted until then."""
    _fresh_count: int = 0
    """Pages that were refused at their first visit."""
    _second: int = 0
    """Times in a row that a page was refused at its first visit, and the next one that was served
    had been refused before; until it is known, with no other refused again."""
    _is_new_refused: bool = False
    _stuck: int = 0
    _fresh_probes: int = 0
    """Test requests in a row of pages not refused before, all of them refused."""
    looks_again: bool = False
    """Whether the next test request is a page that was refused before: this may be a site that
    refuses each page's first visit."""

    def __bool__(self) -> bool:
        return bool(self._refused or self._failed)

    def __contains__(self, page: Page) -> bool:
        return page in self._refused

    def was_refused(self, page: Page) -> bool:
        """Whether this page was refused, and has not failed: a failure may be a host's trouble, of
        which its next visit tells most."""
        return page in self._refused and page not in self._failed

    @property
    def sole(self) -> Page | None:
        """The page that alone was refused in the latest epoch."""
        return None if self._crowded else self.suspect

    @property
    def visits(self) -> float:
        """How often a page that was refused is asked for until it is served, on average; >= 1. Of
        pages that never are nothing is counted."""
        return 1.0 + self._vain / (AT_FIRST + self._late)

    @property
    def refuses_first(self) -> bool:
        """Whether the site refuses each page's first visit."""
        return self._second >= STUCK_PROBES

    def asks_again(self, noise: float) -> bool:
        """Whether one page is to be rechecked; where refusals come by chance, or others were
        refused beside it, if it was refused twice."""
        page = self.suspect
        is_doubtful = noise > 0.0 or self._crowded
        return page is not None and (not is_doubtful or self._refused.get(page, 0) > 1)

    def on_accepted(self, page: Page | None) -> None:
        """A page was accepted; `page` is needed while any is remembered."""
        self._accepted_count += 1
        if page not in self._refused:
            self._second = 0
        elif self._is_new_refused:
            self._second += 1
        self._is_new_refused = False
        self._stuck = self._fresh_probes = 0
        self.looks_again = False
        if page is not None:
            self._failed.pop(page, None)
            if page == self.suspect:
                self.suspect = None
            if page in self._refused:
                self._on_served_late(page)

    def _on_served_late(self, page: Page) -> None:
        """A page was served that had been refused: for itself if it was excused, else for the
        pace. One page alone does not decide how many visits others take."""
        times = self._refused.pop(page)
        if page in self._excused:
            del self._excused[page]
            self._vain += min(times - 1.0, AT_FIRST + self._late)
        self._late += 1.0
        if self._late + self._vain > MEMORY:
            self._late, self._vain = 0.5 * self._late, 0.5 * self._vain

    def on_recovered(self, now: float) -> float:
        """A pause is over; returns the seconds that each page took since the one before, all pauses
        included: the site is known to serve at this pace. 0 for the first."""
        seconds = 0.0 if self._recovered_at == LONG_AGO else now - self._recovered_at
        count = self._accepted_count - self._served_before
        self._recovered_at, self._served_before = now, self._accepted_count
        return seconds / max(1, count)

    def on_epoch(self) -> None:
        """A congestion epoch begins."""
        self.suspect = None
        self._crowded = self.looks_again = False

    def on_rollback(self) -> None:
        """The present epoch is rolled back: nothing more is learned of its page."""
        self.suspect = None

    def blame(
        self,
        page: Page | None,
        *,
        probe: bool,
        recheck: bool,
        now: float = 0.0,
        waited: float = MINUTE,
        noise: float = 0.0,
    ) -> Blame:
        """A refusal has arrived: what is to blame. It is counted where that is not the pace.

        Args:
            now: monotonic seconds.
            waited: seconds of the present pause before it.
            noise: share of the requests that are refused by chance, where one is known.
        """
        if page is None:
            return Blame.PACE
        before = self._refused.get(page, 0)
        if probe:
            is_late = waited >= MINUTE or page in self._excused or not self._accepted_count
            self._on_probe_refused(is_fresh=not before, is_late=is_late)
        is_own = recheck and page == self.suspect and not self.refuses_first
        times = before + (AT_RECHECK if is_own and not noise else 1)
        fresh = self._fresh_count + (not before)
        is_excused = is_own or page in self._excused
        if page in self._excused and self.excused_at == LONG_AGO:
            self.excused_at = now
        is_soon = self.excused_at == LONG_AGO or now - self.excused_at < MINUTE
        again = max(1.0 - 1.0 / self.visits, SOON if is_soon else 0.0)
        share = max(noise, again, fresh / max(1, fresh + self._accepted_count))
        unlikely = UNLIKELY**2 if noise else UNLIKELY  # then all pages of the crawl are at stake
        is_often = times >= STUCK_PROBES and share**times < unlikely
        chance = max(noise, again) if is_excused else noise
        is_stuck = self._stuck >= STUCK_PROBES and chance**times <= UNLIKELY
        if not (is_excused or is_stuck):
            return Blame.PACE
        is_broken = is_often or is_stuck
        self._excused = _with(self._excused, page, None)
        self._count(page, times)
        return Blame.BROKEN if is_broken else Blame.PAGE

    def _on_probe_refused(self, *, is_fresh: bool, is_late: bool) -> None:
        """Which page is asked for next: one refused before may be served at its second visit."""
        if is_fresh:
            self._stuck = 0
        elif is_late or self._stuck != STUCK_PROBES - 1:
            self._stuck += 1
        self._fresh_probes += is_fresh
        is_open = self._second or not self._accepted_count or self._fresh_probes >= STUCK_PROBES
        self.looks_again = is_fresh and bool(is_open)

    def is_failing(self, page: Page | None) -> bool:
        """Whether a failure that has just arrived is the page's own fault."""
        if page is None:
            return False
        if page not in self._failed:
            self._failed = _with(self._failed, page, self._accepted_count)
        return self._failed[page] < self._accepted_count

    def on_refused(self, page: Page | None) -> None:
        """Remember a refusal that counted as congestion in the present epoch."""
        if page is None:
            return
        self._count(page, 1 + self._refused.get(page, 0))
        self._crowded |= self.suspect not in (None, page)
        self.suspect = page

    def _count(self, page: Page, times: int) -> None:
        is_fresh = page not in self._refused
        self._is_new_refused |= is_fresh
        if not (is_fresh or self.refuses_first):
            self._second = 0
        self._fresh_count += is_fresh
        self._refused = _with(self._refused, page, times)


def _with(pages: dict[Page, V], page: Page, value: V) -> dict[Page, V]:
    """These pages and one more; what is empty may be shared, so another is made of it."""
    pages = pages or {}
    pages.pop(page, None)
    pages[page] = value
    if len(pages) > MOST_PAGES:
        del pages[next(iter(pages))]
    return pages


NONE_SUSPECTED = SuspectedPages()
"""What a slot has of which nothing was refused or failed; it is shared, and nothing changes it."""
