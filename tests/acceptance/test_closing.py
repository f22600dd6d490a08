"""A spider asked to close in the middle of a pause closes at once and loses nothing it held.

Laws
----
* Three hosts pause, each with another kind of request held: pages, robots.txt (and the pages
  behind it), images. A fourth is healthy, so that the crawl has something to do meanwhile.
* When closing was asked is the instant of Scrapy's own log line.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from scrapy import version_info
from scrapy.http import Response

from docsite.hits import Hit
from tests.crawling import Crawl, Crawler, Reactor, RunningCrawl
from tests.servers.origin import Answer, Origin, Visit, image, refusal, robots_txt
from tests.spiders import UrlsSpider

PAGES, ROBOTS, IMAGES, HEALTHY = ADDRESSES = ("127.1.1.1", "127.1.1.2", "127.1.1.3", "127.1.1.4")

ON_WIRE = 0.25
"""Seconds after closing was asked in which a request that had left may still arrive. What is merely
paced, on the healthy host, is served as by Scrapy alone."""

SETTINGS: dict[str, Any] = {
    "ROBOTSTXT_OBEY": True,
    "ADAPTIVE_START_DELAY": 0.1,
    "CONCURRENT_REQUESTS": 32,
    "ITEM_PIPELINES": {"scrapy.pipelines.images.ImagesPipeline": 1},
    "LOG_FORMAT": "%(created).3f [%(name)s] %(levelname)s: %(message)s",
}


class GallerySpider(UrlsSpider):
    """Each page of the first host shows an image of another."""

    name = "gallery"

    def __init__(self, urls: list[str | dict[str, Any]], images: str, **fields: Any) -> None:
        super().__init__(urls, **fields)
        self.images = images

    def parse(self, response: Response) -> Iterator[Any]:
        for item in super().parse(response):
            if PAGES in response.url:
                item["image_urls"] = [f"{self.images}/{response.url.rpartition('/')[2]}.png"]
            yield item


class UnstorableSpider(UrlsSpider):
    """The second page has a callback that no job can store."""

    async def start(self) -> AsyncIterator[Any]:
        async for request in super().start():
            if request.url.endswith("/1") and PAGES in request.url:
                request.callback = lambda response: None
            yield request


def some_refuse(visit: Visit) -> Answer:
    """One host refuses all pages but its first three, one its robots.txt, one its images."""
    address = visit.host.partition(":")[0]
    if visit.path == "/robots.txt":
        return refusal(retry_after=60) if address == ROBOTS else robots_txt("")
    if address == IMAGES or (address == PAGES and visit.path not in ("/0", "/1", "/2")):
        return refusal(retry_after=60)
    return Answer(delay=0.2)


def all_serve(visit: Visit) -> Answer:
    if visit.path == "/robots.txt":
        return robots_txt("")
    return image() if visit.path.endswith(".png") else Answer()


def start(
    site: Origin, crawl: Crawler, folder: Path, **options: Any
) -> tuple[list[str], RunningCrawl]:
    """The URLs of a crawl of all pages, and the crawl."""
    counts = {PAGES: 8, ROBOTS: 5, HEALTHY: 40}
    urls = [
        f"{site.url_at(address)}/{n}" for address, count in counts.items() for n in range(count)
    ]
    settings = {**SETTINGS, "IMAGES_STORE": str(folder / "images"), **options.pop("settings", {})}
    arguments = {"urls": urls, "images": site.url_at(IMAGES)}
    return urls, crawl.start(GallerySpider, settings, arguments=arguments, **options)


def without_media_errors(log: str) -> str:
    """Before 2.19 Scrapy's media pipelines log each image that is given up, in full."""
    if version_info >= (2, 19):
        return log
    return re.sub(
        r"^\S+ \[scrapy\.pipelines\.media\] ERROR: .*\n(?!\d+\.\d+ \[)(.*\n)*?(?=\d+\.\d+ \[)",
        "",
        log,
        flags=re.M,
    )


