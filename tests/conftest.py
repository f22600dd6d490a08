"""What every test may ask for: real servers and real crawls, stopped when the test ends."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.crawling import Crawler
from tests.servers.nginx import Nginx
from tests.servers.origin import Origin


@pytest.fixture
def nginx(tmp_path: Path) -> Iterator[Callable[..., Nginx]]:
    """Starts nginx: `nginx(limit_req("50r/s", 20), pages=300)`; the arguments of `Nginx`."""
    with ExitStack() as sites:
        yield lambda *fragments, **options: sites.enter_context(
            Nginx(Path(tempfile.mkdtemp(prefix="nginx-", dir=tmp_path)), *fragments, **options)
        )


@pytest.fixture
def origin() -> Iterator[Callable[..., Origin]]:
    """Starts a scripted site: `origin(handler)`; the arguments of `Origin`."""
    with ExitStack() as sites:
        yield lambda *handler, **options: sites.enter_context(Origin(*handler, **options))


@pytest.fixture
def crawl(tmp_path: Path) -> Iterator[Crawler]:
    """Runs Scrapy: `crawl(UrlsSpider, settings, arguments={"urls": [...]})`, or `crawl.start`."""
    crawler = Crawler(tmp_path)
    yield crawler
    crawler.stop()


collect_ignore = ["scrapys_own"]
"""Plugins for Scrapy's own tests: to import them is to switch the add-on on in every crawler."""

LONG = (
    "test_broken_page.py",
    "test_limits.py",
    "test_endpoint.py",
    "test_several_slots.py",
    "test_counts.py",
    "test_spider_idle.py",
)
"""Crawls that wait for most of their time: they begin first, beside those that compute."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Spread the long crawls over the beginnings of four workers' shares."""
    waiting = [item for item in items if item.path.name in LONG]
    others = [item for item in items if item.path.name not in LONG]
    shares = []
    for worker in range(4):
        size = -(-len(others) // 4)
        shares += waiting[worker::4] + others[worker * size : (worker + 1) * size]
    items[:] = shares
