"""A spider that is asked to close gets the files of the pages that it has scraped.

Laws
----
* What is merely paced is downloaded, as by stock Scrapy.
* What a paused site holds is given up, and one warning counts it; nothing more is asked of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from scrapy import Request
from scrapy.http import Response
from scrapy.utils.defer import deferred_from_coro
from twisted.python.failure import Failure

from benchmarks.beside.spiders import PagesSpider, ScreenshotPipeline
from tests.acceptance.beside import beside_stock, numbered
from tests.crawling import Crawl, Crawler, Reactor
from tests.servers.origin import Answer, Origin, Visit, refusal
from tests.spiders import UrlsSpider

FILES = 5
"""Files of each page."""

THERE = "127.1.1.2"
"""The host of the pictures."""


def gallery(visit: Visit) -> Answer:
    """Each page shows files of its own."""
    if visit.path.startswith("/page/"):
        n = visit.path.rpartition("/")[2]
        return Answer(body="".join(f"<img src='/file/{n}-{m}.png'>" for m in range(FILES)))
    return Answer(body="file", delay=0.05)


def files_of(done: Crawl) -> list[int]:
    """How many files each item has got."""
    return [len(item["files"]) for item in done.items]


@pytest.mark.parametrize("reactor", ["asyncio", "select"])
def test_every_file_of_the_scraped_pages_is_downloaded_before_the_end(
    reactor: Reactor, origin: Callable[..., Origin], crawl: Crawler, tmp_path: Path
) -> None:
    """FilesPipeline, closed by CLOSESPIDER_PAGECOUNT."""

    def settings(site: Origin) -> dict[str, Any]:
        return {
            "CLOSESPIDER_PAGECOUNT": 8,
            "ITEM_PIPELINES": {"scrapy.pipelines.files.FilesPipeline": 1},
            "FILES_STORE": str(tmp_path / str(site.port)),
            "ADAPTIVE_START_DELAY": 0.1,
        }

    ours, stock = beside_stock(
        origin,
        crawl,
        gallery,
        spider=PagesSpider,
        settings=settings,
        arguments=lambda site: numbered(site, 60, "/page/{}"),
        reactor=reactor,
    )
    for arm in (ours, stock):
        assert arm.done.stats["finish_reason"] == "closespider_pagecount"
        assert len(arm.done.items) == arm.done.stats["beside/pages"] >= 1
        assert files_of(arm.done) == [FILES] * len(arm.done.items)
    assert "given up" not in ours.done.log


def test_items_that_await_the_engine_while_it_closes_are_scraped(
    origin: Callable[..., Origin], crawl: Crawler
) -> None:
    """The ScreenshotPipeline of Scrapy's docs: no item of a page that was got ends in an error."""

    def settings(site: Origin) -> dict[str, Any]:
        return {
            "CLOSESPIDER_PAGECOUNT": 12,
            "SCREENSHOTS": site.url_at(THERE),
            "ITEM_PIPELINES": {ScreenshotPipeline: 1},
            "ADAPTIVE_START_DELAY": 0.1,
        }

    def arguments(site: Origin) -> dict[str, Any]:
        return {"urls": [f"{site.url}/page/{n}" for n in range(40)]}

    ours, stock = beside_stock(
        origin,
        crawl,
        lambda visit: Answer(delay=0.1),
        addresses=["127.1.1.1", THERE],
        spider=PagesSpider,
        settings=settings,
        arguments=arguments,
    )
    for arm in (ours, stock):
        assert arm.done.stats["finish_reason"] == "closespider_pagecount"
        assert len(arm.done.items) == arm.done.stats["beside/pages"] >= 1
        assert all("error" not in item for item in arm.done.items)
        assert "ERROR" not in arm.done.log


@pytest.mark.parametrize("reactor", ["asyncio", "none"])
def test_what_a_paused_host_holds_is_given_up_and_one_warning_counts_it(
    reactor: Reactor, origin: Callable[..., Origin], crawl: Crawler, tmp_path: Path
) -> None:
    """The host of the files asks for a minute; the crawl ends soon, and asks it nothing more."""

    def some_refuse(visit: Visit) -> Answer:
        if visit.host.startswith(f"{THERE}:"):
            return refusal(retry_after=60)
        n = int(visit.path.rpartition("/")[2])
        shown = f"<img src='http://{THERE}:{visit.host.partition(':')[2]}/{n}.png'>"
        return Answer(body=shown if n < 4 else "")

    site = origin(some_refuse, addresses=["127.1.1.1", THERE])
    settings = {
        "ITEM_PIPELINES": {"scrapy.pipelines.files.FilesPipeline": 1},
        "FILES_STORE": str(tmp_path),
        "ADAPTIVE_START_DELAY": 0.1,
        "CLOSESPIDER_PAGECOUNT": 40,
    }
    done = crawl(
        PagesSpider,
        settings,
        arguments={"urls": [f"{site.url}/{n}" for n in range(60)]},
        reactor=reactor,
        timeout=40,
    )
    refused = [hit for hit in site.hits() if hit.status == 429]
    assert 1 <= len(refused) <= 3, "those that were under way with the first"
    assert refused[-1].start < refused[0].end + 1
    with_files = [item for item in done.items if "file_urls" in item]
    assert [len(item["files"]) for item in with_files] == [0] * 4
    warnings = re.findall(r"WARNING: (\d+) requests were given up", done.log)
    assert warnings == ["4"]
    assert done.stats["adaptive/given_up"] == 4


class AsksBeside(UrlsSpider):
    """Has the engine download files beside each page, and counts how that fails."""

    def parse(self, response: Response) -> Iterator[Any]:
        yield from super().parse(response)
        assert self.crawler.engine is not None
        for n in range(FILES):
            request = Request(f"{response.url}/file/{n}")
            download = deferred_from_coro(self.crawler.engine.download_async(request))
            download.addErrback(self.count)

    def count(self, failure: Failure) -> None:
        """By the kind of its error."""
        assert self.crawler.stats is not None
        self.crawler.stats.inc_value(f"beside/{type(failure.value).__name__}")


def test_the_end_of_one_wait_for_a_paused_host_may_end_another(
    origin: Callable[..., Origin], crawl: Crawler
) -> None:
    """With a SelectReactor whoever waits goes on at once. Scrapy's own queue takes no file back:
    each counts once."""
    site = origin(lambda visit: refusal(retry_after=60) if "file" in visit.path else Answer())
    settings = {
        "SCHEDULER_PRIORITY_QUEUE": "scrapy.pqueues.ScrapyPriorityQueue",
        "ADAPTIVE_START_DELAY": 0.05,
        "CLOSESPIDER_TIMEOUT": 3,
    }
    arguments = {"urls": [f"{site.url}/page"]}
    done = crawl(AsksBeside, settings, arguments=arguments, reactor="select", timeout=40)
    assert done.stats["beside/GivenUpError"] == FILES
    assert "beside/AlreadyCalledError" not in done.stats
    assert done.stats["adaptive/given_up"] == FILES
