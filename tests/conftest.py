"""What every test may ask for: real servers and real crawls, stopped when the test ends."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import chain
from pathlib import Path

import pytest

from tests.crawling import ROOT, Crawler
from tests.servers.nginx import Nginx
from tests.servers.origin import Origin
from tests.servers.postgres import Postgres, shared
from tests.servers.valkey import MISSING, Valkey, program


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


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """The PostgreSQL of this test run; `postgres.database()` is a new database's address."""
    with shared(os.environ.get("PYTEST_XDIST_TESTRUNUID", str(os.getpid()))) as server:
        yield server


@pytest.fixture(scope="session")
def valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Valkey]:
    """The Valkey of this process; `valkey.frontier()` is the address of a new frontier."""
    if program() is None:
        pytest.skip(MISSING)
    with Valkey(tmp_path_factory.mktemp("valkey")) as server:
        yield server


collect_ignore = ["scrapys_own"]
"""Plugins for Scrapy's own tests: to import them is to switch the add-on on in every crawler."""

LONGEST = (
    "test_broken_page.py",
    "test_workers.py",
    "test_moved_jobs.py",
    "test_endpoint.py",
    "test_limits.py",
    "test_stale_copies.py",
    "test_starvation.py",
    "test_jobs.py",
    "test_failing_hosts.py",
    "test_frontier_troubles.py",
    "test_killed.py",
    "test_known_limits.py",
    "test_wake_ups.py",
    "test_watching.py",
    "test_why.py",
)
"""Their crawls wait longest, and begin first: what is begun last is what the others wait for."""

WAITING = ("acceptance", "adapters", "sample")
"""Folders whose tests wait for servers and crawls most of their time; the others compute."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Order the tests for as many workers as there are, each of which begins with a share of them.

    Half of the workers begin with those that wait, and half with those that compute, so that the
    processors are used all the while. Of those that compute, neighbours stay together: they share
    what they have computed.
    """
    workers = getattr(config, "workerinput", {}).get("workercount", 1)
    waits: list[pytest.Item] = []
    computes: list[pytest.Item] = []
    for item in items:
        is_waiting = set(item.path.relative_to(ROOT).parts) & set(WAITING)
        (waits if is_waiting else computes).append(item)
    waits.sort(key=lambda item: item.path.name not in LONGEST)
    size = -(-len(computes) // workers)
    shares: list[pytest.Item] = []
    for worker in range(workers):
        share = [waits[worker::workers], computes[worker * size : (worker + 1) * size]]
        shares += chain(*(share if worker % 2 else reversed(share)))
    items[:] = shares
