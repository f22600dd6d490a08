"""How links become rows.

Laws
----
* Rows go in sorted by fingerprint: two workers that find the same links do not wait in a circle.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from scrapy_adaptive.frontier.protocol import Again, Visit

from . import statements as sql
from .schema import ASLEEP, READY

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from .connecting import Database
    from .hosts import Hosts
    from .queues import Queues


class Links:
    """Adds visits of one spider."""

    def __init__(self, database: Database, hosts: Hosts, queues: Queues, spider: int) -> None:
        self._database = database
        self._hosts = hosts
        self._queues = queues
        self._spider = spider

    def add(
        self, connection: Connection, new: Sequence[Visit], run: int, now: int
    ) -> tuple[int, set[int]]:
        """Add what is not known yet; returns how many that were, and whose hosts."""
        if not new:
            return 0, set()
        visits = sorted(new, key=lambda visit: visit.fingerprint or b"")
        numbers = self._hosts.numbers(connection, (visit.host for visit in visits))
        rows: list[tuple[Any, ...]] = [
            (
                self._spider,
                numbers[visit.host],
                visit.fingerprint,
                visit.url,
                visit.payload,
                float(visit.priority),
                ASLEEP if visit.delay > 0 else READY,
                now + round(visit.delay * 1000),
                run,
            )
            for visit in visits
        ]
        self._queues.enter(connection, set(numbers.values()))
        added = (self._sqlite if self._database.is_sqlite else self._postgresql)(connection, rows)
        again = [visit for visit in visits if visit.again is not Again.NEVER]
        if again and added < len(visits):
            added += self._again(connection, again, run, now)
        return added, set(numbers.values())

    def _sqlite(self, connection: Connection, rows: list[tuple[Any, ...]]) -> int:
        return connection.exec_driver_sql(sql.INSERT_SQLITE, rows).rowcount

    def _postgresql(self, connection: Connection, rows: list[tuple[Any, ...]]) -> int:
        columns = list(zip(*rows, strict=True))
        names = ("hosts", "fingerprints", "urls", "payloads", "priorities", "states", "dues")
        arrays = {name: list(column) for name, column in zip(names, columns[1:8], strict=True)}
        given = {"spider": self._spider, "run": rows[0][-1], **arrays}
        return connection.execute(sql.INSERT_POSTGRESQL, given).rowcount

    def _again(self, connection: Connection, visits: Sequence[Visit], run: int, now: int) -> int:
        given = [
            {
                "spider": self._spider,
                "fingerprint": visit.fingerprint,
                "run": run,
                "now": now,
                "always": int(visit.again is Again.ALWAYS),
            }
            for visit in visits
        ]
        return max(0, connection.execute(sql.AGAIN, given).rowcount)
