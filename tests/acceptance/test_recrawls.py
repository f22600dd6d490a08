"""Pages of a frontier that are visited again: what is asked, and what comes of it."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import scrapy
from scrapy.http import Response

from tests.crawling import Crawl, Crawler
from tests.servers.origin import Answer, Origin, Visit

PAGES = int(os.environ.get("SOAK_RECRAWLED", "40"))

REVISIT = {"first": "1h", "min": "1h", "max": "30d"}


class BooksSpider(scrapy.Spider):
    """A list of pages, each of which gives an item."""

    name = "books"

    def __init__(self, url: str = "", count: int = 20, **rest: Any) -> None:
        super().__init__(**rest)
        self.url, self.count = url, int(count)

    async def start(self) -> AsyncIterator[Any]:
        for n in range(self.count):
            yield scrapy.Request(f"{self.url}/{n}")

    def parse(self, response: Response) -> Iterator[Any]:
        assert self.crawler.stats is not None
        self.crawler.stats.inc_value("callbacks")
        yield {"url": response.url, "text": response.text}


class Books:
    """Serves pages by version; some say which version it is, and answer 304 to who has it."""

    def __init__(self) -> None:
        self.versions: dict[str, int] = {}
        self.noise = 0

    def answer(self, visit: Visit) -> Answer:
        n = int(visit.path.strip("/"))
        version = self.versions.get(visit.path, 1)
        if n % 2:
            self.noise += 1
            return Answer(200, f"<p>{version}</p><!-- shell -->", {"X-Noise": str(self.noise)})
        tag = f'"v{version}"'
        if visit.headers.get("If-None-Match") == tag:
            return Answer(304, "", {"ETag": tag})
        return Answer(200, f"<p>{version}</p>", {"ETag": tag})


def settings(tmp_path: Path, **more: Any) -> dict[str, Any]:
    return {
        "ADAPTIVE_FRONTIER": f"sqlite:///{tmp_path}/crawl.db",
        "ADAPTIVE_FRONTIER_POLL_INTERVAL": 0.1,
        "ADAPTIVE_FRONTIER_STAY": 0,
        "ADAPTIVE_START_DELAY": 0.01,
        **more,
    }


def due_now(tmp_path: Path) -> None:
    """All that sleeps is due."""
    with sqlite3.connect(tmp_path / "crawl.db") as connection:
        connection.execute("UPDATE adaptive_visit SET due = 1 WHERE due IS NOT NULL")


@pytest.mark.parametrize("reactor", ["asyncio", "none"])
def test_only_what_has_changed_gives_items_again(
    reactor: Any, origin: Callable[..., Origin], crawl: Crawler, tmp_path: Path
) -> None:
    """304 or the same items: no callback where 304, no item in either case."""
    books = Books()
    site = origin(books.answer)
    given = settings(tmp_path, ADAPTIVE_REVISIT=REVISIT, HTTPCACHE_ENABLED=True)

    def run() -> Crawl:
        due_now(tmp_path) if (tmp_path / "crawl.db").exists() else None
        arguments = {"url": site.url, "count": PAGES}
        return crawl(BooksSpider, given, arguments=arguments, reactor=reactor)

    first = run()
    assert (len(first.items), first.stats["callbacks"]) == (PAGES, PAGES)
    second = run()
    assert second.items == []
    assert second.stats["callbacks"] == PAGES // 2
    assert second.stats["adaptive/frontier/not_modified"] == PAGES // 2
    assert second.stats["adaptive/frontier/unchanged"] == PAGES // 2
    changed = [f"/{n + m}" for n in range(0, PAGES, 200) for m in (4, 7)]
    books.versions = dict.fromkeys(changed, 2)
    third = run()
    assert sorted(urlsplit(item["url"]).path for item in third.items) == sorted(changed)
    assert len(site.hits()) == 3 * PAGES
    print(
        f"{PAGES} pages recrawled: {second.stats['adaptive/frontier/not_modified']} × 304, "
        f"{len(second.items)} items; {len(changed)} changed: {len(third.items)} items"
    )


def test_a_finished_crawl_asks_for_its_start_pages_again(
    origin: Callable[..., Origin], crawl: Crawler, tmp_path: Path
) -> None:
    site = origin(lambda visit: Answer())
    for _ in range(2):
        done = crawl(BooksSpider, settings(tmp_path), arguments={"url": site.url, "count": 3})
        assert len(done.items) == 3
    assert len(site.hits()) == 6


class ShelfSpider(scrapy.Spider):
    """A shelf and its books; only some books give an item."""

    name = "shelf"

    def __init__(self, url: str = "", **rest: Any) -> None:
        super().__init__(**rest)
        self.url = url

    async def start(self) -> AsyncIterator[Any]:
        yield scrapy.Request(f"{self.url}/shelf")

    def parse(self, response: Response) -> Iterator[Any]:
        for n in range(6):
            yield response.follow(f"/{n}", self.parse_book, cb_kwargs={"n": n})

    def parse_book(self, response: Response, n: int) -> Iterator[Any]:
        if n % 2:
            yield {"n": n}


def test_new_asks_again_for_what_gave_no_items(
    origin: Callable[..., Origin], crawl: Crawler, tmp_path: Path
) -> None:
    """As deltafetch does."""
    site = origin(lambda visit: Answer())
    given = settings(tmp_path, ADAPTIVE_REVISIT="new")
    for _ in range(2):
        crawl(ShelfSpider, given, arguments={"url": site.url})
    paths = [hit.path for hit in site.hits()]
    assert sorted(paths) == sorted(
        ["/shelf", *(f"/{n}" for n in range(6)), "/shelf", "/0", "/2", "/4"]
    )


class OwnPeriodsSpider(BooksSpider):
    """Says of each page when to come again."""

    name = "periods"

    async def start(self) -> AsyncIterator[Any]:
        yield scrapy.Request(f"{self.url}/0", meta={"adaptive_revisit": "2d"})
        yield scrapy.Request(f"{self.url}/1", meta={"adaptive_revisit": False})
        yield scrapy.Request(f"{self.url}/2")
        yield scrapy.Request(f"{self.url}/3", meta={"adaptive_revisit": "soon"})

    def parse(self, response: Response) -> Iterator[Any]:
        if response.url.endswith("/2"):
            response.meta["adaptive_next_visit"] = "3d"
        yield {"url": response.url}


def test_a_request_and_a_response_may_say_when_to_come_again(
    origin: Callable[..., Origin], crawl: Crawler, tmp_path: Path
) -> None:
    """What is no time is told, and the setting holds."""
    site = origin(lambda visit: Answer())
    given = settings(tmp_path, ADAPTIVE_REVISIT={"first": "1d", "min": "1h", "max": "30d"})
    done = crawl(OwnPeriodsSpider, given, arguments={"url": site.url})
    with sqlite3.connect(tmp_path / "crawl.db") as connection:
        asked = "SELECT url, (due - visited_at) / 86400000.0 FROM adaptive_visit ORDER BY url"
        days = [None if due is None else round(due) for _, due in connection.execute(asked)]
    assert days == [2, None, 3, 1]
    assert "'soon' is no time" in done.log


class ChainSpider(scrapy.Spider):
    """Logs in first; then pages that post, retry, fail and download within a callback."""

    name = "chain"

    def __init__(self, url: str = "", **rest: Any) -> None:
        super().__init__(**rest)
        self.url = url

    async def start(self) -> AsyncIterator[Any]:
        login = {"adaptive_frontier": False}
        yield scrapy.FormRequest(
            f"{self.url}/login", formdata={"a": "b"}, callback=self.logged_in, meta=login
        )
        for n in range(4):
            yield scrapy.Request(f"{self.url}/page/{n}", errback=self.failed)
        yield scrapy.Request(f"{self.url}/broken", errback=self.failed)
        yield scrapy.Request(f"{self.url}/odd", meta={"when": {1, 2}})
        yield scrapy.Request("http://no\0host/none", errback=self.failed)

    def logged_in(self, response: Response) -> Iterator[Any]:
        yield {"login": True}
        yield scrapy.Request(f"{self.url}/after-login")

    def parse(self, response: Response) -> Iterator[Any]:
        yield {"path": response.url.partition("/page/")[2] or response.url.rpartition("/")[2]}
        if "/page/1" in response.url and not response.meta.get("retry_times"):
            from scrapy.downloadermiddlewares.retry import get_retry_request

            assert response.request is not None
            yield get_retry_request(response.request, spider=self, reason="not yet")
        if "/page/2" in response.url:
            raise RuntimeError("a callback that raises")

    def failed(self, failure: Any) -> Iterator[Any]:
        yield {"failed": failure.request.url.rpartition("/")[2]}
        yield scrapy.Request(f"{self.url}/after-failure")


def test_logins_retries_and_errbacks_belong_to_their_visits(
    origin: Callable[..., Origin], crawl: Crawler, tmp_path: Path
) -> None:
    def answer(visit: Visit) -> Answer:
        return Answer(drop=True) if visit.path == "/broken" else Answer()

    site = origin(answer)
    given = settings(tmp_path, RETRY_TIMES=1)
    done = crawl(ChainSpider, given, arguments={"url": site.url})
    paths = [hit.path for hit in site.hits()]
    assert paths[0] in ("/login", "/odd")
    assert paths.count("/page/1") == 2
    assert {"/after-login", "/after-failure", "/odd"} <= set(paths)
    assert all({"failed": each} in done.items for each in ("broken", "none"))
    assert "meta['when'] is a set" in done.log
    assert "nobody can have its host's name" in done.log
    assert done.stats["adaptive/frontier/unstorable"] == 2
    with sqlite3.connect(tmp_path / "crawl.db") as connection:
        errors = dict(
            connection.execute("SELECT url, error FROM adaptive_visit WHERE error IS NOT NULL")
        )
        left = connection.execute("SELECT count(*) FROM adaptive_visit WHERE state > 0").fetchone()
    assert {url.rpartition("/")[2] for url in errors} == {"2", "broken"}
    assert "a callback that raises" in errors[f"{site.url}/page/2"]
    assert left == (0,)


HOSTILE = {
    "http://[": "",
    "": "",
    "http://127.0.0.1/1": "{",
    "http://127.0.0.1/2": "[]",
    "http://127.0.0.1/3": json.dumps({"_class": "os.system"}),
    "http://127.0.0.1/4": json.dumps({"_class": "antigravity.Request"}),
    "http://127.0.0.1/5": json.dumps({"callback": "__class__"}),
    "http://127.0.0.1/6": json.dumps({"callback": "no_such"}),
    "http://127.0.0.1/7": json.dumps({"callback": "crawler"}),
    "http://127.0.0.1/8": '{"priority": 1' + "0" * 4000 + "}",
    "http://127.0.0.1/9": '{"priority": NaN}',
    "http://127.0.0.1/10": json.dumps({"meta": [1]}),
    "http://127.0.0.1/11": json.dumps({"headers": {"\u2603": ["x"]}}),
    "http://127.0.0.1/12": json.dumps({"no_such": 1}),
    "http://127.0.0.1/13": "[" * 100_000,
    "http://127.0.0.1/14": json.dumps({"body": {"latin1": "\u2603"}}),
    "http://127.0.0.1/15": json.dumps({"encoding": "no such"}),
}


def test_hostile_rows_are_named_and_skipped(
    origin: Callable[..., Origin], crawl: Crawler, tmp_path: Path
) -> None:
    """Nothing of them is imported, and there is no traceback."""
    site = origin(lambda visit: Answer())
    arguments = {"url": site.url, "count": 1}
    crawl(BooksSpider, settings(tmp_path), arguments=arguments)
    with sqlite3.connect(tmp_path / "crawl.db") as connection:
        connection.executemany(
            "INSERT INTO adaptive_visit (spider_id, host_id, url, payload, state, due, priority) "
            "VALUES (1, 1, ?, ?, 0, 1, 1e300)",
            HOSTILE.items(),
        )
    done = crawl(BooksSpider, settings(tmp_path), arguments=arguments)
    assert done.stats["adaptive/frontier/unreadable"] == len(HOSTILE)
    assert "is skipped" in done.log
    assert "Traceback" not in done.log + done.stderr
    assert len(crawl(BooksSpider, settings(tmp_path), arguments=arguments).items) == 1


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("ADAPTIVE_FRONTIER", "mysql://u:secret@x/y", "allowed is sqlite:///PATH"),
        ("ADAPTIVE_FRONTIER", "u:secret@x/y", "allowed is sqlite:///PATH"),
        ("ADAPTIVE_FRONTEIR", "postgresql://u:secret@x/y", "is ADAPTIVE_FRONTIER meant"),
        ("ADAPTIVE_FRONTIER", "postgres://u:secret@127.0.0.1:1/x", "refused"),
        ("ADAPTIVE_FRONTIER", "sqlite:///no/such/folder/x.db", "there is no folder"),
        ("ADAPTIVE_FRONTIER", "sqlite://", "survives nothing"),
        ("ADAPTIVE_FRONTIER", "postgresql://u:secret@127.0.0.1:1/x", "refused"),
        ("ADAPTIVE_FRONTIER", "postgresql://u:secret@127.0.0.1:port/x", "no address"),
        ("ADAPTIVE_FRONTIER", "postgresql+nothing://u:secret@h/x", "allowed is one of sqlite"),
        ("ADAPTIVE_RULES_URL", "postgresql://u:secret@127.0.0.1:port/x", "the address of a"),
        ("JOBDIR", "job", "a frontier no JOBDIR is needed"),
        ("SCHEDULER", "scrapy_redis.scheduler.Scheduler", "Scrapy's own scheduler"),
        ("ADAPTIVE_REVISIT", {"first": "1d"}, "allowed is None"),
        ("ADAPTIVE_EGRESS", "a b", "allowed is a name"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(
    name: str, value: Any, why: str, crawl: Crawler, tmp_path: Path
) -> None:
    given = settings(tmp_path, **{"LOG_LEVEL": "ERROR", name: value})
    done = crawl(BooksSpider, given, arguments={"url": "http://127.0.0.1:1"}, check=False)
    lines = [line for line in done.log.splitlines() if "scrapy_adaptive" in line]
    assert len(lines) == 1
    assert why in lines[0]
    assert name in lines[0]
    assert "secret" not in lines[0]
    assert done.items == []


class CountingSpider(BooksSpider):
    """Counts its runs in its state."""

    name = "counting"

    def parse(self, response: Response) -> Iterator[Any]:
        state: dict[str, int] = self.state  # type: ignore[attr-defined]
        state["runs"] = state.get("runs", 0) + 1
        yield {"runs": state["runs"]}


def test_the_spiders_state_is_kept_as_json(
    origin: Callable[..., Origin], crawl: Crawler, tmp_path: Path
) -> None:
    site = origin(lambda visit: Answer())
    arguments = {"url": site.url, "count": 1}
    runs = [crawl(CountingSpider, settings(tmp_path), arguments=arguments).items for _ in range(2)]
    assert runs == [[{"runs": 1}], [{"runs": 2}]]
