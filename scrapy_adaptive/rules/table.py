"""The table of rules: made, filled, and read whole.

Laws
----
* Whoever reads has all rows at one instant, or an error; what changed is found by comparing.
* A row that is bad is named; it keeps its last good form. One that never was good holds whatever
  it may have meant, as if it were paused; what cannot be read of its scope means everything of the
  host. The others hold.
* A row whose host cannot be read, and never could, holds nobody: the reader is told.
* A rule that is loaded again is the same rule, and keeps what was counted of it; no other gets it.
* All of this blocks: a crawl does it in a thread.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError

from scrapy_adaptive.core.limits.rule import Rule, RuleError
from scrapy_adaptive.core.limits.uses import Use

from .quotas import QuotaTable
from .reading import pausing, read_rule
from .rows import read_rows
from .schema import HITS, RULES, USES, DatabaseError, engine_for, metadata, told

COLUMNS: Mapping[str, str] = {
    "interval_seconds": "interval",
    "window_seconds": "window",
}
"""Columns whose name says their unit, and the word of a rule."""


COUNTED = ("sent", "refused", "held")
"""What is counted of each rule."""

SCOPE = ("name", "host", "uri", "identity")
"""What tells whether a rule that is loaded is there already."""

FOLLOW = sa.text("""
SELECT setval(q.id, greatest(CAST(:last AS bigint), nextval(q.id)))
FROM (SELECT pg_get_serial_sequence('adaptive_rules', 'id') AS id) AS q
""")
"""PostgreSQL's own ids come after the last one."""


class Problem(NamedTuple):
    """A row that is not allowed."""

    id: str
    why: str
    holds: bool = True
    """Whether what it means is held all the same; else nobody knows whom it means."""


class Reading(NamedTuple):
    """What was read."""

    rules: tuple[Rule, ...]
    """In the order of their ids."""
    problems: tuple[Problem, ...]


