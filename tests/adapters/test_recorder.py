"""What the recorder makes of facts: events, rows, sums; and how it meets a file it cannot write."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from scrapy import Request
from scrapy.http import Response
from scrapy.settings import Settings

from scrapy_adaptive.adapters.extension import make_governor
from scrapy_adaptive.adapters.flight import Flight
from scrapy_adaptive.adapters.observing import Observer
from scrapy_adaptive.adapters.recorder import Recorder
from scrapy_adaptive.adapters.settings import read_settings
from scrapy_adaptive.core.types import Answer, Blocked, Outcome
from scrapy_adaptive.report.building import Builder
from scrapy_adaptive.report.crawl import Crawl
from scrapy_adaptive.report.reader import read_crawl
from scrapy_adaptive.report.records import (
    CrawlRecord,
    EventRecord,
    Record,
    SiteRecord,
    to_line,
)
from scrapy_adaptive.report.writer import BYTES_PER_SECOND, SAVED_MOST, Writer
from tests.adapters.stand_ins import Nothing

PAGE = "https://user:secret@site.example/page?token=secret#secret"


class Recorded:
    """A crawl on a virtual clock, and its records."""

    def __init__(self, writer: Writer | None = None, **settings: Any) -> None:
        self.now = 0.0
        chosen = {"ADAPTIVE_START_DELAY": 0.01, "ADAPTIVE_CEILING": "aimd", **settings}
        self.governor = make_governor(read_settings(Settings(chosen)), lambda: 0.0)
        self.around = Nothing()
        observer = Observer(self.governor, self.around, clock=lambda: self.now, cpu=lambda: 0.0)
        self.recorder = Recorder(
            self.governor,
            observer,
            self.around,
            spider="pages",
            writer=writer,
            own_slots={"own"},
            clock=lambda: self.now,
            wall=lambda: self.now,
        )
        self.records: list[Record] = []
        self.recorder.sinks.append(self._keep)

    def _keep(self, records: Sequence[Record]) -> None:
        self.records += records

    @property
    def crawl(self) -> Crawl:
        """The model that is made of the records."""
        builder = Builder()
        for record in self.records:
            builder.add(record)
        return builder.crawl()

    @property
    def events(self) -> list[EventRecord]:
        return [each for each in self.records if isinstance(each, EventRecord)]

    def rows(self, site: str = "a") -> list[SiteRecord]:
        rows = [each for each in self.records if isinstance(each, SiteRecord)]
        return [each for each in rows if each.site == site]

    def answer(self, status: int = 200, key: str = "a", *, announced: float | None = None) -> None:
        """One request, as soon as it may go, is answered with this status; 0 fails."""
        while isinstance(permit := self.governor.take(key, self.now), Blocked):
            self.now = permit.until
        slot = self.governor.slot(key, self.now)
        self.recorder.on_sent(key)
        refused = Outcome.REFUSED if status else Outcome.FAILED
        outcome = Outcome.ACCEPTED if status == 200 else refused
        answer = Answer(outcome, latency=0.02, announced=announced, page=self.now, kind="/")
        flight = Flight(permit, scheduled=True, outcome=outcome, latency=0.02)
        flight.decision = self.governor.on_answer(permit, answer, self.now)
        response = Response(PAGE, status=status) if status else None
        self.recorder.on_answer(slot, flight, Request(PAGE), response, self.now)

    def tick(self, count: int = 1) -> None:
        for _ in range(count):
            self.now += 1.0
            self.recorder.tick()


def test_a_pause_and_its_end_are_events_with_who_asked() -> None:
    crawl = Recorded()
    crawl.answer()
    crawl.answer(429, announced=7.0)
    crawl.answer(503)
    crawl.answer()
    crawl.tick()
    announced = [(each.event, each.who, each.status) for each in crawl.events]
    assert announced[:3] == [
        ("pause", "site", 429),
        ("longer", "crawler", 503),
        ("recovery", "", 0),
    ]
    pause, longer, recovery = crawl.events[:3]
    assert pause.seconds == 7.0
    assert pause.rate > 0
    assert recovery.seconds == pytest.approx(7.0 + longer.seconds, rel=0.1)


def test_a_recovery_tells_of_its_own_pause_alone() -> None:
    """An hour later the site refuses again."""
    crawl = Recorded()
    for _ in range(2):
        crawl.answer()
        crawl.answer(429, announced=7.0)
        crawl.answer()
        crawl.tick(3600)
    lengths = [each.seconds for each in crawl.events if each.event == "recovery"]
    assert lengths == [pytest.approx(7.0, rel=0.1)] * 2


def test_a_pause_for_failures_that_were_one_requests_own_ends_too() -> None:
    crawl = Recorded()
    for status in (200, *[0] * 40, *[200] * 3):
        crawl.answer(status)
        crawl.tick()
    announced = [each.event for each in crawl.events if each.event in ("pause", "recovery")]
    assert announced == ["pause", "recovery"] * (len(announced) // 2)
    assert announced


def test_the_first_request_of_a_site_is_told() -> None:
    crawl = Recorded()
    crawl.tick(30)
    crawl.answer()
    crawl.tick()
    assert crawl.crawl.sites["a"].began == pytest.approx(30.0, abs=0.1)


def test_a_longer_wait_than_the_user_wants_is_parked() -> None:
    crawl = Recorded(ADAPTIVE_MAX_PAUSE=60)
    crawl.answer(503, announced=120.0)
    crawl.tick()
    assert [each.event for each in crawl.events] == ["parked"]
    assert crawl.rows()[-1].state == "parked"
    assert crawl.rows()[-1].until == pytest.approx(120.0)


def test_a_limit_that_is_found_is_told_once() -> None:
    crawl = Recorded()
    for status in (200, 429, 200, 200):
        crawl.answer(status)
    crawl.tick(3)
    assert [each.event for each in crawl.events].count("limit") == 1
    assert crawl.crawl.sites["a"].limit > 0


def test_what_is_given_up_is_counted_and_named_without_its_query() -> None:
    crawl = Recorded()
    crawl.answer()
    crawl.recorder.on_handed_over("a", Request(PAGE))
    crawl.recorder.on_given_up({"a": 3})
    crawl.tick()
    assert [(each.count, each.page) for each in crawl.events] == [
        (1, "https://site.example/page"),
        (3, ""),
    ]
    assert crawl.crawl.totals.given_up == 4


def test_the_whole_crawls_pause_names_five_sites() -> None:
    crawl = Recorded()
    crawl.recorder.on_stopped(f"s{number}" for number in range(60))
    crawl.recorder.on_resumed()
    crawl.tick()
    stopped, resumed = crawl.events
    assert (len(stopped.sites), stopped.site, resumed.event) == (5, "", "resumed")


def test_sums_are_written_each_second_and_rows_each_ten_seconds_or_around_events() -> None:
    """In between a row has counters alone, and only where they have changed."""
    crawl = Recorded()
    for number in range(25):
        crawl.around.queued["a"] = 99 - number
        crawl.answer()
        crawl.tick()
    sums = [each for each in crawl.records if isinstance(each, CrawlRecord)]
    assert [each.served for each in sums] == list(range(1, 26))
    full = [each for each in crawl.rows() if each.state or each.latency or each.waiting]
    assert 2 <= len(full) <= 4
    assert [each.served for each in crawl.rows()] == list(range(1, 26))
    count = len(crawl.rows())
    crawl.tick(9)
    assert len(crawl.rows()) <= count + 1, "nothing changes any more"
    crawl.answer(429, announced=3.0)
    crawl.tick(2)
    assert crawl.rows()[-1].state == "paused"


def test_requests_that_come_while_a_site_is_silent_are_told_though_nothing_is_sent() -> None:
    """It was idle when its last answer came: nothing but the queue has changed since."""
    crawl = Recorded()
    crawl.answer()
    crawl.governor.slot("a", crawl.now).resume_pause(crawl.now, 500.0)
    crawl.tick(120)
    crawl.around.queued["a"] = 7
    crawl.tick(12)
    assert crawl.crawl.sites["a"].waiting == 7
    assert crawl.crawl.sites["a"].by == "retry-after"


def test_a_class_of_pages_names_its_host_and_an_own_number_is_told() -> None:
    crawl = Recorded(DOWNLOAD_SLOTS={"own": {"delay": 2.0}})
    crawl.around.queued["own"] = 5
    crawl.answer(key="own")
    crawl.tick()
    (row,) = crawl.rows("own")
    assert (row.by, row.value, row.own) == ("delay", 2.0, True)


def test_a_slot_that_is_forgotten_and_comes_again_adds_up() -> None:
    """What is counted here goes on; what the slot counted begins anew."""
    crawl = Recorded(ADAPTIVE_MAX_SLOTS=1)
    for _ in range(2):
        crawl.answer(429, announced=2.0)
        crawl.answer()
        crawl.tick(60)
        crawl.answer()
        crawl.tick(60)
        crawl.recorder.on_new_slot("b")
        crawl.answer(key="b")
        crawl.tick(60)
        assert "a" not in crawl.governor
        crawl.recorder.on_new_slot("a")
    site = crawl.crawl.sites["a"]
    assert (site.served, site.refused) == (4, 2)
    assert site.paused == pytest.approx(crawl.governor.time_paused(crawl.now), rel=0.01)


def test_a_crawl_of_very_many_sites_keeps_no_row_of_those_that_were_forgotten(
    tmp_path: Path,
) -> None:
    """There is no room to tell of each while it is crawled; of one it was told before."""
    path, most, hosts = tmp_path / "run.jsonl", 0, [f"host-{number}" for number in range(2_000)]
    crawl = Recorded(Writer(path), ADAPTIVE_MAX_SLOTS=1)
    crawl.answer(key=hosts[0])
    crawl.tick(10)
    crawl.answer(key=hosts[0])
    crawl.recorder._budget.spend(10_000_000)
    for number, host in enumerate(hosts[1:]):
        crawl.answer(key=host)
        if number % 5 == 0:
            crawl.tick()
            most = max(most, len(crawl.recorder._rows), len(crawl.recorder._active))
    before = len(crawl.records)
    crawl.recorder.close("finished")
    assert most < len(hosts) / 2
    assert len(crawl.records) - before < len(hosts) / 2, "none of them waits for the end"
    whole = read_crawl([path])
    assert {name: site.served for name, site in whole.sites.items()} == {
        host: 1 + (host == hosts[0]) for host in hosts
    }
    seen = crawl.crawl
    assert len(seen.sites) < len(hosts) / 2, "who looks on keeps no more than is kept here"
    assert seen.sites[hosts[0]].served == 2
    assert seen.totals.sites == len(hosts)
    assert seen.totals.served == whole.totals.served == len(hosts) + 1
    spent = 10_000_000 + sum(len(to_line(each)) for each in crawl.records)
    left = SAVED_MOST + BYTES_PER_SECOND * crawl.now - spent
    assert crawl.recorder._budget.room(crawl.now) == pytest.approx(left, abs=20_000)


def test_two_slots_whose_names_differ_only_in_what_is_left_out_have_a_row_each() -> None:
    crawl = Recorded()
    for key in ("via http://a:1@proxy", "via http://b:2@proxy", "#1", "?2"):
        crawl.answer(key=key)
    crawl.tick()
    assert set(crawl.crawl.sites) == {
        "via http://proxy",
        "via http://proxy (2)",
        "no name",
        "no name (2)",
    }


def test_failed_downloads_are_counted_as_failures() -> None:
    crawl = Recorded()
    crawl.answer()
    crawl.answer(0)
    crawl.tick()
    assert (crawl.crawl.totals.failed, crawl.crawl.sites["a"].failed) == (1, 1)


def test_a_journal_that_cannot_be_written_is_told_once_and_the_crawl_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = Writer(tmp_path / "run.jsonl")

    def full(lines: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(writer, "append", full)
    caplog.set_level(logging.WARNING)
    crawl = Recorded(writer)
    crawl.answer()
    crawl.tick(3)
    crawl.recorder.close("finished")
    (line,) = caplog.messages
    assert line == "the journal is not written from here: [Errno 28] No space left on device"
    assert crawl.crawl.reason == "finished", "who else listens still hears"
    writer.close()


def test_events_beyond_the_bound_are_counted() -> None:
    crawl = Recorded()
    crawl.recorder._budget.spend(10_000_000)
    crawl.answer(429, announced=1.0)
    crawl.tick()
    assert crawl.events == []
    assert crawl.crawl.totals.hidden == 1
    assert crawl.crawl.totals.refused == 1
