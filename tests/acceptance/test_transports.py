"""Refusals through proxies, pipelines, cookies and odd handlers; and requests without a host."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from scrapy import Request, version_info
from scrapy.core.downloader.handlers.http11 import HTTP11DownloadHandler
from scrapy.http import Response

from docsite.hits import rude_hits
from tests.acceptance.test_slots import most_in_flight, urls
from tests.crawling import ROOT, Crawler, Reactor
from tests.servers.origin import Answer, Origin, Visit, image, refusal
from tests.servers.wire import LOCALHOST
from tests.spiders import FetchingSpider, UrlsSpider

QUICK = {"ADAPTIVE_START_DELAY": 0.05, "ADAPTIVE_TARGET_CONCURRENCY": 4}

TWO_CRAWLERS = """\
from scrapy import Spider
from scrapy.crawler import AsyncCrawlerProcess
class One(Spider):
    name = "one"
    start_urls = [{url!r} + f"/{{n}}" for n in range(5)]
    def parse(self, response):
        print("got", self.name, response.url[-1])
class Two(One):
    name = "two"
process = AsyncCrawlerProcess({{
    "ADDONS": {{"scrapy_adaptive.Addon": 500}},
    "ADAPTIVE_START_DELAY": 0.05,
    "LOG_LEVEL": "WARNING",
}})
process.crawl(One)
process.crawl(Two)
process.start()
"""


def refuse_first(visit: Visit) -> Answer:
    """Every page is refused once."""
    return refusal(retry_after=0) if visit.count == 1 else Answer()


class SilentHandler(HTTP11DownloadHandler):
    """A download handler that tells no latency, as others' often do."""

    async def download_request(self, request: Request) -> Response:
        response = await super().download_request(request)
        request.meta.pop("download_latency", None)
        return response


class ImagesSpider(UrlsSpider):
    """Passes all URLs to the images pipeline in one item."""

    def parse(self, response: Response) -> Any:
        yield {"image_urls": [f"{response.url}/{n}.png" for n in range(5)]}


def test_a_handler_that_tells_no_latency_is_paced_by_our_own_clock(
    crawl: Crawler, origin: Callable[..., Origin]
) -> None:
    """At first requests overlap; once the latency is known they follow each other."""
    site = origin(lambda visit: Answer(delay=0.6))
    done = crawl(
        UrlsSpider,
        {
            "ADAPTIVE_START_DELAY": 0.15,
            "ADAPTIVE_TARGET_CONCURRENCY": 1,
            "DOWNLOAD_HANDLERS": {"http": SilentHandler},
        },
        arguments={"urls": [f"{site.url}/{n}" for n in range(8)]},
    )
    assert len(done.urls) == 8
    assert most_in_flight(site.hits()[:4]) > 1
    assert most_in_flight(site.hits()[5:]) == 1


@pytest.mark.parametrize("reactor", ["asyncio", "none"])
def test_requests_without_a_host_cost_nothing(
    reactor: Reactor, crawl: Crawler, tmp_path: Path
) -> None:
    """data: and file: URLs know no politeness, and no start delay holds them up."""
    (tmp_path / "page.txt").write_text("from a file")
    urls = [(tmp_path / "page.txt").as_uri(), *(f"data:,from%20data%20{n}" for n in range(5))]
    settings = {"ADAPTIVE_START_DELAY": 30}
    done = crawl(UrlsSpider, settings, reactor=reactor, arguments={"urls": urls})
    bodies = {item["body_start"] for item in done.items}
    assert bodies == {"from a file", *(f"from data {n}" for n in range(5))}
    assert done.stats["adaptive/slots"] == done.stats["adaptive/permits/granted"] == 0


def one_slot(request: Request) -> str:
    """Of a function that names one for all."""
    return "one"


@pytest.mark.parametrize("settings", [{}, {"ADAPTIVE_SLOT": one_slot}])
def test_links_that_scrapy_cannot_download_fail_at_once(
    settings: dict[str, Any], crawl: Crawler
) -> None:
    """Each page has one to share it: together they are no site that is to be asked slowly, nor part
    of one."""
    urls = [f"whatsapp://send?text=page%20{n}" for n in range(20)]
    settings = {"ADAPTIVE_START_DELAY": 30, **settings}
    done = crawl(UrlsSpider, settings, arguments={"urls": urls}, timeout=20)
    assert sorted(done.lost) == sorted(urls)
    assert done.stats["adaptive/slots"] == done.stats["adaptive/permits/granted"] == 0


