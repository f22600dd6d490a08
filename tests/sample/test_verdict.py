"""The verdict on a crawl, from hits written by hand."""

from __future__ import annotations

import math

from docsite.hits import Hit
from docsite.verdict import Verdict, judge, table

PATHS = ("/", "/a.html", "/b.html", "/c.html")
LOG = (
    Hit(10.0, 10.1, 200, "/robots.txt"),
    Hit(10.1, 10.2, 200, "/"),
    Hit(10.3, 10.4, 503, "/a.html"),
    Hit(10.5, 10.6, 503, "/b.html"),  # 0.1 s after a refusal: rude
    Hit(11.0, 11.1, 200, "/a.html"),  # 0.4 s after it: not
    Hit(12.0, 12.1, 200, "/a.html"),
    Hit(13.0, 13.1, 404, "/d.html"),
)


def test_a_page_is_kept_once_or_lost_whether_refused_or_never_asked() -> None:
    """/b.html was refused, /c.html never asked for, /a.html came twice, /d.html is no page."""
    assert judge(LOG, PATHS, silence=0.3) == Verdict(
        kept_count=2,
        lost_count=2,
        refusal_count=2,
        hit_count=6,
        rude_count=1,
        seconds=13.1 - 10.1,
    )


def test_hits_per_page_counts_every_hit_but_robots_txt() -> None:
    """Six hits for two pages."""
    assert judge(LOG, PATHS, silence=0.3).hits_per_page == 3.0


def test_an_empty_log_loses_every_page() -> None:
    """And is no division by zero."""
    verdict = judge((), PATHS, silence=0.3)
    assert (verdict.kept_count, verdict.lost_count, verdict.seconds) == (0, 4, 0.0)
    assert verdict.hits_per_page == math.inf


def test_the_table_has_a_line_per_crawl_and_aligned_columns() -> None:
    """A dash stands where nothing was kept."""
    lines = table([("ours", judge(LOG, PATHS, silence=0.3)), ("none", judge((), PATHS, silence=1))])
    assert lines.splitlines() == [
        "      pages  lost  refused  hits/page  rude hits   time",
        "ours      2     2        2       3.00          1  3.0 s",
        "none      0     4        0          –          0  0.0 s",
    ]
