"""The frontier of one spider on Redis or Valkey.

Laws
----
* Each call is one script, which the server runs whole or not at all; only to end a session and to
  flush may take several. Nobody begins while another flushes.
* What a host's visits are is known here by the generation of its lease, under the host's name as
  Redis has it.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy_adaptive.frontier.protocol import (
    Again,
    Beat,
    Counts,
    Done,
    Given,
    Held,
    Lease,
    Leased,
    Result,
    State,
    Turn,
    Visit,
)

from .connecting import Server
from .records import number_of, priority_of, read, record

if TYPE_CHECKING:
    from scrapy_adaptive.frontier.poller import Ranking

logger = logging.getLogger("scrapy_adaptive")

KEPT = 7 * 86_400.0
"""Seconds for which what was learned of a host is kept."""

MOST_STATE = 1_000_000
"""Bytes of what was learned of a host: what is longer is nobody's doing."""

SCANNED = 1000
"""Keys that are looked at, and that are forgotten, in one step of a flush."""

COUNTS = ("ready", "asleep", "leased", "finished", "failed")


class Taken(NamedTuple):
    """A visit that this session has."""

    given: Given
    number: str
    priority: str


class RedisFrontier:
    """See `Frontier`.

    Args:
        client: of redis-py.
        spider: whose visits these are.
        ranking: what comes first.
        name: of the frontier on its server.
        clock: seconds since the epoch; None for the server's own.

    Raises:
        FrontierError: the server cannot be used.
        UnavailableError: it does not answer.
    """

    turn_each = 1.25
    most_bytes = 900_000.0  # what a visit leaves is kept with it: see MOST_RECORD of the scripts

    def __init__(
        self,
        client: Any,
        spider: str,
        ranking: Ranking,
        *,
        name: str = "adaptive",
        clock: Callable[[], float] | None = None,
    ) -> None:
        self.server = Server(client, name, clock)
        self.ranking = ranking
        self._worker = self._egress = ""
        self._session = 0
        self._ttl = 0
        self._run = 0
        self.flushes = False
        """Whether all visits are forgotten when this crawl begins, and nobody else crawls."""
        self.persists = True
        """Whether what is known stays when the crawl is finished."""
        self._written: list[int] = []
        """Seeds that are written down with the next turn."""
        self._hosts: dict[int, bytes] = {}
        """The hosts that this session holds, by generation."""
        self._held: dict[int, dict[int, Taken]] = {}
        self._life = self._settled_in = b""
        """Run ids of the server: the last one, and the one in which all that is held was known."""
        with self.server.errors():
            self.spider = self._enter(client, spider)
        self.key = f"{self.server.prefix}:{self.spider}"

    def _enter(self, client: Any, name: str) -> int:
        prefix = self.server.prefix
        found = client.hget(f"{prefix}:spiders", name)
        if found is None:
            number = client.hincrby(f"{prefix}:count", "spider", 1)
            client.hsetnx(f"{prefix}:spiders", name, str(number))
            found = client.hget(f"{prefix}:spiders", name)
        return int(found)

    @property
    def damaged(self) -> int:
        """Entries that were set aside."""
        return self.server.damaged

    # Sessions

    def open(self, worker: str, egress: str, ttl: float) -> bool:
        self._worker, self._egress, self._ttl = worker, egress, round(ttl * 1000)
        begins, is_flushed = self._begin("idle" if self.flushes else "")
        if self.flushes and not is_flushed:
            logger.warning("SCHEDULER_FLUSH_ON_START: nothing is flushed, another worker crawls")
        self.flushes = False
        return begins

    def _begin(self, flush: str) -> tuple[bool, bool]:
        """End the session, begin another, and flush if that is asked for and may be; returns
        whether a new run begins, and whether all visits were forgotten."""
        self._hosts, self._held = {}, {}
        session = b""
        while not session:
            asked = (self._session or "", self._worker, self._egress, self.spider, self._ttl, flush)
            session, begins, run, self._life, flushes = self.server.call("open", *asked)
        self._session, self._run = int(session), int(run)
        self._settled_in = self._life
        self._written = []
        if flushes:
            self._flush()
        return bool(begins), bool(flushes)

    def beat(self, states: Mapping[Lease, State], *, hungry: bool = False) -> Beat:
        saved: list[Any] = []
        for lease, state in states.items():
            if lease.generation in self._hosts:
                text = json.dumps(state, separators=(",", ":"))
                saved += (self._hosts[lease.generation], lease.generation, text)
        members, held, generation, wanted, damage, self._life = self.server.call(
            "beat", *self._me, self._ttl, int(hungry), round(KEPT * 1000), *saved
        )
        self.server.tell(damage)
        asked = [self._lease(int(each)) for each in wanted]
        return Beat(members, held, generation, asked, self._life != self._settled_in)

    def release(self, lease: Lease, state: State | None, asleep: float = 0.0) -> None:
        self.release_all([(lease, state, asleep)])

    def release_all(self, releases: Sequence[tuple[Lease, State | None, float]]) -> None:
        calls = []
        for lease, state, asleep in releases:
            host = self._hosts.get(lease.generation)
            if host is not None:
                text = "" if state is None else json.dumps(state, separators=(",", ":"))
                asked = (host, lease.generation, text, round(asleep * 1000), round(KEPT * 1000))
                calls.append((*self._me, *asked))
        self.server.call_all("release", calls)
        for lease, _, _ in releases:
            self._hosts.pop(lease.generation, None)
            self._held.pop(lease.generation, None)

    def close(self) -> None:
        if self._session:
            if not self.persists:
                self._begin("over")
            while not self.server.call("end", self._session):
                pass
            self._session = 0
        self.server.client.close()

    @property
    def _me(self) -> tuple[Any, ...]:
        return self._session, self.spider, self._egress

    # Visits

    def lease(
        self,
        hosts: int,
        visits: int,
        *,
        only: str | None = None,
        back: Mapping[Lease, Sequence[int]] | None = None,
    ) -> Leased:
        returned: list[Any] = []
        for lease, ids in (back or {}).items():
            host = self._hosts.get(lease.generation, b"")
            returned += (each for number in ids for each in (host, lease.generation, number))
        ranking = self.ranking
        wait, busy, damage, *found = self.server.call(
            "lease",
            *self._me,
            self._ttl,
            hosts,
            visits,
            "" if only is None else only,
            repr(ranking.discount),
            ranking.per_host,
            ranking.age_share,
            *returned,
        )
        self.server.tell(damage)
        for lease, ids in (back or {}).items():
            for number in ids:
                self._held.get(lease.generation, {}).pop(number, None)
        held = [self._taken(*each) for each in found if each is not None]
        return Leased(held, math.inf if wait < 0 else wait / 1000, busy)

    def turn(self, done: Sequence[Done], new: Sequence[Visit], refill: Mapping[Lease, int]) -> Turn:
        ends = [each for one in done for each in self._end(one)]
        refills: list[Any] = []
        for lease, most in refill.items():
            refills += (self._hosts.get(lease.generation, b""), lease.generation, most)
        groups, links = _links(new)
        added, damage, *found = self.server.call(
            "turn",
            *self._me,
            self._ttl,
            self._run or self._last_run(),
            len(done),
            *ends,
            groups,
            *links,
            len(refill),
            *refills,
            *self._written,
        )
        self._written = []
        self.server.tell(damage)
        for one in done:
            self._held.get(one.lease.generation, {}).pop(one.id, None)
        given: dict[Lease, list[Given] | None] = {}
        for lease, (generation, *visits) in zip(refill, found, strict=True):
            lost = visits[:1] == [None]
            given[lease] = None if lost else self._given(int(generation), visits)
            if lost:
                self._hosts.pop(lease.generation, None)
                self._held.pop(lease.generation, None)
        return Turn(given, added, len(new) - added)

    def settle(self, held: Mapping[Lease, Collection[int]]) -> list[Lease]:
        known: list[Any] = []
        for lease, ids in held.items():
            known += (lease.generation, len(ids), *ids)
        found = set(map(int, self.server.call("settle", *self._me, *known)))
        self._settled_in = self._life
        lost = [lease for lease in held if lease.generation not in found]
        held = {lease: ids for lease, ids in held.items() if lease not in lost}
        kept = {lease.generation: set(ids) for lease, ids in held.items()}
        self._hosts = {number: host for number, host in self._hosts.items() if number in kept}
        self._held = {
            number: {each: one for each, one in visits.items() if each in kept[number]}
            for number, visits in self._held.items()
            if number in kept
        }
        return lost

    def counts(self) -> Counts:
        with self.server.errors():
            found = self.server.client.hmget(f"{self.key}:i", COUNTS)
            hosts = self.server.client.pfcount(f"{self.key}:x")
        values = {name: int(value or 0) for name, value in zip(COUNTS, found, strict=True)}
        return Counts(**values, hosts=int(hosts))

    def _flush(self) -> None:
        """Forget every visit of this spider, and say now and then that this session lives."""
        client, prefix = self.server.client, self.server.prefix.encode()
        mine = (self._session, self.spider, self._ttl)
        kept = tuple(f"{self.key}:{each}".encode() for each in ("i", "e", "m:"))
        keys: list[bytes] = []
        with self.server.errors():
            for egress in client.smembers(f"{self.key}:e"):
                for lease in client.hvals(b"%s:l:%s" % (prefix, egress)):
                    _, generation, spider = lease.split()
                    if int(spider) == self.spider:
                        keys.append(b"%s:o:%s" % (prefix, generation))
        cursor: int | None = None
        while cursor != 0:
            with self.server.errors():
                cursor, found = client.scan(cursor or 0, match=f"{self.key}:*", count=SCANNED)
            keys += [key for key in found if not key.startswith(kept[2]) and key not in kept]
            for start in range(0, len(keys) or 1, SCANNED):
                self.server.call("flush", *mine, *(keys[start : start + SCANNED] or kept[2:]))
            keys = []
        self.server.call("flush", *mine)

    # Seeds

    def take_seeds(self, key: str, most: int) -> list[tuple[int, bytes]]:
        """Up to so many seeds of a list, a set or a sorted set, with their numbers.

        They are this session's until `seeds_written` and a turn after it.
        """
        damage, *found = self.server.call("seeds", self._session, most, key=key)
        self.server.tell(damage)
        return [(int(number), data) for number, data in zip(found[::2], found[1::2], strict=True)]

    def seeds_written(self, numbers: Sequence[int]) -> None:
        """What became of these seeds is in the next turn."""
        self._written += numbers

    # The spider

    def save_spider(self, state: str) -> None:
        with self.server.errors():
            self.server.client.hset(f"{self.key}:i", "state", state)

    def load_spider(self) -> str | None:
        with self.server.errors():
            found = self.server.client.hget(f"{self.key}:i", "state")
        return None if found is None else found.decode("utf-8", "replace")

    # Others

    def sessions(self) -> list[int]:
        """Sessions of this spider that live."""
        client, prefix = self.server.client, self.server.prefix
        with self.server.errors():
            live = {
                int(each)
                for each in client.zrangebyscore(f"{prefix}:sessions", self.server.now(), "inf")
            }
            mine: set[int] = set()
            for egress in client.smembers(f"{self.key}:e"):
                mine.update(map(int, client.smembers(f"{self.key}:m:{egress.decode()}")))
        return sorted(live & mine)

    def length(self, key: str) -> int:
        """How much a list, a set or a sorted set holds; 0 for anything else."""
        client = self.server.client
        counts = {b"list": client.llen, b"set": client.scard, b"zset": client.zcard}
        with self.server.errors():
            count = counts.get(client.type(key))
            return 0 if count is None else int(count(key))

    # Inside

    def _last_run(self) -> int:
        return int(self.server.client.hget(f"{self.key}:i", "run") or 0)

    def _lease(self, generation: int) -> Lease:
        host = self._hosts.get(generation, b"")
        return Lease(host.decode("utf-8", "backslashreplace"), generation)

    def _taken(
        self,
        host: bytes,
        generation: bytes,
        is_new: int,
        state: bytes | None,
        age: int,
        *visits: Any,
    ) -> Held:
        number = int(generation)
        self._hosts[number] = host
        given = self._given(number, visits)
        known = None if state is None else self._state(host, state)
        return Held(self._lease(number), given, known, age / 1000, bool(is_new))

    def _state(self, host: bytes, text: bytes) -> State | None:
        """What was learned of a host; None where nobody can read it."""
        try:
            if len(text) > MOST_STATE:
                raise ValueError(f"it has {len(text)} bytes")
            found = json.loads(text)
            if isinstance(found, dict):
                return found
            raise ValueError("it is no table")
        except (ValueError, RecursionError) as error:
            self.server.tell([b"what was learned of %s: %s" % (host, str(error)[:100].encode())])
            return None

    def _given(self, generation: int, flat: Sequence[Any]) -> list[Given]:
        held = self._held.setdefault(generation, {})
        given = []
        for number, priority, found in zip(flat[::3], flat[1::3], flat[2::3], strict=True):
            url, payload, last, fingerprint = read(found)
            one = Given(int(number), url, payload, _number(priority), last)
            held[one.id] = Taken(one, fingerprint, priority.decode())
            given.append(one)
        return given

    def _end(self, done: Done) -> tuple[Any, ...]:
        """What the script is told of a visit that is done."""
        generation, host = done.lease.generation, self._hosts.get(done.lease.generation, b"")
        held = self._held.get(generation, {}).get(done.id)
        result = done.result
        if held is None:
            return generation, done.id, "f", b"", "", host, "0"
        how, kept = "f", b""
        if done.again_in is not None or result.error is not None:
            how = "e" if done.again_in is None else str(round(done.again_in * 1000))
            last = _joined(held.given.last, result)
            kept = record(held.given.url, held.given.payload, last, held.number)
        gave = held.number if result.item_count else ""
        return generation, done.id, how, kept, gave, host, held.priority


def _number(priority: bytes) -> float:
    try:
        return float(priority)
    except ValueError:
        return 0.0


def _joined(last: Result, result: Result) -> Result:
    """What is known of a page now."""
    if result.is_new:
        return result
    return replace(last, status=result.status, error=result.error, period=result.period)


def _links(new: Sequence[Visit]) -> tuple[int, list[Any]]:
    """Links as the script takes them: by host, priority and delay."""
    groups: dict[tuple[str, str, int], list[Any]] = {}
    for visit in new:
        key = (visit.host, priority_of(visit.priority), max(0, round(visit.delay * 1000)))
        number = "" if visit.fingerprint is None else number_of(visit.fingerprint)
        kept = number if visit.again is Again.UNLESS_IT_GAVE else ""
        link = number and f"{visit.again.value}{number}"
        one = b"%s %s" % (link.encode(), record(visit.url, visit.payload, number=kept))
        groups.setdefault(key, []).append(one)
    found: list[Any] = []
    for key, links in groups.items():
        host, priority, delay = key
        found += (f"{host} {priority} {delay} {len(links)}", *links)
    return len(groups), found