class RuleTable:
    """One database.

    Args:
        url: its address.
        sources: identities that requests can have; None where nobody knows.
        secrets: those that are known by their hash only.

    Raises:
        ValueError: it is no address of a database that is known here.
    """

    def __init__(
        self, url: str, *, sources: Collection[str] | None = None, secrets: Collection[str] = ()
    ) -> None:
        self.engine = engine_for(url)
        self.quotas = QuotaTable(self.engine)
        self._sources = sources
        self._secrets = secrets
        self._rows: dict[str, tuple[Any, ...]] | None = None
        """As they were read last; None before that."""
        self._good: dict[str, Rule] = {}
        self._bad: set[str] = set()
        self._never_good: set[str] = set()
        """Bad rows that hold as if they were paused."""

    @property
    def address(self) -> str:
        """Where it is, without its password."""
        return self.engine.url.render_as_string(hide_password=True)

    def create(self) -> None:
        """Make the tables, where there are none.

        Raises:
            DatabaseError: the database does not let us.
        """
        try:
            metadata.create_all(self.engine)
        except SQLAlchemyError as error:
            raise DatabaseError(f"{self.address}: {told(error)}") from None

    def read(self) -> Reading | None:
        """All rules; None where nothing has changed since they were last read.

        Raises:
            DatabaseError: the table cannot be read.
        """
        self._look_for_file()
        try:
            with self.engine.connect() as connection:
                rows = read_rows(connection)
        except (SQLAlchemyError, OSError, ValueError, TypeError) as error:
            raise DatabaseError(f"{self.address}: {told(error)}") from None
        if rows == self._rows:
            return None
        reading = self._checked(rows)
        self._rows = rows
        return reading

    def _look_for_file(self) -> None:
        """SQLite would make one."""
        file = self.engine.url.database if self.engine.dialect.name == "sqlite" else None
        if file and not file.startswith("file:") and not Path(file).exists():
            raise DatabaseError(f"{self.address}: there is no such file")

    def _checked(self, rows: Mapping[str, tuple[Any, ...]]) -> Reading:
        names = [COLUMNS.get(column.name, column.name) for column in RULES.columns][1:]
        sound = {} if self._rows is None else self._rows
        good: dict[str, Rule] = {}
        problems: list[Problem] = []
        for key, values in rows.items():
            if key not in self._bad and values == sound.get(key):
                good[key] = self._good[key]
                continue
            given = dict(zip(names, values, strict=True))
            try:
                good[key] = read_rule(
                    given, id=key, is_stored=True, sources=self._sources, secrets=self._secrets
                )
            except RuleError as error:
                rule, keeps = self._in_place_of(key, given)
                why = f"adaptive_rules id {key}: {_column(error.field)} = {error.value!r:.200}"
                why = f"{why}: allowed is {error.allowed}; {keeps}"
                problems.append(Problem(key, why, holds=rule is not None))
                if rule is not None:
                    good[key] = rule
        self._bad = {each.id for each in problems}
        self._never_good = self._bad & (self._never_good | (self._bad - self._good.keys()))
        self._good = good
        return Reading(tuple(good.values()), tuple(problems))

    def _in_place_of(self, key: str, given: Mapping[str, Any]) -> tuple[Rule | None, str]:
        """What holds in place of a bad row, and in words."""
        last = self._good.get(key)
        if last is not None and key not in self._never_good:
            return last, "its last good form holds"
        rule = pausing(given, id=key, sources=self._sources, secrets=self._secrets)
        rule = last if rule is None or rule == last else rule
        if rule is None:
            return None, "it holds nobody, as its host cannot be read"
        return rule, "until it is mended, nothing that it may mean is sent"

    def load(self, rules: Iterable[Rule]) -> int:
        """Put these rules into the table, in place of all that are there; returns how many.

        Raises:
            DatabaseError: the table cannot be written.
        """
        rows = [row_of(rule) for rule in rules]
        self._look_for_file()
        try:
            with self.engine.begin() as connection:
                last = _number(connection, rows)
                connection.execute(sa.delete(RULES))
                if rows:
                    connection.execute(sa.insert(RULES), rows)
                if connection.dialect.name == "postgresql":
                    connection.execute(FOLLOW, {"last": last})
        except SQLAlchemyError as error:
            raise DatabaseError(f"{self.address}: {told(error)}") from None
        return len(rows)

    def add_uses(self, uses: Mapping[str, Use]) -> None:
        """Add what came of the requests under these rules.

        Raises:
            DatabaseError: the table cannot be written.
        """
        try:
            with self.engine.begin() as connection:
                for rule, use in sorted(uses.items()):
                    added = {word: USES.c[word] + getattr(use, word) for word in COUNTED}
                    update = sa.update(USES).where(USES.c.rule_id == rule).values(added)
                    if not connection.execute(update.returning(USES.c.rule_id)).all():
                        row = {word: getattr(use, word) for word in COUNTED}
                        connection.execute(sa.insert(USES).values(rule_id=rule, **row))
        except SQLAlchemyError as error:
            raise DatabaseError(f"{self.address}: {told(error)}") from None

    def uses(self) -> dict[str, Use]:
        """What came of the requests under each rule, by lasting id.

        Raises:
            DatabaseError: the table cannot be read.
        """
        try:
            with self.engine.connect() as connection:
                rows = connection.execute(sa.select(USES)).mappings().all()
        except SQLAlchemyError as error:
            raise DatabaseError(f"{self.address}: {told(error)}") from None
        return {row["rule_id"]: Use(*(row[word] for word in COUNTED)) for row in rows}


def _number(connection: sa.Connection, rows: Iterable[dict[str, Any]]) -> int:
    """Give each row its id, or one under which nothing was ever counted; returns the last one."""
    ids: dict[tuple[Any, ...], list[int]] = {}
    columns = (RULES.c[word] for word in ("id", *SCOPE))
    for number, *scope in connection.execute(sa.select(*columns).order_by(RULES.c.id)):
        ids.setdefault(tuple(scope), []).append(number)
    counted = sa.union(sa.select(HITS.c.rule_id), sa.select(USES.c.rule_id))
    known = [int(each) for each in connection.execute(counted).scalars() if each.isdecimal()]
    last = max([0, *known, *(number for found in ids.values() for number in found)])
    for row in rows:
        found = ids.get(tuple(row[word] for word in SCOPE))
        if not found:
            last += 1
        row["id"] = found.pop(0) if found else last
    return last


def _column(field: str) -> str:
    return {word: column for column, word in COLUMNS.items()}.get(field, field)


def row_of(rule: Rule) -> dict[str, Any]:
    """The row of a rule; numbers that say nothing are NULL."""
    return {
        "name": rule.name,
        "host": rule.host,
        "uri": rule.uri,
        "identity": None if rule.identity is None else str(rule.identity),
        "shared": rule.shared,
        "interval_seconds": rule.interval or None,
        "max_hits": rule.max_hits or None,
        "window_seconds": rule.window or None,
        "rate": rule.rate if rule.rate < float("inf") else None,
        "burst": rule.burst or None,
        "concurrency": rule.concurrency or None,
        "paused": rule.paused,
        "dry_run": rule.dry_run,
        "expires_at": rule.expires_at if rule.expires_at < float("inf") else None,
        "note": rule.note or None,
    }
