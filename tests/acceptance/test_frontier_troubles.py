"""A frontier that is locked, full, restarted or told to swap, while a crawl runs."""

from __future__ import annotations

import errno
import io
import os
import resource
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any

import pytest
import scrapy
from scrapy.extensions.feedexport import FileFeedStorage
from scrapy.http import Response

from docsite.hits import rude_hits
from scrapy_adaptive.frontier.poller import Ranking
from scrapy_adaptive.frontier.sql.admin import Admin
from scrapy_adaptive.frontier.sql.frontier import SqlFrontier
from tests.acceptance.surviving import (
    Site,
    SurvivingSpider,
    fed_items,
    has_hits,
    missing,
    settings,
)
from tests.crawling import Crawler
from tests.servers import valkey
from tests.servers.origin import Answer, Origin, Visit, refusal
from tests.servers.postgres import Postgres
from tests.servers.valkey import Valkey

OUTAGE = float(os.environ.get("SOAK_OUTAGE", "1"))
"""Seconds for which PostgreSQL is away."""

PAGES, HOSTS = 300, 5
TOLD = "the frontier does not answer"

Away = Callable[[], AbstractContextManager[None]]


def test_a_crawl_waits_for_a_locked_database(
    origin: Callable[..., Origin], crawl: Crawler, tmp_path: Path
) -> None:
    """Longer than its lease: nothing is sent meanwhile, nothing is lost, one line tells it."""
    site = Site(PAGES, HOSTS)
    server = origin(site.answer, addresses=site.addresses)
    given = {**settings(f"sqlite:///{tmp_path}/crawl.db", tmp_path), "ADAPTIVE_FRONTIER_LEASE": 2}
    arguments = {"pages": PAGES, "hosts": HOSTS, "port": server.port}
    running = crawl.start(SurvivingSpider, given, arguments=arguments)
    running.until(partial(has_hits, server, 60))
    with closing(sqlite3.connect(tmp_path / "crawl.db", isolation_level=None)) as connection:
        while True:
            try:
                connection.execute("BEGIN IMMEDIATE")
                break
            except sqlite3.OperationalError:
                time.sleep(0.01)
        locked_at = time.time()
        time.sleep(11.0)
        unlocked_at = time.time()
        connection.execute("ROLLBACK")
    done = running.wait()
    late = [hit for hit in server.hits() if locked_at + 2.5 < hit.start < unlocked_at]
    assert late == []
    assert done.log.count(TOLD) == 1
    assert missing(site, fed_items(tmp_path / "items.jl")) == set()


def test_a_crawl_waits_for_room_on_a_full_disk(
    origin: Callable[..., Origin], crawl: Crawler, tmp_path: Path
) -> None:
    """The database's file may grow no more, for a while."""
    site = Site(PAGES, HOSTS)
    server = origin(site.answer, addresses=site.addresses)
    given = settings(f"sqlite:///{tmp_path}/crawl.db", tmp_path) | {"ITEM_PIPELINES": {}}
    arguments = {"pages": PAGES, "hosts": HOSTS, "port": server.port}
    running = crawl.start(SurvivingSpider, given, arguments=arguments)
    running.until(partial(has_hits, server, 60))
    pid = running.process.pid
    before = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    full = (tmp_path / "crawl.db-wal").stat().st_size
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (full, before[1]))
    running.until(lambda: TOLD in running.log)
    time.sleep(1.5)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, before)
    done = running.wait()
    assert done.log.count(TOLD) == 1
    assert "Traceback" not in done.log
    assert missing(site, fed_items(tmp_path / "items.jl")) == set()


class FullFile(io.FileIO):
    """A file on a disk that is full while `FULL` is there."""

    def write(self, data: Any, /) -> int:
        if Path(os.fsdecode(self.name)).with_suffix(".full").exists():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().write(data) or 0


