"""The sample project with its one line: the add-on finds the load control's pace by itself."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from pathlib import Path

import pytest

from docsite.arms import Arm, Crawl, crawl, site
from docsite.hits import REFUSAL_CODES, Hit, read_hits
from docsite.pages import Manifest, publish

MODULES = tuple(f"module{n}" for n in range(9))

ADAPTIVE = Arm("scrapy-adaptive", "adaptive", ("ADAPTIVE_START_DELAY=0.05",), is_ours=True)

SPEED = "--speed=400"
"""A crawler's 30 s are 0.075 s."""


@pytest.fixture
def pages(tmp_path: Path) -> Path:
    """An index that links to every module."""
    texts = {name: f"<title>Python: module {name}</title><p>page</p>" for name in MODULES}
    publish(tmp_path / "pages", texts, Manifest(key="by hand", modules=MODULES, skipped_count=0))
    return tmp_path / "pages"


def test_behind_the_load_control_no_page_is_lost_and_few_are_refused(
    pages: Path, tmp_path: Path
) -> None:
    """Every page is served once; the site refuses at least once, and far less than it serves."""
    log = tmp_path / "hits.jsonl"

    async def run() -> Crawl:
        async with site(pages, log, [SPEED]) as url:
            return await crawl(ADAPTIVE, url, tmp_path, 60.0, print)

    assert asyncio.run(run()) == Crawl(exit_status=0)
    lines = (tmp_path / "adaptive.items.jsonl").read_text(encoding="utf-8").splitlines()
    assert sorted(json.loads(line)["module"] for line in lines) == sorted(MODULES)
    hits = read_hits(log)
    assert served(hits) == Counter(["/", "/robots.txt", *(f"/{name}.html" for name in MODULES)])
    refusals = [hit for hit in hits if hit.status in REFUSAL_CODES]
    assert 1 <= len(refusals) <= len(MODULES) // 2


def served(hits: list[Hit]) -> Counter[str]:
    return Counter(hit.path for hit in hits if hit.status == 200)
