"""Crawls whose Redis is failed over by Sentinel while they run.

Laws
----
* The judge is the site's log, and what the feeds have.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.test_redis_faults import Fleet
from tests.acceptance.test_workers import intrusions
from tests.crawling import Crawler
from tests.servers.origin import Origin
from tests.servers.valkey import MISSING, STARTS, Sentinel, Valkey, program

redis = pytest.importorskip("redis")
sentinels = pytest.importorskip("redis.sentinel")
if program() is None:
    pytest.skip(MISSING, allow_module_level=True)

DOWN_AFTER = 0.5


def master(sentinel: int, **params: Any) -> Any:
    """The client of whichever server is the master: a user's own function, as the docs have it."""
    return sentinels.Sentinel([("127.0.0.1", sentinel)]).master_for("crawl", **params)


def replica_is_known(sentinel: Sentinel) -> bool:
    """Whether there is one that may be promoted."""
    try:
        with redis.Redis(port=sentinel.port) as client:
            return bool(client.sentinel_slaves("crawl"))
    except redis.RedisError:
        return False


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[tuple[Valkey, Valkey, Sentinel]]:
    """A master, its replica, and who promotes it."""
    with ExitStack() as stack:
        options = ("--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1")
        one = stack.enter_context(Valkey(tmp_path / "master", *options, persists=True))
        of = f"127.0.0.1 {one.port}"
        other = stack.enter_context(
            Valkey(tmp_path / "replica", *options, "--replicaof", of, persists=True)
        )
        sentinel = stack.enter_context(Sentinel(tmp_path / "sentinel", one, DOWN_AFTER))
        deadline = time.monotonic() + 2 * STARTS
        while not replica_is_known(sentinel):
            assert time.monotonic() < deadline, (tmp_path / "sentinel" / "log").read_text()
            time.sleep(0.1)
        yield one, other, sentinel


def test_sentinel_promotes_the_replica_and_the_crawl_goes_on(
    watched: tuple[Valkey, Valkey, Sentinel],
    origin: Callable[..., Origin],
    crawl: Crawler,
    tmp_path: Path,
) -> None:
    """Two workers, named nothing but the Sentinel; nothing is lost, no host in two hands."""
    one, other, sentinel = watched
    fleet = Fleet(origin, crawl, tmp_path)
    params = {"redis_cls": f"{__name__}.master", "sentinel": sentinel.port}
    workers = [fleet.start("redis://?prefix=watched", REDIS_PARAMS=params) for _ in range(2)]
    fleet.until(workers[0], 0.3)
    one.kill()
    done = [each.wait() for each in workers]
    with redis.Redis(port=other.port) as client:
        assert client.role()[0] == b"master"
        assert client.keys("{watched}:*")
    # a worker that was given no host asks once a second, and may miss the second without a master
    assert any("crawl of its Sentinels" in each.log for each in done)
    assert fleet.missing() == set()
    assert intrusions(fleet.server.hits()) == []
    assert all("Traceback" not in each.log for each in done)
