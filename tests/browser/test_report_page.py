"""The report as a reader's browser shows it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from scrapy_adaptive.report.page.cells import words
from scrapy_adaptive.report.page.viewing import rows_of
from scrapy_adaptive.report.page.words import COLUMNS
from tests.browser.pages import Opener, saved
from tests.crawling import Crawler
from tests.report.views import crawl_of, sites
from tests.servers.origin import Answer, Origin, Visit, refusal
from tests.spiders import UrlsSpider

PAGES = 30
REFUSED = (10, 20)
"""Visits that are refused."""

HOSTILE = [
    "<img src=x onerror=window.hacked=1>.example",
    "</script><script>window.hacked=1</script>",
    '"><svg onload=window.hacked=1>',
    "javascript:window.hacked=1",
    "${window.hacked=1}",
]

TIMED = """async ([filter, count]) => {
    const input = document.getElementById("filter");
    const times = [];
    for (let turn = 0; turn < 60; turn++) {
        const began = performance.now();
        for (let each = 0; each < count; each++) {
            input.value = (turn + each) % 2 ? "" : filter;
            input.dispatchEvent(new Event("input"));
            document.body.getBoundingClientRect();
        }
        times.push(performance.now() - began);
        await new Promise(resolve => setTimeout(resolve, 5));
    }
    return Math.min(...times);
}"""
"""Milliseconds that so many filters in a row take, layout and all, where nothing else disturbs
them: after a rest a busy machine gives them some in one piece."""

SHARE = 3
"""Filters of a hundred sites that take as long as one of ten thousand: a busy machine breaks what
takes about as long into about as many pieces."""


def refuses(visit: Visit) -> Answer:
    return refusal(retry_after=1) if visit.total in REFUSED else Answer(delay=0.01)


def test_the_report_of_a_crawl_has_the_totals_of_the_sites_own_log(
    origin: Callable[..., Origin], crawl: Crawler, opened: Opener, tmp_path: Path
) -> None:
    """It is one file that asks nobody for anything, and no script of it fails."""
    site, path = origin(refuses), tmp_path / "report.html"
    settings = {"ADAPTIVE_REPORT": str(path), "ADAPTIVE_START_DELAY": 0.05}
    urls = [f"{site.url}/{number}" for number in range(PAGES)]
    done = crawl(UrlsSpider, settings, arguments={"urls": urls})
    page = opened(path.as_uri())
    statuses = [hit.status for hit in site.hits()]

    assert f"the report of this crawl is {path}" in done.log
    assert page.requests == [path.as_uri()]
    assert page.tile("pages") == statuses.count(200) == PAGES
    assert page.tile("refused") == statuses.count(429) == len(REFUSED)
    assert (page.tile("requeued"), page.tile("lost")) == (len(REFUSED), 0)
    assert page.text("#headline").startswith("127.0.0.1 ")
    assert page.text("#headline").endswith("nothing lost")
    assert page.column("pages") == [str(PAGES)]
    assert "the site asked for it, after a 429" in page.column("last pause")[0]
    label = page.tab.get_attribute("#curve", "aria-label")
    assert f"{len(REFUSED)} refused" in label
    assert page.tab.locator("#events li").count() >= 4


def test_every_cell_reads_as_in_the_terminal(opened: Opener, tmp_path: Path) -> None:
    """One wording, in two languages."""
    crawl = crawl_of(sites([f"site-{number}.example" for number in range(30)]))
    page = opened(saved(crawl, tmp_path))
    rows = sorted(rows_of(crawl), key=lambda row: -row[7])
    for index, column in enumerate(COLUMNS):
        assert page.column(column.name) == [words(column, row[index]) for row in rows]


def test_names_from_a_crawl_are_text(opened: Opener, tmp_path: Path) -> None:
    """In the table, in the list of curves, and in what happened."""
    crawl = crawl_of(sites([f"site-{number}.example" for number in range(9)] + HOSTILE))
    page = opened(saved(crawl, tmp_path))
    page.tab.select_option("#curve-site", HOSTILE[0])
    page.tab.hover("#curve")
    assert set(HOSTILE) <= set(page.column("site"))
    assert set(HOSTILE) <= set(page.tab.locator("#curve-site option").all_inner_texts())
    assert page.tab.evaluate("window.hacked") is None
    assert page.tab.locator("main img, main svg[onload]").count() == 0


def test_the_table_is_sorted_and_filtered_by_keyboard(opened: Opener, tmp_path: Path) -> None:
    crawl = crawl_of(sites([f"site-{number}.example" for number in range(30)]))
    page = opened(saved(crawl, tmp_path))
    page.tab.focus("#filter")
    page.tab.keyboard.type("site-1")
    assert page.text("#shown") == "11 of 11 (of 30) sites shown"
    page.tab.keyboard.press("Tab")  # the head of the first column
    page.tab.keyboard.press("Enter")
    assert page.column("site")[:3] == ["site-1.example", "site-10.example", "site-11.example"]
    page.tab.keyboard.press("Enter")
    assert page.column("site")[0] == "site-19.example"
    for _ in COLUMNS:
        page.tab.keyboard.press("Tab")
    page.tab.keyboard.press("Enter")
    assert page.tab.input_value("#curve-site") == "site-19.example"


def test_part_of_the_time_is_shown_by_buttons(opened: Opener, tmp_path: Path) -> None:
    """Twice in, once to the right, and all of it again."""
    page = opened(saved(crawl_of(sites(["a.example", "b.example"], 80.0)), tmp_path))
    shown = "(() => { const r = page.curve.range; return [r.start / 1000, r.end / 1000]; })()"
    seen = [page.tab.evaluate(shown)]
    for button in ("in", "in", "right", "all"):
        page.tab.click(f"[data-zoom={button}]")
        seen.append(page.tab.evaluate(shown))
    assert seen == [[0, 80], [20, 60], [30, 50], [40, 60], [0, 80]]


@pytest.mark.parametrize("text", [".example", "site-5", "nowhere"])
def test_ten_thousand_sites_are_filtered_as_quickly_as_a_hundred(
    text: str, opened: Opener, tmp_path: Path
) -> None:
    """All, some or none of the sites are left."""
    took = {}
    for count, repeated in ((100, SHARE), (10_000, 1)):
        names = [f"site-{number}.example" for number in range(count)]
        page = opened(saved(crawl_of(sites(names)), tmp_path))
        took[count] = page.tab.evaluate(TIMED, [text, repeated])
        assert len(page.column("site")) <= 30
    print(took)
    assert took[10_000] <= took[100]


@pytest.mark.parametrize("width", [400, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_a_phone_and_has_the_readers_colours(
    width: int, scheme: str, opened: Opener, tmp_path: Path
) -> None:
    """Nothing is cut off at the side; text stands out from what is behind it."""
    crawl = crawl_of(sites([f"site-{number}.example" for number in range(12)]))
    page = opened(saved(crawl, tmp_path), width=width, color_scheme=scheme)
    assert page.tab.evaluate("document.documentElement.scrollWidth") <= width
    light = page.tab.evaluate(
        "['color', 'backgroundColor'].map(name => getComputedStyle(document.body)[name]"
        ".match(/\\d+/g).slice(0, 3).reduce((sum, part) => sum + Number(part), 0))"
    )
    assert (light[0] < 200, light[1] > 600) == (scheme == "light", scheme == "light")
    assert abs(light[0] - light[1]) > 500
    line = page.tab.evaluate("page.curve.model('served-glyph').line_color.value")
    assert line == page.tab.evaluate(
        "getComputedStyle(document.documentElement).getPropertyValue('--served').trim()"
    )


def test_each_column_tile_and_line_says_what_it_means(opened: Opener, tmp_path: Path) -> None:
    page = opened(saved(crawl_of(sites(["a.example"])), tmp_path))
    heads = page.tab.locator("#sites th[title]").count()
    tiles = page.tab.locator(".tile[title]").count()
    lines = page.tab.locator("#legend [title]").count()
    assert (heads, tiles, lines) == (len(COLUMNS), 6, 4)
