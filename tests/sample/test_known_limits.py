"""The site's own rules, known to the crawl: nothing is refused, from the first page on."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from docsite.api import MOST, ApiThrottle
from docsite.arms import Arm, Crawl, site
from docsite.arms import crawl as crawl_pages
from docsite.hits import REFUSAL_CODES, Hit, read_hits
from docsite.pages import Manifest, publish
from scrapy_adaptive.rules.toml_file import read_toml
from tests.crawling import ROOT, Crawler
from tests.spiders import UrlsSpider

SPEED = 50.0
"""A rule's 30 s are 0.6 s."""

MODULES = tuple(f"module{n}" for n in range(9))

USERS, CALLS = ("alice", "bob"), 12

BLOCK = 3.0
"""Seconds: long beside those after which a busy crawl has read what an operator changed. Until
then a block that begins has fewer calls than the crawl knows."""

SETTINGS: dict[str, Any] = {
    "ADAPTIVE_START_DELAY": 0.01,
    "ADAPTIVE_IDENTITY": {"user": "meta:user"},
    "ADAPTIVE_RULES_REFRESH": 0.2,
}


@pytest.fixture
def many(tmp_path: Path) -> Path:
    """An index that links to every module."""
    texts = {name: f"<title>Python: module {name}</title><p>page</p>" for name in MODULES}
    publish(tmp_path / "pages", texts, Manifest(key="by hand", modules=MODULES, skipped_count=0))
    return tmp_path / "pages"


def refused(log: Path) -> list[Hit]:
    """Hits that the site refused."""
    return [hit for hit in read_hits(log) if hit.status in REFUSAL_CODES]


def published(speed: float) -> list[dict[str, Any]]:
    """The rows of the how-to, at the site's speed."""
    rules = []
    for rule in read_toml(ROOT / "docs/examples/connotea.toml"):
        words: dict[str, Any] = {"name": rule.name, "shared": rule.shared}
        words |= {"identity": str(rule.identity)} if rule.identity else {}
        words |= {"interval": rule.interval / speed} if rule.interval else {}
        words |= {"concurrency": rule.concurrency} if rule.concurrency else {}
        if rule.max_hits:
            words |= {"max_hits": rule.max_hits, "window": rule.window / speed}
        rules.append(words)
    return rules


@pytest.mark.parametrize("agent", ["Googlebot/2.1", "Scrapy/2.19", "Mozilla/5.0 (X11) Firefox"])
def test_the_published_rules_are_obeyed_from_the_first_page_on(
    many: Path, tmp_path: Path, agent: str
) -> None:
    """A known crawler and visitors: every page is there, and no request was refused."""
    log = tmp_path / "hits.jsonl"
    settings = (
        f"USER_AGENT={agent}",
        f"ADAPTIVE_RULES={json.dumps(published(SPEED))}",
        'ADAPTIVE_AGENTS={"crawler": ["*googlebot*", "scrapy/*"]}',
        "ADAPTIVE_START_DELAY=0.01",
    )

    async def run() -> Crawl:
        async with site(many, log, [f"--speed={SPEED:g}"]) as url:
            arm = Arm("scrapy-adaptive", "adaptive", settings, is_ours=True)
            return await crawl_pages(arm, url, tmp_path, 90.0, print)

    assert asyncio.run(run()) == Crawl(exit_status=0)
    assert len((tmp_path / "adaptive.items.jsonl").read_text().splitlines()) == len(MODULES)
    assert refused(log) == []


def throttle(table: Path, calls: int) -> None:
    """An operator writes into the table of the API."""
    with closing(sqlite3.connect(table)) as database, database:
        database.execute(
            f"INSERT INTO throttled_calls VALUES (1, '/api/entity/#', ?, {BLOCK}, NULL) "
            "ON CONFLICT DO UPDATE SET max_locks = excluded.max_locks",
            (calls,),
        )


def calls_of(url: str) -> list[dict[str, Any]]:
    """So many calls of each user."""
    return [
        {"url": f"{url}api/entity/{n}", "headers": {"X-User": user}, "meta": {"user": user}}
        | {"dont_filter": True}
        for n in range(CALLS)
        for user in USERS
    ]


@pytest.mark.parametrize("knows", [True, False], ids=["rules of its table", "no rules"])
def test_an_api_throttled_by_a_table_is_crawled_by_the_same_table(
    many: Path, tmp_path: Path, crawl: Crawler, knows: bool
) -> None:
    """With its rows as rules no call is refused, also while they are edited; without, it learns."""
    log, table = tmp_path / "hits.jsonl", tmp_path / "api.db"
    settings = SETTINGS | ({"ADAPTIVE_RULES_URL": f"sqlite:///{table}"} if knows else {})

    async def run() -> int:
        async with site(many, log, [f"--api={table}", "--no-load-control"]) as url:
            throttle(table, 3)
            running = crawl.start(UrlsSpider, settings, arguments={"urls": calls_of(url)})
            await asyncio.to_thread(running.until, lambda: len(read_hits(log)) >= 8)
            throttle(table, 5)
            await asyncio.to_thread(running.until, lambda: len(read_hits(log)) >= 14)
            throttle(table, 2)
            return len((await asyncio.to_thread(running.wait)).urls)

    assert asyncio.run(run()) == CALLS * len(USERS)
    assert bool(refused(log)) is not knows


def test_the_counts_of_the_api_are_bounded(tmp_path: Path) -> None:
    """Of more users than there is room for the oldest block is forgotten."""
    api = ApiThrottle(tmp_path / "api.db")
    throttle(tmp_path / "api.db", 1)
    for number in range(MOST + 10):
        assert api.on_call(1.0, 0.0, f"user {number}", "/api/entity/7") is None
    assert api.count_count == MOST
    assert api.on_call(1.5, 0.0, f"user {MOST}", "/api/entity/8") == pytest.approx(BLOCK - 0.5)
    assert api.on_call(1.5, 0.0, f"user {MOST}", "/api/other") is None


def test_a_block_that_begins_anew_is_forgotten_last(tmp_path: Path) -> None:
    api = ApiThrottle(tmp_path / "api.db")
    throttle(tmp_path / "api.db", 1)
    for number in range(MOST):
        assert api.on_call(0.0, 0.0, f"user {number}", "/api/entity/7") is None
    for user in ("user 0", "a new user"):
        assert api.on_call(BLOCK + 1.0, 0.0, user, "/api/entity/7") is None
    assert api.on_call(BLOCK + 2.0, 0.0, "user 0", "/api/entity/7") is not None
