"""The page of a crawl: what it says, and that it is one file."""

from __future__ import annotations

import csv
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from scrapy_adaptive.__main__ import main
from scrapy_adaptive.report.page import page
from scrapy_adaptive.report.page.curves import crawl_curve, site_curve
from scrapy_adaptive.report.page.headline import headline, tiles
from scrapy_adaptive.report.page.sites import row_of
from scrapy_adaptive.report.page.viewing import view_of
from scrapy_adaptive.report.page.words import COLUMNS
from scrapy_adaptive.report.reasons import REASONS
from scrapy_adaptive.report.records import CrawlRecord, EventRecord, Record, SiteRecord
from tests.report.journals import SITE, run_of, start, write
from tests.report.views import crawl_of, day, sites

MOST_BYTES = 5_000_000
HOSTILE = "</script><script>alert(1)</script><!--"

NO_FORMULA = "=HYPERLINK(1)"


def served(at: float, count: int, **fields: object) -> list[Record]:
    """One site at an instant, and the whole crawl."""
    site = SiteRecord(at, SITE, sent=count, served=count, **fields)  # type: ignore[arg-type]
    return [site, CrawlRecord(at, count, count, sites=1)]


KNOWN = {"limit": 10.0, "refused_at": 10.4, "state": "crawling"}
LIMIT = EventRecord(21.0, "limit", SITE, rate=10.0, refused_at=10.4)


@pytest.mark.parametrize(
    ("records", "ends", "said"),
    [
        (
            [LIMIT, *served(60.0, 600, **KNOWN)],
            True,
            f"{SITE} allows about 10 pages/s; held since 0:21; nothing lost",
        ),
        (
            served(60.0, 600, limit=10.0, refused_at=40.0),
            True,
            f"{SITE} allows 10 pages/s or more, and refuses 40/s; nothing lost",
        ),
        (
            [*served(0.0, 0), *served(60.0, 30, by="latency", value=1.0)],
            True,
            f"{SITE} gave 30 pages/min and has shown no limit; held back by latency: 1 at once; "
            "nothing lost",
        ),
        (
            served(60.0, 600, state="paused", until=65.0),
            False,
            f"{SITE} is paused for another 5 s; nothing lost",
        ),
        (
            [
                *sites(["a.example", "b.example", "c.example"]),
                CrawlRecord(60.0, 6, 6, given_up=2, sites=3),
            ],
            True,
            "6 pages of 3 sites at 6 pages/min; 1 site has shown a limit; 2 requests given up",
        ),
        ([], True, "No request was sent"),
        ([], False, "No request was sent yet"),
    ],
)
def test_the_headline_says_what_the_site_allows_and_what_was_lost(
    records: list[Record], ends: bool, said: str
) -> None:
    assert headline(crawl_of(records, ends=ends)) == said


def test_the_curve_has_every_page_every_refusal_and_every_pause() -> None:
    """A refusal that began a pause is where the pause is, not at the next record."""
    crawl = crawl_of(
        [
            *served(1.0, 4),
            EventRecord(1.5, "pause", SITE, 2.0, "site", 429),
            *served(2.0, 4, refused=2),
            EventRecord(3.6, "recovery", SITE, 2.1),
            *served(5.0, 10),
            EventRecord(9.0, "pause", SITE, 2.0, "crawler", 503),
            *served(10.0, 20, refused=3),
        ]
    )
    curve = site_curve(crawl.sites[SITE], crawl)
    ends = [*curve.at[1:], curve.until]
    steps = zip(curve.at, ends, curve.served, strict=True)
    pages = sum((end - at) * (rate or 0.0) for at, end, rate in steps)
    assert pages == pytest.approx(20, rel=0.01)
    assert curve.refusals == [(1.5, 2), (9.0, 1)]
    assert curve.pauses == [
        (1.5, 3.6, "the site asked for it, after a 429"),
        (9.0, 10.0, "the crawl's own backoff, after a 503"),
    ]
    assert crawl_curve(crawl).pauses == []


@pytest.mark.parametrize("seconds", [60.0, 600.0, 36_000.0])
def test_a_site_that_was_busy_for_a_minute_of_a_long_crawl_has_a_curve_of_that_minute(
    seconds: float,
) -> None:
    records: list[Record] = []
    for second in range(1, 52):
        records += served(float(second), 2 * second)
    crawl = crawl_of([*records, CrawlRecord(seconds, 102, 102)])
    curve = site_curve(crawl.sites[SITE], crawl)
    ends = [*curve.at[1:], curve.until]
    steps = [*zip(curve.at, ends, curve.served, strict=True)]
    pages = sum((end - at) * (rate or 0.0) for at, end, rate in steps)
    assert pages == pytest.approx(102, rel=0.01)
    assert not any(rate for at, _, rate in steps if at > 51.0)


def test_what_was_given_up_is_no_page_that_was_not_lost() -> None:
    crawl = crawl_of([*sites(["a.example"]), CrawlRecord(60.0, 6, 6, given_up=5, sites=1)])
    (tile,) = (each for each in tiles(crawl) if each.key == "lost")
    assert (tile.value, tile.note) == ("5", "0 downloads failed")