def test_two_crawlers_of_one_process_that_share_a_slot_are_warned_and_both_finish(
    origin: Callable[..., Origin],
) -> None:
    """Each has a budget of its own, as in Scrapy; said once per slot."""
    site = origin(refuse_first)
    done = subprocess.run(
        [sys.executable, "-c", TWO_CRAWLERS.format(url=site.url)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    got = [f"got {name} {n}" for name in ("one", "two") for n in range(5)]
    assert sorted(done.stdout.splitlines()) == got
    warnings = [line for line in done.stderr.splitlines() if "another crawler" in line]
    assert len(warnings) == 1
    assert "WARNING: slot 127.0.0.1 is used by another crawler" in warnings[0]


@pytest.mark.parametrize("reactor", ["asyncio", "none"])
def test_a_refusal_through_a_proxy_is_felt_by_the_site_and_fetched_again(
    reactor: Reactor, crawl: Crawler, origin: Callable[..., Origin]
) -> None:
    """The slot is the site's, not the proxy's, and the proxy is used again."""
    if reactor == "none" and version_info < (2, 19):
        pytest.skip("before 2.19 Scrapy's handler without a reactor knows no proxies")
    proxy = origin(refuse_first)
    pages = [
        {"url": f"http://{site}.test/{n}", "meta": {"proxy": proxy.url}}
        for n in range(2)
        for site in ("one", "two")
    ]
    done = crawl(UrlsSpider, QUICK, reactor=reactor, arguments={"urls": pages})
    assert Counter(done.urls) == Counter(page["url"] for page in pages)
    assert {item["status"] for item in done.items} == {200}
    assert done.stats["adaptive/slots"] == 2
    assert Counter(hit.host for hit in proxy.hits()) == {"one.test": 4, "two.test": 4}


@pytest.mark.parametrize("reactor", ["asyncio", "select", "none"])
def test_the_images_pipeline_gets_images_that_were_refused_once(
    reactor: Reactor, crawl: Crawler, origin: Callable[..., Origin], tmp_path: Path
) -> None:
    """Media requests never see the scheduler: they wait and go again at the gate."""

    def gallery(visit: Visit) -> Answer:
        if not visit.path.endswith(".png"):
            return Answer()
        return refusal(retry_after=0) if visit.count == 1 else image()

    site = origin(gallery)
    done = crawl(
        ImagesSpider,
        {
            **QUICK,
            "ITEM_PIPELINES": {"scrapy.pipelines.images.ImagesPipeline": 1},
            "IMAGES_STORE": str(tmp_path / "images"),
        },
        reactor=reactor,
        arguments={"urls": [f"{site.url}/gallery"]},
    )
    (item,) = done.items
    assert [found["status"] for found in item["images"]] == ["downloaded"] * 5
    assert len(list((tmp_path / "images").rglob("*.jpg"))) == 5
    assert len(site.hits()) == 11
    permits = {name: done.stats[f"adaptive/permits/{name}"] for name in ("granted", "measured")}
    assert permits == {"granted": 11, "measured": 11}


ELSEWHERE = "127.0.0.2"

POOLS: dict[str, dict[str, Any]] = {
    "in all": {"CONCURRENT_REQUESTS": 4},
    "to each server": {
        "CONCURRENT_REQUESTS_PER_DOMAIN": 2,
        "DOWNLOAD_SLOTS": {LOCALHOST: {"concurrency": 16}},
    },
}


@pytest.mark.parametrize("settings", POOLS.values(), ids=POOLS)
def test_nothing_waits_for_a_connection_past_the_gate(
    settings: dict[str, Any], crawl: Crawler, origin: Callable[..., Origin]
) -> None:
    """Without a reactor, handlers have a pool of connections that media and slots may outnumber."""
    slow_since: list[float] = []

    def answer(visit: Visit) -> Answer:
        """The first connections are taken for a second; whoever comes after that is refused."""
        if not visit.host.startswith(LOCALHOST) or visit.path in ("/1", "/2"):
            slow_since.append(visit.elapsed)
            return Answer(delay=1.0)
        is_closed = slow_since and 0.9 < visit.elapsed - slow_since[0] < 3.9
        return refusal(retry_after=3, delay=0.1) if is_closed else Answer()

    site = origin(answer, addresses=(LOCALHOST, ELSEWHERE))
    elsewhere = urls(site, ELSEWHERE, count=4)
    pages = [*urls(site, LOCALHOST, count=1), *elsewhere, *urls(site, LOCALHOST, count=10)[1:]]
    done = crawl(FetchingSpider, {**QUICK, **settings}, reactor="none", arguments={"urls": pages})
    assert Counter(done.urls) == Counter(pages[1:])
    assert not list(rude_hits(site.hits()))


def test_cookies_survive_a_refusal(crawl: Crawler, origin: Callable[..., Origin]) -> None:
    """Those of the session, those of the request, and those that the refusal itself sets."""
    seen: list[str] = []

    def guard(visit: Visit) -> Answer:
        if visit.path == "/login":
            return Answer(headers={"Set-Cookie": "session=s"})
        seen.append(visit.headers.get("Cookie", ""))
        if visit.count == 1:
            return Answer(429, headers={"Set-Cookie": "ticket=t", "Retry-After": "0"})
        return Answer()

    site = origin(guard)
    pages = [{"url": f"{site.url}/login"}, {"url": f"{site.url}/page", "cookies": {"mine": "m"}}]
    settings = {**QUICK, "CONCURRENT_REQUESTS": 1}
    done = crawl(UrlsSpider, settings, arguments={"urls": pages})
    assert len(done.urls) == 2
    jars = [dict(pair.split("=") for pair in cookies.split("; ")) for cookies in seen]
    assert jars == [
        {"session": "s", "mine": "m"},
        {"session": "s", "mine": "m", "ticket": "t"},
    ]
