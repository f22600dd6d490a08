"""`scrapy adaptive frontier`: what is in a frontier, and what is to be in it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from scrapy_adaptive.__main__ import main
from scrapy_adaptive.frontier import protocol
from scrapy_adaptive.frontier.opening import open_frontier
from scrapy_adaptive.frontier.poller import Ranking
from tests.acceptance.project import ADDON, Project
from tests.servers.origin import Answer, Origin, Visit
from tests.servers.postgres import Postgres

Run = Callable[..., tuple[int, str]]

SITEMAP = (
    '<?xml version="1.0"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{}</urlset>'
)


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs the command on a frontier; returns its exit status and all that it said."""

    def call(*words: str, frontier: str = f"sqlite:///{tmp_path}/crawl.db") -> tuple[int, str]:
        given = [words[0], "--frontier", frontier, "--spider", "one", *words[1:]]
        try:
            code = main(["frontier", *given])
        except SystemExit as ended:
            code = int(ended.code or 0)
        said = capsys.readouterr()
        return code, said.out + said.err

    return call


def test_a_crawl_is_fed_looked_into_and_told_to_try_again(
    run: Run, origin: Callable[..., Origin], tmp_path: Path
) -> None:
    """Add, crawl, show, export, retry, swap, forget."""

    def answer(visit: Visit) -> Answer:
        return Answer(500 if visit.path == "/bad" else 200, "page")

    site = origin(answer)
    urls = [f"{site.url}/{name}" for name in ("a", "b", "bad")]
    (tmp_path / "urls.txt").write_text("# three\n" + "\n".join([*urls, urls[0]]) + "\n")
    assert run("add", str(tmp_path / "urls.txt")) == (0, "3 added, 1 known already\n")
    (tmp_path / "map.xml").write_text(SITEMAP.format(f"<url><loc>{site.url}/c</loc></url>"))
    assert run("add", "--sitemap", str(tmp_path / "map.xml")) == (0, "1 added, 0 known already\n")
    assert run("add", str(tmp_path / "urls.txt"), "--due", "tomorrow")[1].startswith("0 added")
    assert "4 ready, 0 asleep, 0 leased, 0 done, 0 failed" in run("show")[1]

    setting = f'ADAPTIVE_FRONTIER = "sqlite:///{tmp_path}/crawl.db"'
    lines = [ADDON, setting, "RETRY_ENABLED = False", "ADAPTIVE_START_DELAY = 0.01"]
    done = Project.make(tmp_path / "project", f"{site.url}/start", *lines).scrapy("crawl", "one")
    assert done.returncode == 0
    assert "Traceback" not in done.stdout
    assert "goes on where it was left" in done.stdout
    asked = {hit.path for hit in site.hits()}
    assert asked == {"/start", "/a", "/b", "/c", "/bad"}

    assert "0 ready, 0 asleep, 0 leased, 4 done, 1 failed; 1 hosts, 0 workers" in run("show")[1]
    rows = [json.loads(line) for line in run("export")[1].splitlines()]
    assert {row["url"]: row["status"] for row in rows}[f"{site.url}/bad"] == 500
    assert run("retry", "--status", "404")[1] == "0 visits are due now\n"
    assert run("retry", "--status", "5xx", "--host", "127.0.0.1")[1] == "1 visit is due now\n"
    assert run("swap")[1].endswith("generation 1\n")
    assert "1 visits of 127.0.0.1" in run("swap", "--host", "127.0.0.1", "--priority", "3")[1]
    assert run("forget", "--older-than", "90d")[1] == "0 visits are forgotten\n"
    assert run("forget", "--older-than", "0.001s")[1] == "4 visits are forgotten\n"
    assert "1 ready, 0 asleep, 0 leased, 0 done" in run("show")[1]


def test_what_is_added_to_a_finished_crawl_comes_without_its_start_requests(
    run: Run, origin: Callable[..., Origin], tmp_path: Path
) -> None:
    """The run after that begins anew."""
    site = origin(lambda visit: Answer())
    setting = f'ADAPTIVE_FRONTIER = "sqlite:///{tmp_path}/crawl.db"'
    lines = [ADDON, setting, "ADAPTIVE_START_DELAY = 0.01"]
    project = Project.make(tmp_path / "project", f"{site.url}/start", *lines)
    (tmp_path / "urls.txt").write_text(f"{site.url}/added\n")
    asked = []
    for words in ((), ("add", str(tmp_path / "urls.txt")), ()):
        if words:
            run(*words)
        before = len(site.hits())
        assert project.scrapy("crawl", "one").returncode == 0
        asked.append([hit.path for hit in site.hits()[before:]])
    assert asked == [["/start"], ["/added"], ["/start"]]


