"""The read model of a crawl: its sites, their series, what happened, and the sums.

Laws
----
* It is the same whatever it was read from: one journal, several, a crawl that runs, or JSON.
* Instants are seconds since the crawl's start (the first of its runs); rates are 1/s, infinity
  where nothing bounds them.
* The sums are those of all sites; of sites that have no line of their own too.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from . import events, units
from .records import CrawlRecord, EventRecord
from .series import AWAY, FULL, Pause, Point, away, pauses_of, rate_at

_encoded = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


@dataclass(slots=True)
class Site:
    """What is known of a site at the end of what was read."""

    name: str
    began: float | None = None
    """The instant of its first request; None in journals that do not tell."""
    host: str = ""
    """The site that this class of pages is one of; empty for a site."""
    sent: int = 0
    served: int = 0
    refused: int = 0
    failed: int = 0
    requeued: int = 0
    latency: float = 0.0
    """Median seconds to the response's head, of late."""
    worst: float = 0.0
    """The longest ever, seconds."""
    in_flight: int = 0
    waiting: int = 0
    rate: float = math.inf
    """Allowed rate, 1/s."""
    state: str = ""
    """crawling, paused, testing, parked or idle."""
    by: str = ""
    """What holds it back: the key of a reason."""
    value: float = 0.0
    """The number that goes with the reason."""
    own: bool = False
    """Whether that number is from DOWNLOAD_SLOTS."""
    limit: float = 0.0
    """The limit found, 1/s; 0 while none is known."""
    refused_at: float = 0.0
    """The lowest rate that was refused, 1/s; 0 while none was."""
    paused: float = 0.0
    """Seconds that it was paused."""
    until: float = 0.0
    """The instant that ends the present pause; 0 for none."""
    values: dict[str, float] = field(default_factory=dict)
    """Of each reason that has held it back, the number that went with it last."""
    points: list[Point] = field(default_factory=list)
    events: list[EventRecord] = field(default_factory=list)

    @property
    def began_at(self) -> float:
        """The instant of its first request, as far as records tell."""
        if self.began is not None:
            return self.began
        return max(0.0, self.points[0].at - FULL) if self.points else 0.0

    @property
    def ended_at(self) -> float:
        """The instant of its last answer, as far as records tell."""
        last = self.points[-1] if self.points else Point(0.0)
        for point in reversed(self.points):
            if point.served < last.served or point.refused < last.refused:
                break
            last = point
        return last.at

    @property
    def mean_rate(self) -> float:
        """Pages served a second, from its first request to its last answer; 0 for no time. Not
        counted is the time in which nothing crawled."""
        seconds = self.ended_at - self.began_at - away(self.points, self.ended_at)
        return self.served / seconds if seconds > 0 else 0.0

    def rate_now(self, at: float) -> float:
        """Pages served a second in the ten seconds before that instant, or since it began."""
        return rate_at(self.points, at, self.began_at)

    def spent(self, until: float) -> dict[str, float]:
        """Seconds that each reason held it back while it had something to do, the longest first."""
        spent: dict[str, float] = {}
        ends = [*(point.at for point in self.points[1:]), max(until, self.ended_at)]
        for point, end in zip(self.points, ends, strict=True):
            if point.by and point.state not in ("idle", AWAY) and end > point.at:
                spent[point.by] = spent.get(point.by, 0.0) + end - point.at
        return dict(sorted(spent.items(), key=lambda each: -each[1]))

    def held_by(self, until: float) -> str:
        """What holds it back; of a site that has nothing left to do, what did so for longest."""
        spent = self.spent(until) if self.state == "idle" else {}
        return next(iter(spent), self.by)

    @property
    def is_sure(self) -> bool:
        """Whether its limit is well known: a rate just above it was refused."""
        return self.limit > 0.0 and 0.0 < self.refused_at <= units.NARROW * self.limit

    @property
    def pauses(self) -> list[Pause]:
        """Its pauses that have a record; the last one's end may be open."""
        return pauses_of(self.events, (events.PAUSE, events.PARKED), events.RECOVERY)

    def ends_at(self, pause: Pause, now: float) -> float:
        """When this pause of its ended; infinity while it goes on.

        Args:
            now: the crawl's last instant.
        """
        if pause.ended_at < math.inf:
            return pause.ended_at
        is_last = pause == self.pauses[-1]
        if is_last and (self.until > now or self.state in ("paused", "testing", "parked")):
            return math.inf
        return min(now, pause.begin.at + pause.begin.seconds)  # its run was killed


