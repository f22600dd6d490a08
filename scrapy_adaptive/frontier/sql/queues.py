"""The queues of one spider: its hosts, by what comes first of each.

Laws
----
* A queue's score and count are derived anew from its visits whenever they change: they cannot
  drift.
* Queues are made, and locked before they are written, in the order of their hosts.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from . import statements as sql
from .schema import QUEUE

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from .connecting import Database

ENTER = (
    "INSERT INTO adaptive_queue (spider_id, host_id) VALUES ({spider}, {host}) "
    "ON CONFLICT (spider_id, host_id) DO NOTHING"
)


class Queues:
    """What stands in the queues of one spider.

    Args:
        spider: whose queues these are.
        discount: see `Ranking`.
    """

    def __init__(self, database: Database, spider: int, discount: float) -> None:
        self._database = database
        self._spider = spider
        self._discount = discount
        self._entered: set[int] = set()
        """Hosts that have a queue for sure."""

    def enter(self, connection: Connection, hosts: set[int]) -> None:
        """Have a queue of each of these hosts."""
        missing = sorted(hosts - self._entered)
        if not missing:
            return
        found = set(
            connection.execute(
                QUEUE.select()
                .with_only_columns(QUEUE.c.host_id)
                .where(QUEUE.c.spider_id == self._spider, QUEUE.c.host_id.in_(missing))
            ).scalars()
        )
        self._entered.update(found)
        fresh = [(self._spider, host) for host in missing if host not in found]
        if fresh:
            mark = "?" if self._database.is_sqlite else "%s"
            connection.exec_driver_sql(ENTER.format(spider=mark, host=mark), fresh)

    def touch(
        self, connection: Connection, hosts: Iterable[int], spider: int | None = None
    ) -> None:
        """Derive anew what stands in the queues of these hosts.

        Args:
            spider: whose they are, where it is another.
        """
        found = sorted(set(hosts))
        if not found:
            return
        asked = {"spider": spider or self._spider, "hosts": found}
        if not self._database.is_sqlite:
            connection.execute(sql.LOCK_QUEUES, asked)
        connection.execute(sql.TOUCH, {**asked, "discount": self._discount})