class FullStorage(FileFeedStorage):
    """Keeps a feed on such a disk."""

    def open(self, spider: scrapy.Spider) -> IO[bytes]:
        return io.BufferedWriter(FullFile(self.path, "ab"))


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_crawl_waits_for_room_for_its_items(
    is_killed: bool, origin: Callable[..., Origin], crawl: Crawler, tmp_path: Path
) -> None:
    """The feed's disk is full for a while: what it did not take comes again when there is room."""
    site = Site(PAGES, HOSTS)
    server = origin(site.answer, addresses=site.addresses)
    given = settings(f"sqlite:///{tmp_path}/crawl.db", tmp_path) | {
        "ITEM_PIPELINES": {},
        "FEED_STORAGES": {"": FullStorage, "file": FullStorage},
    }
    arguments = {"pages": PAGES, "hosts": HOSTS, "port": server.port}
    full = tmp_path / "items.full"
    running = crawl.start(SurvivingSpider, given, arguments=arguments)
    running.until(partial(has_hits, server, 60))
    full.touch()
    running.until(lambda: TOLD in running.log)
    time.sleep(1.5)
    full_hits = len(server.hits())
    time.sleep(1.0)
    assert len(server.hits()) - full_hits < PAGES / 4
    if is_killed:
        running.process.kill()
        running.wait(check=False)
    full.unlink()
    if is_killed:
        crawl(SurvivingSpider, given, arguments=arguments)
    else:
        running.wait()
    assert running.log.count(TOLD) == 1
    assert missing(site, fed_items(tmp_path / "items.jl")) == set()


def test_a_crawl_goes_on_when_postgresql_was_restarted(
    postgres: Postgres, origin: Callable[..., Origin], crawl: Crawler, tmp_path: Path
) -> None:
    """Without a word, so that it has to recover."""
    site = Site(PAGES, HOSTS)
    server = origin(site.answer, addresses=site.addresses)
    with Postgres(postgres.folder.with_name("restarted")) as own:
        given = settings(own.database(), tmp_path)
        arguments = {"pages": PAGES, "hosts": HOSTS, "port": server.port}
        running = crawl.start(SurvivingSpider, given, arguments=arguments)
        running.until(partial(has_hits, server, 60))
        own.stop(at_once=True)
        stopped_at = time.time()
        time.sleep(OUTAGE)
        started_at = time.time()
        own.start()
        done = running.wait()
    lease_end = stopped_at + float(given["ADAPTIVE_FRONTIER_LEASE"])
    late = [hit for hit in server.hits() if lease_end < hit.start < started_at]
    print(f"PostgreSQL away for {OUTAGE:g} s: {len(late)} hits without a lease")
    assert late == []
    assert done.log.count(TOLD) == 1
    assert "Traceback" not in done.log
    assert missing(site, fed_items(tmp_path / "items.jl")) == set()


