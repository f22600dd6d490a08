"""The pictures of the documentation: one site, crawled by stock Scrapy and with the add-on.

Two copies of an nginx that serves ten pages a second and refuses the rest are crawled at the same
time. The add-on's picture is its report; that of stock Scrapy is the same page, made of what its
site has logged. Needs Chromium, and the extras test and test-browser.

    python benchmarks/pictures.py [--pages 400] [--out docs/_static]
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.pop(0)  # this folder, whose modules are imported by their full names
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "sample_project"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import argparse
import io
import shutil
import tempfile
from collections import Counter
from collections.abc import Sequence
from typing import Any

from PIL import Image

from benchmarks.arguments import new_folder, whole
from docsite.hits import Hit
from scrapy_adaptive.report import units
from scrapy_adaptive.report.page import page
from scrapy_adaptive.report.page.view import Curve, Tile, View
from scrapy_adaptive.report.page.words import LEGEND
from tests.browser.conftest import NAMES
from tests.crawling import ROOT, Crawler
from tests.servers.nginx import Nginx, limit_req
from tests.spiders import UrlsSpider

ALLOWED, BURST = 10, 10
"""Pages a second, and at once."""

LIMIT = ("what the site allows (dashed)", "As nginx is configured")
STEP = 0.5
"""Seconds of a step of stock Scrapy's curve."""

REPORT, STOCK = "report", "stock"

SHOTS: dict[str, tuple[str, dict[str, Any]]] = {
    f"{name}-{scheme}": (name, {"viewport": size, "color_scheme": scheme})
    for name, size in (
        (REPORT, {"width": 640, "height": 800}),
        (STOCK, {"width": 640, "height": 800}),
    )
    for scheme in ("light", "dark")
} | {
    f"wide-{scheme}": (
        REPORT,
        {"viewport": {"width": 1280, "height": 1040}, "color_scheme": scheme},
    )
    for scheme in ("light", "dark")
}
SHOTS["phone"] = (REPORT, {"viewport": {"width": 400, "height": 1560}, "color_scheme": "light"})
"""Names of the pictures, what is on them, and how the browser is set."""


def crawl_both(folder: Path, pages: int) -> tuple[Path, list[Hit], list[Hit]]:
    """The add-on's report, and the hits of both sites: stock Scrapy's, and the add-on's."""
    report = folder / "report.html"
    crawler = Crawler(folder)
    (folder / "a").mkdir()
    (folder / "b").mkdir()
    with (
        Nginx(folder / "a", limit_req(f"{ALLOWED}r/s", BURST), pages=pages) as a,
        Nginx(folder / "b", limit_req(f"{ALLOWED}r/s", BURST), pages=pages) as b,
    ):
        stock = crawler.start(UrlsSpider, arguments={"urls": a.page_urls()}, adaptive=False)
        settings = {"ADAPTIVE_REPORT": str(report)}
        ours = crawler.start(UrlsSpider, settings, arguments={"urls": b.page_urls()}, timeout=300)
        stock.wait()
        ours.wait()
        return report, a.hits(), b.hits()


def stock_view(hits: Sequence[Hit], pages: int, seconds: float) -> View:
    """What the site of stock Scrapy has logged, over the time that the add-on's crawl took."""
    began = hits[0].start
    served, refused = Counter[int](), Counter[int]()
    for hit in hits:
        counter = served if hit.status == 200 else refused
        counter[int((hit.start - began) / STEP)] += 1
    got, turned, took = served.total(), refused.total(), hits[-1].end - began
    lost = pages - got
    steps = range(int(seconds / STEP) + 1)
    return View(
        title="stock Scrapy",
        about=f"stock Scrapy · {units.duration(took)} long · from the site's own log",
        headline=f"{lost:,} of {pages:,} pages lost; {turned:,} requests refused",
        tiles=[
            Tile("pages", "pages", f"{got:,}", f"of {pages:,}", "Served"),
            Tile(
                "refused", "refused", f"{turned:,}", f"{turned / len(hits):.0%} of all", "Refused"
            ),
            Tile("requeued", "requeued", "0", "retried twice, at once", "Sent again later"),
            Tile("lost", "given up", f"{lost:,}", "after two retries", "Lost"),
            Tile("paused", "paused", "0 s", "no pause", "Time in which nothing was sent"),
            Tile("sites", "sites", "1", "all done", "Hosts"),
        ],
        sites=[],
        legend={**{key: LEGEND[key] for key in ("served", "refused")}, "limit": LIMIT},
        choices=[""],
        curves={
            "": Curve(
                at=[step * STEP for step in steps],
                served=[served[step] / STEP for step in steps],
                limit=[ALLOWED for _ in steps],
                refusals=[(step * STEP, refused[step]) for step in steps if refused[step]],
                pauses=[],
                until=seconds,
            )
        },
    )


def take(pages: dict[str, Path], out: Path) -> None:
    """Take the pictures of these pages."""
    from playwright.sync_api import sync_playwright

    path = next(found for name in NAMES if (found := shutil.which(name)))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        for name, (what, options) in SHOTS.items():
            tab = browser.new_context(**options).new_page()
            tab.goto(pages[what].as_uri())
            tab.wait_for_selector("html[data-ready]")
            tab.wait_for_timeout(500)
            save(tab.screenshot(), out / f"{name}.png")
        browser.close()


def save(picture: bytes, path: Path) -> None:
    """In few colours: a page has no more."""
    with Image.open(io.BytesIO(picture)) as image:
        few = image.convert("RGB").quantize(
            256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE
        )
        few.save(path, optimize=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pages", type=whole(), default=400)
    parser.add_argument("--out", type=new_folder, default=ROOT / "docs" / "_static")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pictures-") as name:
        folder = Path(name)
        report, stock, ours = crawl_both(folder, given.pages)
        seconds = ours[-1].end - ours[0].start
        beside = folder / "stock.html"
        beside.write_text(page(stock_view(stock, given.pages, seconds)), encoding="utf-8")
        take({REPORT: report, STOCK: beside}, given.out)
    for which, hits in (("stock Scrapy", stock), ("scrapy-adaptive", ours)):
        statuses = Counter(hit.status for hit in hits)
        print(f"{which}: {dict(statuses)} in {hits[-1].end - hits[0].start:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
