"""Known limits in real crawls: no refusal from the first page on, and nobody waits for another.

Laws
----
* The site is the judge: it counts its windows itself, by when it saw each request.
* The table is a real one, in PostgreSQL or SQLite; it is changed while the crawl runs.
"""

from __future__ import annotations

import json
import os
import time
from collections import defaultdict, deque
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from scrapy_adaptive.__main__ import main
from scrapy_adaptive.rules.schema import RULES
from scrapy_adaptive.rules.table import RuleTable
from tests.crawling import Crawler, RunningCrawl
from tests.servers.origin import Answer, Origin, Visit, refusal
from tests.servers.postgres import Postgres
from tests.spiders import FetchingSpider, UrlsSpider

REFRESH = 0.5

CHANGED = "adaptive rules: changed"

MORE = 6
"""Times that a crawl which may go faster is looked at, on a busy machine."""

ASLEEP = float(os.environ.get("RULES_ASLEEP", "4"))
"""Seconds for which a leaf sleeps while others are counted."""

SETTINGS: dict[str, Any] = {
    "ADAPTIVE_TARGET_CONCURRENCY": 8,
    "ADAPTIVE_START_DELAY": 0.01,
    "ADAPTIVE_IDENTITY": {"account": "meta:account"},
    "ADAPTIVE_RULES_REFRESH": REFRESH,
}


class Windows:
    """A site that lets each account have so many pages in any window: a sliding log."""

    def __init__(self, most: int, window: float) -> None:
        self.most, self.window = most, window
        self.logs: defaultdict[str, deque[float]] = defaultdict(deque)
        self.hits: list[tuple[float, str]] = []
        self.refused = 0

    def __call__(self, visit: Visit) -> Answer:
        now = time.monotonic()
        self.hits.append((now, visit.path))
        if not visit.path.startswith("/api"):
            return Answer(200, b"page")
        log = self.logs[visit.headers.get("X-Account", "")]
        while log and now - log[0] >= self.window:
            log.popleft()
        if len(log) >= self.most:
            self.refused += 1
            return refusal(429)
        log.append(now)
        return Answer(200, b"record")

    def count(self, since: float, until: float) -> int:
        """Hits between these instants."""
        return sum(since <= at < until for at, _ in self.hits)


def requests(site: Origin, counts: dict[str, int]) -> list[dict[str, Any]]:
    """So many requests of each account."""
    return [
        {
            "url": f"{site.url}/api/{account}/{number}",
            "headers": {"X-Account": account},
            "meta": {"account": account},
        }
        for account, count in counts.items()
        for number in range(count)
    ]


def pages(site: Origin, count: int) -> list[dict[str, Any]]:
    """So many pages that no account is needed for."""
    return [{"url": f"{site.url}/page/{number}"} for number in range(count)]