def refusing_hosts(hits: list[Hit]) -> set[str]:
    return {hit.host.partition(":")[0] for hit in hits if hit.status == 429}


def assert_closed_at_once(done: Crawl, hits: list[Hit], *, reason: str) -> None:
    """In a pause of all three hosts, in peace, and with no hit after it was asked."""
    line = re.search(
        rf"^(\S+) \[scrapy.core.engine\] INFO: Closing spider \({reason}\)", done.log, re.M
    )
    assert line is not None
    asked_at = float(line[1])
    assert refusing_hosts([hit for hit in hits if hit.end < asked_at]) == {PAGES, ROBOTS, IMAGES}
    late = [hit for hit in hits if hit.start > asked_at + ON_WIRE]
    assert [hit for hit in late if hit.host.partition(":")[0] != HEALTHY] == []
    assert done.ended_at - asked_at <= 1.0
    print(f"ended {done.ended_at - asked_at:.3f} s after it was asked")
    shown = [item["images"] for item in done.items if PAGES in item["url"]]
    assert shown  # the images of these pages were held, and given up with the crawl
    assert not any(shown)
    assert done.stats["finish_reason"] == reason
    assert not re.search(r"Traceback|Unhandled|(ERROR|CRITICAL): ", without_media_errors(done.log))
    assert done.stderr == ""
    ended = sum(done.stats[f"adaptive/permits/{end}"] for end in ("measured", "ignored", "dropped"))
    assert done.stats["adaptive/permits/granted"] == ended


def assert_fetches_the_rest(
    first: Crawl, urls: list[str], site: Origin, crawl: Crawler, folder: Path, **options: Any
) -> None:
    """A second crawl of the same job fetches what the first did not, and nothing else.

    It is made to forget the pauses, as if the minute they take had gone by.
    """
    (options["jobdir"] / "adaptive.json").unlink()
    site.handler = all_serve
    before = len(site.hits())
    second = start(site, crawl, folder, **options)[1].wait()
    assert sorted(second.urls) == sorted(set(urls) - set(first.urls))
    assert sorted(first.urls + second.urls) == sorted(urls)
    assert first.lost + second.lost == []
    served = Counter((hit.host, hit.path) for hit in site.hits() if hit.status == 200)
    pages = {page: count for page, count in served.items() if page[1] != "/robots.txt"}
    assert set(pages.values()) == {1}
    assert len(site.hits()) > before


@pytest.mark.parametrize("reactor", ["asyncio", "select", "none"])
def test_ctrl_c_in_a_pause_ends_the_crawl_at_once_and_the_next_run_fetches_what_was_held(
    reactor: Reactor, origin: Callable[..., Origin], crawl: Crawler, tmp_path: Path
) -> None:
    site = origin(some_refuse, addresses=ADDRESSES)
    options: dict[str, Any] = {"reactor": reactor, "jobdir": tmp_path / "job"}
    urls, running = start(site, crawl, tmp_path, **options)
    running.until(lambda: refusing_hosts(site.hits()) == {PAGES, ROBOTS, IMAGES})
    time.sleep(0.5)
    asked_at = time.time()
    running.interrupt()
    first = running.wait()
    hits = site.hits()
    assert_closed_at_once(first, hits, reason="shutdown")
    assert first.ended_at - asked_at <= 1.0
    assert_fetches_the_rest(first, urls, site, crawl, tmp_path, **options)


@pytest.mark.parametrize("reactor", ["asyncio", "select", "none"])
@pytest.mark.parametrize(
    ("setting", "value", "reason"),
    [
        ("CLOSESPIDER_TIMEOUT", 3, "closespider_timeout"),
        ("CLOSESPIDER_PAGECOUNT", 16, "closespider_pagecount"),
    ],
)
def test_scrapys_own_limits_end_a_crawl_in_a_pause_at_once_and_the_next_run_fetches_the_rest(
    setting: str,
    value: int,
    reason: str,
    reactor: Reactor,
    origin: Callable[..., Origin],
    crawl: Crawler,
    tmp_path: Path,
) -> None:
    site = origin(some_refuse, addresses=ADDRESSES)
    options: dict[str, Any] = {"reactor": reactor, "jobdir": tmp_path / "job"}
    urls, running = start(site, crawl, tmp_path, settings={setting: value}, **options)
    first = running.wait()
    assert_closed_at_once(first, site.hits(), reason=reason)
    assert_fetches_the_rest(first, urls, site, crawl, tmp_path, **options)


