"""Why a crawl is at its speed: `why`, the log's tables and the journal name the right reason.

Laws
----
* All crawls run at once, and each until its journal names the reason: a busy machine takes longer,
  and is not judged.
* What each site does to its visitors is in one table beside what must be said of it.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import scrapy
from scrapy.http import Response

from scrapy_adaptive.frontier.opening import open_frontier
from scrapy_adaptive.frontier.poller import Ranking
from scrapy_adaptive.report.building import JournalError
from scrapy_adaptive.report.crawl import Crawl as Model
from scrapy_adaptive.report.reader import read_crawl
from scrapy_adaptive.report.reasons import reason as found_reason
from scrapy_adaptive.report.why import why
from tests.crawling import Crawler, RunningCrawl
from tests.servers.origin import Answer, Origin, Visit, refusal, robots_txt
from tests.spiders import UrlsSpider

PAGES = 400
"""Of each site: more than any of these crawls lives to see."""

SITES = {
    "127.2.0.1": "limit",
    "127.2.0.2": "backoff",
    "127.2.0.3": "retry-after",
    "127.2.0.4": "parked",
    "127.2.0.5": "quota",
    "127.2.0.6": "quota-spent",
    "127.2.0.7": "crawl-delay",
    "127.2.0.8": "latency",
    "127.2.0.9": "delay",
    "127.2.0.10": "concurrency",
}
"""One crawl of ten sites, and what holds back each."""

LIMIT = 0.1
"""Seconds that the first site wants between two pages."""

COMMON = {
    "ADAPTIVE_START_DELAY": 0.05,
    "ADAPTIVE_GLOBAL_TRIP_SLOTS": 1000,
    "ADAPTIVE_LOG_INTERVAL": 1,
    "LOG_LEVEL": "INFO",
}

TEN = {
    **COMMON,
    "ROBOTSTXT_OBEY": True,
    "CONCURRENT_REQUESTS": 64,
    "ADAPTIVE_CEILING": "aimd",
    "ADAPTIVE_TARGET_CONCURRENCY": 4,
    "ADAPTIVE_MAX_PAUSE": 600,
    "DOWNLOAD_SLOTS": {
        "127.2.0.9": {"delay": 1.5},
        "127.2.0.10": {"delay": 0, "concurrency": 1},
    },
}

QUICK = {**COMMON, "ADAPTIVE_TARGET_CONCURRENCY": 8}

MORE_SITES = {
    "127.2.2.4": "search",
    "127.2.2.1": "robots",
    "127.2.2.3": "rule s0 (by contract)",
    "127.2.2.2": "verdict",
}
"""Another crawl, and what holds back each of its sites: first what does not last."""

MORE = {
    **COMMON,
    "ADAPTIVE_START_DELAY": 6,
    "ADAPTIVE_CLASSIFIER": "tests.acceptance.test_why.by_status",
    "ADAPTIVE_RULES": [{"host": "127.2.2.3", "rate": 0.2, "name": "by contract"}],
    "DOWNLOADER_MIDDLEWARES": {"tests.acceptance.test_why.SlowLook": 700},
    "CONCURRENT_REQUESTS": 64,
    "ROBOTSTXT_OBEY": True,
}


class TenSites:
    """Ten sites on one server."""

    def __init__(self) -> None:
        self._served_at = 0.0

    def __call__(self, visit: Visit) -> Answer:
        if visit.path == "/robots.txt":
            return self._robots(visit)
        reason = SITES[visit.host.partition(":")[0]]
        is_first = visit.path in ("/0", "/1")
        if reason == "limit":
            return self._limited(visit)
        if reason == "backoff":
            return Answer() if is_first else refusal()
        if reason in ("retry-after", "parked"):
            return Answer() if is_first else refusal(retry_after=60 if reason[0] == "r" else 7200)
        if reason == "quota":
            return Answer(headers={"RateLimit": '"day";r=20;t=100'})
        if reason == "quota-spent":
            return Answer(headers={"RateLimit": '"day";r=0;t=100'})
        return Answer(delay=0.8 if reason in ("latency", "concurrency") else 0.0)

    def _robots(self, visit: Visit) -> Answer:
        asks = SITES[visit.host.partition(":")[0]] == "crawl-delay"
        return robots_txt("User-agent: *\nCrawl-delay: 2\n" if asks else "")

    def _limited(self, visit: Visit) -> Answer:
        if visit.elapsed < self._served_at + LIMIT:
            return refusal()
        self._served_at = visit.elapsed
        return Answer()


def by_status(response: Response) -> None:
    """A classifier that leaves the word to the status, and sees the body before."""


class SlowLook:
    """Takes its time with each refusal, before the classifier sees it."""

    async def process_response(self, request: scrapy.Request, response: Response) -> Response:
        if response.status == 429:
            await asyncio.sleep(250.0)
        return response


def more(visit: Visit) -> Answer:
    """What those sites answer."""
    reason = MORE_SITES[visit.host.partition(":")[0]]
    if visit.path == "/robots.txt":
        return Answer(404, delay=250.0 if reason == "robots" else 0.0)
    return refusal() if reason == "verdict" else Answer()


class ChainSpider(scrapy.Spider):
    """Asks for one page after the other, each once the one before is there."""

    name = "chain"
    base: str

    async def start(self) -> AsyncIterator[Any]:
        yield scrapy.Request(f"{self.base}/0")

    def parse(self, response: Response) -> Iterator[Any]:
        number = int(response.url.rpartition("/")[2]) + 1
        yield scrapy.Request(f"{self.base}/{number}")


class SlowSpider(UrlsSpider):
    """Its callbacks block the event loop."""

    name = "slow"

    def parse(self, response: Response) -> Iterator[Any]:
        time.sleep(0.6)
        yield from super().parse(response)


class StuckPipeline:
    """Takes its time with each item, and lets others go on."""

    async def process_item(self, item: Any) -> Any:
        await asyncio.sleep(3.0)
        return item


OTHERS: Mapping[str, Mapping[str, Any]] = {
    "total": {**QUICK, "CONCURRENT_REQUESTS": 2},
    "breaker": {**QUICK, "ADAPTIVE_GLOBAL_TRIP_SLOTS": 1, "ADAPTIVE_GLOBAL_COOLDOWN": 600},
    "empty": QUICK,
    "scraper": {
        **QUICK,
        "SCRAPER_SLOT_MAX_ACTIVE_SIZE": 1,
        "ITEM_PIPELINES": {"tests.acceptance.test_why.StuckPipeline": 300},
    },
    "crawler": QUICK,
    "places": {**COMMON, "CONCURRENT_REQUESTS": 64, "ADAPTIVE_START_DELAY": 1},  # an answer first
    "global-rate": {**QUICK, "ADAPTIVE_GLOBAL_RATE": 1},
    "uplink": QUICK,
    "shared": {**QUICK, "ADAPTIVE_GLOBAL_TRIP_SLOTS": 5},
}
"""Crawls in which one thing holds every site back, and their settings."""

SPIDERS: Mapping[str, type[scrapy.Spider]] = {"empty": ChainSpider, "crawler": SlowSpider}

LAST = {"total": "127.2.1.3", "breaker": "127.2.1.2"}
"""Which of their sites is asked about, where the first would say something else."""


def other(reason: str, visit: Visit) -> Answer:
    """What the site of one of those crawls answers."""
    if reason == "breaker" and visit.host.startswith("127.2.1.1:") and visit.total > 4:
        return refusal()
    if reason == "uplink" and visit.total > 30:
        return Answer(drop=True)
    if reason == "shared" and int(visit.elapsed * 2.0) * 2 < visit.total:
        return refusal()
    if reason == "places":  # one page after the other
        return Answer(delay=0.5 * visit.in_flight**2)
    return Answer(delay={"total": 0.5, "empty": 0.5}.get(reason, 0.0), body="x" * 5000)


def held_by(model: Model, site: str) -> str:
    """What this model says of a site that is not idle."""
    found = model.sites.get(site)
    return found.by if found is not None and found.state != "idle" else ""


@dataclass
class Watched:
    """A crawl under way, and its journal."""

    running: RunningCrawl
    journal: Path

    @property
    def model(self) -> Model:
        """What the journal says by now."""
        try:
            return read_crawl([self.journal])
        except (OSError, JournalError):
            return Model()

    def held_by(self, site: str) -> str:
        """What the journal says by now of a site that is not idle."""
        return held_by(self.model, site)

    def rows(self, site: str) -> list[str]:
        """What the log's tables have said of the site in their last column."""
        last = re.findall(rf"^{re.escape(site)} .*  (\S.*)$", self.running.log, re.MULTILINE)
        return [found.strip() for found in last]


