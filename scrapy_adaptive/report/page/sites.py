"""The table's row of each site.

Laws
----
* A row says what holds the site back now; where it has nothing left to do, what did so for longest.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from scrapy_adaptive.report import events, units
from scrapy_adaptive.report.reasons import NOT_YET, Unit, Whose, reason

from .curves import asked

if TYPE_CHECKING:
    from scrapy_adaptive.report.crawl import Crawl, Site

    from .view import Row

DONE = "done"
"""State of a site whose crawl has ended with nothing of it in the way."""


def row_of(site: Site, crawl: Crawl) -> Row:
    """The site's cells, in the order of `words.COLUMNS`."""
    at = site.ended_at if crawl.has_ended else crawl.seconds
    return (
        site.name,
        state_of(site, crawl),
        _short(site.rate_now(at)),
        _short(site.mean_rate),
        _short(site.limit) or None,
        sure(site) or None,
        held_by(site, crawl),
        site.served,
        site.refused,
        site.requeued,
        round(site.paused, 1),
        _last_pause(site, crawl),
    )


def state_of(site: Site, crawl: Crawl) -> str:
    """Its state in a word."""
    if crawl.has_ended and site.state not in ("paused", "parked"):
        return DONE
    return site.state or "idle"


def held_since(site: Site) -> float | None:
    """The instant from which its present limit was kept; None where the journal has none."""
    found = (event.at for event in reversed(site.events) if event.event == events.LIMIT)
    return next(found, None)


def sure(site: Site) -> str:
    """What the limit rests on, and since when it was kept."""
    if not site.limit:
        return ""
    if site.is_sure:
        basis = f"well known, {units.rate(site.refused_at)} was refused"
    elif site.refused_at:
        basis = f"roughly, {units.rate(site.refused_at)} was refused"
    else:
        basis = "not tested"
    since = held_since(site)
    return basis if since is None else f"{basis}; kept since {clock(since)}"


def held_by(site: Site, crawl: Crawl) -> str:
    """What holds it back, with the number where it is known."""
    key = site.held_by(crawl.seconds)
    if not key:
        return NOT_YET.title
    found, value = reason(key), site.values.get(key, 0.0)
    if found.unit is Unit.NONE or not value:
        return found.title
    if found.unit is Unit.RATE and found.whose is Whose.SITE:  # not the limit, but what is tried
        return f"{found.title}: now up to {found.amount(value)}"
    at_once = " at once" if found.unit is Unit.REQUESTS else ""
    return f"{found.title}: {found.amount(value)}{at_once}"


def clock(seconds: float) -> str:
    """Time since the crawl began.

    >>> clock(21.7), clock(3723)
    ('0:21', '1:02:03')
    """
    minutes, second = divmod(int(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"


def _last_pause(site: Site, crawl: Crawl) -> list[Any] | None:
    """When it began, for how many seconds (None: it goes on), and who asked for it."""
    pauses = site.pauses
    if not pauses:
        return None
    begin, end = pauses[-1].begin, site.ends_at(pauses[-1], crawl.seconds)
    length = None if math.isinf(end) else round(end - begin.at, 2)
    return [round(begin.at, 1), length, asked(begin)]


def _short(value: float) -> float:
    return float(f"{value:.3g}")
