"""After a refusal nothing starts but what was on its way, in the site's own log.

The crawls of `test_limits.py` are judged in the same way. The judge is no friend: he excuses
little of what stock Scrapy does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from docsite.hits import rude_hits
from tests.acceptance.readings import READING, left_after_reading, rude
from tests.crawling import Crawler, Reactor
from tests.servers.nginx import Nginx, limit_req
from tests.servers.origin import Answer, Origin, Visit, refusal
from tests.spiders import UrlsSpider

SETTINGS: dict[str, Any] = {
    **READING,
    "ADAPTIVE_TARGET_CONCURRENCY": 8,
    "CONCURRENT_REQUESTS_PER_DOMAIN": 16,
    "ADAPTIVE_START_DELAY": 0.03,
}

REFUSED_AT = (16, 50)
"""These visits, counted over the whole crawl, are refused."""

PAGES = 60


class Busy:
    """Pages take half a second, refusals none: several are in flight when one comes, on a busy
    machine too."""

    def __init__(self, status: int, retry_after: object) -> None:
        self.status = status
        self.retry_after = retry_after

    def __call__(self, visit: Visit) -> Answer:
        if visit.total in REFUSED_AT:
            return refusal(self.status, self.retry_after)
        return Answer(delay=0.5)


@pytest.mark.parametrize(
    ("status", "retry_after", "reactor"),
    [
        (503, None, "asyncio"),
        (429, 2, "asyncio"),
        (429, None, "select"),
        (429, 1, "none"),
    ],
)
def test_nothing_starts_after_a_refusal_until_its_silence_is_over(
    status: int,
    retry_after: int | None,
    reactor: Reactor,
    origin: Callable[..., Origin],
    crawl: Crawler,
) -> None:
    site = origin(Busy(status, retry_after))
    urls = [f"{site.url}/{n}" for n in range(PAGES)]
    done = crawl(UrlsSpider, SETTINGS, reactor=reactor, arguments={"urls": urls})
    hits = site.hits()
    refusals = [hit for hit in hits if hit.status == status]
    in_flight = [sum(hit.start < no.end < hit.end for hit in hits) for no in refusals]
    assert len(refusals) == len(REFUSED_AT)
    assert in_flight[0] >= 3
    assert sorted(done.urls) == sorted(urls)
    assert rude(hits, done) == []


@pytest.mark.parametrize("reactor", ["asyncio", "select", "none"])
def test_nothing_leaves_once_a_refusal_was_read(
    reactor: Reactor, nginx: Callable[..., Nginx], crawl: Crawler
) -> None:
    """Answers come within milliseconds here, so that a refusal is often read in the moment
    between a request's permit and its way to the downloader."""
    site = nginx(limit_req("50r/s", burst=20), pages=80)
    settings = {**SETTINGS, "ADAPTIVE_START_DELAY": 0.1}
    done = crawl(UrlsSpider, settings, reactor=reactor, arguments={"urls": site.page_urls()})
    assert len(done.urls) == 80
    assert left_after_reading(site.hits(), done, silence=0.25) == []


def test_the_excuse_of_this_judge_does_not_save_stock_scrapy(
    nginx: Callable[..., Nginx], crawl: Crawler
) -> None:
    """Of the pages that the plain judge finds asked for rudely, he lets hardly one pass."""
    site = nginx(limit_req("5r/s", burst=20), pages=150)
    settings = {**READING, "CONCURRENT_REQUESTS_PER_DOMAIN": 8}
    done = crawl(UrlsSpider, settings, adaptive=False, arguments={"urls": site.page_urls()})
    hits = site.hits()
    plainly = {found.hit.path for found in rude_hits(hits)}
    accused = {charge.split()[0] for charge in rude(hits, done)}
    print(f"{len(accused)} of {len(plainly)} rude pages accused")
    assert accused <= plainly
    assert len(accused) > 0.9 * len(plainly) > 20
