"""The journal's size is bounded, and its sums are exact all the same."""

from __future__ import annotations

from pathlib import Path

from benchmarks.journal_size import write
from scrapy_adaptive.report.writer import BYTES_PER_SECOND, DAY_BYTES, SAVED_MOST

SITES = 3_000

LAST_LINE = 400
"""Bytes of a site's last line, at most."""


def test_a_crawl_in_which_more_happens_than_there_is_room_for(tmp_path: Path) -> None:
    """Ten minutes of thousands of sites: no page is missing in the sums, all sites have a line."""
    seconds = 600
    written = write(tmp_path, hours=seconds / 3600, sites=SITES, pages=120)
    crawl = written.crawl
    assert written.size < SAVED_MOST + BYTES_PER_SECOND * seconds + SITES * LAST_LINE
    assert crawl.totals.served == written.pages
    assert crawl.totals.hidden > 0
    assert sum(site.served for site in crawl.sites.values()) == written.pages
    assert crawl.rest.served == 0


def test_a_day_is_within_the_bound_by_its_own_numbers() -> None:
    """What it may write in a day, what it may have saved, and ten thousand last lines."""
    assert SAVED_MOST + BYTES_PER_SECOND * 86_400 + 10_000 * LAST_LINE < DAY_BYTES
