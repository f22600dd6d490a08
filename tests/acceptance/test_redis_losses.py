"""Crawls whose Redis forgets everything, or has no room, and whose workers' clocks differ.

Laws
----
* Nothing is missing in the end, and no host is in two hands: the judge is the site's log.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import scrapy
from scrapy.http import Response

from tests.acceptance.surviving import SurvivingSpider
from tests.acceptance.test_redis_faults import LEASE, LOST, Fleet
from tests.acceptance.test_workers import intrusions
from tests.crawling import Crawler
from tests.servers.origin import Answer, Origin
from tests.servers.valkey import MISSING, Valkey, program

redis = pytest.importorskip("redis")
if program() is None:
    pytest.skip(MISSING, allow_module_level=True)

HOUR = 3600.0


class LateSpider(SurvivingSpider):
    """Crawls on a machine whose clock is an hour late."""

    def __init__(self, **rest: Any) -> None:
        super().__init__(**rest)
        right = time.time
        time.time = lambda: right() - HOUR


@pytest.fixture
def fleet(origin: Callable[..., Origin], crawl: Crawler, tmp_path: Path) -> Fleet:
    return Fleet(origin, crawl, tmp_path)


@pytest.fixture
def forgetful(tmp_path: Path) -> Iterator[Valkey]:
    """A server of this test's own, without a log."""
    with Valkey(tmp_path / "own") as server:
        yield server


def test_workers_whose_redis_forgot_everything_say_so_and_end(
    forgetful: Valkey, fleet: Fleet
) -> None:
    """The next start begins with the start requests, and finds all."""
    address = forgetful.frontier()
    workers = [fleet.start(address) for _ in range(2)]
    fleet.until(workers[0], 0.3)
    forgetful.kill()
    forgetful.start()
    done = [each.wait() for each in workers]
    assert any(LOST in each.log for each in done)
    assert all("Traceback" not in each.log for each in done)
    assert intrusions(fleet.server.hits()) == []
    fleet.start(address).wait()
    assert fleet.missing() == set()


def test_a_full_memory_stops_a_crawl_and_loses_nothing(forgetful: Valkey, fleet: Fleet) -> None:
    """For longer than a lease: whoever beats keeps its hosts."""
    lease = 2 * LEASE  # a busy machine lets no worker run for a second or two
    running = fleet.start(forgetful.frontier(), ADAPTIVE_FRONTIER_LEASE=lease)
    fleet.until(running, 0.3)
    with redis.Redis(port=forgetful.port) as client:
        client.config_set("maxmemory", 1)
        running.until(lambda: "maxmemory" in running.log)
        time.sleep(lease + 0.5)
        client.config_set("maxmemory", 0)
    done = running.wait()
    outages = done.log.count("the frontier does not answer")
    assert 1 <= outages <= 2, "on a busy machine one more script may time out"
    assert done.log.count("the frontier answers again") == outages, "each is told once"
    assert LOST not in done.log
    assert fleet.missing() == set()


def test_a_worker_whose_clock_is_an_hour_late_works_beside_others(
    valkey: Valkey, fleet: Fleet
) -> None:
    """Hosts go from one to the other with what was learned, and nobody's pause grows by an hour."""
    address = valkey.frontier()
    late = fleet.start(address, spider=LateSpider)
    fleet.until(late, 0.2)
    right = fleet.start(address)
    fleet.until(right, 0.4)
    late.kill()
    done = right.wait()
    assert {hit.agent for hit in fleet.server.hits()} == {"w0", "w1"}
    assert "Traceback" not in done.log
    assert fleet.missing() == set()
    assert intrusions(fleet.server.hits()) == []


class LargeSpider(scrapy.Spider):
    """Its page leads to one whose request is larger than Redis keeps."""

    name = "large"
    url: str

    async def start(self) -> AsyncIterator[Any]:
        yield scrapy.Request(f"{self.url}/1")

    def parse(self, response: Response) -> Iterator[Any]:
        meta = {"found": "x" * 1_200_000}
        yield scrapy.Request(f"{self.url}/2", callback=self.last, meta=meta)

    def last(self, response: Response) -> Iterator[Any]:
        yield {"found": len(response.meta["found"])}


def test_a_request_that_is_too_large_for_redis_is_named_and_sent(
    valkey: Valkey, origin: Callable[..., Origin], crawl: Crawler
) -> None:
    site = origin(lambda visit: Answer())
    given = {"ADAPTIVE_FRONTIER": valkey.frontier(), "ADAPTIVE_START_DELAY": 0.02}
    done = crawl(LargeSpider, given, arguments={"url": site.url}, timeout=60)
    assert done.items == [{"found": 1_200_000}]
    assert "passes by the frontier, and does not survive a crash: it has 12" in done.log
    assert done.stats["adaptive/frontier/unstorable"] == 1
    assert not done.stats.get("adaptive/frontier/damaged")
