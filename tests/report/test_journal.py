"""A journal is what was written: whole, torn, continued, several."""

from __future__ import annotations

import errno
import fcntl
import json
import math
import os
import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_adaptive.report.building import MOST_POINTS, Builder, JournalError
from scrapy_adaptive.report.crawl import Crawl
from scrapy_adaptive.report.reader import Journals, read_crawl, records
from scrapy_adaptive.report.records import (
    VERSION,
    CrawlRecord,
    End,
    EventRecord,
    Record,
    SiteRecord,
    Start,
    from_line,
    to_line,
)
from scrapy_adaptive.report.series import rate_at, steps
from scrapy_adaptive.report.writer import Writer
from tests.core.virtual import STEADY
from tests.report.journals import NOON, SITE, run_of, start, write


def built(*records: Record) -> Crawl:
    """The crawl of these records, after a start."""
    builder = Builder()
    for record in (start(), *records):
        builder.add(record)
    return builder.crawl()


def test_a_journal_gives_sums_sites_series_and_events(tmp_path: Path) -> None:
    crawl = read_crawl([write(tmp_path / "j", run_of(20))])
    site = crawl.sites[SITE]
    assert (crawl.totals.served, crawl.totals.refused, crawl.rest.served) == (20, 1, 0)
    assert (site.served, site.refused, site.by, site.rate) == (20, 1, "delay", 1.0)
    assert [point.served for point in site.points] == list(range(1, 21))
    assert site.rate_now(20.0) == pytest.approx(1.0)
    assert site.mean_rate == pytest.approx(20 / 20), "it may have begun ten seconds before"
    assert [each.begin for each in site.pauses] == [crawl.events[0]]
    assert crawl.reason == "finished"


def test_a_journal_that_was_cut_anywhere_is_read_up_to_its_last_whole_line(tmp_path: Path) -> None:
    """No error, and no line is counted as damaged."""
    whole = write(tmp_path / "j", run_of(6, ends=False)).read_bytes()
    first = whole.index(b"\n") + 1
    for length in range(first, len(whole)):
        path = tmp_path / "torn"
        path.write_bytes(whole[:length])
        crawl = read_crawl([path])
        assert crawl.totals.served == whole[:length].count(b'"crawl"') - (
            b'"crawl"' in whole[:length].rpartition(b"\n")[2]
        )
        assert crawl.skipped == 0
        assert not crawl.has_ended


def test_a_job_that_goes_on_in_a_torn_journal_adds_to_it(tmp_path: Path) -> None:
    """The torn line is lost, the counters of both runs add up."""
    path = write(tmp_path / "j", run_of(6, ends=False))
    with path.open("a") as file:
        file.write('{"kind":"site","at":7')
    writer = Writer(path)
    for record in run_of(4, at=NOON + 100.0, run="b"):
        writer.write(record)
    writer.close()
    crawl = read_crawl([path])
    assert (crawl.totals.served, crawl.sites[SITE].served) == (10, 10)
    assert (crawl.run_count, crawl.skipped, crawl.seconds) == (2, 1, 104.0)
    assert [point.at for point in crawl.sites[SITE].points][-1] == 104.0


def test_the_journals_of_two_workers_add_up(tmp_path: Path) -> None:
    """Counters and gauges at each instant, in one time."""
    paths = [
        write(tmp_path / "a", run_of(20, ends=False)),
        write(tmp_path / "b", run_of(10, at=NOON + 5.0, run="b", ends=False)),
    ]
    crawl = read_crawl(paths)
    assert crawl.totals.served == crawl.sites[SITE].served == 30
    assert crawl.totals.waiting == 18
    assert crawl.sites[SITE].rate == 2.0
    served = [point.served for point in crawl.points]
    assert served == sorted(served)
    assert [event.at for event in crawl.events] == [10.0, 10.0]


def test_a_journal_that_is_named_twice_counts_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "a", run_of(20))
    (tmp_path / "link").symlink_to(path)
    monkeypatch.chdir(tmp_path)
    spellings = [path, Path("a"), Path("..", tmp_path.name, "a"), Path("link")]
    crawl = read_crawl(spellings)
    assert (crawl.totals.served, crawl.sites[SITE].served, crawl.run_count) == (20, 20, 1)


