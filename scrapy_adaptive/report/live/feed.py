"""The crawl as its watchers see it: records come in from the crawl's thread, changes go out.

Laws
----
* `put` may be called from any thread and never waits; all else belongs to the server's thread.
* A watcher is not sent again what it has: rows that are the same, events of before.
* To look at the crawl as a whole, and to make answers of it, takes a `SHARE` of a processor core at
  most, however many sites there are and whoever asks.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field, replace
from itertools import islice, takewhile
from typing import TYPE_CHECKING, Any, TypeVar

from scrapy_adaptive.report.building import Builder
from scrapy_adaptive.report.crawl import Crawl
from scrapy_adaptive.report.page.curves import choices, curves_of
from scrapy_adaptive.report.page.headline import about, headline, tiles
from scrapy_adaptive.report.page.view import View, changed
from scrapy_adaptive.report.page.viewing import MOST_EVENTS, happened, rows_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from scrapy_adaptive.report.page.view import Row
    from scrapy_adaptive.report.records import EventRecord, Record

Made = TypeVar("Made")

SHARE = 0.05


@dataclass(slots=True)
class Watcher:
    """What one browser has been sent."""

    site: str = ""
    """Whose curve it shows; empty for the whole crawl."""
    rows: dict[str, Row] = field(default_factory=dict)
    event: EventRecord | None = None
    """The latest it has."""
    is_new: bool = True


class Feed:
    """One crawl, of one worker or of several, kept up to date."""

    def __init__(self) -> None:
        self.crawl = Crawl()
        self.rows: list[Row] = []
        self._waiting: deque[tuple[Record | None, str]] = deque()
        self._builder = Builder()
        self._good_until = 0.0
        self._made: dict[Callable[[Feed], Any], Any] = {}
        """What was made of the crawl as it is seen, by what made it."""

    def put(self, records: Iterable[Record | None], source: str = "") -> None:
        """Some records more, from any thread; None for a line that could not be read.

        Args:
            source: the journal that they are from, where there are several.
        """
        self._waiting.extend((record, source) for record in records)

    def drain(self) -> None:
        """Take in what was put."""
        while self._waiting:
            self._builder.add(*self._waiting.popleft())

    def refresh(self, *, must: bool = False) -> None:
        """See the crawl as it is now; as it was a moment ago, where to look takes long.

        Args:
            must: look in any case.
        """
        if time.monotonic() < self._good_until and not must:
            return
        began = time.thread_time()
        self.drain()
        self.crawl = self._builder.crawl()
        self.rows = rows_of(self.crawl)
        self._made.clear()
        self._spend(began)

    def made(self, make: Callable[[Feed], Made]) -> Made:
        """What this makes of the crawl as it is now; what it has made, while that is still good."""
        self.refresh()
        if make not in self._made:
            began = time.thread_time()
            self._made[make] = make(self)
            self._spend(began)
        found: Made = self._made[make]
        return found

    def _spend(self, began: float) -> None:
        """What was seen stays good for longer, by what has been done for it since that time."""
        spent = time.thread_time() - began
        self._good_until = max(self._good_until, time.monotonic()) + spent / SHARE

    def blank(self) -> View:
        """The view of a page that will be fed."""
        return View(
            title=f"{self.crawl.spider}: live",
            about=about(self.crawl),
            headline=headline(self.crawl),
            tiles=tiles(self.crawl),
            sites=[],
            choices=[""],
            curves={},
            live=True,
        )

    def table(self) -> dict[str, Any]:
        """The whole table, and whether the crawl has ended."""
        return {**changed(replace(self.blank(), sites=self.rows)), "ended": self.crawl.has_ended}

    def change(self, watcher: Watcher) -> dict[str, Any]:
        """What this watcher has not got yet; from here on it has."""
        rows = [row for row in self.rows if watcher.rows.get(row[0]) != row]
        events = self.crawl.events
        new = takewhile(lambda event: event != watcher.event, reversed(events))
        view = replace(
            self.blank(),
            sites=rows,
            choices=choices(self.crawl),
            curves=curves_of(self.crawl, [watcher.site]),
            events=happened([*islice(new, MOST_EVENTS)][::-1]),
        )
        found = {**changed(view), "fresh": watcher.is_new}
        watcher.rows.update((row[0], row) for row in rows)
        watcher.event = events[-1] if events else None
        watcher.is_new = False
        return found
