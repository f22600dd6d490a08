"""One crawl of several runs: workers side by side, or a job that was resumed.

Laws
----
* Counters add up over all runs. What is in flight, waits or is allowed adds up over the runs that
  have not ended at that instant.
* A run that has said nothing for `SILENT` seconds, while another one goes on, was killed: it has
  ended.
* A site's state is that of the run that had the last word of it.
* Between two runs of a job nothing crawls: that time counts for no rate and no reason.
* A job that was resumed a hundred times takes a hundred times as long to read, not ten thousand.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from .crawl import Crawl, Site
from .records import CrawlRecord, EventRecord
from .series import AWAY, Point

if TYPE_CHECKING:
    from .building import Run


SILENT = 30.0
"""Seconds without a record; a run that lives has one each second."""

COUNTERS = ("sent", "served", "refused", "failed")
"""What of a point adds up over all runs, those that have ended too."""

NOTHING = Point(0.0)


class _Series(NamedTuple):
    """The points of one run, in the time of the crawl."""

    points: list[Point]
    ended_at: float


class _Placed(NamedTuple):
    """A run in the time of the crawl."""

    run: Run
    shift: float
    """Seconds from the crawl's start to the run's."""
    is_over: bool
    has_left: bool
    """Whether no run was there after its end, until the next one began."""

    def series(self, points: list[Point]) -> _Series:
        ended_at = self.run.last_at + self.shift
        moved = [point._replace(at=point.at + self.shift) for point in points]
        if self.has_left:
            moved.append(moved[-1]._replace(at=ended_at, state=AWAY))
        return _Series(moved, ended_at if self.is_over else math.inf)


def merged(runs: Sequence[Run], skipped: int = 0) -> Crawl:
    """The crawl that these runs make up, the busiest sites first."""
    if not runs:
        return Crawl(skipped=skipped)
    first = min(runs, key=lambda run: run.start.started_at).start
    shifts = [run.start.started_at - first.started_at for run in runs]
    ends = [shift + run.last_at for run, shift in zip(runs, shifts, strict=True)]
    last = runs[ends.index(max(ends))]
    spans = [*zip(shifts, ends, strict=True)]
    placed = [
        _Placed(run, shift, run.is_over or end < max(ends) - SILENT, _is_left(end, spans))
        for run, (shift, end) in zip(runs, spans, strict=True)
    ]
    names = dict.fromkeys(name for run in runs for name in run.sites)
    sites = [_site(name, placed) for name in names]
    sites.sort(key=lambda site: -site.served)
    events = _events(runs, shifts)
    by_name = {site.name: site for site in sites}
    for event in events:
        if event.site in by_name:
            by_name[event.site].events.append(event)
    is_over = all(each.is_over for each in placed)
    return Crawl(
        spider=first.spider,
        started_at=first.started_at,
        seconds=max(ends),
        reason=last.end.reason if is_over and last.end is not None else "",
        run_count=len(runs),
        totals=_totals(placed, max(ends), len(sites)),
        points=_summed([each.series(each.run.points) for each in placed]),
        sites=by_name,
        events=events,
        skipped=skipped,
    )


def _is_left(end: float, spans: Sequence[tuple[float, float]]) -> bool:
    """Whether nothing runs from that end of a run until another one begins."""
    others = [(begin, until) for begin, until in spans if until > end]
    return bool(others) and all(begin > end for begin, _ in others)


def _totals(placed: Sequence[_Placed], at: float, site_count: int) -> CrawlRecord:
    counters = ("sent", "served", "refused", "failed", "requeued", "given_up", "hidden")
    gauges = ("in_flight", "waiting")
    runs = [each.run for each in placed]
    sums = {name: sum(getattr(run.totals, name) for run in runs) for name in counters}
    open_runs = [each.run for each in placed if not each.is_over]
    now = {name: sum(getattr(run.totals, name) for run in open_runs) for name in gauges}
    most = max(run.totals.sites for run in runs)
    busy = max((run.totals.busy for run in open_runs), default=0.0)
    return CrawlRecord(at, **sums, **now, sites=max(most, site_count), busy=busy)


def _events(runs: Sequence[Run], shifts: Sequence[float]) -> list[EventRecord]:
    if len(runs) == 1:
        return list(runs[0].events)
    moved = (
        [replace(event, at=event.at + shift) for event in run.events]
        for run, shift in zip(runs, shifts, strict=True)
    )
    return list(heapq.merge(*moved, key=lambda event: event.at))


def _site(name: str, placed: Sequence[_Placed]) -> Site:
    known = [(each, each.run.sites[name]) for each in placed if name in each.run.sites]
    if len(placed) == 1:
        site = known[0][1]
        return replace(site, values=dict(site.values), points=list(site.points), events=[])
    placed_last, last = max(known, key=lambda each: each[0].shift + each[1].points[-1].at)
    points = _summed([each.series(site.points) for each, site in known])
    sites = [site for _, site in known]
    end = points[-1]
    began = [site.began + each.shift for each, site in known if site.began is not None]
    return replace(
        last,
        began=min(began, default=None),
        sent=end.sent,
        served=end.served,
        refused=end.refused,
        failed=end.failed,
        requeued=sum(site.requeued for site in sites),
        worst=max(site.worst for site in sites),
        in_flight=end.in_flight,
        waiting=end.waiting,
        rate=end.rate,
        paused=sum(site.paused for site in sites),
        until=last.until + placed_last.shift if last.until else 0.0,
        values={key: value for site in sites for key, value in site.values.items()} | last.values,
        points=points,
        events=[],
    )


def _summed(series: Sequence[_Series]) -> list[Point]:
    """One series of several: at each instant the sum of what each of them had last."""
    if len(series) == 1:
        return series[0].points
    tagged = (
        [(point.at, number, point) for point in each.points] for number, each in enumerate(series)
    )
    last: dict[int, Point] = {}
    going: dict[int, Point] = {}
    sums = dict.fromkeys(COUNTERS, 0)
    points = []
    for at, number, point in heapq.merge(*tagged, key=lambda each: each[0]):
        before = last.get(number, NOTHING)
        for name in COUNTERS:
            sums[name] += getattr(point, name) - getattr(before, name)
        last[number] = going[number] = point
        for other in [each for each in going if at > series[each].ended_at and each != number]:
            del going[other]
        points.append(_sum(point, sums, going.values()))
    return points


def _sum(latest: Point, sums: Mapping[str, int], going: Iterable[Point]) -> Point:
    rates = [each.rate for each in going if each.state != "idle"]
    return latest._replace(
        sent=sums["sent"],
        served=sums["served"],
        refused=sums["refused"],
        failed=sums["failed"],
        in_flight=sum(each.in_flight for each in going),
        waiting=sum(each.waiting for each in going),
        rate=sum(rates) if rates else latest.rate,
    )
