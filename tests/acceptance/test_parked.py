"""A host that asks for a longer pause than the user wants to sit through is parked.

Laws
----
* The site refuses until the test lets it serve, so that a slow machine meets the same site.
* What the site is asked, and when, is read from its log.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from scrapy.http import Response

from docsite.hits import Hit
from tests.acceptance.alongside import ROBOTS, hits_at, in_turn, pages_of
from tests.crawling import Crawl, Crawler, Reactor
from tests.servers.origin import Answer, Handler, Origin, Visit, image, refusal, robots_txt
from tests.spiders import UrlsSpider

PARKED, *OTHERS = HOSTS = ["127.1.2.1", "127.1.2.2", "127.1.2.3"]
PAGES = 10

SETTINGS: dict[str, Any] = {
    "ADAPTIVE_START_DELAY": 0.05,
    "ADAPTIVE_TARGET_CONCURRENCY": 8,
    "ADAPTIVE_MAX_PAUSE": 1,
}

REACTORS = pytest.mark.parametrize("reactor", ["asyncio", "select", "none"])


class PicturesSpider(UrlsSpider):
    """Each page of the other hosts shows an image of the parked one."""

    name = "pictures"

    def __init__(self, urls: list[str | dict[str, Any]], images: str, **fields: Any) -> None:
        super().__init__(urls, **fields)
        self.images = images

    def parse(self, response: Response) -> Iterator[Any]:
        for item in super().parse(response):
            item["image_urls"] = [f"{self.images}/{response.url.rpartition('/')[2]}.png"]
            yield item


def refusing(retry_after: int) -> Handler:
    """One host refuses everything."""

    def handler(visit: Visit) -> Answer:
        if visit.host.startswith(PARKED):
            return refusal(retry_after=retry_after)
        return robots_txt("") if visit.path == ROBOTS else Answer()

    return handler


def serving(visit: Visit) -> Answer:
    if visit.path == ROBOTS:
        return robots_txt("")
    return image() if visit.path.endswith(".png") else Answer()


def last_refusal(hits: list[Hit]) -> Hit:
    return [hit for hit in hits if hit.status == 429][-1]


def assert_closed_parked(done: Crawl, site: Origin, *, waiting: int, seconds: float) -> None:
    """With every page of the others; the log names the slot, its instant and who waits."""
    assert done.stats["finish_reason"] == "adaptive_parked"
    line, count = re.findall(
        rf"their sites or your rules asked to wait: {PARKED} until (\S+ \S+) \((\d+) requests\)",
        done.log,
    )[-1]
    until = time.mktime(time.strptime(line, "%Y-%m-%d %H:%M:%S"))
    told_until = last_refusal(hits_at(site, PARKED)).end + seconds
    assert told_until - 1.5 <= until <= told_until + 0.02 * seconds + 1.5
    assert int(count) == waiting
    assert done.lost == []
    assert not re.search(r"Traceback|Unhandled|(ERROR|CRITICAL): ", done.log)


def park(
    reactor: Reactor, seconds: int, origin: Callable[..., Origin], crawl: Crawler, folder: Path
) -> tuple[Origin, dict[str, Any]]:
    """A job that was closed with one host parked; returns its site and what goes on with it."""
    site = origin(refusing(seconds), addresses=HOSTS)
    urls = in_turn(site, dict.fromkeys(HOSTS, PAGES))
    options: dict[str, Any] = {
        "reactor": reactor,
        "jobdir": folder / "job",
        "arguments": {"urls": urls},
    }
    first = crawl(UrlsSpider, SETTINGS, **options)
    assert_closed_parked(first, site, waiting=PAGES, seconds=seconds)
    assert sorted(first.urls) == sorted(url for url in urls if PARKED not in url)
    return site, options


@REACTORS
def test_a_job_of_which_only_a_parked_host_is_left_ends_at_once_and_asks_it_nothing_before_its_time(
    reactor: Reactor, origin: Callable[..., Origin], crawl: Crawler, tmp_path: Path
) -> None:
    """Neither does the run that resumes it too early."""
    site, options = park(reactor, 600, origin, crawl, tmp_path)
    refused = hits_at(site, PARKED)
    early = crawl(UrlsSpider, SETTINGS, **options)
    assert early.stats["finish_reason"] == "adaptive_parked"
    assert early.items == []
    assert f"their sites or your rules asked to wait: {PARKED} until" in early.log
    assert hits_at(site, PARKED) == refused


@REACTORS
def test_a_job_of_which_only_a_parked_host_is_left_goes_on_after_its_instant(
    reactor: Reactor, origin: Callable[..., Origin], crawl: Crawler, tmp_path: Path
) -> None:
    """It gets every page, none of them early."""
    site, options = park(reactor, 4, origin, crawl, tmp_path)
    told_until = last_refusal(hits_at(site, PARKED)).end + 4
    site.handler = serving
    time.sleep(max(0.0, told_until - time.time()))
    late = crawl(UrlsSpider, SETTINGS, **options)
    assert late.stats["finish_reason"] == "finished"
    assert len(late.urls) == PAGES
    assert all(PARKED in url for url in late.urls)
    assert min(hit.start for hit in pages_of(site, PARKED)) >= told_until


def run_twice(
    crawl: Crawler, site: Origin, settings: dict[str, Any], folder: Path, *, served: int
) -> list[Crawl]:
    """A job of all hosts, run twice: each run closes as one host is parked, of which the first has
    so many pages, and the second none."""
    options: dict[str, Any] = {
        "jobdir": folder / "job",
        "arguments": {"urls": in_turn(site, dict.fromkeys(HOSTS, PAGES))},
        "timeout": 40,
    }
    runs = [crawl(UrlsSpider, settings, **options) for _ in range(2)]
    assert [len(done.items) for done in runs] == [len(OTHERS) * PAGES + served, 0]
    for done in runs:
        assert done.stats["finish_reason"] == "adaptive_parked"
        told = rf"asked to wait: {PARKED} until .* \({PAGES - served} requests\)"
        assert re.search(told, done.log)
    return runs


def test_a_job_does_not_sit_through_a_quota_that_is_spent_for_hours(
    origin: Callable[..., Origin], crawl: Crawler, tmp_path: Path
) -> None:
    """Nothing is refused: the first page tells that no more are left. The next run asks nothing."""

    def spent(visit: Visit) -> Answer:
        if not visit.host.startswith(PARKED):
            return Answer()
        return Answer(headers={"RateLimit-Policy": '"d";q=1;w=7200', "RateLimit": '"d";r=0;t=7200'})

    site = origin(spent, addresses=HOSTS)
    # One at a time there, so that nothing else of it is in flight when it tells.
    settings = {**SETTINGS, "DOWNLOAD_SLOTS": {PARKED: {"concurrency": 1}}}
    run_twice(crawl, site, settings, tmp_path, served=1)
    assert len(hits_at(site, PARKED)) == 1


def test_a_job_does_not_sit_through_a_quota_of_the_users_that_is_spent_for_hours(
    origin: Callable[..., Origin], crawl: Crawler, tmp_path: Path
) -> None:
    """It says so like one that a site has told of; so does the next run, which asks nothing."""
    site = origin(lambda visit: Answer(), addresses=HOSTS)
    settings = {**SETTINGS, "ADAPTIVE_RULES": {PARKED: {"max_hits": 3, "window": "2h"}}}
    for done in run_twice(crawl, site, settings, tmp_path, served=3):
        assert done.stats["adaptive/parked"] == 1
        assert done.stats[f"adaptive/site/{PARKED}/state"] == "parked"
        assert re.search(rf"^{PARKED} .* rule s0$", done.log, re.M), "it is held back by the rule"
    assert len(hits_at(site, PARKED)) == 3


@REACTORS
def test_a_crawl_without_a_job_waits_for_a_parked_host_and_says_so_each_interval(
    reactor: Reactor, origin: Callable[..., Origin], crawl: Crawler
) -> None:
    def refuse_once(visit: Visit) -> Answer:
        first = visit.host.startswith(PARKED) and (visit.path, visit.count) == ("/0", 1)
        return refusal(retry_after=4) if first else Answer()

    site = origin(refuse_once, addresses=HOSTS)
    urls = in_turn(site, {**dict.fromkeys(HOSTS, PAGES)})
    urls.sort(key=lambda url: not url.endswith("/0"))
    # One at a time there, so that nothing else of it is in flight when it refuses.
    settings = {
        **SETTINGS,
        "ADAPTIVE_LOG_INTERVAL": 1,
        "DOWNLOAD_SLOTS": {PARKED: {"concurrency": 1}},
        "SCHEDULER_MEMORY_QUEUE": "scrapy.squeues.FifoMemoryQueue",
    }
    done = crawl(UrlsSpider, settings, reactor=reactor, arguments={"urls": urls})
    assert done.stats["finish_reason"] == "finished"
    assert sorted(done.urls) == sorted(urls)
    refused, *rest = hits_at(site, PARKED)
    assert refused.status == 429
    assert rest[0].start >= refused.end + 4
    assert all(hit.start < refused.end + 4 for host in OTHERS for hit in hits_at(site, host))
    said = re.findall(rf"asked to wait: {PARKED} until .* \({PAGES} requests\)", done.log)
    assert 2 <= len(said) <= 5


class UnstorableSpider(UrlsSpider):
    """Of the pages that the first one links to nothing can be stored: no method is called back."""

    name = "unstorable"

    def parse(self, response: Response) -> Iterator[Any]:
        yield from super().parse(response)

        def keep(found: Response) -> dict[str, str]:
            return {"url": found.url}

        for n in range(PAGES):
            yield response.follow(f"/behind/{n}", keep)


def test_a_job_that_cannot_hold_a_request_waits_for_a_parked_host(
    origin: Callable[..., Origin], crawl: Crawler, tmp_path: Path
) -> None:
    """Scrapy has it in memory: to close would lose it, as no link to it is taken again."""

    def refuse_once(visit: Visit) -> Answer:
        is_first = visit.path.startswith("/behind") and visit.total == 2
        return refusal(retry_after=4) if is_first else Answer()

    site = origin(refuse_once, addresses=HOSTS)
    # One at a time there, so that nothing else of it is in flight when it refuses.
    settings = {**SETTINGS, "DOWNLOAD_SLOTS": {PARKED: {"concurrency": 1}}}
    urls = in_turn(site, {PARKED: 1})
    done = crawl(UnstorableSpider, settings, jobdir=tmp_path / "job", arguments={"urls": urls})
    assert done.stats["finish_reason"] == "finished"
    assert len(done.items) == 1 + PAGES


@pytest.mark.parametrize("reactor", ["asyncio"])
def test_a_job_does_not_sit_through_the_pause_of_a_host_for_its_images(
    reactor: Reactor, origin: Callable[..., Origin], crawl: Crawler, tmp_path: Path
) -> None:
    """The pages got are as they would be after any closing: without the images."""
    site = origin(refusing(300), addresses=HOSTS)
    done = crawl(
        PicturesSpider,
        {
            **SETTINGS,
            "ITEM_PIPELINES": {"scrapy.pipelines.images.ImagesPipeline": 1},
            "IMAGES_STORE": str(tmp_path / "images"),
        },
        reactor=reactor,
        jobdir=tmp_path / "job",
        arguments={
            "urls": in_turn(site, dict.fromkeys(OTHERS, PAGES)),
            "images": site.url_at(PARKED),
        },
        timeout=40,
    )
    assert done.stats["finish_reason"] == "adaptive_parked"
    assert len(done.urls) == len(OTHERS) * PAGES
    assert {hit.status for hit in hits_at(site, PARKED)} == {429}
    assert f"their sites or your rules asked to wait: {PARKED} until" in done.log


@pytest.mark.parametrize("reactor", ["asyncio", "none"])
def test_a_job_does_not_sit_through_the_pause_of_a_host_for_its_robots_txt(
    reactor: Reactor, origin: Callable[..., Origin], crawl: Crawler, tmp_path: Path
) -> None:
    """Every page behind it is kept, the one that waited for it too."""
    site = origin(refusing(300), addresses=HOSTS)
    urls = in_turn(site, dict.fromkeys(HOSTS, PAGES))
    options: dict[str, Any] = {
        "reactor": reactor,
        "jobdir": tmp_path / "job",
        "arguments": {"urls": urls},
        "timeout": 40,
    }
    settings = {**SETTINGS, "ROBOTSTXT_OBEY": True}
    first = crawl(UrlsSpider, settings, **options)
    assert first.stats["finish_reason"] == "adaptive_parked"
    assert {hit.path for hit in hits_at(site, PARKED)} == {ROBOTS}
    assert sorted(first.urls) == sorted(url for url in urls if PARKED not in url)

    site.handler = serving
    (tmp_path / "job" / "adaptive.json").unlink()  # as if its instant had come
    second = crawl(UrlsSpider, settings, **options)
    assert sorted(first.urls + second.urls) == sorted(urls)
    assert first.lost + second.lost == []