@pytest.fixture(scope="module")
def crawls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, Watched]]:
    """All crawls, under way at once."""
    folder = tmp_path_factory.mktemp("why")
    crawler = Crawler(folder)
    started: dict[str, Watched] = {}

    def begin(name: str, site: Origin, settings: Mapping[str, Any]) -> None:
        journal = folder / f"{name}.jsonl"
        urls = [f"{site.url_at(host)}/{n}" for n in range(PAGES) for host in site.addresses]
        running = crawler.start(
            SPIDERS.get(name, UrlsSpider),
            {**settings, "ADAPTIVE_JOURNAL": str(journal)},
            arguments={"base": site.url} if name == "empty" else {"urls": urls},
            timeout=280.0,
        )
        started[name] = Watched(running, journal)

    with ExitStack() as sites:
        begin("ten", sites.enter_context(Origin(TenSites(), addresses=list(SITES))), TEN)
        begin("more", sites.enter_context(Origin(more, addresses=list(MORE_SITES))), MORE)
        for reason, settings in OTHERS.items():
            addresses = [f"127.2.1.{n}" for n in range(1, 9 if reason == "shared" else 4)]
            site = Origin(partial(other, reason), addresses=addresses)
            begin(reason, sites.enter_context(site), settings)
        yield started
        crawler.stop()