def test_a_worker_that_has_ended_allows_nothing_any_more(tmp_path: Path) -> None:
    paths = [
        write(tmp_path / "a", run_of(20, ends=False)),
        write(tmp_path / "b", run_of(10, run="b")),
    ]
    crawl = read_crawl(paths)
    assert (crawl.sites[SITE].served, crawl.sites[SITE].rate) == (30, 1.0)
    assert not crawl.has_ended


def test_a_worker_that_was_killed_allows_nothing_after_a_while(tmp_path: Path) -> None:
    """It said nothing for longer than any worker does that lives."""
    killed = write(tmp_path / "a", run_of(10, ends=False))
    for seconds, rate in ((20, 2.0), (60, 1.0)):
        other = write(tmp_path / f"b{seconds}", run_of(seconds, run="b", ends=False))
        crawl = read_crawl([killed, other])
        assert (crawl.sites[SITE].served, crawl.sites[SITE].rate) == (10 + seconds, rate)
        assert crawl.totals.waiting == 9 * rate


@pytest.mark.parametrize("seed", range(20))
def test_at_each_instant_runs_add_up_to_what_each_of_them_had_last(seed: int) -> None:
    """What is under way in a run counts up to its end, what it was served counts for ever."""
    chance = random.Random(seed)
    builder, ended, told = Builder(), {}, {}
    for run in range(6):
        begin, seconds = chance.uniform(0.0, 60.0), chance.randrange(1, 25)
        builder.add(start(NOON + begin), f"{run}")
        told[run] = [(begin, 0)]
        for second in range(1, seconds + 1):
            builder.add(CrawlRecord(second, 3 * second, second, in_flight=2), f"{run}")
            told[run].append((begin + second, second))
        ended[run] = begin + seconds
        builder.add(End(seconds, "finished"), f"{run}")
    first = min(begin for (begin, _), *_ in told.values())
    for point in builder.crawl().points:
        at = point.at + first + 1e-6
        known = {run: [served for when, served in told[run] if when <= at] for run in told}
        assert point.served == sum(served[-1] for served in known.values() if served)
        going = sum(len(known[run]) > 1 and at <= ended[run] + 2e-6 for run in told)
        assert point.in_flight == 2 * going


def test_a_slot_that_was_forgotten_begins_anew_and_its_pages_count_on() -> None:
    crawl = built(
        SiteRecord(1.0, SITE, fresh=True, sent=5, served=5),
        SiteRecord(9.0, SITE, fresh=True, sent=7, served=6),
        SiteRecord(10.0, SITE, sent=8, served=7),
    )
    assert crawl.sites[SITE].served == 12


def test_the_time_of_pauses_goes_on_where_a_slot_was_forgotten() -> None:
    crawl = built(
        SiteRecord(1.0, SITE, fresh=True, sent=5, paused=20.0),
        SiteRecord(9.0, SITE, fresh=True, sent=7, paused=0.0),
    )
    assert crawl.sites[SITE].paused == 20.0


def test_between_two_runs_of_a_job_nothing_crawls(tmp_path: Path) -> None:
    """Ten hours that count for no rate and no reason."""
    paths = [
        write(tmp_path / "a", run_of(100)),
        write(tmp_path / "b", run_of(100, at=NOON + 36_000.0, run="b")),
    ]
    crawl = read_crawl(paths)
    site = crawl.sites[SITE]
    assert crawl.seconds == 36_100.0
    assert crawl.mean_rate == pytest.approx(1.0)
    assert site.mean_rate == pytest.approx(1.0, rel=0.02)
    assert site.spent(crawl.seconds) == {"delay": pytest.approx(200.0, abs=2.0)}
    assert Crawl.from_json(json.loads("".join(crawl.to_json()))).mean_rate == crawl.mean_rate


def test_a_rate_counts_from_the_first_request(tmp_path: Path) -> None:
    crawl = built(SiteRecord(10.0, SITE, began=8.0, fresh=True, sent=20, served=20))
    assert crawl.sites[SITE].mean_rate == 10.0


