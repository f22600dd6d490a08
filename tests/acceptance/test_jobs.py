"""A job that is stopped, killed and resumed: what the next run has, and no pause forgotten.

Laws
----
* Stops come when the site has served so many pages, or has asked for silence; no clock.
* What the spider got is counted over all runs, what the site served by the site's own log.
"""

from __future__ import annotations

import random
import signal
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from docsite.hits import Hit, rude_hits
from tests.acceptance.readings import READING, rude
from tests.crawling import Crawl, Crawler, RunningCrawl
from tests.servers.origin import Answer, Origin, Visit, links_page, refusal
from tests.spiders import LinksSpider

HOSTS = [f"127.1.{200 + n // 50}.{1 + n % 50}" for n in range(100)]
EACH = 10
"""Pages of a host."""

LONG = 15
"""Seconds of silence that one refusal asks for: it outlasts a stop and a start."""

IN_FLIGHT = 16
"""CONCURRENT_REQUESTS of the crawls that are killed."""

SETTINGS: dict[str, Any] = {
    "ADAPTIVE_START_DELAY": 0.05,
    "ADAPTIVE_TARGET_CONCURRENCY": 8,
    "LOG_LEVEL": "INFO",
}


class MoodySite:
    """Every other host refuses two of its pages, each once; the first asks for a long silence.

    A host's first page links to its others. The page refused second is linked by the one
    refused first: were a probe refused too, the silence would be much longer.
    """

    def __init__(self, seed: int) -> None:
        chance = random.Random(seed)
        self.served = 0
        self.has_refused_for_long = False
        self._first = {host: chance.randrange(1, 4) for host in HOSTS[::2]}  # the last in turn
        self._first[HOSTS[0]] = EACH - 2  # the first
        self._silence: dict[tuple[str, int], int | None] = {}
        for host, n in self._first.items():
            self._silence[host, n] = chance.choice([None, None, 0, 1])
            self._silence[host, EACH - 1] = chance.choice([None, None, 0, 1])
        self._silence[HOSTS[0], EACH - 2] = 0  # the long one follows while most pages wait
        self._silence[HOSTS[0], EACH - 1] = LONG

    def __call__(self, visit: Visit) -> Answer:
        host, n = visit.host.partition(":")[0], int(visit.path[1:])
        if (host, n) in self._silence and visit.count == 1:
            self.has_refused_for_long |= self._silence[host, n] == LONG
            return refusal(retry_after=self._silence[host, n])
        self.served += 1
        links = list(range(1, EACH - 1)) if n == 0 else []
        if n == self._first.get(host, 0):
            links.append(EACH - 1)
        return links_page(f"/{link}" for link in links)


def terminate(running: RunningCrawl) -> Crawl:
    running.process.send_signal(signal.SIGTERM)
    done = running.wait()
    assert done.stats["finish_reason"] == "shutdown"
    return done


def hits_by_run(hits: Sequence[Hit], runs: Sequence[Crawl]) -> list[list[Hit]]:
    ends = [*(run.started_at for run in runs[1:]), float("inf")]
    return [
        [hit for hit in hits if run.started_at <= hit.start < end]
        for run, end in zip(runs, ends, strict=True)
    ]


def rude_in(run: Crawl, hits: Sequence[Hit]) -> list[str]:
    """What a run's hits of each host have against it."""
    by_host: defaultdict[str, list[Hit]] = defaultdict(list)
    for hit in hits:
        by_host[hit.host].append(hit)
    refusing = (of_host for of_host in by_host.values() if any(h.status == 429 for h in of_host))
    return [charge for of_host in refusing for charge in rude(of_host, run)]


def stopped_three_times(
    crawl: Crawler, site: Origin, answers: MoodySite, jobdir: Path
) -> list[Crawl]:
    """The four runs of a crawl that is stopped at random instants, the first in a long pause."""
    settings = {
        **SETTINGS,
        **READING,
        "CONCURRENT_REQUESTS": 64,
        "ADAPTIVE_BACKOFF_RATIO": 0.9,
        "ADAPTIVE_GLOBAL_TRIP_SLOTS": 1000,  # all these refusals are no reason to stop the crawl
    }
    chance = random.Random(7)
    options: dict[str, Any] = {
        "arguments": {"urls": [f"{site.url_at(host)}/0" for host in HOSTS]},
        "jobdir": jobdir,
        "timeout": 180,
    }
    runs = []
    for _ in range(3):
        mark = answers.served + chance.uniform(0, 0.3) * (len(HOSTS) * EACH - answers.served)
        running = crawl.start(LinksSpider, settings, **options)
        running.until(lambda: answers.has_refused_for_long and answers.served >= mark)  # noqa: B023
        runs.append(terminate(running))
    return [*runs, crawl(LinksSpider, settings, **options)]


