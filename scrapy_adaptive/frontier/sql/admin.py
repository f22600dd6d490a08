"""What the commands ask of a frontier.

Laws
----
* Nothing that a worker holds is changed.
* Rows come one after the other: a frontier may be larger than the memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from sqlalchemy import bindparam, func, select, text

from scrapy_adaptive.frontier.protocol import UnavailableError
from scrapy_adaptive.frontier.rows import HostRow, WorkerRow, read_state

from .schema import ASLEEP, HELD, HOST, LEASE, READY, SESSION, SPIDER, VISIT

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from .frontier import SqlFrontier

BATCH = 1000
"""Visits of one transaction."""

PER_HOST = text(f"""
SELECT h.host AS host,
    sum(CASE WHEN v.state = {READY} THEN 1 ELSE 0 END) AS ready,
    sum(CASE WHEN v.state = {ASLEEP} AND v.due IS NOT NULL THEN 1 ELSE 0 END) AS asleep,
    sum(CASE WHEN v.state = {HELD} THEN 1 ELSE 0 END) AS leased,
    sum(CASE WHEN v.error IS NOT NULL THEN 1 ELSE 0 END) AS failed,
    sum(CASE WHEN v.state = {ASLEEP} AND v.due IS NULL THEN 1 ELSE 0 END) AS finished,
    min(CASE WHEN v.state <> {HELD} THEN v.due END) AS due,
    (SELECT min(s.worker) FROM adaptive_lease l JOIN adaptive_session s ON s.id = l.session_id
        WHERE l.host_id = v.host_id) AS owner,
    (SELECT min(l.state) FROM adaptive_lease l WHERE l.host_id = v.host_id) AS state,
    (SELECT min(l.state_at) FROM adaptive_lease l WHERE l.host_id = v.host_id) AS state_at