def test_ctrl_c_while_the_whole_crawl_is_paused_ends_it_and_no_site_is_asked_again(
    origin: Callable[..., Origin], crawl: Crawler
) -> None:
    """Eight hosts refuse their robots.txt, as if they shared a limit: pages wait behind each."""
    site = origin(lambda visit: refusal(), addresses=[f"127.1.2.{n}" for n in range(1, 9)])
    urls = [f"{site.url_at(address)}/page" for address in site.addresses]
    settings = {"ROBOTSTXT_OBEY": True, "ADAPTIVE_GLOBAL_COOLDOWN": 60}
    running = crawl.start(UrlsSpider, settings, arguments={"urls": urls}, timeout=30)
    running.until(lambda: "as if they shared a limit" in running.log)
    time.sleep(0.5)
    before = len(site.hits())
    running.interrupt()
    done = running.wait()
    assert done.urls == []
    assert len(site.hits()) == before


def test_a_crawl_without_a_job_drops_what_it_held(
    origin: Callable[..., Origin], crawl: Crawler, tmp_path: Path
) -> None:
    site = origin(some_refuse, addresses=ADDRESSES)
    urls, running = start(site, crawl, tmp_path, settings={"CLOSESPIDER_TIMEOUT": 3})
    done = running.wait()
    assert_closed_at_once(done, site.hits(), reason="closespider_timeout")
    assert done.lost == []
    assert 0 < len(done.urls) < len(urls)
    # Of the pages three were served and shown with an image each; a robots.txt stands before five.
    counts = {PAGES: 8 - 3, ROBOTS: 1 + 5, IMAGES: 3}
    (told,) = re.findall(r"WARNING: .* given up .*\((.*)\)", done.log)
    assert sorted(told.split(", ")) == [f"{host}: {count}" for host, count in counts.items()]
    assert done.stats["adaptive/given_up"] == sum(counts.values())


@pytest.mark.parametrize(("settings", "job"), [({}, False), ({"CONCURRENT_REQUESTS": 1}, True)])
def test_each_page_that_no_job_keeps_for_a_paused_host_is_counted_once(
    settings: dict[str, Any],
    job: bool,
    origin: Callable[..., Origin],
    crawl: Crawler,
    tmp_path: Path,
) -> None:
    """Those in the queue, and the refused one that went back to it. A job keeps all but the page
    whose callback cannot be stored; what waits for no pause nobody counts."""

    def one_refuses(visit: Visit) -> Answer:
        return Answer(delay=0.3) if visit.host.startswith(HEALTHY) else refusal(retry_after=60)

    site = origin(one_refuses, addresses=[PAGES, HEALTHY])
    urls: list[Any] = [f"{site.url_at(PAGES)}/{n}" for n in range(9)]
    urls += [f"{site.url_at(HEALTHY)}/{n}" for n in range(9)]
    spider = UnstorableSpider if job else UrlsSpider
    running = crawl.start(
        spider,
        {"ADAPTIVE_TARGET_CONCURRENCY": 1, **settings},
        arguments={"urls": urls},
        jobdir=tmp_path / "job" if job else None,
    )
    running.until(lambda: refusing_hosts(site.hits()) == {PAGES})
    running.until(lambda: len(site.hits()) >= 4)
    running.interrupt()
    done = running.wait()
    count = 1 if job else 9
    assert len([hit for hit in site.hits() if hit.status == 200]) < 9, "the healthy one had more"
    assert done.stats["adaptive/given_up"] == count
    assert re.findall(r"WARNING: (\d+) requests were given up.*\((\S+): \d+\)", done.log) == [
        (str(count), PAGES)
    ]