@pytest.fixture(params=["sqlite", "postgresql"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RuleTable]:
    """An empty table of rules, in a database of its own."""
    url = f"sqlite:///{tmp_path}/rules.db"
    if request.param != "sqlite":
        postgres: Postgres = request.getfixturevalue("postgres")
        url = postgres.database()
    table = made(url)
    yield table
    table.engine.dispose()


def made(url: str) -> RuleTable:
    """The table at this address, made."""
    table = RuleTable(url)
    table.create()
    return table


def address(table: RuleTable) -> str:
    """For the settings."""
    return table.engine.url.render_as_string(hide_password=False)


def insert(table: RuleTable, **values: Any) -> None:
    """Add a row."""
    with table.engine.begin() as connection:
        connection.execute(sa.insert(RULES).values(**values))


def update(table: RuleTable, **values: Any) -> float:
    """Change all rows; returns when."""
    with table.engine.begin() as connection:
        connection.execute(sa.update(RULES).values(**values))
    return time.monotonic()


QUEUES: dict[str, dict[str, Any]] = {
    "host queue": {"CONCURRENT_REQUESTS": 4},
    "scrapy's queue": {
        "CONCURRENT_REQUESTS": 100,
        "SCHEDULER_PRIORITY_QUEUE": "scrapy.pqueues.ScrapyPriorityQueue",
    },
}
"""Scrapy's own queue holds its places, so that it needs more of them."""


@pytest.mark.parametrize("queue", QUEUES)
def test_a_paused_account_holds_up_nobody(crawl: Crawler, queue: str) -> None:
    """However many of its requests wait, those of others are served; of its own none leaves."""
    windows = Windows(1000, 1.0)
    rules = [{"uri": "/api/*", "identity": "account=alice", "paused": True}]
    with Origin(windows) as site:
        urls = requests(site, {"alice": 12, "bob": 5}) + pages(site, 20)
        settings = SETTINGS | QUEUES[queue] | {"ADAPTIVE_RULES": rules}
        running = crawl.start(UrlsSpider, settings, arguments={"urls": urls})
        running.until(lambda: len(running.outcome().urls) >= 25)
        running.interrupt()
        done = running.wait(check=False)
    assert not any("alice" in path for _, path in windows.hits)
    assert len(done.urls) == 25


def test_a_leaf_that_sleeps_costs_the_others_nothing(crawl: Crawler) -> None:
    """Of three accounts of one host one sleeps; the other two have all that their rules let by.

    What leaves late on a busy machine is caught up with, by a burst. How long it took is judged
    where somebody says for how long to look: a busy machine is slow for other reasons.
    """
    windows = Windows(10_000, 1.0)
    rate, late = 5.0, 5.0
    many = int(rate * ASLEEP)
    rules = [
        {"uri": "/api/*", "identity": "account=*", "rate": rate, "burst": late},
        {"uri": "/api/*", "identity": "account=carol", "interval": 3600.0},
    ]
    with Origin(windows) as site:
        urls = requests(site, {"carol": 40, "alice": many, "bob": many})
        settings = SETTINGS | {
            "CONCURRENT_REQUESTS": 4,
            "ADAPTIVE_RULES": rules,
            "ADAPTIVE_MAX_PAUSE": 7200.0,  # else the crawl ends where only the sleeper is left
        }
        running = crawl.start(UrlsSpider, settings, arguments={"urls": urls})
        running.until(lambda: len(windows.hits) > 2 * many)
        running.interrupt()
        running.wait(check=False)
    hits = {
        name: [at for at, path in windows.hits if name in path]
        for name in ("alice", "bob", "carol")
    }
    took = {name: times[-1] - times[0] for name, times in hits.items()}
    print(f"{many} pages at {rate:g}/s beside one that sleeps, seconds: {took}")
    assert {name: len(times) for name, times in hits.items()} == {
        "alice": many,
        "bob": many,
        "carol": 1,
    }
    for name in ("alice", "bob"):
        assert took[name] >= (many - late) / rate - 0.5
        assert took[name] <= 1.05 * ASLEEP + 1.0 or "RULES_ASLEEP" not in os.environ


def test_a_window_that_is_known_is_never_met(crawl: Crawler) -> None:
    """Each account has its own count; all pages are there, and nobody was refused."""
    windows = Windows(5, 2.0)
    rules = [{"uri": "/api/*", "identity": "account=*", "max_hits": 5, "window": 2.0}]
    with Origin(windows) as site:
        urls = requests(site, {"alice": 12, "bob": 5}) + pages(site, 10)
        done = crawl(UrlsSpider, SETTINGS | {"ADAPTIVE_RULES": rules}, arguments={"urls": urls})
    assert windows.refused == 0
    assert len(done.urls) == len(urls)
    assert done.stats["adaptive/rules/sent"] == 17


def test_what_is_left_of_a_quota_is_told_from_the_jobdir(
    crawl: Crawler, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a table the hits of each account are in the job's state."""
    rules = [
        {"name": "hour", "uri": "/api/*", "identity": "account=*", "max_hits": 15, "window": "1h"}
    ]
    jobdir = tmp_path / "job"
    settings = SETTINGS | {"ADAPTIVE_RULES": rules, "JOBDIR": str(jobdir)}
    with Origin(Windows(100, 60.0)) as site:
        urls = requests(site, {"alice": 12, "bob": 5})
        crawl(UrlsSpider, settings, arguments={"urls": urls})
    told = [f"ADAPTIVE_RULES={json.dumps(rules)}", f"JOBDIR={jobdir}"]
    told.append('ADAPTIVE_IDENTITY={"account": "meta:account"}')
    assert main(["rules", "show", *(word for each in told for word in ("-s", each))]) == 0
    said = capsys.readouterr().out
    assert "account=alice: 3 left of 15" in said
    assert "account=bob: 10 left of 15" in said


def test_an_identity_set_behind_the_queue_is_seen_at_the_gate(crawl: Crawler) -> None:
    """The request goes back to the queue of its account; none is refused, none is lost."""
    windows = Windows(5, 2.0)
    with Origin(windows) as site:
        urls = [{"url": f"{site.url}/api/{number}"} for number in range(12)]
        rules = [{"uri": "/api/*", "identity": "account=*", "max_hits": 5, "window": 2.0}]
        settings = {
            **SETTINGS,
            "ADAPTIVE_RULES": rules,
            "DOWNLOADER_MIDDLEWARES": {Accounts: 300},
        }
        done = crawl(UrlsSpider, settings, arguments={"urls": urls})
    assert windows.refused == 0
    assert len(done.urls) == len(urls)
    assert len(windows.logs) == 2


class Accounts:
    """A downloader middleware that chooses the account of each request."""

    def __init__(self) -> None:
        self.count = 0

    def process_request(self, request: Any) -> None:
        if "/api" in request.url and "account" not in request.meta:
            self.count += 1
            request.meta["account"] = ("alice", "bob")[self.count % 2]
            request.headers["X-Account"] = request.meta["account"]


def are_felt(running: RunningCrawl, count: int) -> bool:
    """Whether the crawl has read so many changes of the table."""
    return running.log.count(CHANGED) >= count


def test_a_row_that_appears_holds_what_waits_at_the_gate(crawl: Crawler, table: RuleTable) -> None:
    """Two rows of one site: one that paces it, and later one that stops it."""
    windows = Windows(10_000, 1.0)
    insert(table, id=1, rate=2.0)
    with Origin(windows) as site:
        urls = [page["url"] for page in pages(site, 100)]
        given = SETTINGS | {"ADAPTIVE_RULES_URL": address(table)}
        running = crawl.start(FetchingSpider, given, arguments={"urls": urls})
        running.until(lambda: windows.count(0.0, 1e12) >= 3)
        insert(table, id=2, name="stop", paused=True)
        running.until(partial(are_felt, running, 1))
        since = time.monotonic() + 0.5
        time.sleep(3.0)
        assert windows.count(since, 1e12) == 0
        running.kill()


def test_an_update_is_felt_by_a_live_crawl(crawl: Crawler, table: RuleTable) -> None:
    """Slower, faster, paused, freed, expired: within the refresh and a second.

    A busy machine feels one of them later; from when it does, what has not left goes by the new.
    """
    windows = Windows(10_000, 1.0)
    insert(table, id=1, rate=20.0)
    with Origin(windows) as site:
        running = crawl.start(
            UrlsSpider,
            SETTINGS | {"ADAPTIVE_RULES_URL": address(table)},
            arguments={"urls": pages(site, 1000)},
        )
        running.until(lambda: windows.count(0.0, 1e12) >= 20)
        rates: dict[str, float] = {}
        delays: list[float] = []
        changes: dict[str, dict[str, Any]] = {
            "slower": {"rate": 5.0},
            "paused": {"paused": True},
            "freed": {"paused": False, "rate": 20.0},
            "faster": {"rate": 50.0},
            "slow": {"rate": 0.01},
            "expired": {"expires_at": 1.0},
        }
        for count, (name, values) in enumerate(changes.items(), 1):
            changed_at = update(table, **values)
            running.until(partial(are_felt, running, count))
            delays.append(time.monotonic() - changed_at)
            since = time.monotonic() + 1.0
            for _ in range(MORE if name in ("freed", "expired") else 1):
                time.sleep(max(0.0, since + 1.5 - time.monotonic()))
                rates[name] = windows.count(since, since + 1.5) / 1.5
                if rates[name] > 5.5:  # who may go faster does, as soon as the machine lets it
                    break
                since += 1.5
        running.interrupt()
        running.wait(check=False)
    print(rates, delays)
    assert min(delays) <= REFRESH + 1.0
    assert rates["slower"] <= 5.5
    assert rates["paused"] == 0.0
    assert rates["slower"] < rates["freed"] <= 22.0
    assert rates["faster"] <= 52.0
    assert rates["slow"] <= 1.0
    assert rates["expired"] > 2.0
