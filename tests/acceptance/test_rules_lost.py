"""The database of the rules goes away while the crawl runs, and comes back."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.test_rules import (
    REFRESH,
    SETTINGS,
    Windows,
    address,
    insert,
    made,
    pages,
    requests,
)
from tests.crawling import Crawler
from tests.servers.origin import Origin
from tests.servers.postgres import Postgres
from tests.spiders import UrlsSpider

AWAY = float(os.environ.get("RULES_AWAY", "4"))
"""Seconds."""


def test_a_lost_database_opens_no_gate_and_stalls_nothing(crawl: Crawler) -> None:
    """The rules hold on; two lines say that it went, and that it is back."""
    windows = Windows(10_000, 1.0)
    with tempfile.TemporaryDirectory(prefix="lost-") as folder, Origin(windows) as site:
        Path(folder).chmod(0o755)
        with Postgres(Path(folder, "postgres")) as server:
            table = made(server.database())
            insert(table, id=1, rate=10.0)
            running = crawl.start(
                UrlsSpider,
                SETTINGS | {"ADAPTIVE_RULES_URL": address(table)},
                arguments={"urls": pages(site, int(200 + 20 * AWAY))},
            )
            running.until(lambda: windows.hits)
            table.engine.dispose()
            server.stop(at_once=True)
            lost_at = time.monotonic()
            time.sleep(AWAY)
            there = windows.count(lost_at, lost_at + AWAY)
            server.start()
            running.until(lambda: "is back after" in running.log)
            running.interrupt()
            log = running.wait(check=False).log
    print(f"{AWAY:g} s without the database: {there} hits under a rule of {10.0 * AWAY:g}")
    assert 0.5 * 10.0 * AWAY <= there <= 10.0 * AWAY + 2
    assert log.count("the last good rules hold") == 1
    assert log.count("is back after") == 1


def test_what_came_of_requests_meanwhile_is_told_afterwards(crawl: Crawler, tmp_path: Path) -> None:
    """It is added to the table when that is back."""
    windows, file = Windows(10_000, 1.0), tmp_path / "rules.db"
    table = made(f"sqlite:///{file}")
    insert(table, id=1, rate=20.0)
    table.engine.dispose()
    with Origin(windows) as site:
        settings = SETTINGS | {"ADAPTIVE_RULES_URL": address(table)}
        running = crawl.start(UrlsSpider, settings, arguments={"urls": pages(site, 60)})
        running.until(lambda: windows.hits)
        file.rename(tmp_path / "away.db")
        running.until(lambda: "the last good rules hold" in running.log)
        (tmp_path / "away.db").rename(file)
        running.until(lambda: "is back after" in running.log)
        running.wait()
    assert table.uses()["1"].sent == len(windows.hits)
    table.engine.dispose()


def test_a_database_that_can_be_read_only_is_named_once(crawl: Crawler, tmp_path: Path) -> None:
    """Nothing leaves under a quota that cannot be counted there; what else there is goes on."""
    windows = Windows(10_000, 1.0)
    table = made(f"sqlite:///{tmp_path}/rules.db")
    insert(table, id=1, uri="/api/*", max_hits=100, window_seconds=3600.0)
    with table.engine.begin() as connection:
        connection.exec_driver_sql("DROP TABLE adaptive_hits")
    with Origin(windows) as site:
        urls = [*requests(site, {"alice": 3}), *pages(site, 5)]
        running = crawl.start(
            UrlsSpider,
            SETTINGS | {"ADAPTIVE_RULES_URL": address(table)},
            arguments={"urls": urls},
        )
        running.until(lambda: "no such table: adaptive_hits" in running.log)
        running.until(lambda: len(windows.hits) >= 5)
        time.sleep(4 * REFRESH)
        running.interrupt()
        log = running.wait(check=False).log
    table.engine.dispose()
    assert {path for _, path in windows.hits} == {f"/page/{number}" for number in range(5)}
    assert log.count("the last good rules hold") == 1
    assert log.count("is back after") == 0


SETTINGS_OF_NONE: dict[str, Any] = SETTINGS | {
    "ADAPTIVE_RULES_URL": "sqlite:////no/such/folder/rules.db"
}


def test_without_its_table_a_crawl_does_not_begin(crawl: Crawler) -> None:
    """Unless it is told that it may."""
    windows = Windows(10_000, 1.0)
    with Origin(windows) as site:
        urls = {"urls": pages(site, 2)}
        refused = crawl(UrlsSpider, SETTINGS_OF_NONE, arguments=urls, check=False)
        assert refused.returncode != 0
        assert "ADAPTIVE_RULES_URL = 'sqlite:////no/such/folder/rules.db'" in refused.log
        assert windows.hits == []
        optional = SETTINGS_OF_NONE | {"ADAPTIVE_RULES_OPTIONAL": True}
        assert len(crawl(UrlsSpider, optional, arguments=urls).urls) == 2


@pytest.mark.parametrize("refresh", [REFRESH])
def test_a_bad_row_is_named_and_opens_no_gate(
    crawl: Crawler, tmp_path: Path, refresh: float
) -> None:
    """It keeps its last good form; a reader of the log finds the row."""
    windows = Windows(10_000, 1.0)
    table = made(f"sqlite:///{tmp_path}/rules.db")
    insert(table, id=77, paused=True)
    with Origin(windows) as site:
        running = crawl.start(
            UrlsSpider,
            SETTINGS | {"ADAPTIVE_RULES_URL": address(table), "ADAPTIVE_RULES_REFRESH": refresh},
            arguments={"urls": pages(site, 5)},
        )
        running.until(lambda: "1 hold" in running.log)
        with table.engine.begin() as connection:
            connection.exec_driver_sql("UPDATE adaptive_rules SET window_seconds = -1")
        running.until(lambda: "adaptive_rules id 77: window_seconds = -1.0" in running.log)
        assert windows.hits == []
        with table.engine.begin() as connection:
            connection.exec_driver_sql(
                "UPDATE adaptive_rules SET window_seconds = NULL, paused = 0"
            )
        assert len(running.wait().urls) == 5


@pytest.mark.parametrize("is_readable", [True, False], ids=["its host is told", "it is not"])
def test_a_row_that_is_bad_from_the_start_opens_no_gate(
    crawl: Crawler, tmp_path: Path, is_readable: bool
) -> None:
    """What it may mean waits until it is mended; where nobody can know, no crawl begins."""
    windows = Windows(10_000, 1.0)
    table = made(f"sqlite:///{tmp_path}/rules.db")
    host = "127.0.0.1" if is_readable else "127.0.0.1/page"
    insert(table, id=7, host=host, uri="/page/*", rate=-1.0 if is_readable else 20.0)
    with Origin(windows) as site:
        settings = SETTINGS | {"ADAPTIVE_RULES_URL": address(table)}
        urls = {"urls": pages(site, 5) + requests(site, {"alice": 5})}
        if not is_readable:
            refused = crawl(UrlsSpider, settings, arguments=urls, check=False)
            assert refused.returncode != 0
            assert "mend the row (adaptive_rules id 7: host = '127.0.0.1/page'" in refused.log
            assert windows.hits == []
            settings |= {"ADAPTIVE_RULES_OPTIONAL": True}
            assert len(crawl(UrlsSpider, settings, arguments=urls).urls) == 10
            return
        running = crawl.start(UrlsSpider, settings, arguments=urls)
        running.until(lambda: len(windows.hits) >= 5)
        running.until(lambda: "adaptive_rules id 7: rate = -1.0" in running.log)
        time.sleep(2 * REFRESH)
        assert all("/api/" in path for _, path in windows.hits)
        with table.engine.begin() as connection:
            connection.exec_driver_sql("UPDATE adaptive_rules SET rate = 20")
        assert len(running.wait().urls) == 10
    table.engine.dispose()
