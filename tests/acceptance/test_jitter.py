"""DOWNLOAD_DELAY_JITTER, as the site sees it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from statistics import fmean
from typing import Any

import pytest

from tests.crawling import Crawler
from tests.servers.origin import Origin, answers, robots_txt
from tests.spiders import UrlsSpider

DELAY = 0.3
PAGES = 12


@pytest.mark.parametrize("name", ["DOWNLOAD_DELAY_JITTER", "RANDOMIZE_DOWNLOAD_DELAY"])
def test_gaps_are_scattered_where_the_user_set_it(
    name: str, crawl: Crawler, origin: Callable[..., Origin]
) -> None:
    """Around the delay; who sets neither sees them even."""
    set_it: dict[str, Any] = {name: 0.5 if name.endswith("JITTER") else True}
    scatter = {}
    for asked, settings in (("scattered", set_it), ("left alone", {})):
        site = origin()
        own = {"DOWNLOAD_DELAY": DELAY, "ADAPTIVE_START_DELAY": 0}
        urls = [f"{site.url}/{n}" for n in range(PAGES)]
        done = crawl(UrlsSpider, {**own, **settings}, arguments={"urls": urls})
        assert sorted(done.urls) == sorted(urls)
        starts = sorted(hit.start for hit in site.hits())
        scatter[asked] = fmean(abs(later - earlier - DELAY) for earlier, later in pairwise(starts))
    assert scatter["scattered"] > 2 * scatter["left alone"]


def test_gaps_are_never_shorter_than_robots_txt_asks_for(
    crawl: Crawler, origin: Callable[..., Origin]
) -> None:
    """A Crawl-delay of nearly as much as the delay is obeyed whole."""
    site = origin(answers({"/robots.txt": robots_txt(f"User-agent: *\nCrawl-delay: {DELAY}")}))
    settings = {
        "ROBOTSTXT_OBEY": True,
        "DOWNLOAD_DELAY": DELAY,
        "ADAPTIVE_START_DELAY": 0,
        "DOWNLOAD_DELAY_JITTER": 0.5,
    }
    urls = [f"{site.url}/{n}" for n in range(PAGES)]
    done = crawl(UrlsSpider, settings, arguments={"urls": urls})
    assert sorted(done.urls) == sorted(urls)
    starts = sorted(hit.start for hit in site.hits() if hit.path != "/robots.txt")
    assert min(later - earlier for earlier, later in pairwise(starts)) > 0.8 * DELAY
