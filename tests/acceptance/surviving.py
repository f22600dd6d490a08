"""A site and a spider for crawls that are killed, and what must be there in the end.

Laws
----
* The judge is the site's log, and what the pipeline and the feed have kept.
"""

from __future__ import annotations

import json
import os
import random
import sqlite3
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, ClassVar

import scrapy
from scrapy.http import Response

from docsite.hits import Hit
from tests.servers.origin import Answer, Origin, Visit, refusal

LINKS = 3
"""Links of a page to pages behind it."""


def addresses(count: int) -> list[str]:
    return [f"127.0.1.{n}" for n in range(1, count + 1)]


class Site:
    """So many pages, over all addresses of a server; some redirect, some are not there.

    /p/7 is a page, /r/8 redirects to /p/8, /g/9 is gone; each page with n % 10 == 4 has a detail.
    Every two hundredth visit is refused.
    """

    def __init__(self, pages: int, hosts: int) -> None:
        self.pages = pages
        self.addresses = addresses(hosts)

    def url(self, n: int, port: int) -> str:
        kind = {5: "r", 9: "g"}.get(n % 20, "p")
        return f"http://{self.addresses[n % len(self.addresses)]}:{port}/{kind}/{n}"

    def answer(self, visit: Visit) -> Answer:
        kind, n = visit.path.strip("/").split("/")
        if visit.total % 200 == 0:
            return refusal(retry_after=1)
        if kind == "g":
            return Answer(404, "gone", delay=0.002)
        if kind == "r":
            return Answer(302, headers={"Location": f"/p/{n}"}, delay=0.002)
        return Answer(200, "page", delay=0.005)

    @property
    def wanted(self) -> set[int]:
        """Pages that give an item."""
        return {n for n in range(self.pages) if n % 20 != 9}

    def details(self) -> set[int]:
        return {n for n in self.wanted if n % 10 == 4}


class SurvivingSpider(scrapy.Spider):
    """Crawls a `Site` from its first page; a page's links are those of a tree."""

    name = "surviving"
    handle_httpstatus_list: ClassVar = [404]

    def __init__(self, pages: int = 100, hosts: int = 4, port: int = 0, **rest: Any) -> None:
        super().__init__(**rest)
        self.site, self.port = Site(int(pages), int(hosts)), int(port)

    async def start(self) -> AsyncIterator[Any]:
        yield scrapy.Request(self.site.url(0, self.port))

    def parse(self, response: Response) -> Iterator[Any]:
        n = int(response.url.rpartition("/")[2])
        if response.status == 200:
            yield {"n": n, "kind": "page"}
            if n % 10 == 4:
                yield response.follow(
                    f"/d/{n}",
                    self.parse_detail,
                    cb_kwargs={"n": n},
                    meta={"adaptive_frontier": False},
                )
        for link in range(LINKS * n + 1, LINKS * n + LINKS + 1):
            if link < self.site.pages:
                yield scrapy.Request(self.site.url(link, self.port))

    def parse_detail(self, response: Response, n: int) -> Iterator[Any]:
        yield {"n": n, "kind": "detail"}


class CommittingPipeline:
    """Keeps each item in SQLite before it returns."""

    def __init__(self, path: str) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None, timeout=30)
        # Several begin at once, and to change the journal waits for nobody. No machine dies here.
        self._connection.execute("PRAGMA synchronous=OFF")
        self._connection.execute("CREATE TABLE IF NOT EXISTS item (n INTEGER, kind TEXT)")

    @classmethod
    def from_crawler(cls, crawler: Any) -> CommittingPipeline:
        return cls(crawler.settings["ITEMS_PATH"])

    def process_item(self, item: Any) -> Any:
        self._connection.execute("INSERT INTO item VALUES (?, ?)", (item["n"], item["kind"]))
        return item


def kept_items(path: Path) -> Counter[tuple[int, str]]:
    """What the pipeline has kept, and how often."""
    if not path.exists():
        return Counter()
    with sqlite3.connect(path) as connection:
        return Counter(connection.execute("SELECT n, kind FROM item").fetchall())


def fed_items(path: Path) -> Counter[tuple[int, str]]:
    """What is in the feed; lines that a kill has torn aside."""
    found: Counter[tuple[int, str]] = Counter()
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            item = json.loads(line)
        except ValueError:
            continue
        found[item["n"], item["kind"]] += 1
    return found


def missing(site: Site, found: Counter[tuple[int, str]]) -> set[tuple[int, str]]:
    """Items that should be there."""
    wanted = {(n, "page") for n in site.wanted} | {(n, "detail") for n in site.details()}
    return wanted - found.keys()


def served(hits: list[Hit]) -> Counter[str]:
    """How often each page was served, by address and path."""
    return Counter(f"{hit.host}{hit.path}" for hit in hits if hit.status < 429)


def has_hits(server: Origin, least: int) -> bool:
    """Whether the site was asked so often."""
    return len(server.hits()) >= least


def settings(frontier: str, folder: Path) -> dict[str, Any]:
    """What the crawls of the tests have in common."""
    return {
        "ADAPTIVE_FRONTIER": frontier,
        "ADAPTIVE_FRONTIER_LEASE": float(os.environ.get("SOAK_LEASE", "5")),
        "ADAPTIVE_FRONTIER_POLL_INTERVAL": 0.2,
        "ADAPTIVE_FRONTIER_ORDERS": 200,
        "ADAPTIVE_START_DELAY": 0.02,
        "CONCURRENT_REQUESTS": 32,
        "ADAPTIVE_LOG_INTERVAL": 0,
        "LOG_LEVEL": "INFO",
        "ITEM_PIPELINES": {"tests.acceptance.surviving.CommittingPipeline": 300},
        "ITEMS_PATH": str(folder / "items.db"),
        "FEEDS": {str(folder / "items.jl"): {"format": "jsonlines"}},
    }


def seed_of(name: str) -> random.Random:
    """Chance that is the same in each run."""
    return random.Random(f"{name} {os.environ.get('SOAK_SEED', '')}")