@dataclass(slots=True)
class Crawl:
    """A crawl, or what is known of it so far."""

    spider: str = ""
    started_at: float = 0.0
    """Seconds since 1970, UTC."""
    seconds: float = 0.0
    """From its start to its last record."""
    reason: str = ""
    """Why it ended, in Scrapy's word; empty while it runs, or where it was killed."""
    run_count: int = 0
    totals: CrawlRecord = field(default_factory=lambda: CrawlRecord(0.0))
    """Sums over all sites, at the last record."""
    points: list[Point] = field(default_factory=list)
    """The whole crawl's series."""
    sites: dict[str, Site] = field(default_factory=dict)
    """The busiest first."""
    events: list[EventRecord] = field(default_factory=list)
    """Of all sites and of the whole crawl, in their order."""
    skipped: int = 0
    """Lines that could not be read: torn by a crash, or another program's."""

    @property
    def has_ended(self) -> bool:
        """Whether the journal says that the crawl has ended."""
        return bool(self.reason)

    @property
    def rest(self) -> CrawlRecord:
        """What the sums have beyond the sites that have records of their own."""
        names = ("sent", "served", "refused", "failed", "requeued", "in_flight", "waiting")
        known = {name: sum(getattr(site, name) for site in self.sites.values()) for name in names}
        left = {name: max(0, getattr(self.totals, name) - known[name]) for name in names}
        return CrawlRecord(self.seconds, sites=max(0, self.totals.sites - len(self.sites)), **left)

    @property
    def pauses(self) -> list[Pause]:
        """Those of the whole crawl, of all sites at once."""
        return pauses_of(self.events, (events.STOPPED,), events.RESUMED)

    @property
    def mean_rate(self) -> float:
        """Pages served a second, of the time in which it was crawled; 0 for no time."""
        seconds = self.seconds - away(self.points, self.seconds)
        return self.totals.served / seconds if seconds > 0.0 else 0.0

    def rate_now(self) -> float:
        """Pages served a second in the last ten seconds, or since its start."""
        return rate_at(self.points, self.seconds, 0.0)

    # JSON

    def to_json(self) -> Iterator[str]:
        """The model as JSON text; a rate without a bound is null, a point is a list.

        It comes in pieces, a site each at most: to make one stops all other threads of the process.
        """
        values = {
            each.name: getattr(self, each.name)
            for each in fields(self)
            if each.name not in ("totals", "points", "sites", "events")
        }
        plain = {**values, "totals": asdict(self.totals), "point": list(Point._fields)}
        yield _encoded(plain).removesuffix("}")
        lists: dict[str, Iterable[Any]] = {
            "points": map(_listed, self.points),
            "sites": map(_site_as_json, self.sites.values()),
            "events": map(asdict, self.events),
        }
        for name, items in lists.items():
            yield f',"{name}":['
            for number, item in enumerate(items):
                yield f",{_encoded(item)}" if number else _encoded(item)
            yield "]"
        yield "}"

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Crawl:
        """The model whose JSON `to_json` gave.

        Raises:
            ValueError: it is no such JSON.
        """
        try:
            plain = {
                each.name: values[each.name]
                for each in fields(cls)
                if each.name not in ("totals", "points", "sites", "events")
            }
            sites = [_site_from_json(each) for each in values["sites"]]
            crawl = cls(
                **plain,
                totals=CrawlRecord(**values["totals"]),
                points=[_point(each) for each in values["points"]],
                sites={site.name: site for site in sites},
                events=[_event(each) for each in values["events"]],
            )
        except (KeyError, TypeError, AttributeError):
            raise ValueError("this is not the state of a crawl") from None
        for event in crawl.events:
            if event.site in crawl.sites:
                crawl.sites[event.site].events.append(event)
        return crawl


def _listed(point: Point) -> list[Any]:
    return [None if value == math.inf else value for value in point]


def _point(values: Sequence[Any]) -> Point:
    return Point._make(math.inf if value is None else value for value in values)


def _site_as_json(site: Site) -> dict[str, Any]:
    values = {each.name: getattr(site, each.name) for each in fields(site)}
    del values["events"]
    values["rate"] = None if site.rate == math.inf else site.rate
    return {**values, "points": [_listed(point) for point in site.points]}


def _site_from_json(values: dict[str, Any]) -> Site:
    rate = math.inf if values["rate"] is None else values["rate"]
    points = [_point(each) for each in values["points"]]
    return Site(**{**values, "rate": rate, "points": points})


def _event(values: dict[str, Any]) -> EventRecord:
    return EventRecord(**{**values, "sites": tuple(values["sites"])})
