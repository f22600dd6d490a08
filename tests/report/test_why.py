"""`why` answers in sentences, and says in one line what is wrong."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from scrapy_adaptive.__main__ import main
from scrapy_adaptive.report.building import Builder
from scrapy_adaptive.report.crawl import Crawl
from scrapy_adaptive.report.reader import read_crawl
from scrapy_adaptive.report.reasons import REASONS, reason
from scrapy_adaptive.report.records import EventRecord, Record, SiteRecord
from scrapy_adaptive.report.why import UnknownSiteError, find, why
from tests.report.journals import SITE, run_of, start, write


def crawl_of(*records: Record) -> Crawl:
    builder = Builder()
    for record in (start(), *records):
        builder.add(record)
    return builder.crawl()


@pytest.mark.parametrize("key", REASONS)
def test_each_reason_has_its_sentences_filled_in(key: str) -> None:
    """Title, what it is, what to set for more, and the cost: no braces, no half sentence."""
    crawl = crawl_of(
        SiteRecord(1.0, SITE, fresh=True, served=1, by=key, value=2.0, state="crawling")
    )
    lines = why(crawl, SITE).splitlines()
    assert lines[0] == f"{SITE} is held back by: {REASONS[key].title}."
    assert SITE in lines[1]
    assert lines[-2].startswith("For more: ")
    assert lines[-1].startswith("What it would cost: ")
    assert "{" not in "".join(lines)
    assert all(line.endswith((".", ":")) for line in lines)


def test_a_number_of_the_sites_own_names_its_setting() -> None:
    crawl = crawl_of(SiteRecord(1.0, SITE, served=1, by="delay", value=1.5, own=True))
    assert f"DOWNLOAD_SLOTS['{SITE}'] keeps requests to {SITE} 1.5 s apart" in why(crawl, SITE)


def test_what_was_tried_is_told_with_the_limit_and_the_pauses() -> None:
    crawl = crawl_of(
        SiteRecord(1.0, SITE, served=9, by="limit", value=3.9, limit=3.9, refused_at=4.1),
        EventRecord(9.0, "pause", SITE, 7.2, "site", 429, 8.0),
        EventRecord(16.0, "recovery", SITE, 7.4, rate=3.9),
        SiteRecord(60.0, SITE, served=200, paused=7.4),
    )
    told = why(crawl, SITE)
    assert "The limit found: 3.9/s is served; 4.1/s was refused." in told
    assert "1 pause so far, 7.4 s in all." in told
    assert (
        "  51 s before: paused for 7.2 s, as the site asked, after a 429; the pace limit was 8/s"
        in told
    )


def test_of_a_site_that_is_done_what_held_it_for_longest_is_told() -> None:
    crawl = crawl_of(
        SiteRecord(1.0, SITE, served=1, by="delay", value=2.0, state="crawling"),
        SiteRecord(30.0, SITE, served=15, by="empty", value=0.0, state="idle"),
        SiteRecord(90.0, SITE, served=15),
    )
    assert why(crawl, SITE).splitlines()[0] == f"{SITE} is held back by: DOWNLOAD_DELAY."
    assert "2 s apart" in why(crawl, SITE)


def test_a_reason_of_a_later_version_is_shown_by_its_key() -> None:
    crawl = crawl_of(SiteRecord(1.0, SITE, served=1, by="moon"))
    assert why(crawl, SITE).startswith(f"{SITE} is held back by: moon.")
    assert reason("moon").more == ""


def test_of_a_site_that_has_just_begun_nothing_is_known_yet() -> None:
    told = why(crawl_of(SiteRecord(1.0, SITE, fresh=True, sent=2, served=1)), SITE)
    assert told.startswith(f"{SITE} is held back by: nothing yet.\nThe crawl has just begun")
    assert "%" not in told


def test_a_reason_of_a_later_version_may_have_any_key() -> None:
    assert "'new {thing}'" in why(crawl_of(SiteRecord(1.0, SITE, by="new {thing}")), SITE)


def test_an_address_of_ipv6_is_found_by_its_host() -> None:
    crawl = crawl_of(SiteRecord(1.0, "::1", served=1, by="delay"))
    for name in ("http://[::1]:8080/x?y=1", "[::1]", "http://u:p@[::1]/"):
        assert find(crawl, name).name == "::1"


@pytest.mark.parametrize("name", ["Site.Example", "https://site.example/a?b", "site.example:80"])
def test_a_site_is_found_by_what_people_write(name: str) -> None:
    assert SITE in why(crawl_of(SiteRecord(1.0, SITE, served=1, by="delay")), name)


def test_a_name_that_is_none_is_answered_with_those_like_it() -> None:
    sites = [SiteRecord(1.0, f"{name}.example", served=1) for name in ("site", "shop", "www")]
    with pytest.raises(UnknownSiteError, match=r"no site 'sight\.example'; it has site\.example"):
        why(crawl_of(*sites), "sight.example")
    with pytest.raises(UnknownSiteError, match="sent nothing yet"):
        why(crawl_of(), SITE)


def test_a_hostile_name_is_one_line_of_text() -> None:
    name = "evil\n\x1b[31mAll is well.\u202e"
    told = why(crawl_of(SiteRecord(1.0, name, served=1, by="delay")), name)
    assert told.isprintable() or all(line.isprintable() for line in told.splitlines())
    assert len(told.splitlines()[0]) < 100


def test_a_hostile_reason_is_text_too() -> None:
    told = why(crawl_of(SiteRecord(1.0, SITE, served=1, by="\x1b[2J\n")), SITE)
    assert all(line.isprintable() for line in told.split("\n"))


def test_the_command_reads_journals(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of all workers at once."""
    paths = [write(tmp_path / name, run_of(20, run=name)) for name in "ab"]
    assert main(["why", SITE, *map(str, paths)]) == 0
    told = capsys.readouterr().out
    assert told.startswith(f"{SITE} was held back by: DOWNLOAD_DELAY.")
    assert "40 pages" in told