@contextmanager
def locked(database: Path) -> Iterator[None]:
    """Nobody else writes."""
    with closing(sqlite3.connect(database, isolation_level=None, timeout=10)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield
        connection.execute("ROLLBACK")


@contextmanager
def stopped(server: Postgres) -> Iterator[None]:
    """It was not told before."""
    server.stop(at_once=True)
    yield
    server.start()


@contextmanager
def paused(server: Valkey) -> Iterator[None]:
    """It answers nothing."""
    server.pause()
    yield
    server.go_on()


@pytest.fixture(params=["sqlite", "postgresql", "redis"])
def away(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, Away]]:
    """The address of a frontier of this test's own, and what takes it away for a while."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/crawl.db", partial(locked, tmp_path / "crawl.db")
    elif request.param == "postgresql":
        shared: Postgres = request.getfixturevalue("postgres")
        with Postgres(shared.folder.with_name("away")) as own:
            yield own.database(), partial(stopped, own)
    elif valkey.program() is None:
        pytest.skip(valkey.MISSING)
    else:
        with Valkey(tmp_path / "away") as server:
            yield server.frontier(), partial(paused, server)


def test_a_refusal_in_an_outage_longer_than_a_lease_is_not_forgotten(
    away: tuple[str, Away], origin: Callable[..., Origin], crawl: Crawler, tmp_path: Path
) -> None:
    """Every host refuses; nobody sends to any of them before its time, whoever has it then."""
    lease, asked_for = 2.0, 30
    site, refuses = Site(5000, HOSTS), threading.Event()

    def answer(visit: Visit) -> Answer:
        return refusal(retry_after=asked_for) if refuses.is_set() else site.answer(visit)

    server = origin(answer, addresses=site.addresses)
    address, take_away = away
    given = {
        **settings(address, tmp_path),
        "ADAPTIVE_FRONTIER_LEASE": lease,
        "ADAPTIVE_GLOBAL_TRIP_SLOTS": 2 * HOSTS,
        "DOWNLOAD_DELAY": 0.1,
        "FEEDS": {},
        "ITEM_PIPELINES": {},
    }
    arguments = {"pages": site.pages, "hosts": HOSTS, "port": server.port}
    one = crawl.start(SurvivingSpider, given, arguments=arguments)
    one.until(partial(has_hits, server, 20))  # one that finds nothing to do would end
    two = crawl.start(SurvivingSpider, given, arguments=arguments)
    two.until(lambda: "goes on where it was left" in two.log)
    with take_away():
        refuses.set()
        time.sleep(3 * lease)
    time.sleep(3 * lease)
    for each in (one, two):
        each.kill()
    hits = server.hits()
    assert len({hit.host for hit in hits if hit.status == 429}) > 1
    assert [rude.hit for rude in rude_hits(hits, grace=0.25)] == []


def test_a_swap_changes_the_order_and_loses_and_repeats_nothing(
    origin: Callable[..., Origin], crawl: Crawler, tmp_path: Path
) -> None:
    """A heartbeat, each two seconds, hears of it: the crawl takes six at least."""
    site = Site(PAGES, HOSTS)
    server = origin(site.answer, addresses=site.addresses)
    address = f"sqlite:///{tmp_path}/crawl.db"
    given = {
        **settings(address, tmp_path),
        "ADAPTIVE_FRONTIER_LEASE": 6.0,
        "DOWNLOAD_DELAY": 6.0 * HOSTS / PAGES,
    }
    arguments = {"pages": PAGES, "hosts": HOSTS, "port": server.port}
    running = crawl.start(SurvivingSpider, given, arguments=arguments)
    for share in (60, 150, 250):
        running.until(partial(has_hits, server, share))
        with closing(SqlFrontier(address, "surviving", Ranking())) as frontier:
            Admin(frontier).swap()
    done = running.wait()
    assert missing(site, fed_items(tmp_path / "items.jl")) == set()
    served = Counter(f"{hit.host}{hit.path}" for hit in server.hits() if hit.status < 429)
    assert max(served.values()) == 1
    assert done.stats["adaptive/frontier/taken_back"] > 0


class TwoHostsSpider(scrapy.Spider):
    """Asks two hosts for pages."""

    name = "two"

    def __init__(self, urls: list[str], **rest: Any) -> None:
        super().__init__(**rest)
        self.start_urls = urls

    def parse(self, response: Response) -> Any:
        yield {"url": response.url}


def test_a_parked_host_is_released_until_its_instant(
    origin: Callable[..., Origin], crawl: Crawler, tmp_path: Path
) -> None:
    """The crawl ends with what else there is, and the next one does not ask before."""
    addresses = ["127.0.3.1", "127.0.3.2"]

    def answer(visit: Visit) -> Answer:
        return refusal(retry_after=7200) if visit.host.startswith(addresses[1]) else Answer()

    server = origin(answer, addresses=addresses)
    urls = [f"{server.url_at(address)}/{n}" for address in addresses for n in range(5)]
    given = settings(f"sqlite:///{tmp_path}/crawl.db", tmp_path) | {"ITEM_PIPELINES": {}}
    for _ in range(2):
        done = crawl(TwoHostsSpider, given, arguments={"urls": urls}, timeout=60)
        assert "nothing is due: the frontier's next visit is in " in done.log
    hits = [hit.host.partition(":")[0] for hit in server.hits()]
    assert hits.count(addresses[0]) == 5
    assert 1 <= hits.count(addresses[1]) <= 3
