"""Hosts that sleep cost a healthy one nothing: it is as fast as if it were alone.

The healthy host has a pace of its own and answers slowly enough to need two or three places.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from scrapy.http import Response

from tests.acceptance.alongside import (
    ALONE,
    HEALTHY,
    ROBOTS,
    Both,
    assert_few_handed_back,
    at_once,
    crawl_both,
    hits_at,
    in_turn,
    pages_of,
    quietest,
)
from tests.crawling import Crawler, Reactor
from tests.servers.origin import Answer, Handler, Origin, Visit, refusal, robots_txt
from tests.spiders import UrlsSpider

REFUSING, GALLERY, RECLUSE, QUICK = "127.1.2.3", "127.1.2.4", "127.1.2.5", "127.1.2.6"
"""Refuses all; refuses its images; refuses its robots.txt; answers at once."""

RECLUSES = [f"127.1.3.{n}" for n in range(1, 21)]

ADDRESSES = (ALONE, HEALTHY, REFUSING, GALLERY, RECLUSE, QUICK, *RECLUSES)

PAGES = 100
IMAGES = 50
SECONDS = 20.0
"""How long the refusing host refuses, where it ever serves."""

MOST = 1.1
"""Times its time alone that the healthy host may take."""

SETTINGS: dict[str, Any] = {
    "ADAPTIVE_START_DELAY": 0.08,
    "DOWNLOAD_DELAY": 0.08,
    "ADAPTIVE_TARGET_CONCURRENCY": 8,
    "ADAPTIVE_BURST": 10,
    "ADAPTIVE_GLOBAL_TRIP_SLOTS": 1000,
    "ADAPTIVE_LOG_INTERVAL": 1,
}

CASES: list[tuple[str, int, Reactor]] = [
    ("", 16, "asyncio"),
    ("images", 4, "asyncio"),
    ("images robots", 16, "asyncio"),
    ("robots", 4, "select"),
    ("images robots", 16, "none"),
    ("", 4, "none"),
]
"""What else is in trouble beside the refusing host, places, reactor."""


class GallerySpider(UrlsSpider):
    """The first pages of the healthy host show an image of another each."""

    name = "gallery"

    def __init__(self, urls: list[str | dict[str, Any]], gallery: str, **fields: Any) -> None:
        super().__init__(urls, **fields)
        self.gallery = gallery

    def parse(self, response: Response) -> Iterator[Any]:
        n = int(response.url.rpartition("/")[2])
        for item in super().parse(response):
            if HEALTHY in response.url and n < IMAGES:
                item["image_urls"] = [f"{self.gallery}/{n}.png"]
            yield item


def troubles(retry_after: int | None = None, until: float = math.inf) -> Handler:
    """The site; `retry_after` is what the refusing host says, `until` so long after its first."""
    asked_at: list[float] = []

    def handler(visit: Visit) -> Answer:
        address = visit.host.partition(":")[0]
        if visit.path == ROBOTS:
            return refusal(retry_after=30) if address in (RECLUSE, *RECLUSES) else robots_txt("")
        if address == GALLERY:
            return refusal(retry_after=30)
        if address == REFUSING:
            asked_at.append(visit.elapsed)
            if visit.elapsed < asked_at[0] + until:
                return refusal(retry_after=retry_after)
        return Answer(delay=0.0 if address == QUICK else 0.16)

    return handler


def most_waiting(log: str) -> int:
    """Most requests that waited at once outside the queues, by the summary lines."""
    return max(int(count) for count in re.findall(r"in flight, (\d+) waiting", log))


def assert_not_held_up(both: Both) -> None:
    assert both.ratio <= MOST
    assert both.beside.stats["adaptive/global_trips"] == 0
    assert_few_handed_back(both.beside, PAGES)


@pytest.mark.parametrize(("trouble", "places", "reactor"), CASES)
def test_a_healthy_host_is_as_fast_beside_others_that_refuse_as_alone(
    trouble: str,
    places: int,
    reactor: Reactor,
    origin: Callable[..., Origin],
    crawl: Crawler,
    tmp_path: Path,
) -> None:
    """Pages refused, images that wait on a Retry-After, a robots.txt that is refused."""

    def crawl_them() -> Both:
        site = origin(troubles(), addresses=ADDRESSES)
        counts = {REFUSING: PAGES, HEALTHY: PAGES}
        own: dict[str, Any] = {}
        if "robots" in trouble:
            counts[RECLUSE] = PAGES
            own["ROBOTSTXT_OBEY"] = True
        if "images" in trouble:
            own["ITEM_PIPELINES"] = {"scrapy.pipelines.images.ImagesPipeline": 1}
            own["IMAGES_STORE"] = str(tmp_path / "images")
        both = crawl_both(
            site,
            crawl,
            in_turn(site, counts),
            {**SETTINGS, "CONCURRENT_REQUESTS": places},
            pages=PAGES,
            companion=QUICK,
            spider=GallerySpider,
            arguments={"gallery": site.url_at(GALLERY)},
            own=own,
            until=at_once,
            reactor=reactor,
        )
        assert_in_trouble(site, both, trouble)
        return both

    assert_not_held_up(quietest(crawl_them, MOST))


def assert_in_trouble(site: Origin, both: Both, trouble: str) -> None:
    """The other hosts refused all the while."""
    assert pages_of(site, REFUSING) == []
    assert Counter(hit.status for hit in hits_at(site, REFUSING))[429] >= 1
    if "robots" in trouble:
        assert {(hit.path, hit.status) for hit in hits_at(site, RECLUSE)} == {(ROBOTS, 429)}
    if "images" in trouble:
        assert pages_of(site, GALLERY) == []
        assert most_waiting(both.beside.log) >= IMAGES - 5


def test_a_host_that_refuses_for_twenty_seconds_is_crawled_on_after_them(
    origin: Callable[..., Origin], crawl: Crawler
) -> None:
    """It is asked now and then, as its Retry-After says, and served in the end."""

    def crawl_them() -> Both:
        site = origin(troubles(retry_after=4, until=SECONDS), addresses=ADDRESSES)
        urls = in_turn(site, {REFUSING: 5 * PAGES, HEALTHY: PAGES})
        settings = {**SETTINGS, "CONCURRENT_REQUESTS": 4}
        enough = 10
        both = crawl_both(
            site,
            crawl,
            urls,
            settings,
            pages=PAGES,
            companion=QUICK,
            until=lambda: len(pages_of(site, REFUSING)) >= enough,
        )
        assert len(set(both.beside.urls)) == len(both.beside.urls) >= PAGES + enough
        assert both.beside.lost == []
        refused = [hit for hit in hits_at(site, REFUSING) if hit.status == 429]
        assert refused[-1].start - refused[0].start >= 8
        assert pages_of(site, REFUSING)[0].start >= refused[-1].end + 4
        return both

    assert_not_held_up(quietest(crawl_them, MOST))


@pytest.mark.parametrize("reactor", ["asyncio", "select", "none"])
def test_twenty_hosts_that_refuse_their_robots_txt_hold_no_place(
    reactor: Reactor, origin: Callable[..., Origin], crawl: Crawler
) -> None:
    """More hosts than CONCURRENT_REQUESTS has places, each with pages that wait behind it."""

    def crawl_them() -> Both:
        site = origin(troubles(), addresses=ADDRESSES)
        both = crawl_both(
            site,
            crawl,
            in_turn(site, {**dict.fromkeys(RECLUSES, 5), HEALTHY: PAGES}),
            {**SETTINGS, "CONCURRENT_REQUESTS": 16},
            pages=PAGES,
            companion=QUICK,
            own={"ROBOTSTXT_OBEY": True},
            until=at_once,
            reactor=reactor,
        )
        for host in RECLUSES:
            assert [(hit.path, hit.status) for hit in hits_at(site, host)] == [(ROBOTS, 429)]
        return both

    assert_not_held_up(quietest(crawl_them, MOST))
