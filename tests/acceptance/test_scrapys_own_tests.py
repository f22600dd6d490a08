"""Scrapy's own tests of its priority queues and its scheduler, with HostQueue in their place.

Laws
----
* They come from the source distribution of the installed version, and are not kept.
* What does not hold is named in `DIFFERENT` with its reason, and has to fail: a name that is
  not there, or a test that holds after all, is an error too.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

import pytest
import scrapy

from tests.crawling import ROOT

MODULES = ("test_pqueues", "test_scheduler")

EXTENSION_MOCKS = '''\
"""HostQueue in the crawls of these tests and in their mocks of crawlers, switched on."""

from contextlib import suppress
from unittest.mock import Mock

from scrapy.core.downloader import Downloader
from scrapy.crawler import Crawler
from scrapy.utils.httpobj import urlparse_cached

from scrapy_adaptive import AdaptiveThrottle, HostQueue


class MockDownloader:
    slots = {}

    def get_slot_key(self, request):
        slot = request.meta.get(Downloader.DOWNLOAD_SLOT)
        return slot or urlparse_cached(request).hostname or ""


def init(self, *args, **options):
    crawler_init(self, *args, **options)
    self.settings.set("ADDONS", {"scrapy_adaptive.Addon": 500})


def from_crawler(cls, crawler, *args, **options):
    if not crawler.settings.frozen:  # it is a mock
        crawler._apply_settings()
    engine = None
    with suppress(RuntimeError):  # Scrapy 2.19: it is not set yet
        engine = crawler.engine
    if engine is None:
        crawler.engine = engine = Mock(downloader=MockDownloader())
    queue = queue_from_crawler(crawler, *args, **options)
    if isinstance(engine, Mock):
        engine.downloader.active = set()
        answer_at_once(queue, AdaptiveThrottle.of(crawler).hosts)
    return queue


def answer_at_once(queue, hosts):
    """What a mock downloader is given never reaches a site: the host may send at once again."""

    def pop():
        request = type(queue).pop(queue)
        if request is not None:
            hosts.on_due(hosts.on_left(request))
        return request

    queue.pop = pop


crawler_init, Crawler.__init__ = Crawler.__init__, init
queue_from_crawler = HostQueue.from_crawler
HostQueue.from_crawler = classmethod(from_crawler)
'''
"""A plugin of pytest. Scrapy's mocks lack what an extension needs, and send nothing."""

IN_PLACE = """
from scrapy_adaptive import HostQueue as DownloaderAwarePriorityQueue
from scrapy_adaptive import HostQueue as ScrapyPriorityQueue
"""
"""Ends the modules of the tests: what they import by these names is HostQueue."""


class Difference(NamedTuple):
    """A test that cannot hold."""

    reason: str
    since: tuple[int, int] = (2, 15)
    """The version of Scrapy that brought it."""


NO_PEEK = "there is no peek: which host's turn it is shows only when its place is reserved"

DIFFERENT = {
    "TestPriorityQueue::test_peek": Difference(NO_PEEK),
    "TestDownloaderAwarePriorityQueue::test_peek": Difference(NO_PEEK),
    "TestPriorityQueue::test_queue_push_pop_priorities": Difference(
        "its state is a list of priorities, ours is a table of hosts"
    ),
    "TestDownloaderAwarePriorityQueue::test_pop_prefers_slot_with_fewer_active_downloads": (
        Difference("turns go by priority and waiting time, not by active downloads", (2, 17))
    ),
    "TestMigration::test_migration": Difference(
        "it moves a job between two queues, and one stands here in the place of both"
    ),
    "TestIncompatibility::test_incompatibility": Difference(
        "CONCURRENT_REQUESTS_PER_IP is no obstacle: it is read as the cap of a host"
    ),
}
"""Tests by their names, and why they do not hold."""


def fetch_source(folder: Path) -> Path:
    """The source distribution of the installed Scrapy, from the package index that pip uses."""
    download = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-binary", "scrapy"]
    options = ["--retries", "2", "--timeout", "20", "--dest", str(folder)]
    done = subprocess.run(
        [*download, *options, f"scrapy=={scrapy.__version__}"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if "(from versions: none)" in done.stdout:
        pytest.skip("the package index cannot be reached: there is no source of Scrapy to test")
    assert done.returncode == 0, done.stdout
    (source,) = folder.iterdir()
    return source


def unpack_tests(source: Path, folder: Path) -> None:
    """Its tests and nothing else of it: they import the installed Scrapy."""
    with tarfile.open(source) as archive:
        members = []
        for member in archive:
            member.name = member.name.partition("/")[2]
            if member.name.startswith(("tests/", "conftest.py", "pyproject.toml")):
                members.append(member)
        archive.extractall(folder, members, filter="data")


def put_in_place(folder: Path) -> None:
    """Have the tests mean HostQueue where they name a priority queue."""
    for module in MODULES:
        path = folder / "tests" / f"{module}.py"
        text = path.read_text(encoding="utf-8")
        for name in ("DownloaderAwarePriorityQueue", "ScrapyPriorityQueue"):
            text = text.replace(f'"scrapy.pqueues.{name}"', '"scrapy_adaptive.HostQueue"')
        path.write_text(text + IN_PLACE, encoding="utf-8")
    (folder / "extension_mocks.py").write_text(EXTENSION_MOCKS, encoding="utf-8")


def run_tests(folder: Path) -> tuple[set[str], set[str], str]:
    """Names of the tests that ran and of those that failed, and what pytest said."""
    report = folder / "report.xml"
    options = ["-p", "extension_mocks", "-p", "no:cacheprovider", f"--junitxml={report}"]
    environment = {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}"}
    environment = {k: v for k, v in environment.items() if not k.startswith("PYTEST_")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *(f"tests/{name}.py" for name in MODULES)],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert report.exists(), done.stdout
    ran, failed = set(), set()
    for case in ElementTree.parse(report).iter("testcase"):
        where = case.attrib["classname"].split(".")[2:]  # tests, module, class
        name = "::".join([*where, case.attrib["name"]])
        if case.find("skipped") is None:
            ran.add(name)
        if case.find("failure") is not None or case.find("error") is not None:
            failed.add(name)
    return ran, failed, done.stdout


def test_scrapys_own_tests_of_its_queues_hold_for_ours_but_for_those_named(tmp_path: Path) -> None:
    """Listed tests run too, and must be there and fail."""
    (tmp_path / "source").mkdir()
    folder = tmp_path / "unpacked"
    unpack_tests(fetch_source(tmp_path / "source"), folder)
    put_in_place(folder)
    ran, failed, output = run_tests(folder)
    listed = {name for name, test in DIFFERENT.items() if scrapy.version_info[:2] >= test.since}
    assert failed == listed, output
    assert len(ran - failed) >= 24
    assert {name for name in ran if "TestIntegration" in name} <= ran - failed
