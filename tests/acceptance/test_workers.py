"""Several workers on one frontier: a host in one hand, and no hand that nobody follows.

Laws
----
* The judge is the site's log: each worker has a name of its own as its User-Agent.
"""

from __future__ import annotations

import os
import signal
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from docsite.hits import Hit
from tests.acceptance.surviving import (
    Site,
    SurvivingSpider,
    fed_items,
    has_hits,
    missing,
    seed_of,
    settings,
)
from tests.crawling import Crawler, RunningCrawl
from tests.servers.origin import Origin

STOPS = int(os.environ.get("SOAK_STOPS", "2"))
LEASE = float(os.environ.get("SOAK_LEASE", "5"))
REAPED = 3.5
"""Seconds beyond a lease in which another worker has seen that it has run out."""
WAKING = 0.1
"""Seconds from waking in which a page may leave that was in the system call that sends when its
process was stopped: some once in 40 stops of a busy machine. Nobody can look again in between."""
PAGES = 300
HOSTS = 6
ALONE = 2.0
"""Seconds between two hits of one worker that another's hit must not part."""


@pytest.fixture(params=["postgresql", "redis"])
def shared(request: pytest.FixtureRequest) -> str:
    """The address of a new frontier that several machines can share."""
    if request.param == "redis":
        return str(request.getfixturevalue("valkey").frontier())
    return str(request.getfixturevalue("postgres").database())


def names_by_host(hits: list[Hit]) -> dict[str, list[tuple[float, str]]]:
    """Who asked each host, and when."""
    found: dict[str, list[tuple[float, str]]] = defaultdict(list)
    for hit in hits:
        found[hit.host].append((hit.start, hit.agent))
    return found


def intrusions(hits: list[Hit]) -> list[tuple[str, float, str]]:
    """Hits of one worker in the midst of another's: two hands on one host."""
    return [
        (host, at, name)
        for host, asked in names_by_host(hits).items()
        for (before, one), (at, name), (after, other) in zip(
            asked, asked[1:], asked[2:], strict=False
        )
        if one == other != name and after - before < ALONE
    ]


def start(
    crawl: Crawler, name: str, address: str, folder: Path, site: Site, port: int, **more: object
) -> RunningCrawl:
    given = {
        **settings(address, folder),
        "USER_AGENT": name,
        "ADAPTIVE_FRONTIER_LEASE": LEASE,
        "FEEDS": {str(folder / f"{name}.jl"): {"format": "jsonlines"}},
        **more,
    }
    arguments = {"pages": site.pages, "hosts": len(site.addresses), "port": port}
    longest = 280 + STOPS * (LEASE + 20.0)
    return crawl.start(SurvivingSpider, given, arguments=arguments, timeout=longest)


def test_four_workers_share_hosts_and_the_dead_ones_hosts_move(
    shared: str, origin: Callable[..., Origin], crawl: Crawler, tmp_path: Path
) -> None:
    """One of them is killed: its hosts go on with the others when its lease has run out."""
    site = Site(PAGES, HOSTS)
    server = origin(site.answer, addresses=site.addresses)
    workers = [
        start(crawl, f"w{n}", shared, tmp_path, site, server.port, ADAPTIVE_FRONTIER_LEASE=10)
        for n in range(4)
    ]
    workers[0].until(lambda: len(server.hits()) > PAGES // 3)
    # Any of them may have been the first to come and have all hosts: one that works is killed.
    killed = server.hits()[-1].agent
    workers.pop(int(killed[1:])).kill()
    for each in workers:
        assert each.wait().stats["finish_reason"] == "finished"
    fed = sum((fed_items(tmp_path / f"w{n}.jl") for n in range(4)), Counter())
    assert missing(site, fed) == set()
    assert intrusions(server.hits()) == []
    assert {hit.agent for hit in server.hits()} > {killed}


def has_ended(worker: RunningCrawl) -> bool:
    return worker.process.poll() is not None


def test_a_worker_that_was_stopped_past_its_lease_sends_nothing_for_another(
    shared: str, origin: Callable[..., Origin], crawl: Crawler, tmp_path: Path
) -> None:
    site = Site(100 * PAGES, HOSTS)
    server = origin(site.answer, addresses=site.addresses)
    workers = [start(crawl, f"w{n}", shared, tmp_path, site, server.port) for n in range(2)]
    chance, woken = seed_of("stops"), []
    both = {"w0", "w1"}  # on a busy machine one begins long before the other
    workers[0].until(lambda: {hit.agent for hit in server.hits()} == both or has_ended(workers[1]))
    assert not has_ended(workers[1])
    for _ in range(STOPS):
        workers[0].until(partial(has_hits, server, len(server.hits()) + 60))
        time.sleep(chance.uniform(0.0, 1.0))
        stopped = workers[int(server.hits()[-1].agent[1:])]
        stopped.process.send_signal(signal.SIGSTOP)
        time.sleep(LEASE + REAPED)
        woken.append(time.time())
        stopped.process.send_signal(signal.SIGCONT)
        time.sleep(3.0)
    found = intrusions(server.hits())
    waking = [hit for hit in found if any(at <= hit[1] <= at + WAKING for at in woken)]
    late = [hit for hit in found if hit not in waking]
    print(
        f"{STOPS} stops of {LEASE + REAPED:g} s, {len(server.hits())} hits, "
        f"{len(late)} by the replaced, and {len(waking)} as they woke",
        *(
            f"{at - max(woken):+.3f} s from the last waking: {name} at {host}"
            for host, at, name in late
        ),
        sep="\n",
    )
    for each in workers:
        each.kill()
    assert late == []
    assert len(waking) <= 1 + STOPS // 10
