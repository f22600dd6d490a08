"""What only Redis does: it restarts, fills its memory, holds what anybody wrote."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, TypeVar

import pytest

from scrapy_adaptive.frontier.poller import Ranking
from scrapy_adaptive.frontier.protocol import (
    Done,
    FrontierError,
    Result,
    SessionLostError,
    UnavailableError,
    Visit,
)
from tests.frontier.test_conformance import page, urls
from tests.servers.valkey import MISSING, Valkey, program

redis = pytest.importorskip("redis")
if program() is None:
    pytest.skip(MISSING, allow_module_level=True)

from scrapy_adaptive.frontier.redis import connecting  # noqa: E402
from scrapy_adaptive.frontier.redis.admin import Admin  # noqa: E402
from scrapy_adaptive.frontier.redis.frontier import RedisFrontier  # noqa: E402


def made(address: str, spider: str = "spider") -> RedisFrontier:
    _, name = connecting.read_address(address)
    client = connecting.connect(address)
    return RedisFrontier(client, spider, Ranking(age_share=0), name=name)


def opened(address: str, worker: str = "one", ttl: float = 5.0) -> RedisFrontier:
    frontier = made(address)
    frontier.open(worker, "shared", ttl)
    return frontier


T = TypeVar("T")

OPTIONS = ("--appendfsync", "always", "--repl-diskless-sync-delay", "0")


def again(call: Callable[[], T]) -> T:
    """What a call answers, at the second time where it fails at the first."""
    try:
        return call()
    except UnavailableError:
        return call()


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Valkey]:
    """A server that this test alone may kill."""
    with Valkey(tmp_path / "own", *OPTIONS, persists=True) as server:
        yield server


def test_nobody_leases_for_one_lease_after_a_restart(own: Valkey) -> None:
    """Old holders go on; what the last seconds gave out may be forgotten."""
    address = own.frontier()
    with closing(opened(address, "one", 1.0)) as one, closing(opened(address, "two", 1.0)) as two:
        one.turn([], [page("a", n) for n in range(4)] + [page("b", 1)], {})
        (held,) = one.lease(1, 2).held
        own.kill()
        own.start()
        assert again(lambda: one.beat({})).held == 1
        assert again(lambda: two.lease(5, 5)).held == []
        turn = one.turn([Done(held.lease, held.visits[0].id)], [], {held.lease: 1})
        (more,) = turn.refills[held.lease] or []
        assert more.id > held.visits[-1].id + 999_999
        time.sleep(1.05)
        one.open("one", "shared", 1.0)
        two.open("two", "shared", 1.0)
        assert {each.lease.host for each in two.lease(5, 5).held} == {"a", "b"}
        assert two.lease(1, 1).held == []


def test_numbers_go_on_where_the_end_of_the_log_is_cut(own: Valkey) -> None:
    """As after the crash of a machine: what was given out in the end is forgotten."""
    address = own.frontier()
    with closing(opened(address)) as one:
        one.turn([], [page("a", n) for n in range(50)], {})
        (held,) = one.lease(1, 10).held
        refilled = one.turn([], [], {held.lease: 20}).refills[held.lease] or []
        own.kill()
        (log,) = own.folder.glob("appendonlydir/*.incr.aof")
        with log.open("rb+") as file:
            file.truncate(log.stat().st_size - 600)
        own.start()
        done = [Done(held.lease, refilled[0].id)]
        turn = again(lambda: one.turn(done, [], {held.lease: 5}))
        more = turn.refills[held.lease] or []
        assert more
        assert not {each.id for each in more} & {each.id for each in refilled}


def test_without_a_log_everything_is_forgotten_and_the_session_lost(tmp_path: Path) -> None:
    with Valkey(tmp_path / "own") as server, closing(opened(server.frontier())) as one:
        one.turn([], [page("a", 1)], {})
        server.kill()
        server.start()
        with pytest.raises(SessionLostError):
            again(lambda: one.beat({}))
        assert one.open("one", "shared", 5.0)


def test_who_beats_lives_where_the_memory_is_full(own: Valkey) -> None:
    """Links wait until there is room; nothing of a turn happens that cannot happen whole."""
    with closing(opened(own.frontier())) as one:
        one.turn([], [page("a", n) for n in range(3)], {})
        (held,) = one.lease(1, 1).held
        one.server.client.config_set("maxmemory", 1)
        with pytest.raises(UnavailableError, match="maxmemory"):
            one.turn([], [page("b", 1)], {})
        assert one.beat({}).held == 1
        one.server.client.config_set("maxmemory", 0)
        assert one.turn([Done(held.lease, held.visits[0].id)], [page("b", 1)], {}).added == 1


@pytest.mark.parametrize(
    "told",
    [
        "-OOM command not allowed when used memory > 'maxmemory'.",
        "-READONLY You can't write against a read only replica.",
        "-NOREPLICAS Not enough good replicas to write.",
        "-MISCONF Errors writing to the AOF file: No space left on device",
    ],
)
def test_what_redis_6_wraps_in_an_error_of_the_script_passes_as_well(
    valkey: Valkey, monkeypatch: pytest.MonkeyPatch, told: str
) -> None:
    """In its words, as 6.2.5 has said them."""
    with closing(opened(valkey.frontier())) as one:
        wrapped = "Error running script (call to f_51faa80f95afac3bb0edf39e4c62c17572a6460f): "
        wrapped += f"@user_script:374: @user_script: 374: {told}"

        def fails(*_: object) -> None:
            raise redis.exceptions.ResponseError(wrapped)

        with monkeypatch.context() as patch:
            patch.setattr(one.server.client, "evalsha", fails)
            with pytest.raises(UnavailableError, match=f"0: {told[1:8]}"):
                one.beat({})
        assert one.beat({}).members == 1


def test_a_server_that_forgets_keys_is_refused(own: Valkey) -> None:
    client = connecting.connect(own.url())
    client.config_set("maxmemory-policy", "allkeys-lru")
    with pytest.raises(FrontierError, match="allkeys-lru"):
        opened(own.frontier())


def test_the_clocks_of_workers_do_not_matter(
    valkey: Valkey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One is an hour late."""
    address = valkey.frontier()
    with closing(opened(address)) as one, closing(opened(address, "two")) as two:
        one.turn([], [page("a", 1, delay=30.0)], {})
        now = time.time()
        monkeypatch.setattr(time, "time", lambda: now - 3600)
        assert two.lease(1, 1).wait == pytest.approx(30.0, abs=2.0)