@pytest.mark.parametrize(
    "line",
    [
        '{"kind":"site","at":"x","site":"a"}',
        '{"kind":"site","at":1.0,"site":7}',
        '{"kind":"site","at":1e999,"site":"a"}',
        '{"kind":"site","at":1.0,"site":"a","served":true}',
        '{"kind":"start","version":null,"started_at":1.0,"spider":"s"}',
        '{"kind":"start","version":1,"started_at":1e20,"spider":"s"}',
        '{"kind":"event","at":1.0,"event":"pause","sites":"abc"}',
        f'{{"kind":"crawl","at":1.0,"served":1{"0" * 400}}}',
        '{"kind":"crawl","at":1e300}',
        "[]",
    ],
)
def test_a_line_of_the_wrong_types_is_none_of_ours(line: str) -> None:
    assert from_line(line) is None


def test_what_has_no_usual_value_is_written_though_it_is_empty() -> None:
    for record in (Start(VERSION, 0.0, ""), End(0.0, "")):
        assert from_line(to_line(record)) == record


def test_a_journal_that_is_named_twice_is_read_once(tmp_path: Path) -> None:
    path = write(tmp_path / "j", run_of(20))
    assert read_crawl([path, path]).totals.served == 20


def test_a_pause_ends_with_its_run_and_goes_on_when_it_gets_longer() -> None:
    crawl = built(
        SiteRecord(1.0, SITE, served=1, state="crawling"),
        EventRecord(10.0, "pause", SITE, 5.0),
        EventRecord(20.0, "parked", SITE, 900.0),
        EventRecord(920.0, "recovery", SITE),
        EventRecord(1000.0, "pause", SITE, 5.0),
        EventRecord(2000.0, "pause", SITE, 5.0),
        SiteRecord(3000.0, SITE, served=2),
    )
    site = crawl.sites[SITE]
    spans = [(each.begin.at, site.ends_at(each, crawl.seconds)) for each in site.pauses]
    assert spans == [(10.0, 920.0), (1000.0, 1005.0), (2000.0, 2005.0)]


def test_what_is_no_journal_is_said_to_be_none(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    path.write_text('nonsense\n{"kind": "site"}\n[1]\n')
    with pytest.raises(JournalError, match=r"log\.txt is no journal of a crawl"):
        read_crawl([path])


def test_a_journal_of_a_later_version_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "j", [replace(start(), version=VERSION + 1)])
    with pytest.raises(JournalError, match="reads up to version 1"):
        read_crawl([path])


def test_an_open_journal_is_read_on_from_where_it_was_left(tmp_path: Path) -> None:
    """As the view of a crawl that runs does."""
    path = tmp_path / "j"
    writer = Writer(path)
    writer.write(start())
    writer.flush()
    with path.open("rb") as file:
        assert list(records(file)) == [start()]
        assert list(records(file)) == []
        writer.write(CrawlRecord(1.0, served=1))
        writer.flush()
        assert list(records(file)) == [CrawlRecord(1.0, served=1)]
    writer.close()


def test_a_journal_may_begin_with_the_mark_of_an_editor(tmp_path: Path) -> None:
    """A byte order mark."""
    path = write(tmp_path / "j", run_of(20))
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert read_crawl([path]).totals.served == 20


def test_a_journal_that_was_emptied_is_read_from_its_beginning(tmp_path: Path) -> None:
    """A new run may have begun it anew."""
    path = write(tmp_path / "j", run_of(20, ends=False))
    with Journals([path]) as journals:
        assert len([*next(iter(journals.read()))[1]]) > 2
        write(path, [replace(start(), spider="next"), End(1.0, "finished")])
        ((_, found),) = journals.read()
        assert [*found] == [replace(start(), spider="next"), End(1.0, "finished")]
        assert journals.have_ended