FROM adaptive_visit v JOIN adaptive_host h ON h.id = v.host_id
WHERE v.spider_id = :spider AND (:host IS NULL OR h.host = :host)
GROUP BY v.host_id, h.host ORDER BY count(*) DESC, h.host LIMIT :most
""").bindparams(bindparam("host", type_=HOST.c.host.type))


class Admin:
    """The commands on one spider's visits."""

    def __init__(self, frontier: SqlFrontier) -> None:
        self._database = frontier.database
        self._hosts = frontier.hosts
        self._queues = frontier.queues
        self._spider = frontier.spider

    def hosts(self, host: str | None = None, most: int = 50) -> list[HostRow]:
        """The hosts with most visits, or one of them."""
        with self._database.transaction() as connection:
            now = self._database.now(connection)
            asked = {"spider": self._spider, "host": host, "most": most}
            rows = connection.execute(PER_HOST, asked).all()
        return [
            HostRow(
                row.host,
                int(row.ready),
                int(row.asleep),
                int(row.leased),
                int(row.failed),
                int(row.finished),
                None if row.due is None else (row.due - now) / 1000,
                row.owner,
                *read_state(row.state, (now - (row.state_at or now)) / 1000),
            )
            for row in rows
        ]

    def retry(self, *, least: int | None, most: int | None, host: str | None) -> int:
        """Visits that have failed are due now; of these statuses, where they are given."""
        failed = VISIT.c.error.is_not(None)
        if least is not None and most is not None:
            failed = VISIT.c.status.between(least, most)
        chosen = select(VISIT.c.id, VISIT.c.host_id).where(
            VISIT.c.spider_id == self._spider, VISIT.c.state == ASLEEP, failed
        )
        if host is not None:
            number = select(HOST.c.id).where(HOST.c.host == host).scalar_subquery()
            chosen = chosen.where(VISIT.c.host_id == number)
        last = count = 0
        while True:
            following = chosen.where(VISIT.c.id > last).order_by(VISIT.c.id).limit(BATCH)
            with self._database.transaction() as connection:
                now = self._database.now(connection)
                rows = connection.execute(following).all()
                part = VISIT.c.id.in_([row.id for row in rows])
                due = VISIT.update().where(part, VISIT.c.state == ASLEEP)
                connection.execute(due.values(state=READY, due=now, error=None))
                self._queues.touch(connection, {row.host_id for row in rows})
            count += len(rows)
            if len(rows) < BATCH:
                return count
            last = rows[-1].id

    def swap(self) -> int:
        """Have workers give back what they have not sent; returns the new generation."""
        with self._database.transaction() as connection:
            mine = SPIDER.c.id == self._spider
            following = SPIDER.c.generation + 1
            connection.execute(SPIDER.update().where(mine).values(generation=following))
            return int(connection.execute(SPIDER.select().where(mine)).one().generation)

    def set_priority(self, priority: float, host: str) -> int:
        """Give all visits of a host that are not done this priority, and swap."""
        with self._database.transaction() as connection:
            number = self._hosts.number(connection, host)
            of_host = VISIT.update().where(
                VISIT.c.spider_id == self._spider,
                VISIT.c.host_id == number,
                (VISIT.c.state != ASLEEP) | VISIT.c.due.is_not(None),
            )
            changed = connection.execute(of_host.values(priority=priority)).rowcount
            self._queues.touch(connection, {number})
        self.swap()
        return changed

    def rows(self) -> Iterator[dict[str, Any]]:
        """Every visit, by its number."""
        last = 0
        while True:
            with self._database.transaction() as connection:
                asked = (
                    select(VISIT, HOST.c.host)
                    .join(HOST, HOST.c.id == VISIT.c.host_id)
                    .where(VISIT.c.spider_id == self._spider, VISIT.c.id > last)
                    .order_by(VISIT.c.id)
                    .limit(BATCH)
                )
                found = connection.execute(asked).mappings().all()
            for row in found:
                yield dict(row)
            if len(found) < BATCH:
                return
            last = found[-1]["id"]

    def forget(self, older_than: float) -> int:
        """Forget visits that are finished and were made so many seconds ago; returns how many."""
        with self._database.transaction() as connection:
            before = self._database.now(connection) - round(older_than * 1000)
            gone = connection.execute(
                VISIT.delete().where(
                    VISIT.c.spider_id == self._spider,
                    VISIT.c.state == ASLEEP,
                    VISIT.c.due.is_(None),
                    VISIT.c.visited_at < before,
                )
            ).rowcount
        with self._database.errors(), self._database.engine.connect() as connection:
            raw = connection.connection.dbapi_connection
            assert raw is not None
            try:
                if self._database.is_sqlite:
                    raw.execute("VACUUM")
                else:
                    raw.autocommit = True
                    raw.execute(f"VACUUM (ANALYZE) {VISIT.name}")
                    raw.autocommit = False
            except self._database.engine.dialect.loaded_dbapi.Error as error:
                connection.invalidate()  # it may be in autocommit
                why = " ".join(str(error).split())
                raise UnavailableError(
                    f"{self._database.address}: {gone} forgotten, but VACUUM failed: {why}"
                ) from error
        return gone

    def workers(self) -> list[WorkerRow]:
        """Sessions of this spider that live."""
        with self._database.transaction() as connection:
            now = self._database.now(connection)
            live = SESSION.select().where(
                SESSION.c.spider_id == self._spider, SESSION.c.deadline >= now
            )
            rows = connection.execute(live).all()
            return [
                WorkerRow(
                    row.worker,
                    row.egress,
                    self._held_by(connection, row.id),
                    (row.deadline - now) / 1000,
                )
                for row in rows
            ]

    def _held_by(self, connection: Connection, session: int) -> int:
        held = select(func.count()).where(LEASE.c.session_id == session)
        return int(connection.execute(held).scalar_one())

    def leased(self) -> int:
        """Hosts that are held by anybody."""
        with self._database.transaction() as connection:
            held = select(func.count()).where(LEASE.c.session_id.is_not(None))
            return int(connection.execute(held).scalar_one())
