"""Crawls whose Redis is killed, frozen, slow or cut off, while workers join and leave.

Laws
----
* Nothing is missing in the end, and no host is in two hands: the judge is the site's log.
* `make soak` kills ten times.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.surviving import (
    Site,
    SurvivingSpider,
    fed_items,
    has_hits,
    missing,
    seed_of,
    settings,
)
from tests.acceptance.test_workers import intrusions
from tests.crawling import Crawler, RunningCrawl
from tests.servers.forwarding import Forwarding
from tests.servers.origin import Origin
from tests.servers.valkey import MISSING, Valkey, program

KILLS = int(os.environ.get("SOAK_KILLS", "1"))
PAGES = int(os.environ.get("SOAK_PAGES", "250"))
HOSTS = 6
LEASE = 3.0

ON_THE_WIRE = 0.2
"""Seconds within which what had left has arrived; how much more was taken out is chance's."""
LOST = "could not say for"

if program() is None:
    pytest.skip(MISSING, allow_module_level=True)


class Fleet:
    """Workers on one site, and what they must have brought in the end."""

    def __init__(self, origin: Callable[..., Origin], crawl: Crawler, folder: Path) -> None:
        self.site = Site(PAGES, HOSTS)
        self.server = origin(self.site.answer, addresses=self.site.addresses)
        self.crawl = crawl
        self.folder = folder
        self.names: list[str] = []

    def start(
        self, address: str, *, spider: type[SurvivingSpider] = SurvivingSpider, **more: Any
    ) -> RunningCrawl:
        name = f"w{len(self.names)}"
        self.names.append(name)
        given = {
            **settings(address, self.folder),
            "ADAPTIVE_FRONTIER_LEASE": LEASE,
            "USER_AGENT": name,
            "ITEM_PIPELINES": {},
            "FEEDS": {str(self.folder / f"{name}.jl"): {"format": "jsonlines"}},
            **more,
        }
        arguments = {"pages": PAGES, "hosts": HOSTS, "port": self.server.port}
        return self.crawl.start(spider, given, arguments=arguments, timeout=280)

    def missing(self) -> set[tuple[int, str]]:
        found = fed_items(self.folder / "none.jl")
        for name in self.names:
            found += fed_items(self.folder / f"{name}.jl")
        return missing(self.site, found)

    def agents_since(self, instant: float) -> set[str]:
        """Who has asked for pages since then."""
        return {hit.agent for hit in self.server.hits() if hit.start > instant}

    def until(self, running: RunningCrawl, share: float) -> None:
        """A share of the pages was asked for."""
        running.until(partial(has_hits, self.server, round(share * PAGES)))


@pytest.fixture
def fleet(origin: Callable[..., Origin], crawl: Crawler, tmp_path: Path) -> Fleet:
    return Fleet(origin, crawl, tmp_path)


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Valkey]:
    """A server that this test alone may kill; it writes down what it does."""
    with Valkey(tmp_path / "own", persists=True) as server:
        yield server


def test_redis_is_killed_and_started_again(own: Valkey, fleet: Fleet) -> None:
    """With its log: nothing is lost, and the crawl goes on within two leases."""
    address = own.frontier()
    workers = [fleet.start(address) for _ in range(2)]
    gaps = []
    for kill in range(KILLS):
        fleet.until(workers[0], (kill + 1) / (KILLS + 2))
        own.kill()
        time.sleep(0.5)
        own.start()
        back_at = time.time()
        workers[0].until(lambda at=back_at: fleet.server.hits()[-1].start > at)  # type: ignore[misc]
        gaps.append(time.time() - back_at)
    done = [each.wait() for each in workers]
    print(
        f"{KILLS} kills of Redis, {PAGES} pages: {len(fleet.missing())} items missing, "
        f"{len(intrusions(fleet.server.hits()))} hits by the replaced, goes on after "
        f"{max(gaps):.1f} s at most"
    )
    assert fleet.missing() == set()
    assert intrusions(fleet.server.hits()) == []
    assert max(gaps) < 2 * LEASE
    assert all("Traceback" not in each.log for each in done)


