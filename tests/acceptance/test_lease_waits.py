"""Pictures of a host that another worker holds keep no place from other hosts."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from benchmarks.beside.spiders import PagesSpider
from scrapy_adaptive.frontier.poller import Ranking
from tests.crawling import Crawler
from tests.frontier.engines import open_engine
from tests.servers.origin import Answer, Origin, Visit
from tests.servers.valkey import MISSING, Valkey, program

if program() is None:
    pytest.skip(MISSING, allow_module_level=True)

HERE, THERE = "127.1.1.1", "127.1.1.2"

HELD = 12.0
"""Seconds for which another worker holds the pictures' host."""

PAGES = 30


def test_pages_go_on_while_pictures_wait_for_the_lease_of_their_host(
    valkey: Valkey, origin: Callable[..., Origin], crawl: Crawler, tmp_path: Path
) -> None:
    """The first pages show more of them than there are places."""

    def answer(visit: Visit) -> Answer:
        if visit.host.startswith(f"{THERE}:"):
            return Answer(body="picture")
        n, port = int(visit.path.rpartition("/")[2]), visit.host.partition(":")[2]
        shown = "".join(f"<img src='http://{THERE}:{port}/{n}-{m}.png'>" for m in range(5))
        return Answer(body=shown if n < 2 else "")

    site = origin(answer, addresses=[HERE, THERE])
    address = valkey.frontier()
    settings: dict[str, Any] = {
        "ADAPTIVE_FRONTIER": address,
        "ADAPTIVE_START_DELAY": 0.05,
        "CONCURRENT_REQUESTS": 4,
        "FILES_STORE": str(tmp_path),
        "ITEM_PIPELINES": {"scrapy.pipelines.files.FilesPipeline": 1},
    }
    with closing(open_engine(address, "another", Ranking(), None)) as other:
        other.open("another", "shared", HELD)
        assert other.lease(0, 0, only=THERE).held
        urls = [f"{site.url_at(HERE)}/{n}" for n in range(PAGES)]
        crawl(PagesSpider, settings, arguments={"urls": urls}, timeout=90)
    hits = site.hits()
    first = min((hit.start for hit in hits if hit.host.startswith(THERE)), default=math.inf)
    pages = [hit for hit in hits if hit.host.startswith(HERE)]
    assert len(pages) == PAGES
    assert sum(hit.start < first for hit in pages) == PAGES