def test_a_journal_is_written_where_the_file_system_has_no_locks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def flock(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", flock)
    writer = Writer(tmp_path / "j")
    writer.write(start())
    writer.close()
    assert writer.path == tmp_path / "j"
    assert read_crawl([writer.path]).spider == "pages"


def test_a_pipe_is_refused_at_once(tmp_path: Path) -> None:
    """A crawl that waits for its reader hears neither Ctrl-C nor SIGTERM."""
    os.mkfifo(tmp_path / "j")
    script = f"from scrapy_adaptive.report.writer import *; Writer(Path({str(tmp_path / 'j')!r}))"
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    assert "is a pipe" in ended.stderr


def test_a_long_series_keeps_its_ends_and_its_sums() -> None:
    builder = Builder()
    builder.add(start())
    for second in range(1, 3 * MOST_POINTS):
        builder.add(SiteRecord(float(second), SITE, served=second))
    site = builder.crawl().sites[SITE]
    assert len(site.points) <= MOST_POINTS
    assert (site.points[0].at, site.points[-1].at) == (1.0, 3 * MOST_POINTS - 1.0)
    assert {step.served_rate for step in steps(site.points)} == {1.0}


def test_the_model_comes_back_from_its_json(tmp_path: Path) -> None:
    crawl = read_crawl([write(tmp_path / "j", run_of(20))])
    text = "".join(crawl.to_json())
    assert Crawl.from_json(json.loads(text)) == crawl
    with pytest.raises(ValueError, match="not the state of a crawl"):
        Crawl.from_json({"error": "no such page"})


def test_no_piece_of_that_json_is_longer_than_a_site() -> None:
    """To make one stops the crawl, where it is made beside it."""
    records = [
        SiteRecord(float(at), f"{SITE}-{number}", served=at)
        for number in range(20)
        for at in range(50)
    ]
    lengths = [*map(len, built(*records).to_json())]
    assert max(lengths) < 1.5 * sum(lengths) / 20


NAMES = st.text(st.characters(), max_size=40)


@STEADY
@given(NAMES, st.floats(0, 1e6), st.integers(0, 2**63), NAMES)
def test_any_name_of_a_slot_comes_back_as_it_was(
    name: str, at: float, count: int, page: str
) -> None:
    """Line ends, quotes, half a surrogate, markup: each is text, on one line of ASCII."""
    for record in (
        SiteRecord(at, name, sent=count, state="idle"),
        EventRecord(at, "broken", name, page=page, sites=(name,)),
    ):
        line = to_line(record)
        assert from_line(line) == record
        assert line.isascii()
        assert line.splitlines() == [line.rstrip("\n")]


def test_the_rate_now_is_that_of_the_last_ten_seconds() -> None:
    builder = Builder()
    builder.add(start())
    for record in run_of(30, ends=False)[1:]:
        builder.add(record)
    builder.add(CrawlRecord(40.0, served=30))
    points = builder.crawl().points
    assert rate_at(points, 30.0, 0.0) == pytest.approx(1.0)
    assert rate_at(points, 40.0, 0.0) == 0.0
    assert builder.crawl().sites[SITE].rate < math.inf


def test_the_rate_now_of_what_has_just_begun_is_that_since_it_began() -> None:
    """Not that of ten seconds most of which were before it."""
    builder = Builder()
    builder.add(start())
    for at, served in ((2.0, 0), (3.0, 4), (4.0, 8)):
        builder.add(SiteRecord(at, SITE, began=2.0, fresh=at == 2.0, served=served))
        builder.add(CrawlRecord(at, served=served))
    crawl = builder.crawl()
    assert crawl.sites[SITE].rate_now(4.0) == pytest.approx(4.0)
    assert crawl.rate_now() == pytest.approx(2.0)


def test_the_rate_now_of_a_resumed_job_does_not_count_the_time_in_between() -> None:
    builder = Builder()
    for begins in (0.0, 3600.0):
        builder.add(Start(VERSION, 1_900_000_000.0 + begins, "pages"))
        for at in (1.0, 2.0, 3.0):
            builder.add(SiteRecord(at, SITE, began=0.5, fresh=at == 1.0, served=int(4 * at)))
    crawl = builder.crawl()
    assert crawl.seconds == 3603.0
    assert crawl.sites[SITE].rate_now(crawl.seconds) == pytest.approx(4.0)
