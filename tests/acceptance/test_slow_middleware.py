"""What other middlewares take, they take while the pace passes: as with stock Scrapy."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from scrapy import Request
from scrapy.crawler import Crawler as ScrapysCrawler
from scrapy.http import HtmlResponse, Response

from tests.acceptance.beside import Arm, beside_stock, numbered
from tests.crawling import Crawler, Reactor
from tests.servers.origin import Answer, Origin, Visit, answers, refusal
from tests.spiders import UrlsSpider

PAGES = 14
DELAY = 0.4


class SlowMiddleware:
    """A token is fetched for each request."""

    async def process_request(self, request: Request) -> None:
        await asyncio.sleep(0.3)


def gap(arm: Arm) -> float:
    """Mean seconds between two pages; the first few are a start."""
    starts = [hit.start for hit in arm.pages][4:]
    return (starts[-1] - starts[0]) / (len(starts) - 1)


@pytest.mark.parametrize("reactor", ["asyncio", "none"])
def test_a_slow_middleware_before_the_gate_does_not_slow_the_pace(
    reactor: Reactor, origin: Callable[..., Origin], crawl: Crawler
) -> None:
    """.3 s of it before each request, and DOWNLOAD_DELAY = .4: pages are .4 s apart."""
    ours, stock = beside_stock(
        origin,
        crawl,
        answers({}),
        settings=lambda site: {
            "DOWNLOAD_DELAY": DELAY,
            "RANDOMIZE_DOWNLOAD_DELAY": False,
            "ADAPTIVE_START_DELAY": DELAY,
            "DOWNLOADER_MIDDLEWARES": {SlowMiddleware: 400},
        },
        arguments=lambda site: numbered(site, PAGES),
        reactor=reactor,
    )
    assert len(ours.pages) == len(stock.pages) == PAGES
    print(f"{gap(ours):.3f} s apart, stock {gap(stock):.3f} s")
    assert 0.98 * DELAY <= gap(ours) <= 1.5 * gap(stock)


class AnswersItself:
    """Pages of odd numbers are rendered elsewhere, as by a browser."""

    every = 2

    async def process_request(self, request: Request) -> Response | None:
        if int(request.url.rpartition("/")[2]) % self.every == 0:
            return None
        await asyncio.sleep(0.4)
        return HtmlResponse(request.url, body=b"<title>rendered</title>")


class AnswersAll(AnswersItself):
    """All pages are, but the first."""

    every = 1000


@pytest.mark.parametrize("middleware", [AnswersItself, AnswersAll])
def test_a_middleware_that_takes_its_time_to_answer_is_not_asked_for_one_page_after_the_other(
    middleware: type, origin: Callable[..., Origin], crawl: Crawler
) -> None:
    """Its pages never come to the gate: those of their site are not for the pace to hold."""
    pages = 61
    ours, stock = beside_stock(
        origin,
        crawl,
        answers({}),
        settings=lambda site: {"DOWNLOADER_MIDDLEWARES": {middleware: 400}},
        arguments=lambda site: {"urls": [f"{site.url}/{n}" for n in range(pages)]},
    )
    assert len(ours.done.urls) == len(stock.done.urls) == pages
    ours_took, stock_took = (each.done.ended_at - each.done.started_at for each in (ours, stock))
    print(f"{ours_took:.1f} s, stock {stock_took:.1f} s")
    assert ours_took <= 1.5 * stock_took + 5.0


class WaitsForALogin:
    """Keeps each page but the first until a login is done that the engine schedules."""

    def __init__(self, crawler: ScrapysCrawler) -> None:
        self.crawler = crawler
        self.is_done: asyncio.Event | None = None

    @classmethod
    def from_crawler(cls, crawler: ScrapysCrawler) -> WaitsForALogin:
        return cls(crawler)

    async def process_request(self, request: Request) -> None:
        path = request.url.rpartition("/")[2]
        if path.startswith(("first", "login", "bad")):
            return
        if self.is_done is None:
            self.is_done = asyncio.Event()
            login = request.url.removesuffix(path) + "login"
            assert self.crawler.engine is not None
            self.crawler.engine.crawl(Request(login, callback=self.on_done, priority=1))
        await self.is_done.wait()

    def on_done(self, response: Response) -> None:
        """The pages go on."""
        assert self.is_done is not None
        self.is_done.set()


@pytest.mark.parametrize(
    ("paths", "own"),
    [
        pytest.param(["1", "2"], {}, id="its first request"),
        pytest.param(["first", "1", "2"], {}, id="a pause"),
        pytest.param(["1"], {"CONCURRENT_REQUESTS_PER_DOMAIN": 1}, id="its only place"),
        pytest.param(["first", *"123456"], {"CONCURRENT_REQUESTS": 4}, id="a pause of many"),
        pytest.param(
            ["first", "bad1", *"12", "bad2", *"34", "bad3", *"56"],
            {"CONCURRENT_REQUESTS_PER_DOMAIN": 1},
            id="a page that was refused",
        ),
    ],
)
def test_a_middleware_may_wait_for_a_request_that_is_queued(
    paths: list[str], own: dict[str, Any], origin: Callable[..., Origin], crawl: Crawler
) -> None:
    """Those that it keeps hold the site's places for a moment, as if about to be sent."""

    def answer(visit: Visit) -> Answer:
        if visit.count == 1 and visit.path.startswith("/bad"):
            return refusal(503)
        is_refused = visit.path == "/login" and visit.count == 1 and "first" in paths
        return refusal(retry_after=1) if is_refused else Answer()

    site = origin(answer)
    settings = {"ADAPTIVE_START_DELAY": 0.1, "DOWNLOADER_MIDDLEWARES": {WaitsForALogin: 400}}
    arguments = {"urls": [f"{site.url}/{path}" for path in paths]}
    done = crawl(UrlsSpider, settings | own, arguments=arguments, timeout=60)
    assert sorted(done.urls) == sorted(arguments["urls"])


def test_a_middleware_behind_the_gate_is_warned_of(crawl: Crawler) -> None:
    """What waits there has its permit already."""
    settings = {"DOWNLOADER_MIDDLEWARES": {SlowMiddleware: 980}}
    done = crawl(UrlsSpider, settings, arguments={"urls": ["data:,"]})
    assert done.log.count("SlowMiddleware stands at 980 in DOWNLOADER_MIDDLEWARES, behind") == 1