def fill(one: RedisFrontier) -> None:
    """Something of every kind."""
    one.turn([], [page("a", n, priority=n % 2) for n in range(6)] + [page("b", 1)], {})
    one.turn([], [page("c", 1, delay=60.0)], {})
    (held,) = one.lease(1, 2).held
    one.beat({held.lease: {"version": 1}})
    one.release(one.lease(1, 1, only="d").held[0].lease, {"version": 1}, asleep=60.0)


def test_a_key_of_a_wrong_type_is_named_set_aside_and_counted(valkey: Valkey) -> None:
    """Whichever: what is left goes on."""
    address = valkey.frontier()
    with closing(opened(address)) as one:
        fill(one)
        client: Any = one.server.client
        keys = sorted(client.keys(f"{one.server.prefix}:*"))
    assert len(keys) >= 18
    for key in keys:
        client = connecting.connect(valkey.url())
        client.delete(*client.keys(f"{one.server.prefix}:*"))
        with closing(opened(address, ttl=2.0)) as victim:
            fill(victim)
            kind = client.type(key)
            client.delete(key)
            if kind == b"list":
                client.set(key, "junk")
            else:
                client.rpush(key, "junk")
            found: list[str] = []
            for number in range(8):
                try:
                    victim.beat({})
                    victim.turn([], [page("e", number), page("a", 99)], {})
                    leased = victim.lease(9, 9)
                    found = found or urls(leased)
                    if key.endswith(b":boot") and not found:
                        time.sleep(0.5)  # as after a restart
                except SessionLostError:
                    victim.open("one", "shared", 2.0)
                except UnavailableError:
                    continue
            assert found != [], key


