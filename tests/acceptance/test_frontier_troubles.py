"""A frontier that is locked, full, restarted or told to swap, while a crawl runs."""

from __future__ import annotations

import resource
import sqlite3
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

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
from tests.servers.origin import Origin
from tests.servers.postgres import Postgres

PAGES, HOSTS = 400, 5
TOLD = "the frontier does not answer"


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
        time.sleep(1.0)
        own.start()
        done = running.wait()
    assert done.log.count(TOLD) == 1
    assert "Traceback" not in done.log
    assert missing(site, fed_items(tmp_path / "items.jl")) == set()


def test_a_swap_changes_the_order_and_loses_and_repeats_nothing(
    origin: Callable[..., Origin], crawl: Crawler, tmp_path: Path
) -> None:
    site = Site(PAGES, HOSTS)
    server = origin(site.answer, addresses=site.addresses)
    address = f"sqlite:///{tmp_path}/crawl.db"
    given = {**settings(address, tmp_path), "ADAPTIVE_FRONTIER_LEASE": 1.5}
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