def test_a_crawl_stopped_three_times_at_random_instants_fetches_every_page_once(
    origin: Callable[..., Origin],
    crawl: Crawler,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """First in the middle of a pause, which outlasts the run and is kept by the next."""
    monkeypatch.setattr("tests.acceptance.readings.LATEST", 5.0)  # the crawl is kept very busy
    answers = MoodySite(seed=5)
    site = origin(answers, addresses=HOSTS)
    runs = stopped_three_times(crawl, site, answers, tmp_path / "job")
    pages = sorted(f"{site.url_at(host)}/{n}" for host in HOSTS for n in range(EACH))
    assert sorted(url for run in runs for url in run.urls) == pages
    assert [url for run in runs for url in run.lost] == []
    hits = site.hits()
    served = Counter(f"http://{hit.host}{hit.path}" for hit in hits if hit.status == 200)
    assert served == Counter(pages)
    assert len(hits) > len(pages) + len(HOSTS) // 2

    each = hits_by_run(hits, runs)
    assert sum(map(len, each)) == len(hits)
    charges = [charge for run, own in zip(runs, each, strict=True) for charge in rude_in(run, own)]
    assert charges == []
    run_of = {hit: n for n, own in enumerate(each) for hit in own}
    later = [it for it in rude_hits(hits) if run_of[it.hit] != run_of[it.refusal]]
    assert later == []
    (long,) = (hit for hit in hits if hit.retry_after == LONG)
    assert run_of[long] == 0
    assert runs[0].ended_at < long.end + LONG
    assert any(hit.start < long.end + LONG for hit in each[1])
    assert sorted(run_of[hit] for hit in hits if hit.host == long.host)[-1] > 0


# Killed outright


class Hub:
    """One page that links to all others, which take a tenth of a second each."""

    def __init__(self) -> None:
        self.served = 0
        self.urls: list[str] = []
        self.asked: set[str] = set()

    def __call__(self, visit: Visit) -> Answer:
        self.asked.add(f"http://{visit.host}{visit.path}")
        if visit.path == "/hub":
            return links_page(self.urls)
        self.served += 1
        return Answer(delay=0.1)


@dataclass(frozen=True, slots=True)
class Killed:
    """What came of a job that was killed outright and run once more."""

    waiting: set[str]
    """Pages known to the crawl that the site had not been asked for when it was killed."""
    lacking: set[str]
    """Those among them that the next run did not get either."""
    lost: set[str]
    """All that the spider never got."""
    reason: str
    """Why the next run ended."""

    @property
    def lost_share(self) -> float:
        """Of the pages that waited."""
        return len(self.lacking) / len(self.waiting)

    @property
    def under_way_share(self) -> float:
        """The most of them that had left the queue but not arrived."""
        return IN_FLIGHT / len(self.waiting)


def kill(
    site: Origin, crawl: Crawler, folder: Path, *, adaptive: bool, stopped_before: bool
) -> Killed:
    """A polite site's job, killed in its first run, or in the run after a stop in good order."""
    site.handler = hub = Hub()
    hub.urls = [f"{site.url_at(host)}/{n}" for host in HOSTS[:20] for n in range(EACH)]
    settings = {
        **SETTINGS,
        "CONCURRENT_REQUESTS": IN_FLIGHT,
        "CLOSESPIDER_TIMEOUT_NO_ITEM": 3,  # with damaged files Scrapy's own queue never ends
    }
    options: dict[str, Any] = {
        "arguments": {"urls": [f"{site.url}/hub"]},
        "jobdir": folder / f"job-{adaptive}",
        "adaptive": adaptive,
    }
    runs = []
    if stopped_before:
        running = crawl.start(LinksSpider, settings, **options)
        running.until(lambda: hub.served >= 60)
        runs.append(terminate(running))
    running = crawl.start(LinksSpider, settings, **options)
    running.until(lambda: hub.served >= 120)
    running.kill()
    runs.append(running.outcome())
    waiting = set(hub.urls) - hub.asked
    runs.append(crawl(LinksSpider, settings, **options))
    got = {url for run in runs for url in run.urls}
    return Killed(waiting, waiting - got, set(hub.urls) - got, runs[-1].stats["finish_reason"])


@pytest.mark.parametrize("stopped_before", [False, True], ids=["first run", "resumed run"])
def test_a_crawl_killed_outright_loses_no_more_than_with_scrapys_own_queue(
    stopped_before: bool, origin: Callable[..., Origin], crawl: Crawler, tmp_path: Path
) -> None:
    """Of what waited: all in the first run, nothing of what a stop in good order had saved."""
    site = origin(addresses=HOSTS[:20])
    stock, ours = (
        kill(site, crawl, tmp_path, adaptive=adaptive, stopped_before=stopped_before)
        for adaptive in (False, True)
    )
    print(
        f"lost of waiting, and in all: stock {len(stock.lacking)} of {len(stock.waiting)}, "
        f"{len(stock.lost)}; ours {len(ours.lacking)} of {len(ours.waiting)}, {len(ours.lost)}"
    )
    assert ours.lost_share <= max(stock.lost_share, ours.under_way_share)
    if stopped_before:
        assert ours.lost_share <= ours.under_way_share
        assert ours.reason == "finished"
    else:
        assert stock.lost_share == 1


def test_a_pause_outlasts_a_kill(
    origin: Callable[..., Origin], crawl: Crawler, tmp_path: Path
) -> None:
    """The start page is refused, and the first run is killed a third of a second later."""
    seconds = 6

    def refuse_first(visit: Visit) -> Answer:
        return refusal(retry_after=seconds) if visit.total == 1 else Answer()

    site = origin(refuse_first)
    options: dict[str, Any] = {"arguments": {"urls": [f"{site.url}/0"]}, "jobdir": tmp_path / "job"}
    running = crawl.start(LinksSpider, SETTINGS, **options)
    running.until(site.hits)
    time.sleep(1 / 3)
    running.kill()
    crawl(LinksSpider, SETTINGS, **options)
    refused, served = site.hits()
    assert (refused.status, served.status) == (429, 200)
    assert served.start >= refused.end + seconds