@pytest.mark.parametrize(
    ("where", "complaint"),
    [
        ("no.jsonl", "No such file"),
        ("http://127.0.0.1:1/", "no crawl answers at http://127.0.0.1:1:"),
        ("http://127.0.0.1:77a99/", "no crawl answers at http://127.0.0.1:77a99:"),
        (__file__, "is no journal of a crawl"),
        ("http://127.0.0.1:1/ run.jsonl", "http://127.0.0.1:1/ is the address of one crawl"),
        ("run.jsonl http://127.0.0.1:1/", "http://127.0.0.1:1/ is the address of one crawl"),
    ],
)
def test_what_is_wrong_is_told_in_one_line(
    where: str, complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["why", SITE, *where.split()])
    assert ended.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert complaint in line


@contextmanager
def served(status: int, body: str) -> Iterator[tuple[str, list[str]]]:
    """A server that answers all with this, its address, and the paths it was asked for."""
    paths: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            paths.append(self.path)
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *arguments: object) -> None:
            """Nothing."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/", paths
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_crawl_that_runs_is_asked_at_its_address(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the token that its address carries."""
    crawl = read_crawl([write(tmp_path / "j", run_of(20, ends=False))])
    with served(200, "".join(crawl.to_json())) as (address, paths):
        assert main(["why", SITE, f"{address}?token=x"]) == 0
    assert paths == ["/state.json?token=x"]
    assert capsys.readouterr().out.startswith(f"{SITE} is held back by: DOWNLOAD_DELAY.")


def test_an_address_that_is_no_crawls_is_told_in_one_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for status, body, complaint in (
        (403, "no", "refuses: no"),
        (404, " ", "refuses: 404 Not Found"),
        (200, "{}", "is no crawl of this version"),
        (200, "[" * 100_000, "no crawl answers"),
        (200, "<html>", "no crawl answers"),
    ):
        with served(status, body) as (address, _), pytest.raises(SystemExit):
            main(["why", SITE, address])
        (line,) = capsys.readouterr().err.splitlines()
        assert complaint in line
