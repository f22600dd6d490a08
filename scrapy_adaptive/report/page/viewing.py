"""Makes the view of a crawl."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy_adaptive.report.events import sentence

from .curves import choices, curves_of
from .headline import about, headline, tiles
from .sites import row_of
from .view import View

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrapy_adaptive.report.crawl import Crawl
    from scrapy_adaptive.report.records import EventRecord

    from .view import Row

MOST_EVENTS = 1_000
"""Events on the page, the latest ones."""


def view_of(crawl: Crawl) -> View:
    """What the page shows of this crawl."""
    names = choices(crawl)
    return View(
        title=f"{crawl.spider}: how the crawl went",
        about=about(crawl),
        headline=headline(crawl),
        tiles=tiles(crawl),
        sites=rows_of(crawl),
        choices=names,
        curves=curves_of(crawl, names),
        events=happened(crawl.events[-MOST_EVENTS:]),
    )


def rows_of(crawl: Crawl) -> list[Row]:
    """The row of each site."""
    return [row_of(site, crawl) for site in crawl.sites.values()]


def happened(records: Sequence[EventRecord]) -> list[tuple[float, str, str]]:
    """What happened, the newest first."""
    return [(round(each.at, 1), each.site, sentence(each)) for each in reversed(records)]
