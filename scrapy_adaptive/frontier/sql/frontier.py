"""The frontier of one spider in a SQL database.

Laws
----
* Each call is one transaction; a poll finds out in one before it what is ready by now.
* Tables are written in one order (hosts, new visits, visits that were given, queues, leases), and
  rows of each in the order of their keys: two workers do not wait for each other in a circle. Who
  adds a visit that is known waits for whoever has just changed it: so that comes first.
* A poll passes over hosts that another poll is about to take: it waits for none of them.
* Who gives visits out has locked their leases first: nobody frees them in between.
* A turn and a poll lock queues once, all that they need in the order of their keys.
* A queue's score and count are derived anew from its visits whenever they change: they cannot
  drift.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any

from scrapy_adaptive.frontier.protocol import (
    Beat,
    Counts,
    Done,
    Given,
    Held,
    Lease,
    Leased,
    Result,
    SessionLostError,
    State,
    Turn,
    Visit,
)

from . import statements as sql
from .connecting import Database
from .hosts import Hosts
from .links import Links
from .liveness import Liveness
from .schema import LEASE, SESSION, SPIDER, prepare

if TYPE_CHECKING:
    from sqlalchemy import Connection, Row

    from scrapy_adaptive.frontier.poller import Ranking

MOST_PROMOTED = 5_000
"""Visits that one poll finds to be due."""

MOST_REAPED = 500
"""Hosts of the dead that one heartbeat frees."""

LEASES = 1 << 32
"""More than one session takes; their generations are those of no other session."""

OVER = 0
"""Deadline of a session that was ended."""


class SqlFrontier:
    """See `Frontier`.

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
        self.database = Database(address, clock)
        self.ranking = ranking
        self.hosts = Hosts(self.database)
        path = self.database.path
        self._liveness = None if path is None else Liveness(path.absolute())
        self._egress = ""
        self._session = 0
        self._ttl = 0
        self._heard_at = -math.inf
        """When this session has heard the database last, in ms by its clock."""
        self._ends_others_at = math.inf
        self._run = 0
        self._leases: dict[int, Lease] = {}
        """What this session holds, by the host's number."""
        self._numbers = count(1)
        with self.database.transaction() as connection:
            prepare(connection, self.database.address)
            self.spider = self._enter(connection, spider)
        self._links = Links(self.database, self.hosts, self.spider)

    # Sessions

    def open(self, worker: str, egress: str, ttl: float) -> bool:
        self._egress, self._ttl = egress, round(ttl * 1000)
        self._numbers, self._leases = count(1), {}
        with self.database.transaction() as connection:
            now = self.database.now(connection)
            self._end_session(connection, now)
            of_spider = SPIDER.c.id == self.spider
            lock = SPIDER.select().where(of_spider).with_for_update()
            spider = connection.execute(lock).one()
            has_left = {"spider": self.spider, "now": now}
            begins = not connection.execute(sql.IS_LEFT, has_left).scalar_one()
            self._run = spider.run + begins
            connection.execute(SPIDER.update().where(of_spider).values(run=self._run))
            values = {"worker": worker, "egress": egress, "deadline": now + self._ttl}
            made = SESSION.insert().values(spider_id=self.spider, **values)
            session = connection.execute(made.returning(SESSION.c.id)).scalar_one()
        self._heard_at = now
        self._session = session  # where that failed, its number is another's next
        if self._liveness is not None:
            self._liveness.begin(session)
        return begins

    def beat(self, states: Mapping[Lease, State], *, hungry: bool = False) -> Beat:
        with self.database.transaction() as connection:
            now = self._live(connection, hungry=hungry)
            for lease, state in states.items():
                self._save_state(connection, lease, state, now)
            self._reap(connection, now)
            generation = (
                connection.execute(SPIDER.select().where(SPIDER.c.id == self.spider))
                .one()
                .generation
            )
            asked = {"session": self._session, "spider": self.spider, "now": now}
            rows = connection.execute(sql.LEASES, {"session": self._session}).all()
            members, hungry_others = connection.execute(
                sql.HUNGRY, {**asked, "egress": self._egress}
            ).one()
            wanted = {row.host_id for row in rows if row.wanted_at}
            wanted.update(connection.execute(sql.WAITED_FOR, asked).scalars())
            if hungry_others and len(rows) > 1:
                wanted.update(self._surplus(connection, rows, members, now))
        self._heard_at = now  # what failed, or was not written, proves nothing
        held = {row.host_id: row.generation for row in rows}
        leases = [lease for number, lease in self._leases.items() if number in wanted]
        return Beat(int(members), len(held), generation, leases)

    def release(self, lease: Lease, state: State | None, asleep: float = 0.0) -> None:
        with self.database.transaction() as connection:
            now = self.database.now(connection)
            host = self.hosts.number(connection, lease.host)
            if state is not None:
                self._save_state(connection, lease, state, now)
            taken = {"spider": self.spider, "host": host, "generation": lease.generation}
            connection.execute(sql.TAKE_BACK, taken)
            self.touch(connection, [host])
            wake_at = now + round(asleep * 1000) if asleep else 0
            connection.execute(
                LEASE.update()
                .where(LEASE.c.host_id == host, LEASE.c.generation == lease.generation)
                .where(LEASE.c.egress == self._egress, LEASE.c.session_id == self._session)
                .values(session_id=None, wake_at=wake_at, wanted_at=0)
            )
        self._leases.pop(host, None)

    def release_all(self, releases: Sequence[tuple[Lease, State | None, float]]) -> None:
        for each in releases:
            self.release(*each)

    def close(self) -> None:
        if self._session:
            with self.database.transaction() as connection:
                self._end_session(connection, self.database.now(connection))
            self._session = 0
        if self._liveness is not None:
            self._liveness.end()
        self.database.engine.dispose()

    # Visits

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

    def _poll(
        self, hosts: int, visits: int, only: str | None, back: Mapping[Lease, Sequence[int]]
    ) -> Leased:
        with self.database.transaction() as connection:
            ready = set(self._give_back(connection, back))
            if only is None:
                ready.update(self._promote(connection, self.database.now(connection)))
            self.touch(connection, ready)
        with self.database.transaction() as connection:
            now = self._live(connection)
            if only is not None:
                return self._lease_one(connection, only, now)
            chosen = self._choose(connection, hosts, visits, now)
            held = self._take_all(connection, chosen, now)
            self.touch(connection, chosen)
            wait, busy = self._outlook(connection, now)
        return Leased(held, 0.0 if held else wait, busy)

    def turn(self, done: Sequence[Done], new: Sequence[Visit], refill: Mapping[Lease, int]) -> Turn:
        with self.database.transaction() as connection:
            mine = self._locked(connection, refill)
            now = self.database.now(connection)
            added, hosts = self._links.add(connection, new, self._run, now)
            hosts |= self._end(connection, done, now)
            refills = self._refill(connection, refill, mine)
            given = {mine[lease] for lease, visits in refills.items() if visits}
            self.touch(connection, hosts | given)
        return Turn(refills, added, len(new) - added)

    def settle(self, held: Mapping[Lease, Collection[int]]) -> list[Lease]:
        with self.database.transaction() as connection:
            self._live(connection)
            mine = {lease.generation: set(ids) for lease, ids in held.items()}
            rows = connection.execute(sql.LEASES, {"session": self._session}).all()
            strays = [row.host_id for row in rows if row.generation not in mine]
            for row in rows:
                asked = {"spider": self.spider, "host": row.host_id, "generation": row.generation}
                found = set(connection.execute(sql.HELD_IDS, asked).scalars())
                lost = sorted(found - mine.get(row.generation, set()))
                if lost:
                    taken = {"generation": row.generation, "ids": lost}
                    connection.execute(sql.TAKE_BACK_SOME, taken)
            self.touch(connection, [row.host_id for row in rows])
            for host in strays:
                connection.execute(
                    LEASE.update()
                    .where(LEASE.c.host_id == host, LEASE.c.session_id == self._session)
                    .values(session_id=None)
                )
        self._leases = {number: lease for number, lease in self._leases.items() if lease in held}
        mine_yet = {row.generation for row in rows}
        return [lease for lease in held if lease.generation not in mine_yet]

    def counts(self) -> Counts:
        with self.database.transaction() as connection:
            row = connection.execute(sql.COUNTS, {"spider": self.spider}).one()
        return Counts(**{name: int(value) for name, value in row._mapping.items()})

    # The spider

    def save_spider(self, state: str) -> None:
        with self.database.transaction() as connection:
            mine = SPIDER.c.id == self.spider
            connection.execute(SPIDER.update().where(mine).values(state=state))

    def load_spider(self) -> str | None:
        with self.database.transaction() as connection:
            mine = SPIDER.select().where(SPIDER.c.id == self.spider)
            state: str | None = connection.execute(mine).one().state
        return state

    def _enter(self, connection: Connection, name: str) -> int:
        found = SPIDER.select().where(SPIDER.c.name == name)
        row = connection.execute(found).first()
        if row is None:
            connection.execute(SPIDER.insert().values(name=name))
            row = connection.execute(found).one()
        return int(row.id)

    # Inside: sessions and leases

    def _live(self, connection: Connection, *, hungry: bool | None = None) -> int:
        """This session lives on, or was ended; returns the instant."""
        now = self.database.now(connection)
        values = {"deadline": now + self._ttl} if hungry is not None else {}
        mine = SESSION.c.id == self._session
        lives = SESSION.update().where(mine, SESSION.c.deadline > OVER)
        lives = lives.values(hungry=int(bool(hungry)) if hungry is not None else SESSION.c.hungry)
        if not connection.execute(lives.values(**values) if values else lives).rowcount:
            raise SessionLostError
        return now

    def _end_session(self, connection: Connection, now: int) -> None:
        """What this session held is free, and what the dead held."""
        mine = SESSION.c.id == self._session
        connection.execute(SESSION.update().where(mine).values(deadline=OVER))
        while self._reap(connection, now):
            pass

    def _save_state(self, connection: Connection, lease: Lease, state: State, now: int) -> None:
        host = self.hosts.number(connection, lease.host)
        connection.execute(
            LEASE.update()
            .where(LEASE.c.host_id == host, LEASE.c.egress == self._egress)
            .where(LEASE.c.generation == lease.generation, LEASE.c.session_id == self._session)
            .values(state=json.dumps(state), state_at=now)
        )

    def _reap(self, connection: Connection, now: int) -> int:
        """Free the hosts of who has died; returns how many there were."""
        self._end_dead(connection, now)
        dead = sql.DEAD if self.database.is_sqlite else sql.DEAD_POSTGRESQL
        rows = connection.execute(dead, {"over": OVER, "most": MOST_REAPED}).all()
        for row in rows:
            taken = {"host": row.host_id, "generation": row.generation}
            if row.spider_id is not None:
                connection.execute(sql.TAKE_BACK, {**taken, "spider": row.spider_id})
        for spider in sorted({row.spider_id for row in rows if row.spider_id is not None}):
            self.touch(connection, [r.host_id for r in rows if r.spider_id == spider], spider)
        for row in rows:
            connection.execute(
                LEASE.update()
                .where(LEASE.c.host_id == row.host_id, LEASE.c.egress == row.egress)
                .where(LEASE.c.session_id == row.session_id)
                .values(session_id=None, wanted_at=0)
            )
        is_named = LEASE.select().where(LEASE.c.session_id == SESSION.c.id).exists()
        connection.execute(SESSION.delete().where(SESSION.c.deadline == OVER, ~is_named))
        return len(rows)

    def _end_dead(self, connection: Connection, now: int) -> None:
        """End the sessions of who has died.

        Who was cut off for a while knows nothing of others, which may have been so as well, and may
        not have said yet that a site refuses them; it waits for as long as a session lasts. To it a
        clock that was set is the same.
        """
        live = SESSION.c.deadline > OVER
        dead: list[int] = []
        if self._liveness is not None:
            ids = connection.execute(SESSION.select().where(live)).scalars()
            dead = [each for each in ids if self._liveness.is_dead(each)]
        if not 0 <= now - self._heard_at <= self._ttl / 2:
            self._ends_others_at = now + self._ttl
        if now >= self._ends_others_at:
            silent = SESSION.select().where(live, SESSION.c.deadline < now)
            dead += connection.execute(silent.with_for_update(skip_locked=True)).scalars()
        if dead:
            connection.execute(SESSION.update().where(SESSION.c.id.in_(dead)).values(deadline=OVER))

    def _surplus(
        self, connection: Connection, rows: Sequence[Row[Any]], members: int, now: int
    ) -> list[int]:
        """Hosts that this session holds beyond its share, while others have none to visit."""
        asked = {"spider": self.spider, "egress": self._egress, "now": now}
        total = connection.execute(sql.HELD_BY_ALL, asked).scalar_one()
        fair = math.ceil(total / members)
        return [row.host_id for row in rows][fair:]

    def _claim(self, connection: Connection, host: int, now: int) -> Row[Any] | Lease | None:
        """The lease of this host: the one that is held, or a new one's row; None if another's."""
        if host in self._leases:
            return self._leases[host]
        generation = self._session * LEASES + next(self._numbers)
        asked = {"host": host, "egress": self._egress, "session": self._session, "now": now}
        row = connection.execute(sql.CLAIM, {**asked, "generation": generation}).first()
        if row is not None:
            self._leases[host] = Lease(self.hosts.name(connection, host), generation)
        return row

    # Inside: visits

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

    def _is_alive(self, connection: Connection) -> bool:
        alive = SESSION.select().where(SESSION.c.id == self._session, SESSION.c.deadline > OVER)
        return connection.execute(alive).first() is not None

    def _locked(self, connection: Connection, leases: Iterable[Lease]) -> dict[Lease, int]:
        """Those of these leases that this session has, with their hosts, until the end of this
        transaction; SQLite lets nobody else write in between."""
        wanted = set(leases)
        mine = {lease: number for number, lease in self._leases.items() if lease in wanted}
        if self.database.is_sqlite or not mine:
            return mine
        held = self._lock(connection, mine.values())
        return {lease: number for lease, number in mine.items() if number in held}

    def _lock(self, connection: Connection, hosts: Iterable[int]) -> set[int]:
        """Lock the leases of these hosts; returns those that this session has."""
        wanted = sorted(hosts)
        if not wanted:
            return set()
        asked = {"hosts": wanted, "egress": self._egress, "session": self._session}
        return set(connection.execute(sql.LOCK_LEASES, asked).scalars())

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

    def _outlook(self, connection: Connection, now: int) -> tuple[float, int]:
        """Seconds until anything is due, and visits that are given out."""
        asked = {"spider": self.spider, "egress": self._egress, "now": now}
        left = connection.execute(sql.OUTLOOK, asked).one()
        wait = math.inf if left.due is None else max(0, left.due - now) / 1000
        return 0.0 if left.is_due else wait, int(left.busy)

    def touch(
        self, connection: Connection, hosts: Iterable[int], spider: int | None = None
    ) -> None:
        """Derive anew what stands in the queues of these hosts."""
        found = sorted(set(hosts))
        if not found:
            return
        asked = {"spider": spider or self.spider, "hosts": found}
        if not self.database.is_sqlite:
            connection.execute(sql.LOCK_QUEUES, asked)
        connection.execute(sql.TOUCH, {**asked, "discount": self.ranking.discount})


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
    return Given(row.id, row.url, row.payload, row.priority, last, row.fingerprint)
