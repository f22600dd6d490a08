"""The project crawled for real: ``scrapy crawl pages`` against the site, in processes."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from docsite.arms import Arm, ArmError, Crawl, crawl, site
from docsite.hits import read_hits
from docsite.pages import render_ahead

MODULES = ("json", "json.decoder", "json.encoder", "queue", "sched", "shelve")
STOCK = Arm("stock", "stock", ("ADDONS={}",))


def test_a_crawl_of_an_unguarded_site_brings_home_every_page(tmp_path: Path) -> None:
    """One item per module, with what its page says, and each page asked for once."""
    pages, log = tmp_path / "pages", tmp_path / "hits.jsonl"
    render_ahead(pages, [f"--module={name}" for name in MODULES])

    async def run() -> Crawl:
        async with site(pages, log, ["--no-load-control"]) as url:
            return await crawl(STOCK, url, tmp_path, 60.0, print)

    assert asyncio.run(run()) == Crawl(exit_status=0)
    lines = (tmp_path / "stock.items.jsonl").read_text(encoding="utf-8").splitlines()
    items = {item["module"]: item for item in map(json.loads, lines)}
    assert len(lines) == len(MODULES)
    assert set(items) == set(MODULES)
    assert items["shelve"]["summary"] == "Manage shelves of pickled objects."
    assert (items["shelve"]["class_count"], items["shelve"]["function_count"]) == (3, 1)
    assert {"json.decoder", "json.encoder"} <= set(items["json"]["links"])
    asked = sorted(hit.path for hit in read_hits(log))
    assert asked == sorted(["/", "/robots.txt", *(f"/{name}.html" for name in MODULES)])


def test_a_crawl_that_takes_too_long_is_killed(pages: Path, tmp_path: Path) -> None:
    """And no process of it is left."""

    async def run() -> Crawl:
        async with site(pages, tmp_path / "hits.jsonl", []) as url:
            return await crawl(STOCK, url, tmp_path, 0.05, print)

    assert asyncio.run(run()) == Crawl(exit_status=None)


def test_a_site_that_does_not_start_says_why(tmp_path: Path) -> None:
    """In the site's own words."""

    async def run() -> None:
        async with site(tmp_path, tmp_path / "hits.jsonl", []):
            pass

    with pytest.raises(ArmError, match=r"was not made by docsite\.render"):
        asyncio.run(run())
