"""Both arms of a scenario, at the same time, and the verdict.

Laws
----
* The two crawls run at once, so that a busy machine slows both.
* Pages are those that reached the spider with status 200, whether their item came through or not;
  items are those without an error, and each file that came with one; hits are what the sites' logs
  hold, and one page more may take one hit more.
* On asyncio, Scrapy starts a download a turn of the loop after it counted it, so that it has more
  requests in flight at a host than `CONCURRENT_REQUESTS_PER_DOMAIN` allows. Where stock's crawl was
  faster by that, its time is the one that the same answers take within the user's number.
* A crawl that has not ended some seconds after its bound is killed, and counts as it stands.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.beside.scenario import Arena, Job, Scenario
from docsite.hits import Hit
from tests.crawling import Crawl, Crawler, CrawlError, RunningCrawl

FACTOR, START = 1.2, 6.0
"""Stock's time may become so much longer; the seconds are the polite start."""

SPARE = 4.0
"""Seconds beyond the bound after which a crawl is killed."""

TIMED_SPARE = 75.0
"""The same where only a part of the crawl is timed: the rest waits for a site that refuses."""

STOCK_CAP = 150.0
"""Seconds after which stock's crawl is killed."""

SETTINGS: Mapping[str, Any] = {"ADAPTIVE_TARGET_CONCURRENCY": "auto"}
"""Of both arms: stock Scrapy has no use for it."""

CAP_SETTING, CAP = "CONCURRENT_REQUESTS_PER_DOMAIN", 8
"""Scrapy's setting, and its value where a project has none."""


@dataclass(frozen=True, slots=True)
class Result:
    """What came of one arm."""

    ended: bool
    seconds: float
    pages: int
    items: int
    hits: int
    within_cap: float = 0.0
    """Least seconds that the same answers take with `CONCURRENT_REQUESTS_PER_DOMAIN` kept."""

    @property
    def fair_seconds(self) -> float:
        """How long the crawl takes where it breaks none of the user's bounds."""
        return max(self.seconds, self.within_cap)


def bound_of(scenario: Scenario, stock: Result) -> float:
    """Most seconds that the add-on may take."""
    if scenario.most is not None:
        return scenario.most
    if scenario.refuses and not scenario.timed:
        return STOCK_CAP
    return FACTOR * stock.fair_seconds + START


def failings(scenario: Scenario, stock: Result, ours: Result) -> list[str]:
    """In what the add-on's crawl is worse than stock's; empty where it is not."""
    if not stock.ended or not stock.pages:
        return ["stock's own crawl came to nothing"]
    pages, items = stock.pages, stock.items
    if scenario.closes_early:
        pages, items = min(pages, ours.pages), stock.items * ours.pages // stock.pages
    hits = stock.hits + max(0, ours.pages - stock.pages)
    failed = [
        (not ours.ended, "not ended"),
        (ours.seconds > bound_of(scenario, stock), "too slow"),
        (ours.pages < max(1, pages), "fewer pages"),
        (ours.items < items, "fewer items"),
        (not scenario.refuses and ours.hits > hits, "more hits"),
    ]
    return [what for is_so, what in failed if is_so]


class Arm:
    """One crawl of a scenario, under way."""

    def __init__(
        self, scenario: Scenario, crawler: Crawler, stack: ExitStack, *, adaptive: bool
    ) -> None:
        folder = crawler.folder / ("adaptive" if adaptive else "stock")
        folder.mkdir(parents=True)
        self.arena = Arena(folder, stack)
        self.scenario = scenario
        self.job = scenario.build(self.arena)
        self._crawler = crawler
        self._adaptive = adaptive
        self.running: RunningCrawl | None = None
        self._hits_before = 0

    def warm(self) -> None:
        """Have stock Scrapy crawl what the job asks for first."""
        if self.job.warm:
            self._start(self.job.warm, adaptive=False).wait()
            self._hits_before = len(self.arena.hits())

    def start(self) -> RunningCrawl:
        """Start the crawl that counts."""
        self.running = self._start(self.job.urls, adaptive=self._adaptive)
        return self.running

    def _start(self, urls: list[Any], *, adaptive: bool) -> RunningCrawl:
        job: Job = self.job
        return self._crawler.start(
            job.spider,
            {**SETTINGS, **job.settings},
            arguments={"urls": urls, **job.arguments},
            adaptive=adaptive,
            jobdir=self.arena.folder / "job" if job.jobdir else None,
            timeout=STOCK_CAP,
        )

    def result(self) -> Result:
        """What has come of it, within its time."""
        assert self.running is not None
        try:
            crawl, ended = self.running.wait(), True
        except CrawlError:
            crawl, ended = self.running.outcome(), False
        hits = self.arena.hits()[self._hits_before :]
        return result_of(self.scenario, crawl, hits, cap=self._cap(), ended=ended)

    def _cap(self) -> int:
        """Requests that may be in flight at a host."""
        return int(self.job.settings.get(CAP_SETTING, CAP))


def result_of(
    scenario: Scenario, crawl: Crawl, hits: Sequence[Hit], *, cap: int, ended: bool
) -> Result:
    """A crawl by its numbers; `cap` is how many requests a host may have in flight."""
    busy: defaultdict[str, float] = defaultdict(float)
    for hit in hits:
        busy[hit.host] += hit.end - hit.start
    whole = [item for item in crawl.items if "error" not in item]
    pages = len({item["url"] for item in whole if item["status"] == 200})
    return Result(
        ended=ended,
        seconds=_seconds(scenario, crawl),
        pages=max(pages, crawl.stats.get("beside/pages", 0)),
        items=len(whole) + sum(len(item.get("files", ())) for item in whole),
        hits=len(hits),
        within_cap=max(busy.values(), default=0.0) / cap,
    )


def _seconds(scenario: Scenario, crawl: Crawl) -> float:
    """Until the end, or until the share of the items whose time is asked for."""
    instants = sorted(
        item["at"] for item in crawl.items if "at" in item and scenario.timed in item["url"]
    )
    if not scenario.timed or not instants:
        return crawl.seconds
    return float(instants[int(scenario.share * len(instants)) - 1]) - crawl.started_at


def compare(scenario: Scenario, folder: Path) -> tuple[Result, Result]:
    """Run a scenario; returns stock's result and the add-on's."""
    crawler = Crawler(folder)
    with ExitStack() as stack:
        stack.callback(crawler.stop)
        arms = [Arm(scenario, crawler, stack, adaptive=each) for each in (False, True)]
        for arm in arms:
            arm.warm()
        running = [arm.start() for arm in arms]
        stock = arms[0].result()
        left = bound_of(scenario, stock) + (TIMED_SPARE if scenario.timed else SPARE)
        started = time.monotonic() - (time.time() - running[1].launched_at)
        running[1].deadline = min(running[1].deadline, started + left)
        return stock, arms[1].result()
