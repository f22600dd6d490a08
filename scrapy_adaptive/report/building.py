"""Makes the read model of records, one at a time as they come.

Laws
----
* Each `start` begins a run; what comes before the first is nobody's.
* A site's counters that begin again at 0 go on from where they were.
* A series has `MOST_POINTS` points at most: then every second of its older half goes, which loses
  time, no page.
"""

from __future__ import annotations

import math
from dataclasses import fields
from typing import TYPE_CHECKING

from .crawl import Crawl, Site
from .merging import merged
from .records import VERSION, CrawlRecord, End, EventRecord, SiteRecord, Start
from .series import Point

if TYPE_CHECKING:
    from .records import Record

MOST_POINTS = 4_096
"""Points of one series."""

MOST_EVENTS = 20_000
"""Events kept of a run: the latest ones."""

COUNTERS = ("sent", "served", "refused", "failed", "requeued", "paused")
"""What begins again at 0 with a slot that was forgotten."""

_PLAIN = tuple(
    each.name
    for each in fields(SiteRecord)
    if each.name not in ("at", "site", "began", "fresh", "rate", "worst", *COUNTERS)
)


class JournalError(ValueError):
    """The journal cannot be read by this version."""


class Run:
    """One run, as far as it has come.

    Args:
        start: its first record.
    """

    def __init__(self, start: Start) -> None:
        self.start = start
        self.last_at = 0.0
        self.end: End | None = None
        self.is_over = False
        """Whether nothing more comes: it has ended, or another run goes on in its journal."""
        self.totals = CrawlRecord(0.0)
        self.points: list[Point] = [Point(0.0)]
        self.sites: dict[str, Site] = {}
        self.events: list[EventRecord] = []
        self._bases: dict[str, dict[str, float]] = {}
        self._worst: dict[str, float] = {}
        """Of each site the longest latency that its records told last."""

    def add(self, record: Record) -> None:
        """One record more."""
        self.last_at = max(self.last_at, record.at if not isinstance(record, Start) else 0.0)
        if isinstance(record, SiteRecord):
            self._add_site(record)
        elif isinstance(record, CrawlRecord):
            self.totals = record
            _append(self.points, _crawl_point(record))
        elif isinstance(record, EventRecord):
            self.events.append(record)
            if len(self.events) > MOST_EVENTS:
                del self.events[: MOST_EVENTS // 10]
        elif isinstance(record, End):
            self.end = record
            self.is_over = True

    def _add_site(self, record: SiteRecord) -> None:
        site = self.sites.get(record.site)
        if site is None:
            site = self.sites[record.site] = Site(record.site, record.began)
        if record.fresh:
            self._bases[record.site] = {name: getattr(site, name) for name in COUNTERS}
        base = self._bases.get(record.site, {})
        for name in COUNTERS:
            value = getattr(record, name)
            if value is not None:
                setattr(site, name, base.get(name, 0) + value)
        for name in _PLAIN:
            value = getattr(record, name)
            if value is not None:
                setattr(site, name, value)
        if record.rate is not None:
            site.rate = record.rate or math.inf
        if site.by:
            site.values[site.by] = site.value
        worst = self._worst.get(record.site, 0.0) if record.worst is None else record.worst
        self._worst[record.site] = worst
        site.worst = max(site.worst, worst)
        _append(site.points, _site_point(site, record.at, worst))


class Builder:
    """The model of a crawl, of as many runs as it has."""

    def __init__(self) -> None:
        self.runs: list[Run] = []
        self.skipped = 0
        self._open: dict[str, Run] = {}

    def add(self, record: Record | None, source: str = "") -> None:
        """One record more; None for a line that could not be read.

        Args:
            source: the journal that it is from, where there are several.

        Raises:
            JournalError: it is of a version that is not known here.
        """
        if record is None:
            self.skipped += 1
        elif isinstance(record, Start):
            if record.version > VERSION:
                raise JournalError(
                    f"the journal is of version {record.version}, made by scrapy-adaptive "
                    f"{record.package}; this one reads up to version {VERSION}"
                )
            if source in self._open:
                self._open[source].is_over = True
            self._open[source] = Run(record)
            self.runs.append(self._open[source])
        elif source in self._open:
            self._open[source].add(record)
        else:
            self.skipped += 1

    def crawl(self) -> Crawl:
        """The crawl as it is known by now."""
        return merged(self.runs, self.skipped)


def _append(points: list[Point], point: Point) -> None:
    points.append(point)
    if len(points) > MOST_POINTS:
        del points[1 : MOST_POINTS // 2 : 2]


def _site_point(site: Site, at: float, worst: float) -> Point:
    return Point(
        at,
        site.sent,
        site.served,
        site.refused,
        site.failed,
        site.latency,
        worst,
        site.in_flight,
        site.waiting,
        site.rate,
        site.by,
        site.state,
    )


def _crawl_point(record: CrawlRecord) -> Point:
    return Point(
        record.at,
        record.sent,
        record.served,
        record.refused,
        record.failed,
        in_flight=record.in_flight,
        waiting=record.waiting,
    )
