"""What came of a crawl, in one sentence and a few totals.

Laws
----
* The sentence says what the site allows, what the crawl did, and whether anything was lost.
"""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from typing import TYPE_CHECKING

from scrapy_adaptive.report import units

from .sites import clock, held_by, held_since, state_of
from .view import Tile

if TYPE_CHECKING:
    from scrapy_adaptive.report.crawl import Crawl, Site


def headline(crawl: Crawl) -> str:
    """The crawl in a sentence."""
    if not crawl.sites:
        return "No request was sent yet" if not crawl.has_ended else "No request was sent"
    if len(crawl.sites) == 1:
        (site,) = crawl.sites.values()
        return f"{_one(site, crawl)}; {_lost(crawl)}"
    return f"{_many(crawl)}; {_lost(crawl)}"


def about(crawl: Crawl) -> str:
    """What was crawled, when, and how it ended."""
    begin = datetime.fromtimestamp(crawl.started_at).strftime("%Y-%m-%d %H:%M:%S")
    said = [f"spider {crawl.spider}", f"began {begin}", f"{units.duration(crawl.seconds)} long"]
    if crawl.run_count > 1:
        said.append(f"{crawl.run_count} runs together")
    if crawl.has_ended:
        said.append(f"ended: {crawl.reason}")
    if crawl.skipped:
        said.append(f"{crawl.skipped:,} lines of the journal could not be read")
    return " · ".join(said)


def tiles(crawl: Crawl) -> list[Tile]:
    """The totals."""
    totals = crawl.totals
    paused = sum(site.paused for site in crawl.sites.values())
    pauses = sum(len(site.pauses) for site in crawl.sites.values())
    answered = totals.served + totals.refused
    share = totals.refused / answered if answered else 0.0
    return [
        Tile(
            "pages",
            "pages",
            f"{totals.served:,}",
            f"{pages_rate(crawl.mean_rate)} on average",
            "Requests that the sites served",
        ),
        Tile(
            "refused",
            "refused",
            f"{totals.refused:,}",
            f"{share:.2%} of all answers",
            "Requests that the sites turned down: a 429, a 503, or what your classifier calls so",
        ),
        Tile(
            "requeued",
            "requeued",
            f"{totals.requeued:,}",
            "sent again later",
            "Refused requests that went back to their queue; none of them spent a retry",
        ),
        Tile(
            "lost",
            "given up",
            f"{totals.given_up:,}",
            f"{totals.failed:,} downloads failed"
            if totals.failed or totals.given_up
            else "no page lost",
            "Requests that were not sent again; failed downloads are left to RetryMiddleware",
        ),
        Tile(
            "paused",
            "paused",
            units.duration(paused),
            f"in {pauses:,} {'pause' if pauses == 1 else 'pauses'}",
            "Time in which nothing was sent to a site after a refusal, of all sites together",
        ),
        Tile(
            "sites", "sites", f"{totals.sites:,}", _states(crawl), "Hosts, or slots of the project"
        ),
    ]


def pages_rate(per_second: float) -> str:
    """A rate of pages.

    >>> pages_rate(9.96), pages_rate(0.5)
    ('10 pages/s', '30 pages/min')
    """
    count, _, unit = units.rate(per_second).partition("/")
    return f"{count} pages/{unit}"


def _one(site: Site, crawl: Crawl) -> str:
    if not crawl.has_ended and site.until > crawl.seconds:
        left = units.duration(site.until - crawl.seconds)
        return f"{site.name} is paused for another {left}"
    if site.limit and site.refused_at and not site.is_sure:
        refused = units.rate(site.refused_at)
        return f"{site.name} allows {pages_rate(site.limit)} or more, and refuses {refused}"
    if site.limit:
        since = held_since(site)
        held = "" if since is None else f"; held since {clock(since)}"
        return f"{site.name} allows about {pages_rate(site.limit)}{held}"
    rate = pages_rate(site.mean_rate)
    tense = "gave" if crawl.has_ended else "gives"
    return f"{site.name} {tense} {rate} and has shown no limit; held back by {held_by(site, crawl)}"


def _many(crawl: Crawl) -> str:
    limits = sum(site.limit > 0.0 for site in crawl.sites.values())
    said = f"{crawl.totals.served:,} pages of {crawl.totals.sites:,} sites"
    said += f" at {pages_rate(crawl.mean_rate)}"
    return f"{said}; {limits:,} {'site has' if limits == 1 else 'sites have'} shown a limit"


def _lost(crawl: Crawl) -> str:
    given_up = crawl.totals.given_up
    if given_up:
        return f"{given_up:,} {'request' if given_up == 1 else 'requests'} given up"
    return "nothing lost"


def _states(crawl: Crawl) -> str:
    counts = Counter(state_of(site, crawl) for site in crawl.sites.values())
    named = [
        f"{counts[state]:,} {state}" for state in ("paused", "testing", "parked") if counts[state]
    ]
    return ", ".join(named) or ("all done" if crawl.has_ended else "none paused")