def test_an_outage_shorter_than_two_thirds_of_a_lease_costs_nothing(
    own: Valkey, fleet: Fleet
) -> None:
    """What was taken out goes on meanwhile."""
    running = fleet.start(own.frontier(), ADAPTIVE_FRONTIER_LEASE=6.0)
    fleet.until(running, 0.3)
    time.sleep(1.0)
    own.pause()
    paused_at = time.time()
    time.sleep(2.0)
    own.go_on()
    going_at = time.time()
    done = running.wait()
    during = [hit.start for hit in fleet.server.hits() if paused_at < hit.start < going_at]
    print(f"{len(during)} pages, the last {max(during) - paused_at:.2f} s after it began")
    assert max(during) > paused_at + ON_THE_WIRE
    assert LOST not in done.log
    assert fleet.missing() == set()


def test_who_is_cut_off_stops_and_another_goes_on(own: Valkey, fleet: Fleet) -> None:
    with Forwarding(own.port) as way:
        address = own.frontier()
        behind = fleet.start(address.replace(f":{own.port}/", f":{way.port}/"))
        fleet.until(behind, 0.1)
        other = fleet.start(address)
        fleet.until(other, 0.2)
        way.cut()
        cut_at = time.time()
        other.until(lambda: bool(fleet.agents_since(cut_at + LEASE)))
        time.sleep(1.0)
        assert fleet.agents_since(cut_at + LEASE) == {"w1"}
        way.mend()
        done = [each.wait() for each in (behind, other)]
    assert fleet.missing() == set()
    assert intrusions(fleet.server.hits()) == []
    assert all("Traceback" not in each.log for each in done)


@pytest.mark.parametrize("slowness", [0.05, 0.5])
def test_a_slow_redis_loses_nothing(slowness: float, own: Valkey, fleet: Fleet) -> None:
    """Each answer takes so many seconds."""
    with Forwarding(own.port, slowness / 2) as way:
        address = own.frontier().replace(f":{own.port}/", f":{way.port}/")
        running = fleet.start(address, ADAPTIVE_FRONTIER_LEASE=10.0)
        done = running.wait()
    assert LOST not in done.log
    assert fleet.missing() == set()


def test_workers_join_and_leave_all_the_time(own: Valkey, fleet: Fleet) -> None:
    address = own.frontier()
    chance = seed_of("joining")
    stays = fleet.start(address)
    for number in range(3):
        guest = fleet.start(address)
        fleet.until(stays, (number + 1) / 5)
        if chance.random() < 0.5:
            guest.interrupt()
            guest.wait(check=False)
        else:
            guest.kill()
    stays.wait()
    assert fleet.missing() == set()
    assert intrusions(fleet.server.hits()) == []


def test_what_anybody_wrote_is_named_skipped_and_counted(own: Valkey, fleet: Fleet) -> None:
    """Classes that would be imported, callbacks that are none, bombs: the rest is visited."""
    import redis

    address = own.frontier()
    client: Any = redis.Redis.from_url(own.url())
    prefix = "{" + address.partition("prefix=")[2] + "}"
    client.hset(f"{prefix}:spiders", "surviving", 1)
    client.hset(f"{prefix}:count", "spider", 1)
    host = fleet.site.addresses[0]
    url = f"http://{host}:{fleet.server.port}/p/0"
    junk = [
        json.dumps({"_class": "os.system"}),
        json.dumps({"_class": "subprocess.Popen", "method": "GET"}),
        json.dumps({"callback": "__class__"}),
        json.dumps({"errback": "crawler"}),
        json.dumps({"meta": [1]}),
        json.dumps({"priority": 10**400}),
        "[" * 100_000,
        "NaN",
    ]
    lane = f"{prefix}:1:q:0:{host}"
    client.rpush(lane, b"\xff\xfe", "no url", *(f"{url}\n\n\n{each}" for each in junk))
    client.zadd(f"{prefix}:1:r:shared", {host: 0})
    client.hset(f"{prefix}:1:i", "ready", len(junk) + 2)
    done = fleet.start(address).wait()
    assert fleet.missing() == set()
    assert done.stats["adaptive/frontier/unreadable"] == len(junk) + 2
    assert "os.system" in done.log
    assert "Traceback" not in done.log
    starts = sorted(hit.start for hit in fleet.server.hits())
    assert max(after - before for before, after in pairwise(starts)) < 30
