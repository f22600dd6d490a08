"""The frontier of one spider in a SQL database: its visits, and who is given which.

Laws
----
* Each call is one transaction; a poll finds out in one before it what is ready by now.
* Tables are written in one order (hosts, new visits, visits that were given, queues, leases), and
  rows of each in the order of their keys: two workers do not wait for each other in a circle. Who
  adds a visit that is known waits for whoever has just changed it: so that comes first.
* A poll passes over hosts that another poll is about to take: it waits for none of them.
* Who gives visits out has locked their leases first: nobody frees them in between.
* A turn and a poll lock queues once, all that they need in the order of their keys.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from scrapy_adaptive.frontier.protocol import (
    Counts,
    Done,
    Given,
    Held,
    Lease,
    Leased,
    Result,
    Turn,
    Visit,
)

from . import statements as sql
from .links import Links
from .schema import SPIDER
from .sessions import LEASES, Sessions

if TYPE_CHECKING:
    from sqlalchemy import Connection, Row

    from scrapy_adaptive.frontier.poller import Ranking

MOST_PROMOTED = 5_000
"""Visits that one poll finds to be due."""


class SqlFrontier(Sessions):
    """See `Frontier`; what it is made of stands in `Sessions`.

    Args:
        address: of the database.
        spider: whose visits these are.
        ranking: what comes first.
        clock: seconds since the epoch; None for the database's own.

    Raises:
        FrontierError: the address, or what is there, cannot be used.
        UnavailableError: the database does not answer.
    """

    damaged = 0
    turn_each = 0.25
    most_bytes = math.inf

    def __init__(
        self,
        address: str,
        spider: str,
        ranking: Ranking,
        clock: Callable[[], float] | None = None,
    ) -> None:
        super().__init__(address, spider, ranking.discount, clock)
        self.ranking = ranking
        self._links = Links(self.database, self.hosts, self.queues, self.spider)

    def lease(
        self,
        hosts: int,
        visits: int,
        *,
        only: str | None = None,
        back: Mapping[Lease, Sequence[int]] | None = None,
    ) -> Leased:
        before = dict(self._leases)
        try:
            return self._poll(hosts, visits, only, back or {})
        except BaseException:
            self._leases = before
            raise

    def turn(self, done: Sequence[Done], new: Sequence[Visit], refill: Mapping[Lease, int]) -> Turn:
        with self.database.transaction() as connection:
            mine = self._locked(connection, refill)
            now = self.database.now(connection)
            added, hosts = self._links.add(connection, new, self._run, now)
            hosts |= self._end(connection, done, now)
            refills = self._refill(connection, refill, mine)
            given = {mine[lease] for lease, visits in refills.items() if visits}
            self.queues.touch(connection, hosts | given)
        return Turn(refills, added, len(new) - added)

    def counts(self) -> Counts:
        with self.database.transaction() as connection:
            row = connection.execute(sql.COUNTS, {"spider": self.spider}).one()
        return Counts(**{name: int(value) for name, value in row._mapping.items()})

    def save_spider(self, state: str) -> None:
        with self.database.transaction() as connection:
            mine = SPIDER.c.id == self.spider
            connection.execute(SPIDER.update().where(mine).values(state=state))

    def load_spider(self) -> str | None:
        with self.database.transaction() as connection:
            mine = SPIDER.select().where(SPIDER.c.id == self.spider)
            state: str | None = connection.execute(mine).one().state
        return state

    # Inside: a poll

    def _poll(
        self, hosts: int, visits: int, only: str | None, back: Mapping[Lease, Sequence[int]]
    ) -> Leased:
        with self.database.transaction() as connection:
            ready = set(self._give_back(connection, back))
            if only is None:
                ready.update(self._promote(connection, self.database.now(connection)))
            self.queues.touch(connection, ready)
        with self.database.transaction() as connection:
            now = self._live(connection)
            if only is not None:
                return self._lease_one(connection, only, now)
            shares = self._shares(connection, now)
            if shares.others_hungry and len(self._leases) >= max(1, shares.fair):
                hosts = 0  # what was given back for others is theirs: they ask less often
            chosen = self._choose(connection, hosts, visits, now)
            held = self._take_all(connection, chosen, now)
            self.queues.touch(connection, chosen)
            wait, busy = self._outlook(connection, now)
        return Leased(held, 0.0 if held else wait, busy)

    def _give_back(
        self, connection: Connection, back: Mapping[Lease, Sequence[int]]
    ) -> Iterable[int]:
        """These visits were not sent; returns the hosts."""
        ids = sorted(each for given in back.values() for each in given)
        if not ids:
            return ()
        first = self._session * LEASES
        asked = {"ids": ids, "first": first, "last": first + LEASES - 1}
        return connection.execute(sql.TAKE_BACK_ALL, asked).scalars()

    def _promote(self, connection: Connection, now: int) -> Iterable[int]:
        """What is due by now is ready; returns the hosts."""
        promote = sql.PROMOTE_SQLITE if self.database.is_sqlite else sql.PROMOTE_POSTGRESQL
        asked = {"spider": self.spider, "now": now, "most": MOST_PROMOTED}
        return connection.execute(promote, asked).scalars()

    def _choose(
        self, connection: Connection, hosts: int, visits: int, now: int
    ) -> dict[int, list[int]]:
        """The visits that come first, by host."""
        ranking = self.ranking
        aged = visits // ranking.age_share if ranking.age_share else 0
        asked = {
            "spider": self.spider,
            "session": self._session,
            "egress": self._egress,
            "now": now,
            "hosts": hosts,
        }
        rank = sql.RANK_SQLITE if self.database.is_sqlite else sql.RANK_POSTGRESQL
        bounds = {"per_host": ranking.per_host, "discount": ranking.discount, "most": visits}
        bounds["lowest"] = -math.inf
        rows = connection.execute(rank, {**asked, **bounds}).all()
        oldest: Sequence[Row[Any]] = ()
        if aged and len(rows) == visits:
            age = sql.OLDEST_SQLITE if self.database.is_sqlite else sql.OLDEST_POSTGRESQL
            oldest = connection.execute(age, {**asked, "most": aged}).all()
        chosen: dict[int, list[int]] = {}
        seen: set[int] = set()
        for row in (*oldest, *rows):
            is_known = row.host_id in chosen or row.host_id in self._leases
            if len(seen) == visits or row.id in seen or not (is_known or hosts > 0):
                continue
            hosts -= not is_known
            seen.add(row.id)
            chosen.setdefault(row.host_id, []).append(row.id)
        return chosen

    def _lease_one(self, connection: Connection, name: str, now: int) -> Leased:
        host = self.hosts.number(connection, name)
        held = self._take(connection, host, now)
        if held is None:
            asked = {"host": host, "egress": self._egress, "session": self._session}
            connection.execute(sql.WANT, {**asked, "now": now})
        return Leased([] if held is None else [held], 0.0)

    def _take(self, connection: Connection, host: int, now: int) -> Held | None:
        found = self._claim(connection, host, now)
        if found is None:
            return None
        lease = self._leases[host]
        if isinstance(found, Lease):
            return Held(lease, [], is_new=False)
        state = None if found.state is None else json.loads(found.state)
        age = 0.0 if found.state_at is None else max(0, now - found.state_at) / 1000
        return Held(lease, [], state, age)

    def _take_all(
        self, connection: Connection, chosen: Mapping[int, Sequence[int]], now: int
    ) -> list[Held]:
        """Lease these hosts, and hold these visits of theirs; but for what another has leased."""
        held = {
            host: each
            for host in sorted(chosen)
            if (each := self._take(connection, host, now)) is not None
        }
        if not self.database.is_sqlite:
            mine = self._lock(connection, held)
            held = {host: each for host, each in held.items() if host in mine}
        ids = [each for host in held for each in chosen[host]]
        if ids:
            asked = {"egress": self._egress, "ids": ids}
            rows = {row.id: row for row in connection.execute(sql.GIVE_ALL, asked)}
            for number in ids:
                if number in rows:
                    held[rows[number].host_id].visits.append(_given(rows[number]))
        return list(held.values())

    def _outlook(self, connection: Connection, now: int) -> tuple[float, int]:
        """Seconds until anything is due, and visits that are given out."""
        asked = {"spider": self.spider, "egress": self._egress, "now": now}
        left = connection.execute(sql.OUTLOOK, asked).one()
        wait = math.inf if left.due is None else max(0, left.due - now) / 1000
        return 0.0 if left.is_due else wait, int(left.busy)

    # Inside: a turn

    def _end(self, connection: Connection, done: Sequence[Done], now: int) -> set[int]:
        """Write down what is done; returns the hosts."""
        rows = {True: [], False: []}  # type: dict[bool, list[dict[str, Any]]]
        for each in sorted(done, key=lambda each: each.id):
            rows[each.result.is_new].append(
                {
                    **{name: _storable(name, getattr(each.result, name)) for name in _RESULT},
                    "id": each.id,
                    "generation": each.lease.generation,
                    "due": None if each.again_in is None else now + round(each.again_in * 1000),
                    "run": self._run,
                    "now": now,
                }
            )
        for is_new, statement in ((True, sql.DONE), (False, sql.DONE_UNCHANGED)):
            if rows[is_new]:
                connection.execute(statement, rows[is_new])
        return {self.hosts.number(connection, each.lease.host) for each in done}

    def _refill(
        self,
        connection: Connection,
        refill: Mapping[Lease, int],
        mine: Mapping[Lease, int],
    ) -> dict[Lease, list[Given] | None]:
        """More visits of hosts that are held; None for those that are not."""
        is_alive = bool(refill) and self._is_alive(connection)
        refills: dict[Lease, list[Given] | None] = {
            lease: [] if is_alive and lease in mine else None for lease in refill
        }
        held = {lease for lease, given in refills.items() if given is not None}
        statement = sql.REFILL_SQLITE if self.database.is_sqlite else sql.REFILL_POSTGRESQL
        for most in sorted({refill[lease] for lease in held}):
            hosts = sorted(mine[lease] for lease in held if refill[lease] == most)
            asked = {"spider": self.spider, "hosts": hosts, "most": most}
            ids = list(connection.execute(statement, asked).scalars())
            if not ids:
                continue
            given = {"egress": self._egress, "ids": ids}
            for row in connection.execute(sql.GIVE_ALL, given).all():
                found = refills[self._leases[row.host_id]]
                if found is not None:
                    found.append(_given(row))
        for given_out in refills.values():
            if given_out is not None:
                given_out.sort(key=lambda each: (-each.priority, each.id))
        return refills


_RESULT = (
    "status",
    "error",
    "etag",
    "last_modified",
    "digest",
    "item_count",
    "period",
)


MOST_STATUS = 32_767
"""What the column of a status holds; none that means anything is larger."""


def _storable(name: str, value: Any) -> Any:
    """A field of a result as both databases take it, whatever a site has sent."""
    if name == "status" and value is not None and not 0 <= value <= MOST_STATUS:
        return None
    if isinstance(value, str):
        return value.replace("\0", "").encode("utf-8", "replace").decode("utf-8")
    return value


def _given(row: Row[Any]) -> Given:
    last = Result(**{name: getattr(row, name) for name in _RESULT})
    return Given(row.id, row.url, row.payload, row.priority, last)
