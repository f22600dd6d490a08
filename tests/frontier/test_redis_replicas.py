"""Redis on more than one server: a replica is promoted, a node of a Cluster is not the right one.

Laws
----
* The whole conformance suite runs on one node of a Cluster too: see `conftest.py`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from scrapy.settings import BaseSettings

from scrapy_adaptive.adapters.frontier.redis_settings import connector
from scrapy_adaptive.frontier.poller import Ranking
from scrapy_adaptive.frontier.protocol import Done, FrontierError, UnavailableError
from tests.frontier.conftest import Clock
from tests.frontier.engines import open_engine
from tests.frontier.test_conformance import listen, page
from tests.servers.forwarding import Forwarding
from tests.servers.valkey import MISSING, STARTS, Valkey, node, program

pytest.importorskip("scrapy_redis")
if program() is None:
    pytest.skip(MISSING, allow_module_level=True)

from scrapy_adaptive.frontier.redis import connecting
from scrapy_adaptive.frontier.redis.frontier import RedisFrontier
from tests.frontier.test_redis import again, opened


def on(address: str, clock: Clock) -> RedisFrontier:
    """A frontier on a clock that the test sets forward."""
    found = open_engine(address, "spider", Ranking(age_share=0), clock)
    assert isinstance(found, RedisFrontier)
    return found


@dataclass
class Pair:
    """A master, its replica, and the address that leads to one of them."""

    master: Valkey
    replica: Valkey
    link: Forwarding
    """Between the two."""
    way: Forwarding

    @property
    def address(self) -> str:
        return self.master.frontier().replace(f":{self.master.port}/", f":{self.way.port}/")

    def fail_over(self) -> None:
        """The master is gone, the replica is promoted, the address leads to it."""
        self.master.kill()
        connecting.connect(self.replica.url()).replicaof("NO", "ONE")
        self.way.cut()
        self.way.mend(self.replica.port)


def until_in_sync(replica: Valkey) -> None:
    """Wait for its first copy of the master.

    Until then WAIT may take a replica that still loads its copy for one that has all.
    """
    client: Any = connecting.connect(replica.url())
    deadline = time.monotonic() + STARTS
    while client.info("replication")["master_link_status"] != "up":
        assert time.monotonic() < deadline, "the replica has no copy"
        time.sleep(0.05)


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    with ExitStack() as stack:
        options = ("--repl-diskless-sync-delay", "0")
        master = stack.enter_context(Valkey(tmp_path / "master", *options))
        link = stack.enter_context(Forwarding(master.port))
        way = stack.enter_context(Forwarding(master.port))
        of = ("--replicaof", "127.0.0.1", str(link.port))
        replica = stack.enter_context(Valkey(tmp_path / "replica", *of))
        until_in_sync(replica)
        yield Pair(master, replica, link, way)


def test_a_replica_that_is_promoted_goes_on(pair: Pair) -> None:
    with closing(opened(pair.address)) as one:
        one.turn([], [page("a", n) for n in range(3)], {})
        (held,) = one.lease(1, 2).held
        assert one.server.client.wait(1, 9000) == 1
        pair.fail_over()
        assert again(lambda: one.beat({})).held == 1
        turn = one.turn([Done(held.lease, held.visits[0].id)], [], {held.lease: 1})
        assert len(turn.refills[held.lease] or []) == 1


def test_a_master_that_becomes_a_replica_is_left_for_where_the_address_leads_now(
    pair: Pair,
) -> None:
    """As in a failover by hand: nobody cuts the connection that is open."""
    with closing(opened(pair.address)) as one:
        one.turn([], [page("a", n) for n in range(3)], {})
        assert one.server.client.wait(1, 9000) == 1
        connecting.connect(pair.replica.url()).replicaof("NO", "ONE")
        connecting.connect(pair.master.url()).replicaof("127.0.0.1", str(pair.replica.port))
        pair.way.mend(pair.replica.port)
        with pytest.raises(UnavailableError, match=r"replica|READONLY|MASTER"):
            one.beat({})
        assert one.beat({}).members == 1


def test_what_had_not_reached_the_replica_is_given_again_under_later_numbers(pair: Pair) -> None:
    """A page that was done there, and a host that was leased: the holder is told of both."""
    clock, address = Clock(), pair.address
    with closing(on(address, clock)) as one, closing(on(address, clock)) as two:
        one.open("one", "shared", 9.0)
        two.open("two", "shared", 9.0)
        one.turn([], [page(host, n) for host in "ab" for n in range(3)], {})
        (a,) = one.lease(1, 2).held
        assert one.server.client.wait(1, 9000) == 1
        pair.link.cut()
        one.turn([Done(a.lease, a.visits[0].id)], [page("c", 1)], {})
        (b,) = one.lease(1, 1).held
        pair.fail_over()
        beat = again(lambda: one.beat({}))
        assert (beat.is_unsure, beat.held) == (True, 1)
        assert one.settle({a.lease: [a.visits[1].id], b.lease: [b.visits[0].id]}) == [b.lease]
        assert not one.beat({}).is_unsure
        assert again(lambda: two.lease(5, 5)).held == []  # old holders have one lease
        listen(two, clock, 9.1)
        again_held = two.lease(5, 9).held
        given = {visit.url for held in again_held for visit in held.visits}
        assert given == {page(host, n).url for host in "ab" for n in range(3)}
        assert min(held.lease.generation for held in again_held) > b.lease.generation + 999_999


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[tuple[Valkey, Valkey]]:
    """Two nodes of one Cluster; the first has all slots."""
    with ExitStack() as stack:
        options = ("--cluster-enabled", "yes")
        one = stack.enter_context(node(tmp_path / "one"))
        other = stack.enter_context(Valkey(tmp_path / "other", *options))
        client: Any = connecting.connect(other.url())
        client.execute_command("CLUSTER", "MEET", "127.0.0.1", one.port)
        deadline = time.monotonic() + STARTS
        while b"cluster_state:ok" not in client.execute_command("CLUSTER", "INFO"):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        yield one, other


def test_a_node_of_a_cluster_that_does_not_have_the_frontier_names_the_one_that_has(
    nodes: tuple[Valkey, Valkey],
) -> None:
    one, other = nodes
    with pytest.raises(FrontierError, match=f"name 127.0.0.1:{one.port}"):
        opened(other.frontier())


def test_a_node_that_does_not_have_the_frontier_any_more_is_left_for_another(
    nodes: tuple[Valkey, Valkey],
) -> None:
    """It was failed over, and the address follows some time later: the crawl does not end."""
    one, other = nodes
    with Forwarding(one.port) as way:
        address = one.frontier().replace(f":{one.port}/", f":{way.port}/")
        with closing(opened(address)) as frontier:
            way.cut()
            way.mend(other.port)
            with suppress(UnavailableError):
                frontier.beat({})
            with pytest.raises(UnavailableError, match=f"name 127.0.0.1:{one.port}"):
                frontier.beat({})
            way.mend(one.port)
            assert frontier.beat({}).members == 1


def test_seeds_on_a_cluster_are_in_the_hash_tag_of_the_frontier(cluster: Valkey) -> None:
    with closing(opened(cluster.frontier())) as one:
        key = f"{one.server.prefix}:start_urls"
        one.server.client.rpush(key, "http://a/")
        assert [data for _, data in one.take_seeds(key, 5)] == [b"http://a/"]
        with pytest.raises(FrontierError, match="the key of the seeds must begin with"):
            one.take_seeds("spider:start_urls", 5)


@pytest.mark.parametrize(
    ("address", "given"),
    [
        ("redis://127.0.0.1/0", f"{__name__}.on"),
        ("redis://", "nowhere.master"),
        ("redis://", "master"),
        ("redis://", 3),
    ],
)
def test_what_makes_no_client_is_refused_by_name(address: str, given: object) -> None:
    settings = BaseSettings({"REDIS_PARAMS": {"redis_cls": given}})
    with pytest.raises(FrontierError, match=f"redis_cls in REDIS_PARAMS is {given!r}"):
        connector(settings)(address)
