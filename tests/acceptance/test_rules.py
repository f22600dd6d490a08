"""Known limits in real crawls: no refusal from the first page on, and nobody waits for another.

Laws
----
* The site is the judge: it counts its windows itself, by when it saw each request.
"""

from __future__ import annotations

import time
from collections import defaultdict, deque
from typing import Any

import pytest

from tests.crawling import Crawler
from tests.servers.origin import Answer, Origin, Visit, refusal
from tests.spiders import UrlsSpider

SETTINGS: dict[str, Any] = {
    "ADAPTIVE_TARGET_CONCURRENCY": 8,
    "ADAPTIVE_START_DELAY": 0.01,
    "ADAPTIVE_IDENTITY": {"account": "meta:account"},
}


class Windows:
    """A site that lets each account have so many pages in any window: a sliding log."""

    def __init__(self, most: int, window: float) -> None:
        self.most, self.window = most, window
        self.logs: defaultdict[str, deque[float]] = defaultdict(deque)
        self.refused = 0

    def __call__(self, visit: Visit) -> Answer:
        if not visit.path.startswith("/api"):
            return Answer(200, b"page")
        log, now = self.logs[visit.headers.get("X-Account", "")], time.monotonic()
        while log and now - log[0] >= self.window:
            log.popleft()
        if len(log) >= self.most:
            self.refused += 1
            return refusal(429)
        log.append(now)
        return Answer(200, b"record")


def requests(site: Origin, counts: dict[str, int]) -> list[dict[str, Any]]:
    return [
        {
            "url": f"{site.url}/api/{account}/{number}",
            "headers": {"X-Account": account},
            "meta": {"account": account},
        }
        for account, count in counts.items()
        for number in range(count)
    ]


def test_a_spent_account_holds_up_nobody(origin: Any, crawl: Crawler) -> None:
    """No refusal; pages of other accounts, and without one, are long there when it goes on."""
    windows = Windows(5, 2.0)
    with Origin(windows) as site:
        urls = requests(site, {"alice": 12, "bob": 5})
        urls += [{"url": f"{site.url}/page/{number}"} for number in range(60)]
        rules = [{"uri": "/api/*", "identity": "account=*", "max_hits": 5, "window": 2.0}]
        done = crawl(UrlsSpider, SETTINGS | {"ADAPTIVE_RULES": rules}, arguments={"urls": urls})
        assert windows.refused == 0
        assert len(done.urls) == len(urls)
        late = done.urls[-2:]
        assert all("alice" in url for url in late), late
        assert done.stats.get("adaptive/refused", 0) == 0
