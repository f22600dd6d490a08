"""Quotas that are counted in a table: by several processes, and longer than any of them lives.

Laws
----
* A window is counted in cells; tokens are taken in the present cell and spent within it. A window
  of time, wherever it begins, touches the cells of one window and one more: their sum stays within
  the limit. A cell is known by its end, so that its hits count on where the window is changed.
* Whoever takes has locked what it counts: nobody else takes between the sum and the write.
* The cell is told by the database's clock (of SQLite the machine's), for all alike. A process that
  has seen it goes on from there: where it is set forward, no hit gets older by it.
* A token is good until just before its cell ends, by the clock of whoever asked before he asked.

**Departs**: one statement could not see a cell that another is just writing, so there is a lock.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError

from scrapy_adaptive.clock import boot_time
from scrapy_adaptive.core.limits.meter_table import SEPARATOR
from scrapy_adaptive.core.limits.rule import Rule
from scrapy_adaptive.core.limits.tokens import Ask, Grant

from .schema import HITS, DatabaseError, told

CELLS = 24
"""Cells of a window: a hit is forgotten at most such a part of its window later than need be."""

MARGIN, MOST_MARGIN = 0.1, 1.0
"""Share of a cell, and seconds at most, that a token ends before its cell: a hit takes its time."""


class Left(NamedTuple):
    """What is left of one quota."""

    key: str
    used: int
    left: int


class QuotaTable:
    """The hits of quotas in one database.

    Args:
        engine: the database.
    """

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine
        self._is_sqlite = engine.dialect.name == "sqlite"
        self._ahead = math.inf
        """Seconds by which the database's clock was ahead of this machine's, at least."""

    def take(self, asks: Sequence[Ask]) -> list[Grant]:
        """Take what there is of what is asked for; instants are seconds from the call on.

        Raises:
            DatabaseError: the table cannot be written; nothing was taken.
        """
        with self._locked(asks) as (connection, now):
            return [self._take_one(connection, ask, now) for ask in asks]

    def _take_one(self, connection: sa.Connection, ask: Ask, now: float) -> Grant:
        rule, key = ask.rule, ask.key.partition(SEPARATOR)[2]
        name, width = rule.lasting_id, rule.window / CELLS
        begins = width * math.floor(now / width)
        cell = _cell(begins + width)
        of_key = (HITS.c.rule_id == name) & (HITS.c.key == key)
        is_over = HITS.c.cell <= _cell(begins - rule.window)
        connection.execute(sa.delete(HITS).where(of_key & is_over))
        found = connection.execute(
            sa.select(HITS.c.cell, HITS.c.taken).where(of_key).order_by(HITS.c.cell)
        ).all()
        rows = [(min(each, cell), taken) for each, taken in found]
        used = sum(taken for _, taken in rows)
        ahead = sum(taken for each, taken in found if each > cell)
        if ahead:  # of a longer window, before the rule was changed: they were taken by now
            connection.execute(sa.delete(HITS).where(of_key & (HITS.c.cell > cell)))
            self._count(connection, name, key, cell, ahead)
        count = min(ask.tokens, rule.max_hits - used)
        if count <= 0:
            return Grant(ask.key, 0, _room_at(rows, rule, used) - now)
        self._count(connection, name, key, cell, count)
        margin = min(MARGIN * width, MOST_MARGIN)
        return Grant(ask.key, count, begins + width - margin - now, cell)

    def _count(self, connection: sa.Connection, name: str, key: str, cell: int, count: int) -> None:
        """So many more are taken in this cell."""
        of_cell = (HITS.c.rule_id == name) & (HITS.c.key == key) & (HITS.c.cell == cell)
        taken = sa.update(HITS).where(of_cell).values(taken=HITS.c.taken + count)
        if not connection.execute(taken.returning(HITS.c.taken)).all():
            row = {"rule_id": name, "key": key, "cell": cell, "taken": count}
            connection.execute(sa.insert(HITS).values(row))

    def give_back(self, grants: Sequence[Grant], rules: Mapping[str, Rule]) -> None:
        """Tokens that nobody will spend.

        Raises:
            DatabaseError: the table cannot be written.
        """
        known = [grant for grant in grants if grant.key in rules]
        if not known:
            return
        given = [Ask(grant.key, rules[grant.key], grant.tokens) for grant in known]
        with self._locked(given) as (connection, _now):
            for ask, cell in zip(given, [grant.cell for grant in known], strict=True):
                key = ask.key.partition(SEPARATOR)[2]
                of_key = (HITS.c.rule_id == ask.rule.lasting_id) & (HITS.c.key == key)
                given_back = sa.update(HITS).where(of_key & (HITS.c.cell == cell))
                connection.execute(given_back.values(taken=HITS.c.taken - ask.tokens))

    def left(self, rule: Rule) -> list[Left]:
        """What is left of a rule, for each of its counts.

        Raises:
            DatabaseError: the table cannot be read.
        """
        name, width = rule.lasting_id, rule.window / CELLS
        with self._locked([]) as (connection, now):
            begins = width * math.floor(now / width)
            counts = sa.select(HITS.c.key, sa.func.sum(HITS.c.taken)).where(
                (HITS.c.rule_id == name) & (HITS.c.cell > _cell(begins - rule.window))
            )
            rows = connection.execute(counts.group_by(HITS.c.key).order_by(HITS.c.key)).all()
        return [Left(row[0], row[1], max(0, rule.max_hits - row[1])) for row in rows]

    @contextmanager
    def _locked(self, asks: Sequence[Ask]) -> Iterator[tuple[sa.Connection, float]]:
        """A transaction in which nobody else counts the same, and the database's clock in it."""
        keys = {(ask.rule.lasting_id, ask.key.partition(SEPARATOR)[2]) for ask in asks}
        try:
            with self._engine.connect() as connection:
                if self._is_sqlite:
                    connection.exec_driver_sql("BEGIN IMMEDIATE" if keys else "BEGIN")
                    elapsed, now = boot_time(), time.time()
                else:
                    for key in sorted(keys):
                        lock = "SELECT pg_advisory_xact_lock(hashtextextended(:key, 0))"
                        connection.execute(sa.text(lock), {"key": "\x1f".join(key)})
                    elapsed = boot_time()  # an answer that is late makes no cell older
                    epoch = "SELECT extract(epoch FROM clock_timestamp())::double precision"
                    now = float(connection.execute(sa.text(epoch)).scalar_one())
                self._ahead = min(self._ahead, now - elapsed)
                yield connection, elapsed + self._ahead
                connection.commit()
        except (SQLAlchemyError, ValueError, TypeError) as error:  # SQLite keeps a word as a number
            url = self._engine.url.render_as_string(hide_password=True)
            raise DatabaseError(f"{url}: {told(error)}") from None


def _cell(end: float) -> int:
    """How the cell that ends at this instant is known: in milliseconds since the epoch."""
    return round(1000 * end)


def _room_at(rows: Sequence[Any], rule: Rule, used: int) -> float:
    """The instant at which enough cells count no more: with the first cell that begins then."""
    width = rule.window / CELLS
    for cell, taken in rows:
        used -= taken
        if used < rule.max_hits:
            begins = width * math.ceil((cell - 0.5) / 1000 / width)
            begins += width * (_cell(begins) < cell)  # it was rounded
            return float(begins + rule.window)
    return 0.0