def test_a_vacuum_that_fails_is_told_in_one_line_with_what_is_forgotten(
    run: Run, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another one is under way, for instance."""
    monkeypatch.setattr("scrapy_adaptive.frontier.sql.connecting.PATIENCE", 1)
    url = postgres.database()
    with closing(open_frontier(url, "one", Ranking())) as frontier:
        frontier.open("one", "shared", 10.0)
        frontier.turn([], [protocol.Visit("a", "http://a/")], {})
        (held,) = frontier.lease(1, 1).held
        frontier.turn([protocol.Done(held.lease, held.visits[0].id)], [], {})
    with psycopg.connect(url) as other:
        other.execute("LOCK TABLE adaptive_visit IN SHARE UPDATE EXCLUSIVE MODE")
        code, said = run("forget", "--older-than", "0.001s", frontier=url)
    assert (code, said.count("\n")) == (2, 1)
    assert "1 forgotten, but VACUUM failed: canceling statement due to lock timeout" in said


def test_a_spider_that_the_project_does_not_have_is_refused(tmp_path: Path) -> None:
    """Unless the frontier has its visits: a script's spider is no part of the project."""
    address = f"sqlite:///{tmp_path}/crawl.db"
    (tmp_path / "urls.txt").write_text("http://127.0.0.1/a\n")

    def run(folder: str, *words: str) -> tuple[int, str]:
        command = [sys.executable, "-m", "scrapy_adaptive", "frontier", words[0]]
        options = ["--frontier", address, "--spider", "politee", *words[1:]]
        done = subprocess.run(
            [*command, *options], cwd=folder, capture_output=True, text=True, check=False
        )
        return done.returncode, done.stdout + done.stderr

    added = ("add", str(tmp_path / "urls.txt"))
    assert main(["frontier", added[0], added[1], "--frontier", address, "--spider", "one"]) == 0
    code, said = run("sample_project", "show")
    assert (code, len(said.splitlines())) == (2, 1)
    assert "'politee' has no visits here, and the project's spiders are: " in said
    assert run("sample_project", *added)[0] == 0
    assert "1 ready" in run("sample_project", "show")[1]


REFUSED: dict[str, tuple[list[str], str]] = {
    "a line that is no URL": (["add", "urls.txt"], "line 2 is no URL: 'nothing'"),
    "a line with half an address": (["add", "half.txt"], "line 1 is no URL (Invalid IPv6 URL)"),
    "a line with no port": (
        ["add", "port.txt"],
        "no URL (Port out of range 0-65535): 'http://a:99",
    ),
    "a line with a name of nobody": (
        ["add", "nul.txt"],
        "line 1 is no URL (nobody can have its host's name): 'http://a\\x00b/'",
    ),
    "a line of another encoding": (
        ["add", "latin.txt"],
        "line 4 is no URL (it is not UTF-8): 'http://a/caf\\udce9'; 0 were added before",
    ),
    "a priority that is no number": (["add", "urls.txt", "--priority", "nan"], "must be a number"),
    "a priority without end": (["swap", "--host", "a", "--priority", "inf"], "must be a number"),
    "no such file": (["add", "none.txt"], "No such file"),
    "a page that is no sitemap": (["add", "--sitemap", "page.html"], "page.html is no sitemap"),
    "a text that is no sitemap": (["add", "--sitemap", "urls.txt"], "urls.txt is no sitemap"),
    "a sitemap of files": (["add", "--sitemap", "index.xml"], "points to /etc/passwd"),
    "a sitemap that nobody serves": (
        ["add", "--sitemap", "http://127.0.0.1:1/map.xml"],
        "http://127.0.0.1:1/map.xml: <urlopen error",
    ),
    "a day that is none": (
        ["add", "empty.txt", "--due", "someday"],
        "--due someday: allowed is now, tomorrow, or a time from now: 90s, 15m, 2h, 3d, 2w",
    ),
    "a time that is none": (["forget", "--older-than", "soon"], "'soon' is no time"),
    "a status that is none": (["retry", "--status", "6000"], "allowed is a status"),
    "a priority of nobody": (["swap", "--priority", "1"], "go together"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_makes_no_sense_is_refused_in_one_line(
    case: str, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("urls.txt").write_text("http://127.0.0.1/a\nnothing\n")
    Path("half.txt").write_text("http://[bad/\n")
    Path("port.txt").write_text("http://a:99999/\n")
    Path("nul.txt").write_text("http://a\0b/\n")
    Path("latin.txt").write_bytes(b"\xef\xbb\xbf# two\n\nhttp://a/\nhttp://a/caf\xe9\n")
    Path("page.html").write_text("<html><body>page</body></html>")
    index = SITEMAP.replace("urlset", "sitemapindex")
    Path("index.xml").write_text(index.format("<sitemap><loc>/etc/passwd</loc></sitemap>"))
    Path("empty.txt").touch()
    run("add", "empty.txt")
    words, why = REFUSED[case]
    code, said = run(*words)
    assert code == 2
    assert why in said
    assert len(said.splitlines()) == 1
    assert "0 ready, 0 asleep, 0 leased" in run("show")[1]


@pytest.mark.parametrize(
    "address",
    [
        "mysql://u:secret@127.0.0.1/x",
        "postgresql://u:secret@127.0.0.1:port/x",
        "postgresql://u:secret@127.0.0.1:1/x",
        "postgresql+nothing://u:secret@127.0.0.1/x",
        "sqlite+aiosqlite:///x.db",
        "sqlite:///x.db?mode=ro",
        "sqlite:////no/such/folder/x.db",
    ],
)
def test_an_address_that_cannot_be_is_told_in_one_line(address: str, run: Run) -> None:
    """Without its password."""
    code, said = run("show", frontier=address)
    assert code == 2
    assert len(said.splitlines()) == 1
    assert "secret" not in said


@pytest.mark.parametrize("words", [["show"], ["retry"], ["swap"], ["export"]], ids=str)
def test_a_database_that_is_not_there_is_told_and_not_made(
    words: list[str], run: Run, tmp_path: Path
) -> None:
    """Only `add` makes one."""
    path = tmp_path / "mistyped.db"
    code, said = run(*words, frontier=f"sqlite:///{path}")
    assert (code, said.count("\n"), str(path) in said) == (2, 1, True)
    assert not path.exists()
