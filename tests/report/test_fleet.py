"""The live page of a fleet, from the journals of its workers."""

from __future__ import annotations

import json
import threading
import urllib.request
from pathlib import Path

import pytest

from scrapy_adaptive.report.building import JournalError
from scrapy_adaptive.report.live.fleet import serve
from scrapy_adaptive.report.records import (
    VERSION,
    CrawlRecord,
    End,
    Record,
    SiteRecord,
    Start,
    to_line,
)
from tests.report.journals import NOON, SITE, run_of, write

PATIENCE = 30.0


def asked(url: str, name: str) -> dict[str, object]:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(url + name, timeout=PATIENCE) as answer:
        found: dict[str, object] = json.load(answer)
    return found


def append(path: Path, *records: Record) -> None:
    with path.open("a") as file:
        file.writelines(map(to_line, records))


def test_one_page_has_what_all_workers_write_until_each_has_ended(tmp_path: Path) -> None:
    one = write(tmp_path / "one", run_of(20, ends=False))
    two = write(tmp_path / "two", [])
    urls: list[str] = []
    told = threading.Event()

    def tell(url: str) -> None:
        urls.append(url)
        told.set()

    serving = threading.Thread(target=serve, args=([one, two], "127.0.0.1", 0, tell), daemon=True)
    serving.start()
    assert told.wait(PATIENCE)
    (url,) = urls
    assert [site["served"] for site in sites(url)] == [20]
    append(two, *run_of(30, at=NOON + 5.0, run="b", ends=False))
    waited = threading.Event()
    for _ in range(round(PATIENCE / 0.2)):
        if [site["served"] for site in sites(url)] == [50]:
            break
        waited.wait(0.2)
    assert [(site["name"], site["served"]) for site in sites(url)] == [(SITE, 50)]
    append(one, SiteRecord(21.0, SITE, served=21), CrawlRecord(21.0, 21, 21), End(21.0, "finished"))
    append(two, End(31.0, "finished"))
    serving.join(PATIENCE)
    assert not serving.is_alive()


def test_a_journal_of_a_later_version_ends_the_page_with_one_line(tmp_path: Path) -> None:
    later = write(tmp_path / "later", [Start(VERSION + 1, NOON, "pages")])
    with pytest.raises((ValueError, OSError), match=f"version {VERSION + 1}"):
        serve([later], "127.0.0.1", 0, lambda _: None)


def sites(url: str) -> list[dict[str, object]]:
    found = asked(url, "state.json")["sites"]
    assert isinstance(found, list)
    return found


def test_where_no_journal_has_begun_one_line_says_so(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="is no journal"):
        serve([write(tmp_path / "one", [])], "127.0.0.1", 0, print)
