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
