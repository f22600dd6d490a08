"""What the log says of pauses: of busy slots, ten lines a minute, the rest counted."""

from __future__ import annotations

import logging
import re
from typing import Any

import pytest
from scrapy import Request
from scrapy.http import Response
from scrapy.settings import Settings
from scrapy.statscollectors import MemoryStatsCollector
from scrapy.utils.test import get_crawler

from scrapy_adaptive.adapters import reporting
from scrapy_adaptive.adapters.extension import make_governor
from scrapy_adaptive.adapters.flight import Flight
from scrapy_adaptive.adapters.observing import Observer
from scrapy_adaptive.adapters.reporting import Parked, Reporting
from scrapy_adaptive.adapters.settings import read_settings
from scrapy_adaptive.adapters.summary import Summary
from scrapy_adaptive.core.types import Answer, Blocked, Outcome, Reason
from tests.adapters.stand_ins import Nothing

REQUEST = Request("http://site.example/")


class Watched:
    """A crawl on a virtual clock, and what is told of it."""

    def __init__(self, caplog: pytest.LogCaptureFixture, **settings: Any) -> None:
        caplog.set_level(logging.INFO, logger="scrapy_adaptive")
        self._caplog = caplog
        self.now = 0.0
        stats = MemoryStatsCollector(get_crawler())
        chosen = {"ADAPTIVE_START_DELAY": 0.01, "ADAPTIVE_GLOBAL_TRIP_SLOTS": 10_000, **settings}
        self.governor = make_governor(read_settings(Settings(chosen)), lambda: 0.0)
        self.around = Nothing()
        self.observer = Observer(self.governor, self.around, clock=lambda: self.now)
        self.reporting = Reporting(
            stats, debug=False, observer=self.observer, clock=lambda: self.now
        )
        self.summary = Summary(stats, self.governor, self.observer, clock=lambda: self.now)

    @property
    def lines(self) -> list[str]:
        ours = [
            record for record in self._caplog.records if record.name.startswith("scrapy_adaptive")
        ]
        return [record.getMessage() for record in ours]

    def answer(self, key: str, status: int, announced: float | None = None) -> None:
        """One request of this slot, as soon as it may go, is answered with this status."""
        slot = self.governor.slot(key, self.now)
        if slot.is_new:
            self.reporting.on_new_slot(key)
        while isinstance(permit := self.governor.take(key, self.now), Blocked):
            assert permit.until < 1e6, permit
            self.now = permit.until
        outcome = Outcome.ACCEPTED if status == 200 else Outcome.REFUSED
        answer = Answer(outcome, latency=0.01, announced=announced, page=self.now, kind="/")
        flight = Flight(permit, scheduled=True, outcome=outcome, latency=0.01)
        flight.decision = self.governor.on_answer(permit, answer, self.now)
        response = Response(REQUEST.url, status=status)
        self.reporting.on_decision(slot, flight, REQUEST, response, self.now)


@pytest.fixture
def watched(caplog: pytest.LogCaptureFixture) -> Watched:
    return Watched(caplog)


def test_a_pause_and_its_recovery_have_one_line_each(watched: Watched) -> None:
    """In words and units that people read; a test request that is refused has none."""
    watched.answer("a", 200)
    watched.answer("a", 503)
    watched.answer("a", 503)
    watched.answer("a", 200)
    assert len(watched.lines) == 2
    paused, recovered = watched.lines
    assert re.fullmatch(
        r"slot a: paused for [\d.]+ s after a 503 at [\d.]+/s; then one test request decides",
        paused,
    )
    assert re.fullmatch(r"slot a: recovered after [\d.]+ s; goes on at up to [\d.]+/\w+", recovered)


