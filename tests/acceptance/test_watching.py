"""What a user can watch: log lines, the table at the end, stats, and what holds a slot's pace."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from scrapy_adaptive.report import units
from scrapy_adaptive.report.reasons import REASONS
from tests.crawling import Crawl, Crawler
from tests.servers.origin import Answer, Origin, Visit, refusal, robots_txt
from tests.spiders import UrlsSpider

PAGES = 12
REFUSED_AT = 6
"""The visit that is refused, alone."""

TOLD = 1.0
"""Seconds of silence that the refusal asks for: time enough for summary lines."""

NUMBER = r"-?[\d.]+(?:e[+-]\d+)?"

RATE = r"[\d.]+/(?:s|min|h)"

ANSWER_LINE = re.compile(
    r"INFO: slot: (?P<slot>\S+) \| in flight:(?P<in_flight> *\d+) \| "
    r"delay:(?P<delay> *\d+) ms \((?P<change>[+-]\d+)\) \| latency:(?P<latency> *\d+) ms \| "
    rf"rate:(?P<rate> *{NUMBER})/s \| limit:(?P<limit> *(?:inf|{NUMBER}))/s \| "
    r"(?P<phase>[a-z]+) \| "
    r"(?P<status>\d+) (?P<event>[a-z ]+): (?P<why>.+)$",
    re.MULTILINE,
)

STORY = (
    r"scrapy_adaptive \S+ is on: each site's pace is found .+ one request each 0\.05 s",
    rf"slot 127\.0\.0\.1: paused for 1(\.\d+)? s after a 429 at {RATE}; then one test request .+",
    r"whole crawl: paused after a refusal \(127\.0\.0\.1\); it goes on by itself",
    r"whole crawl: goes on",
    rf"slot 127\.0\.0\.1: recovered after [\d.]+ s; goes on at up to {RATE}",
)
"""A crawl with one pause, line by line."""

SUMMARY_LINE = re.compile(
    r"INFO: adaptive: \d+ requests in flight, \d+ waiting, \d+ refusals, \d+ pauses, 1 slots\n"
    r"slot +rate +limit +state +held back by\n"
    rf"127\.0\.0\.1 +(?:{RATE}|–) +\S+ +(?:crawling|testing|idle|paused for [\d.]+ s) +\S.+$",
    re.MULTILINE,
)

COLUMNS = ["slot", "pages", "rate", "refused", "requeued", "paused", "limit", "held back by"]

QUICK, SLOW, OWN_DELAY, OWN_CONCURRENCY, CRAWL_DELAY, FREE = (f"127.1.0.{n}" for n in range(1, 7))

PACED_PAGES = 18
"""Of each site but `QUICK`: ten in a row must tell the same."""

QUICK_PAGES = 27
"""The one in the middle is slow: ten in a row tell the same before it, and again after it."""

FLOOR = 0.1
LATENCY = 0.2
"""Seconds of a page of the slow sites."""

BOUNDS = {
    QUICK: "DOWNLOAD_DELAY = 0.1 s",
    SLOW: "CONCURRENT_REQUESTS_PER_DOMAIN = 1",
    OWN_DELAY: "delay in DOWNLOAD_SLOTS = 0.12 s",
    OWN_CONCURRENCY: "concurrency in DOWNLOAD_SLOTS = 1",
    CRAWL_DELAY: "Crawl-delay = 0.15 s in its robots.txt",
}
"""What holds each site's pace; nothing of the user's holds that of `FREE`."""

TEMPLATE = {
    "DOWNLOAD_DELAY": FLOOR,
    "CONCURRENT_REQUESTS_PER_DOMAIN": 1,
    "ROBOTSTXT_OBEY": True,
}
"""As the template of new projects has it, in a tenth of its time."""


@dataclass(frozen=True, slots=True)
class Watched:
    """A crawl, and how many hits its site has seen."""

    done: Crawl
    hit_count: int

    def count(self, name: str) -> Any:
        """A stat of ours."""
        return self.done.stats[f"adaptive/{name}"]


def refuse_once(visit: Visit) -> Answer:
    if visit.total == REFUSED_AT:
        return refusal(retry_after=TOLD)
    return Answer(delay=0.02)


def at_their_pace(visit: Visit) -> Answer:
    host = visit.host.partition(":")[0]
    if visit.path == "/robots.txt":
        return robots_txt("User-agent: *\nCrawl-delay: 0.15\n" if host == CRAWL_DELAY else "")
    in_the_middle = visit.path == f"/{QUICK_PAGES // 2}" and host == QUICK
    slow = in_the_middle or host in (SLOW, OWN_CONCURRENCY, FREE)
    return Answer(delay=LATENCY if slow else 0.0)


def paced_urls(site: Origin) -> list[str]:
    """The pages of all sites, which take turns."""
    return [
        f"{site.url_at(host)}/{n}"
        for n in range(QUICK_PAGES)
        for host in site.addresses
        if n < PACED_PAGES or host == QUICK
    ]


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    """One crawl with everything to be seen: a trip, a global trip, a probe, a recovery."""
    crawl = Crawler(tmp_path_factory.mktemp("watched"))
    with Origin(refuse_once) as site:
        done = crawl(
            UrlsSpider,
            {
                "ADAPTIVE_DEBUG": True,
                "ADAPTIVE_LOG_INTERVAL": 0.5,
                "ADAPTIVE_START_DELAY": 0.05,
                "ADAPTIVE_CEILING": "aimd",
                "ADAPTIVE_TARGET_CONCURRENCY": 2,
                "ADAPTIVE_GLOBAL_TRIP_SLOTS": 1,
                "ADAPTIVE_GLOBAL_COOLDOWN": 0.1,
            },
            arguments={"urls": [f"{site.url}/{n}" for n in range(PAGES)]},
        )
        yield Watched(done, len(site.hits()))


@pytest.fixture
def lines(watched: Watched) -> list[re.Match[str]]:
    """The line of each answer, in their order."""
    return list(ANSWER_LINE.finditer(watched.done.log))


def test_every_answer_has_one_line_with_all_its_fields(
    watched: Watched, lines: list[re.Match[str]]
) -> None:
    """No more and no fewer than the site has answered."""
    assert len(lines) == watched.hit_count == PAGES + 1
    assert watched.done.log.count("INFO: slot: ") == len(lines)
    assert {line["slot"] for line in lines} == {"127.0.0.1"}
    assert sorted(line["status"] for line in lines) == ["200"] * PAGES + ["429"]
    assert max(int(line["latency"]) for line in lines) >= 20


def test_the_line_of_a_refusal_tells_what_it_changed(lines: list[re.Match[str]]) -> None:
    """The delay rises, a limit is known from here, and why."""
    (at,) = (n for n, line in enumerate(lines) if line["status"] == "429")
    line = lines[at]
    assert (line["phase"], line["event"]) == ("paused", "paused")
    assert re.fullmatch(rf"refused at {NUMBER}/s, {NUMBER}/s from here", line["why"])
    assert int(line["change"]) > 0
    assert {float(before["limit"]) for before in lines[:at]} == {float("inf")}
    assert float(line["limit"]) < float("inf")
    assert int(line["delay"]) == pytest.approx(1000 / float(line["rate"]), abs=1.5)


def test_the_line_of_an_acceptance_tells_what_binds_the_pace(lines: list[re.Match[str]]) -> None:
    """Latency before the pause, what was learned after it."""
    events = [line["event"] for line in lines]
    trip, probe = events.index("paused"), events.index("test request accepted")
    before, after = lines[:trip], lines[probe + 1 :]
    assert {line["event"] for line in (*before, *after)} == {"accepted"}
    assert {line["phase"] for line in (*before, *after)} == {"crawling"}
    assert {line["why"] for line in before} == {"pace set by latency"}
    assert "pace set by learned" in {line["why"] for line in after}


def test_a_crawl_is_told_from_its_start_to_its_recovery(watched: Watched) -> None:
    """Each line once, in that order: what is on, pause, whole crawl, recovery."""
    found = [list(re.finditer(f"INFO: {line}$", watched.done.log, re.M)) for line in STORY]
    assert [len(hits) for hits in found] == [1] * len(STORY)
    starts = [hits[0].start() for hits in found]
    assert "test request <" not in watched.done.log.replace(
        "DEBUG: slot 127.0.0.1: test request <", ""
    )
    assert starts == sorted(starts)


def test_summary_lines_come_while_the_crawl_waits(watched: Watched) -> None:
    """The pause alone is longer than the time between two of them."""
    assert SUMMARY_LINE.search(watched.done.log)
    during = re.findall(r"(\d+) waiting, 1 refusals, 1 pauses", watched.done.log)
    assert any(map(int, during))


def test_the_crawl_ends_with_a_table_of_its_slots(watched: Watched) -> None:
    """All its columns, numbers included."""
    table = watched.done.log.partition("adaptive: per-site summary\n")[2].splitlines()
    head, row = (re.split(r" {2,}", line) for line in table[:2])
    assert head == COLUMNS
    assert row[:2] == ["127.0.0.1", str(PAGES)]
    assert re.fullmatch(RATE, row[2])
    assert row[3:5] == ["1", "1"]
    assert row[5] == units.duration(watched.count("time_paused"))
    assert re.fullmatch(RATE, row[6])
    assert row[7] in {each.title for each in REASONS.values()}
    assert len(row) == len(COLUMNS)


def test_the_stats_of_a_site_say_the_same(watched: Watched) -> None:
    """Those of the busiest sites, for monitors."""
    prefix = "adaptive/site/127.0.0.1/"
    found = {
        name.removeprefix(prefix): value
        for name, value in watched.done.stats.items()
        if name.startswith(prefix)
    }
    assert (found["pages"], found["refused"], found["requeued"]) == (PAGES, 1, 1)
    assert found["state"] == "idle"
    assert found["rate"] > 0
    assert found["limit"] > 0
    assert found["paused"] == pytest.approx(watched.count("time_paused"))
    assert found["held_by"] in REASONS


def test_the_stats_count_what_has_happened(watched: Watched) -> None:
    """And every permit has ended."""
    names = ("refusals", "failures", "trips", "global_trips", "probes", "broken_pages", "slots")
    assert [watched.count(name) for name in names] == [1, 0, 1, 1, 1, 0, 1]
    assert watched.count("requeued") == 1
    assert watched.count("drained_tokens") > 0
    assert watched.count("time_paused") >= TOLD
    ends = [watched.count(f"permits/{name}") for name in ("measured", "ignored", "dropped")]
    assert watched.count("permits/granted") == sum(ends)
    assert ends[0] == watched.hit_count


def test_who_is_as_fast_as_its_site_allows_hears_nothing_of_settings(watched: Watched) -> None:
    """No line says that a setting holds the pace."""
    assert "its pace is held by" not in watched.done.log


def test_the_setting_that_holds_a_slots_pace_is_named_once(tmp_path: Path) -> None:
    """Delay and cap of the template, of DOWNLOAD_SLOTS, and Crawl-delay: the one that binds."""
    with Origin(at_their_pace, addresses=[*BOUNDS, FREE]) as site:
        done = Crawler(tmp_path)(
            UrlsSpider,
            {
                **TEMPLATE,
                "DOWNLOAD_SLOTS": {
                    OWN_DELAY: {"delay": 0.12},
                    OWN_CONCURRENCY: {"delay": 0, "concurrency": 1},
                    FREE: {"delay": 0, "concurrency": 16},
                },
                "ADAPTIVE_START_DELAY": FLOOR,
                "ADAPTIVE_TARGET_CONCURRENCY": 8,
            },
            arguments={"urls": paced_urls(site)},
        )
        assert sorted(done.urls) == sorted(paced_urls(site))
    told = re.findall(r"INFO: slot (\S+): its pace is held by (.+), not by the site", done.log)
    assert len(told) == len(BOUNDS)
    assert dict(told) == BOUNDS