CASES: Mapping[str, Mapping[str, str]] = {
    "more": MORE_SITES,
    "ten": SITES,
    **{name: {LAST.get(name, "127.2.1.1"): name} for name in OTHERS},
}
"""Of each crawl: some of its sites, and what holds each back. What does not last comes first."""


def test_journal_why_and_table_name_what_holds_a_site_back(crawls: Mapping[str, Watched]) -> None:
    """In the words of the one registry. A crawl that has told all of it is ended."""
    for name, sites in CASES.items():
        for site, reason in sites.items():
            assert_told(crawls[name], site, reason)
        crawls[name].running.kill()


def assert_told(crawl: Watched, site: str, reason: str) -> None:
    title = found_reason(reason).title
    models: list[Model] = []

    def is_held() -> bool:
        models[:] = [crawl.model]
        return held_by(models[0], site) == reason

    crawl.running.until(is_held)
    answer = why(models[0], site).splitlines()  # what holds it may be another thing by now
    assert answer[0] == f"{site} is held back by: {title}."
    assert answer[-1].startswith("What it would cost: ")
    crawl.running.until(lambda: title in crawl.rows(site))


def test_a_host_that_another_worker_has_is_awaited(
    origin: Callable[..., Origin], crawl: Crawler, tmp_path: Path
) -> None:
    """Requests that pass by the frontier wait for the host's lease."""
    site, host = origin(lambda visit: Answer()), "127.0.0.1"
    address, journal = f"sqlite:///{tmp_path}/crawl.db", tmp_path / "run.jsonl"
    urls = [
        {"url": f"{site.url}/{n}", "meta": {"adaptive_frontier": False}, "dont_filter": True}
        for n in range(PAGES)
    ]
    with closing(open_frontier(address, UrlsSpider.name, Ranking())) as other:
        other.open("another worker", "shared", ttl=600.0)
        [held] = other.lease(1, 0, only=host).held
        running = crawl.start(
            UrlsSpider,
            {**COMMON, "ADAPTIVE_FRONTIER": address, "ADAPTIVE_JOURNAL": str(journal)},
            arguments={"urls": urls},
        )
        watched = Watched(running, journal)
        running.until(lambda: watched.held_by(host) == "lease")
        assert site.hits() == []
        assert why(watched.model, host).splitlines()[0] == (
            f"{host} is held back by: host lease awaited."
        )
        other.release(held.lease, None)
        running.until(lambda: len(site.hits()) > 2)
        running.kill()
