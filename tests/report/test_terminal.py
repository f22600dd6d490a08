"""The table in a terminal."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from rich.console import Console

from scrapy_adaptive.__main__ import main
from scrapy_adaptive.adapters.setting_table import SETTINGS
from scrapy_adaptive.report import terminal
from scrapy_adaptive.report.asking import ADDRESS
from scrapy_adaptive.report.live.server import LiveView
from scrapy_adaptive.report.page.cells import words
from scrapy_adaptive.report.page.viewing import rows_of
from scrapy_adaptive.report.page.words import COLUMNS
from scrapy_adaptive.report.records import SiteRecord
from scrapy_adaptive.report.terminal import drawn
from tests.report.journals import SITE, run_of, write
from tests.report.views import crawl_of, live_view, sites

NAMES = [f"site-{number}.example" for number in range(30)]


@pytest.fixture
def view() -> Iterator[LiveView]:
    """A live view of a crawl of some sites."""
    with live_view(NAMES) as live:
        yield live


def text_of(names: list[str], most: int, width: int = 120) -> str:
    """What is drawn of these sites."""
    crawl = crawl_of(sites(names))
    shown = {"about": "", "headline": "", "sites": rows_of(crawl), "ended": True}
    console = Console(file=io.StringIO(), width=width)
    console.print(drawn(shown, most, width))
    out = console.file
    assert isinstance(out, io.StringIO)
    return out.getvalue()


def test_the_busiest_sites_come_first_and_the_others_are_counted() -> None:
    lines = text_of(NAMES, 5).splitlines()
    assert [line.split()[0] for line in lines[3:8]] == NAMES[:-6:-1]
    assert lines[8] == "… and 25 more sites"


@pytest.mark.parametrize("name", ["127.0.0.1", "a-name-of-forty-characters.of-a-site.example"])
def test_no_number_is_cut_in_a_terminal_of_eighty_characters(name: str) -> None:
    last = text_of([name], 5, width=80).splitlines()
    assert last[2].endswith("pages")
    assert last[3].endswith(" 1")


def test_a_slots_name_moves_no_cursor_and_is_no_markup() -> None:
    text = text_of(["[red]\x1b[2J\rx[/red].example"], 5)
    assert "[red]�[2J�x[/red].example" in text
    assert "\x1b" not in text


def test_a_state_of_another_program_moves_no_cursor_either() -> None:
    crawl = crawl_of(
        [*sites(["a.example"]), SiteRecord(9.0, "a.example", state="\x1b[2J")], ends=False
    )
    (row,) = rows_of(crawl)
    shown = [words(*each) for each in zip(COLUMNS, row, strict=True)]
    assert not any("\x1b" in cell for cell in shown)


@pytest.mark.parametrize(
    "told",
    [
        [],
        {"sites": 1},
        {"sites": [["a"]], "about": "", "headline": "", "ended": False},
        {"sites": [["a"] * len(COLUMNS)], "about": "", "headline": "", "ended": False},
        {"sites": [], "about": 1, "headline": "", "ended": False},
    ],
)
def test_what_answers_and_is_no_crawl_is_told_in_one_line(
    told: object, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(terminal, "asked", lambda *_: told)
    with pytest.raises(SystemExit, match="2"):
        main(["watch", "http://127.0.0.1:6600/"])
    assert "127.0.0.1:6600 is no crawl of this version" in capsys.readouterr().err


def test_a_live_crawl_is_shown_by_the_address_that_it_printed(
    view: LiveView, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where the output is no terminal, it is one table."""
    assert main(["watch", view.url]) == 0
    out = capsys.readouterr().out
    assert "465 pages of 30 sites" in out
    assert "site-29.example" in out


def test_a_live_crawl_says_why(view: LiveView, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["why", "site-29.example", view.url]) == 0
    assert "site-29.example" in capsys.readouterr().out


def test_without_an_address_the_default_port_is_asked() -> None:
    default = next(each.default for each in SETTINGS if each.name == "ADAPTIVE_WATCH_PORT")
    assert urlsplit(ADDRESS).port == default


def test_a_journal_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    journal = write(tmp_path / "run.jsonl", run_of(20, ends=False))
    assert main(["watch", str(journal)]) == 0
    assert SITE in capsys.readouterr().out


def test_the_journals_of_several_workers_are_one_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One that has not begun yet is waited for."""
    journals = [
        write(tmp_path / "one", run_of(20, ends=False)),
        write(tmp_path / "two", run_of(30, run="b", ends=False)),
        write(tmp_path / "three", []),
    ]
    assert main(["watch", *map(str, journals)]) == 0
    out = capsys.readouterr().out
    site, *_, pages = out.splitlines()[-1].split()
    assert (site, pages) == (SITE, "50")


@pytest.mark.parametrize(
    "given",
    [["http://127.0.0.1:6600/", "one.jsonl"], ["--page", "http://127.0.0.1:6600/"]],
)
def test_an_address_is_of_one_crawl_and_has_a_page(
    given: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["watch", *given])
    assert "http://127.0.0.1:6600/" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("where", "words"),
    [
        ("http://127.0.0.1:1/", "no crawl answers at http://127.0.0.1:1:"),
        ("HTTP://127.0.0.1:1/", "no crawl answers at http://127.0.0.1:1:"),
        ("127.0.0.1:6600", "127.0.0.1:6600: No such file; the address"),
        ("nowhere.jsonl", "begins with http://"),
    ],
)
def test_where_no_crawl_is_one_line_says_so(
    where: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["watch", where])
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert words in said


def test_without_rich_one_line_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "rich", None)
    with pytest.raises(SystemExit, match="2"):
        main(["watch", ADDRESS])
    assert "pip install scrapy-adaptive[watch]" in capsys.readouterr().err
