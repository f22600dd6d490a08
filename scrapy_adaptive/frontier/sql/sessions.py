"""The sessions of one worker in a SQL database, and the hosts that it holds.

Laws
----
* A session that was ended never lives again; no lease has the generation of another.
* Who frees a host takes back its visits first, and derives its queue anew: whoever leases it next
  finds all of them.
* Only who has heard the database for a while ends those who are silent.
* That the database was heard, and that a session has begun, holds once it is written down there.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy_adaptive.frontier.protocol import Beat, Lease, SessionLostError, State

from . import statements as sql
from .connecting import Database
from .hosts import Hosts
from .liveness import Liveness
from .queues import Queues
from .schema import LEASE, SESSION, SPIDER, prepare

if TYPE_CHECKING:
    from sqlalchemy import Connection, Row

MOST_REAPED = 500
"""Hosts of the dead that one heartbeat frees."""

LEASES = 1 << 32
"""More than one session takes; their generations are those of no other session."""

OVER = 0
"""Deadline of a session that was ended."""


class Shares(NamedTuple):
    """How the hosts that are held are shared out."""

    members: int
    """Sessions that live."""
    fair: int
    """Hosts that each of them would have, rounded up."""
    others_hungry: bool
    """Whether another one that holds fewer wants more."""


class Sessions:
    """A worker's sessions, one after the other, and the leases of the last; see `Frontier`.

    Args:
        address: of the database.
        spider: whose visits the hosts are held for.
        discount: see `Ranking`.
        clock: seconds since the epoch; None for the database's own.

    Raises:
        FrontierError: the address, or what is there, cannot be used.
        UnavailableError: the database does not answer.
    """

    def __init__(
        self,
        address: str,
        spider: str,
        discount: float,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self.database = Database(address, clock)
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
        self.queues = Queues(self.database, self.spider, discount)

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
            spider = connection.execute(SPIDER.select().where(SPIDER.c.id == self.spider)).one()
            asked = {"session": self._session, "spider": self.spider, "now": now}
            rows = connection.execute(sql.LEASES, {"session": self._session}).all()
            shares = self._shares(connection, now)
            wanted = {row.host_id for row in rows if row.wanted_at}
            wanted.update(connection.execute(sql.WAITED_FOR, asked).scalars())
            if shares.others_hungry and len(rows) > 1:
                wanted.update(row.host_id for row in rows[shares.fair :])
        self._heard_at = now  # what failed, or was not written, proves nothing
        leases = [lease for number, lease in self._leases.items() if number in wanted]
        return Beat(shares.members, len(rows), spider.generation, leases)

    def release(self, lease: Lease, state: State | None, asleep: float = 0.0) -> None:
        with self.database.transaction() as connection:
            now = self.database.now(connection)
            host = self.hosts.number(connection, lease.host)
            if state is not None:
                self._save_state(connection, lease, state, now)
            taken = {"spider": self.spider, "host": host, "generation": lease.generation}
            connection.execute(sql.TAKE_BACK, taken)
            self.queues.touch(connection, [host])
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
            self.queues.touch(connection, [row.host_id for row in rows])
            for host in strays:
                connection.execute(
                    LEASE.update()
                    .where(LEASE.c.host_id == host, LEASE.c.session_id == self._session)
                    .values(session_id=None)
                )
        self._leases = {number: lease for number, lease in self._leases.items() if lease in held}
        mine_yet = {row.generation for row in rows}
        return [lease for lease in held if lease.generation not in mine_yet]

    def close(self) -> None:
        if self._session:
            with self.database.transaction() as connection:
                self._end_session(connection, self.database.now(connection))
            self._session = 0
        if self._liveness is not None:
            self._liveness.end()
        self.database.engine.dispose()

    # Inside: sessions

    def _enter(self, connection: Connection, name: str) -> int:
        found = SPIDER.select().where(SPIDER.c.name == name)
        row = connection.execute(found).first()
        if row is None:
            connection.execute(SPIDER.insert().values(name=name))
            row = connection.execute(found).one()
        return int(row.id)

    def _live(self, connection: Connection, *, hungry: bool | None = None) -> int:
        """This session lives on, or was ended; returns the instant."""
        now = self.database.now(connection)
        lives = SESSION.update().where(SESSION.c.id == self._session, SESSION.c.deadline > OVER)
        if hungry is None:
            lives = lives.values(hungry=SESSION.c.hungry)
        else:
            lives = lives.values(hungry=int(hungry), deadline=now + self._ttl)
        if not connection.execute(lives).rowcount:
            raise SessionLostError
        return now

    def _is_alive(self, connection: Connection) -> bool:
        alive = SESSION.select().where(SESSION.c.id == self._session, SESSION.c.deadline > OVER)
        return connection.execute(alive).first() is not None

    def _end_session(self, connection: Connection, now: int) -> None:
        """What this session held is free, and what the dead held."""
        mine = SESSION.c.id == self._session
        connection.execute(SESSION.update().where(mine).values(deadline=OVER))
        while self._reap(connection, now):
            pass

    def _reap(self, connection: Connection, now: int) -> int:
        """Free the hosts of who has died; returns how many there were."""
        self._end_dead(connection, now)
        dead = sql.DEAD if self.database.is_sqlite else sql.DEAD_POSTGRESQL
        rows = connection.execute(dead, {"over": OVER, "most": MOST_REAPED}).all()
        known = [row for row in rows if row.spider_id is not None]
        for row in known:
            taken = {"spider": row.spider_id, "host": row.host_id, "generation": row.generation}
            connection.execute(sql.TAKE_BACK, taken)
        for spider in sorted({row.spider_id for row in known}):
            hosts = [row.host_id for row in known if row.spider_id == spider]
            self.queues.touch(connection, hosts, spider)
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

    # Inside: leases

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

    def _save_state(self, connection: Connection, lease: Lease, state: State, now: int) -> None:
        host = self.hosts.number(connection, lease.host)
        connection.execute(
            LEASE.update()
            .where(LEASE.c.host_id == host, LEASE.c.egress == self._egress)
            .where(LEASE.c.generation == lease.generation, LEASE.c.session_id == self._session)
            .values(state=json.dumps(state), state_at=now)
        )

    def _shares(self, connection: Connection, now: int) -> Shares:
        """What the sessions of this spider hold, with this egress."""
        asked = {"spider": self.spider, "egress": self._egress, "now": now}
        rows = connection.execute(sql.MEMBERS, asked).all()
        fair = math.ceil(sum(row.held for row in rows) / max(1, len(rows)))
        others = [row for row in rows if row.id != self._session]
        are_hungry = any(row.hungry and row.held < max(1, fair) for row in others)
        return Shares(len(rows), fair, are_hungry)
