"""A site that limits one class of its pages: the others keep their speed, and no page is lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from tests.crawling import Crawl, Crawler
from tests.servers.origin import Answer, Origin, Visit, refusal
from tests.spiders import UrlsSpider

EAGER = {
    "ADAPTIVE_START_DELAY": 0.05,
    "ADAPTIVE_TARGET_CONCURRENCY": 8,
    "DOWNLOAD_TIMEOUT": 20,
    "LOG_LEVEL": "INFO",
}
RATE = 2.0
"""Searches a second that the site allows, two at once at most."""

PAGES, SEARCHES = 200, 50

PAGES_IN_A_ROW, SEARCHES_IN_A_ROW = 20, 5
"""So many of each in turn: the searches are above their rate at any pace of a busy machine."""


class SearchLimit:
    """Refuses searches above the rate; everything else is free."""

    def __init__(self) -> None:
        self._tokens, self._at = 2.0, 0.0

    def __call__(self, visit: Visit) -> Answer:
        if not visit.path.startswith("/search/"):
            return Answer()
        grown = self._tokens + RATE * (visit.elapsed - self._at)
        self._tokens, self._at = min(2.0, grown), visit.elapsed
        if self._tokens < 1.0:
            return refusal()
        self._tokens -= 1.0
        return Answer()


def mixed(site: Origin) -> list[str]:
    """A fifth are searches."""
    block = ["page"] * PAGES_IN_A_ROW + ["search"] * SEARCHES_IN_A_ROW
    return [f"{site.url}/{block[n % len(block)]}/{n}" for n in range(PAGES + SEARCHES)]


def searches_after_the_pages(site: Origin) -> int:
    """Searches that were served when all other pages were there."""
    served = [hit.path for hit in site.hits() if hit.status == 200]
    last = max(n for n, path in enumerate(served) if path.startswith("/page/"))
    return len(served) - 1 - last


def assert_permits_balance(done: Crawl) -> None:
    """Each permit has ended once."""
    ends = {name: done.stats[f"adaptive/permits/{name}"] for name in ("measured", "ignored")}
    dropped = done.stats.get("adaptive/permits/dropped", 0)
    assert done.stats["adaptive/permits/granted"] == sum(ends.values()) + dropped


@pytest.mark.parametrize(
    "settings",
    [{}, {"SCHEDULER_PRIORITY_QUEUE": "tests.own_queue.OwnQueue"}],
    ids=["host queue", "another queue"],
)
def test_the_other_pages_of_a_limited_class_keep_their_speed(
    settings: dict[str, Any], crawl: Crawler, origin: Callable[..., Origin]
) -> None:
    """The searches take their 25 seconds; the pages are there long before; all arrive once."""
    site = origin(SearchLimit())
    urls = mixed(site)
    done = crawl(UrlsSpider, {**EAGER, **settings}, arguments={"urls": urls})
    assert Counter(done.urls) == Counter(urls)
    assert not done.lost
    assert done.stats["finish_reason"] == "finished"
    assert_permits_balance(done)
    assert "only /search/# is refused; these pages have a pace of their own from here" in done.log
    refused = sum(hit.status == 429 for hit in site.hits())
    assert refused < 0.2 * len(urls)
    if not settings:  # elsewhere the searches hold the places of CONCURRENT_REQUESTS
        assert searches_after_the_pages(site) > 0