def test_a_long_pause_is_told_in_hours_and_a_longer_one_by_its_end(watched: Watched) -> None:
    """The longest that a crawl sits through is an hour."""
    watched.answer("a", 503, announced=1800)
    watched.answer("b", 503, announced=7260)
    assert "slot a: paused for 30 min after a 503" in watched.lines[0]
    assert re.fullmatch(
        r"slot b: asked to wait until \d{4}-\d\d-\d\d \d\d:\d\d:\d\d \(a 503\); .+",
        watched.lines[1],
    )


def test_a_pause_that_goes_on_for_long_is_told_again(watched: Watched) -> None:
    """The user waits for it, and wants to know why."""
    watched.answer("a", 429)
    watched.answer("a", 429, announced=90)
    assert (
        watched.lines[1] == "slot a: paused for another 1 min 30 s, as the test request got a 429"
    )


def test_a_minute_has_ten_lines_at_most_and_the_summary_counts_the_others(
    watched: Watched,
) -> None:
    """Sixty busy sites refuse at once; each would have a line for its pause and its recovery."""
    slots = [f"s{number}" for number in range(60)]
    for key in slots:
        for _ in range(reporting.BUSY_PAGES):
            watched.answer(key, 200)
    watched.now += 100.0
    for key in slots:
        watched.answer(key, 429)
    assert len(watched.lines) == 10
    watched.summary.log_interval(0, watched.reporting.take_untold())
    assert "; 50 pauses and recoveries not shown\n" in watched.lines[-1]
    watched.summary.log_interval(0, watched.reporting.take_untold())
    assert "not shown" not in watched.lines[-1]
    watched.now += reporting.PERIOD
    for key in slots:
        watched.answer(key, 200)
    announced = [line for line in watched.lines if "recovered" in line]
    assert len(announced) == 10, "only those whose pause was told"


def test_slots_that_are_not_busy_are_counted_in_a_crawl_of_many(watched: Watched) -> None:
    """A page or two of each of a thousand sites is no news; of the busy one each pause is."""
    for _ in range(reporting.BUSY_PAGES):
        watched.answer("busy", 200)
    for number in range(1000):
        watched.answer(f"s{number}", 200)
    watched.answer("s999", 429)
    watched.answer("busy", 429)
    assert [line.partition(":")[0] for line in watched.lines] == ["slot busy"]


def test_a_hundred_and_fifty_parked_sites_have_one_line(watched: Watched) -> None:
    """Those for which most requests wait are named."""
    parked = [Parked(f"s{number}", 7200.0, number) for number in range(150)]
    watched.reporting.log_parked(parked)
    (line,) = watched.lines
    assert line.startswith(
        "adaptive: 11175 requests wait, as their sites or your rules asked to wait: s149 until"
    )
    assert line.endswith("and 145 more")
    watched.reporting.log_parked([])
    assert len(watched.lines) == 1


def test_the_whole_crawls_pause_names_five_slots(watched: Watched) -> None:
    """Of as many as there may be."""
    watched.reporting.on_stopped(Reason.GLOBAL, (f"s{number}" for number in range(60)))
    watched.reporting.on_resumed(Reason.GLOBAL)
    assert "(s0, s1, s2, s3, s4 and 55 more)" in watched.lines[0]
    assert watched.lines[1] == "whole crawl: goes on"


def test_slots_that_another_crawler_uses_too_are_told_ten_times_at_most(
    watched: Watched, caplog: pytest.LogCaptureFixture
) -> None:
    """A broad crawl would log a line for each site."""
    other = Watched(caplog)
    watched.reporting.know_neighbours([other.governor])
    for number in range(50):
        other.governor.slot(f"s{number}", 0.0)
        watched.reporting.on_new_slot(f"s{number}")
    assert len(watched.lines) == reporting.MOST_NOTICES


def test_the_table_of_a_parked_run_says_how_long_it_is_still_to_wait(watched: Watched) -> None:
    """A run that ends at once was paused for no time worth telling."""
    watched.governor.slot("a", watched.now).resume_pause(watched.now, 7260.0)
    watched.summary.log_end()
    row = watched.lines[0].splitlines()[-1]
    assert "0 s + 2 h 1 min to come" in row