def test_a_server_that_goes_while_a_key_is_set_aside_is_asked_again(
    valkey: Valkey, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(opened(valkey.frontier())) as one:
        client = one.server.client
        client.set(f"{one.key}:d", "no sorted set")

        def fails(*_: object, **__: object) -> None:
            raise redis.exceptions.ConnectionError("Connection reset by peer")

        with monkeypatch.context() as patch:
            patch.setattr(client, "scan_iter", fails)
            with pytest.raises(UnavailableError, match="reset by peer"):
                one.lease(1, 1)
        assert again(lambda: one.lease(1, 1)).held == []


def test_what_nobody_can_read_does_not_stop_the_rest(valkey: Valkey) -> None:
    """Junk among members and fields, and a visit of two megabytes."""
    with closing(opened(valkey.frontier())) as one:
        fill(one)
        client: Any = one.server.client
        own, all_ = one.key, one.server.prefix
        client.lpush(f"{own}:q:0:b", b"\xff\xfe\n{[\n\n\xff", b"x" * 2_000_000)
        client.zadd(f"{own}:p:a", {"no number": 99})
        client.zadd(f"{own}:d", {"no visit": 0})
        client.zadd(f"{own}:r:shared", {b"\xff\x00host": -1e300})
        client.hset(f"{all_}:l:shared", b"\xff\x00host", "junk")
        client.hset(f"{own}:i", "ready", "many")
        client.zadd(f"{all_}:sessions", {"junk": 0})
        client.set(f"{all_}:t:shared:b", b"0 " + b"[" * 100_000)
        found = urls(again(lambda: one.lease(9, 50)))
        one.beat({})
        assert "http://b/1" in found
        assert any("\\xff" in each for each in found)
        assert one.server.damaged >= 4


def test_export_tells_what_is_not_due_yet_and_what_has_failed(valkey: Valkey) -> None:
    with closing(opened(valkey.frontier())) as one:
        later = Visit("b", "http://b/later", delay=3600.0)
        one.turn([], [page("a", 1), page("a", 2), later], {})
        (held,) = one.lease(1, 1).held
        one.turn([Done(held.lease, held.visits[0].id, Result(503, "HttpError"))], [], {})
        told = {row["url"]: (row["host"], row["status"]) for row in Admin(one).rows()}
        assert told == {
            page("a", 1).url: ("a", 503),
            page("a", 2).url: ("a", None),
            "http://b/later": ("b", None),
        }


def test_a_payload_may_hold_anything(valkey: Valkey) -> None:
    with closing(opened(valkey.frontier())) as one:
        one.turn([], [Visit("a", "http://a/", '{"a":\n"b\\u0000\t"}')], {})
        (held,) = one.lease(1, 1).held
        assert held.visits[0].payload == '{"a":\n"b\\u0000\t"}'


def test_known_links_are_found_again_after_many_buckets(valkey: Valkey) -> None:
    """The set of fingerprints grows bucket by bucket."""
    with closing(opened(valkey.frontier())) as one:
        links = [Visit("a", f"http://a/{n}", fingerprint=b"%d" % n) for n in range(6000)]
        for start in range(0, len(links), 500):
            assert one.turn([], links[start : start + 500], {}).added == 500
        for start in range(0, len(links), 1000):
            assert one.turn([], links[start : start + 1000], {}).added == 0
        client: Any = one.server.client
        buckets = client.keys(f"{one.key}:u:*")
        assert len(buckets) > 30
        assert {client.object("encoding", each) for each in buckets} == {b"intset"}


@pytest.mark.parametrize("is_set", [True, False])
def test_seeds_go_back_to_whatever_stands_in_their_place(own: Valkey, is_set: bool) -> None:
    """REDIS_START_URLS_AS_SET was switched, and the key was made anew."""
    with redis.Redis(port=own.port) as client:
        with closing(opened(own.frontier())) as one:
            (client.rpush if is_set else client.sadd)("seeds", "a")
            assert [data for _, data in one.take_seeds("seeds", 5)] == [b"a"]
            (client.sadd if is_set else client.rpush)("seeds", "b")
        left = client.smembers("seeds") if is_set else client.lrange("seeds", 0, -1)
        assert set(left) == {b"a", b"b"}


def test_what_a_worker_finds_that_begins_while_another_flushes_is_kept(
    valkey: Valkey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seeds of scrapy-redis were lost, as they had left their list."""
    address = valkey.frontier()
    other = made(address, "other")
    other.turn([], [page("a", 1)], {})
    with closing(opened(address)) as before:
        before.turn([], [page("a", 1)], {})
    one, two = made(address), made(address)
    one.flushes = two.flushes = True

    def begin() -> int:
        two.open("two", "shared", 5.0)
        return two.turn([], [page("b", 1)], {}).added

    look, added = one.server.client.scan, 0

    def scan(*given: Any, **named: Any) -> Any:
        nonlocal added
        with suppress(UnavailableError):
            added += begin()
        return look(*given, **named)

    monkeypatch.setattr(one.server.client, "scan", scan)
    assert one.open("one", "shared", 5.0)
    added += begin()
    assert added == 1
    assert urls(two.lease(9, 9)) == ["http://b/1"]
    assert other.counts().ready == 1


def test_what_a_worker_that_dies_leaves_of_a_flush_is_flushed_by_the_next(
    valkey: Valkey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half a frontier is none; what the dead worker says yet changes nothing."""
    address = valkey.frontier()
    with closing(opened(address)) as before:
        before.turn([], [page("a", 1)], {})
    dead = made(address)
    dead.flushes = True
    with monkeypatch.context() as patch:
        patch.setattr(dead, "_flush", lambda: None)
        dead.open("dead", "shared", 0.05)
    time.sleep(0.1)
    with closing(opened(address)) as two:
        assert two.counts().ready == 0
        assert two.turn([], [page("b", 1)], {}).added == 1
        with pytest.raises(SessionLostError):
            dead._flush()
        assert urls(two.lease(9, 9)) == ["http://b/1"]


def test_who_was_cut_off_does_not_come_back_in_the_midst_of_a_flush(valkey: Valkey) -> None:
    """What it holds is forgotten: what it brought was half there, and counts fell below nothing."""
    address = valkey.frontier()
    late = opened(address, "late", 0.05)
    late.turn([], [page("a", n) for n in range(3)], {})
    assert urls(late.lease(1, 1)) != []
    time.sleep(0.1)
    one = made(address)
    one.flushes = True
    assert one.open("one", "shared", 5.0)
    with pytest.raises(SessionLostError):
        late.beat({})
    assert one.counts().ready == one.counts().leased == 0


def test_two_workers_that_end_at_once_leave_nothing_where_nothing_is_to_be_kept(
    valkey: Valkey,
) -> None:
    """The later one forgets all: the next crawl visited only what it had not known."""
    address = valkey.frontier()
    pair = [opened(address, name) for name in ("one", "two")]
    one = pair[0]
    one.turn([], [page("a", 1)], {})
    (held,) = one.lease(1, 1).held
    one.turn([Done(held.lease, held.visits[0].id, Result(status=200))], [], {})
    assert [each._begin("over")[1] for each in pair] == [False, True]
    for each in pair:
        each.close()
    with closing(opened(address)) as later:
        assert later.turn([], [page("a", 1)], {}).added == 1