def test_after_the_end_a_row_says_what_held_the_site_back_for_most_of_the_time() -> None:
    """At the end nothing is queued, for every site."""
    crawl = crawl_of(
        [
            *served(1.0, 1, by="limit", waiting=5),
            *served(50.0, 500, by="limit"),
            *served(55.0, 540, by="empty", waiting=0, state="idle"),
        ]
    )
    row = dict(
        zip((column.key for column in COLUMNS), row_of(crawl.sites[SITE], crawl), strict=True)
    )
    assert (row["held_by"], row["state"]) == ("learned limit", "done")


@pytest.mark.parametrize("key", REASONS)
def test_a_row_names_what_holds_the_site_back_now(key: str) -> None:
    """In the word of the one registry."""
    crawl = crawl_of(served(60.0, 60, by=key, value=2.0, state="crawling"), ends=False)
    row = dict(zip((each.key for each in COLUMNS), row_of(crawl.sites[SITE], crawl), strict=True))
    assert row["held_by"].partition(":")[0] == REASONS[key].title


def test_the_page_is_one_file_that_asks_nobody() -> None:
    html = page(view_of(crawl_of(sites(["a.example"]))))
    assert "default-src 'none'" in html
    assert "connect-src 'none'" in html
    markup = re.sub(r"<script.*?</script>", "", html, flags=re.DOTALL)
    assert re.findall(r'(?:src|href)="(?!data:)', markup) == []


def test_text_of_a_crawl_cannot_leave_the_element_that_it_stands_in() -> None:
    """In a row, in an event, in the title."""
    records = [*sites([HOSTILE]), EventRecord(1.0, "broken", HOSTILE, page=HOSTILE)]
    html = page(view_of(crawl_of(records)))
    assert "alert(1)" in html
    assert "<script>alert" not in html


def test_a_day_of_ten_thousand_sites_makes_a_page_of_less_than_5_mb() -> None:
    crawl = crawl_of(day(10_000))
    assert len(crawl.sites) == 10_000
    assert len(page(view_of(crawl)).encode()) < MOST_BYTES


def test_each_column_and_each_tile_has_its_meaning() -> None:
    told = [column.title for column in COLUMNS]
    told += [tile.title for tile in tiles(crawl_of(sites(["a.example"])))]
    assert all(len(title.split()) > 3 for title in told)


# The command


def test_a_journal_becomes_a_page_beside_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    journal = write(tmp_path / "run.jsonl", run_of(20))
    assert main(["report", str(journal)]) == 0
    assert capsys.readouterr().out == f"{tmp_path / 'run.html'}\n"
    assert f"<title>{start().spider}: how the crawl went" in (tmp_path / "run.html").read_text()


def test_several_journals_become_one_crawl(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    journals = [write(tmp_path / f"{run}.jsonl", run_of(20, run=run)) for run in "ab"]
    assert main(["report", "--json", *map(str, journals)]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["run_count"], told["totals"]["served"]) == (2, 40)


def test_a_table_for_spreadsheets_has_a_line_for_each_site_and_no_formula(tmp_path: Path) -> None:
    records = [start(), *sites([NO_FORMULA, "b.example"])]
    journal, out = write(tmp_path / "run.jsonl", records), tmp_path / "out.csv"
    assert main(["report", str(journal), "--csv", str(out)]) == 0
    with out.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["site"]: row["pages"] for row in rows} == {f"'{NO_FORMULA}": "1", "b.example": "2"}


@pytest.mark.parametrize("how", ["--csv", "--out"])
def test_no_journal_is_written_over(
    how: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As `--csv run-*.jsonl` would: the shell names the first journal as its file."""
    one, two = (write(tmp_path / f"{run}.jsonl", run_of(2, run=run)) for run in "ab")
    before = one.read_bytes()
    with pytest.raises(SystemExit, match="2"):
        main(["report", how, str(one), str(two)])
    assert one.read_bytes() == before
    told = capsys.readouterr().err
    assert f"{one} is a journal" in told
    assert told.count("\n") == 1


FULL = Path("/dev/full")


@pytest.mark.skipif(not FULL.exists(), reason="only Linux has a disk that is always full")
@pytest.mark.parametrize("how", ["--csv", "--out", "--json"])
def test_a_full_disk_is_told_in_one_line_with_the_name_of_the_file(
    how: str, tmp_path: Path
) -> None:
    journal = write(tmp_path / "run.jsonl", run_of(20))
    to = [] if how == "--json" else [str(FULL)]
    command = [sys.executable, "-m", "scrapy_adaptive", "report", str(journal), how, *to]
    with FULL.open("w") as full:
        ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert ended.returncode == 2
    assert ended.stderr.count("\n") == 1
    assert "No space left" in ended.stderr
    assert ("the output" if how == "--json" else str(FULL)) in ended.stderr


def test_without_bokeh_one_line_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "bokeh", None)
    journal = write(tmp_path / "run.jsonl", run_of(2))
    with pytest.raises(SystemExit, match="2"):
        main(["report", str(journal)])
    assert capsys.readouterr().err.splitlines() == [
        "python -m scrapy_adaptive report: the page needs Bokeh: pip install "
        "scrapy-adaptive[report] (see --help)"
    ]


@pytest.mark.parametrize("name", ["nowhere.jsonl", "no-journal.txt"])
def test_what_is_no_journal_gets_one_line(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "no-journal.txt").write_text("text\n")
    with pytest.raises(SystemExit, match="2"):
        main(["report", str(tmp_path / name)])
    assert capsys.readouterr().err.count("\n") == 1
