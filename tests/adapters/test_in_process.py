"""Crawls in the test's own process, on the reactor that pytest-twisted runs.

Laws
----
* It is Twisted's default reactor, not asyncio's: Scrapy is told to take it as it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import pytest
import pytest_twisted  # type: ignore[import-untyped]
from scrapy import Request, Spider, signals
from scrapy.core.downloader import Downloader
from scrapy.crawler import Crawler, CrawlerRunner
from scrapy.utils.defer import maybe_deferred_to_future
from scrapy.utils.test import get_crawler
from twisted.internet.defer import DeferredList

from scrapy_adaptive import SettingsError
from tests.servers.origin import Answer, Origin, Visit, refusal
from tests.spiders import UrlsSpider

HERE: dict[str, Any] = {
    "ADDONS": {"scrapy_adaptive.Addon": 500},
    "ADAPTIVE_START_DELAY": 0.02,
    "TELNETCONSOLE_ENABLED": False,
    "TWISTED_REACTOR": None,
}
PAGES = 4

BAD = {"ADAPTIVE_BURST": "x", "ADAPTIVE_MAX_DELAY": 0, "ADAPTIVE_BRUST": 3, "DOWNLOAD_DELAY": -1}

BY_HAND = {
    "ADDONS": {},
    "EXTENSIONS": {"scrapy_adaptive.AdaptiveThrottle": 0},
    "DOWNLOADER_MIDDLEWARES": {
        "scrapy_adaptive.AdaptiveGate": 950,
        "scrapy_adaptive.AdaptiveRefusals": 585,
    },
}


Test = TypeVar("Test", bound=Callable[..., Coroutine[Any, Any, None]])


def on_the_reactor(test: Test) -> Test:
    """The test is awaited while the reactor runs."""
    marked: Test = pytest_twisted.ensureDeferred(test)
    return marked


class OneSpider(Spider):
    """Would ask for one page."""

    name = "one"


def refuse_first(visit: Visit) -> Answer:
    """The first visit of all is refused."""
    return refusal(retry_after=0) if visit.total == 1 else Answer()


def stats_of(crawler: Crawler) -> dict[str, Any]:
    assert crawler.stats is not None
    return crawler.stats.get_stats()


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [
        record.getMessage()
        for record in caplog.records
        if record.levelname == "WARNING" and record.name.startswith("scrapy_adaptive")
    ]


@pytest.mark.parametrize("switched_on", [{}, BY_HAND], ids=["by the add-on", "by hand"])
@pytest.mark.parametrize("name", list(BAD))
@on_the_reactor
async def test_a_bad_setting_is_the_typed_error_of_crawl(
    name: str, switched_on: dict[str, Any], origin: Callable[..., Origin]
) -> None:
    """It names the setting and its value; nothing is sent."""
    site = origin()
    runner = CrawlerRunner({**HERE, **switched_on, name: BAD[name]})
    with pytest.raises(SettingsError, match=f"^{name} = {BAD[name]!r}: ") as caught:
        await runner.crawl(OneSpider, start_urls=[site.url])
    assert (caught.value.name, caught.value.value) == (name, BAD[name])
    assert site.hits() == []


@on_the_reactor
async def test_after_a_bad_setting_the_same_process_crawls_on(
    origin: Callable[..., Origin],
) -> None:
    """The error leaves nothing behind: the next crawl is one as any other."""
    site = origin(refuse_first)
    with pytest.raises(SettingsError):
        await CrawlerRunner({**HERE, "ADAPTIVE_BURST": 0}).crawl(OneSpider)
    runner = CrawlerRunner(HERE)
    crawler = runner.create_crawler(UrlsSpider)
    await runner.crawl(crawler, urls=[f"{site.url}/{n}" for n in range(PAGES)])
    stats = stats_of(crawler)
    assert stats["item_scraped_count"] == PAGES
    assert (stats["adaptive/trips"], stats["adaptive/requeued"]) == (1, 1)
    assert stats["adaptive/permits/measured"] == len(site.hits()) == PAGES + 1


@pytest.mark.parametrize("name", [name for name in BAD if name.startswith("ADAPTIVE_")])
@on_the_reactor
async def test_switched_off_no_other_setting_is_looked_at(
    name: str, origin: Callable[..., Origin]
) -> None:
    """A bad one stops nobody: it is stock Scrapy that crawls."""
    site = origin()
    runner = CrawlerRunner({**HERE, "ADAPTIVE_ENABLED": False, name: BAD[name]})
    crawler = runner.create_crawler(UrlsSpider)
    await runner.crawl(crawler, urls=[site.url])
    assert stats_of(crawler)["item_scraped_count"] == 1
    assert not [stat for stat in stats_of(crawler) if stat.startswith("adaptive")]


@on_the_reactor
async def test_of_two_crawlers_that_share_a_slot_each_has_its_own_budget_and_one_is_warned(
    origin: Callable[..., Origin], caplog: pytest.LogCaptureFixture
) -> None:
    """The refusal of one is no news to the other; both finish."""
    site = origin(refuse_first)
    runner = CrawlerRunner(HERE)
    both = [runner.create_crawler(UrlsSpider) for _ in range(2)]
    await DeferredList(
        [
            runner.crawl(crawler, urls=[f"{site.url}/{which}/{n}" for n in range(PAGES)])
            for which, crawler in enumerate(both)
        ],
        fireOnOneErrback=True,
        consumeErrors=True,
    )
    assert [stats_of(crawler)["item_scraped_count"] for crawler in both] == [PAGES, PAGES]
    assert Counter(stats_of(crawler)["adaptive/trips"] for crawler in both) == {0: 1, 1: 1}
    (warning,) = warnings_of(caplog)
    assert warning.startswith("slot 127.0.0.1 is used by another crawler of this process too")


@on_the_reactor
async def test_of_two_crawlers_on_two_sites_none_is_warned(
    origin: Callable[..., Origin], caplog: pytest.LogCaptureFixture
) -> None:
    """Nor is one that comes when the other has closed."""
    site = origin(addresses=["127.1.0.1", "127.1.0.2"])
    for together in (site.addresses, site.addresses[:1]):
        runner = CrawlerRunner(HERE)
        for address in together:
            runner.crawl(UrlsSpider, urls=[site.url_at(address)])
        await runner.join()
    assert len(site.hits()) == 3
    assert warnings_of(caplog) == []


@on_the_reactor
async def test_a_downloader_without_an_engine_keeps_scrapys_pace(
    origin: Callable[..., Origin], caplog: pytest.LogCaptureFixture
) -> None:
    """As Scrapy's own tests use it, and tools that need neither scheduler nor spider callbacks."""
    site = origin(lambda visit: refusal() if visit.total > 2 else Answer())
    off = {"scrapy.downloadermiddlewares.offsite.OffsiteMiddleware": None}  # it wants a spider
    settings = {"DOWNLOAD_DELAY": 0.25, "RETRY_ENABLED": False, "DOWNLOADER_MIDDLEWARES": off}
    crawler = get_crawler(OneSpider, {**HERE, **settings})
    crawler.spider = crawler._create_spider()
    downloader = Downloader(crawler)
    fetched = []
    for number in range(3):
        deferred = downloader.fetch(Request(f"{site.url}/{number}"))
        fetched.append(await maybe_deferred_to_future(deferred))
    assert [getattr(each, "status", None) for each in fetched] == [200, 200, 429]
    assert [slot.delay for slot in downloader.slots.values()] == [0.25]
    assert not [record for record in caplog.records if record.levelname in ("WARNING", "ERROR")]
    downloader.close()
    await crawler.signals.send_catch_log_async(signals.engine_stopped)
