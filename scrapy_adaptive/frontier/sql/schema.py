"""The tables of a frontier.

Laws
----
* They are made on first use, carry a version, and are brought up to it by steps; tables of a newer
  version are refused.
* Instants are milliseconds since the epoch, by the clock of the database.
* A row of `adaptive_host` is never deleted: its number may be remembered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import (
    BigInteger,
    Column,
    Float,
    ForeignKey,
    Identity,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    SmallInteger,
    Table,
    Text,
    UniqueConstraint,
    inspect,
    text,
)

from scrapy_adaptive.frontier.protocol import FrontierError

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy import Connection

VERSION = 1

ASLEEP, READY, HELD = range(3)
"""States of a visit. What is finished sleeps, and is never due."""

LOCK = 7_255_021
"""PostgreSQL's advisory lock under which tables are made, by one worker at a time."""

METADATA = MetaData()

_NUMBER = BigInteger().with_variant(Integer, "sqlite")
"""SQLite numbers rows by itself where the key is an INTEGER."""


def _numbered() -> Column[int]:
    return Column("id", _NUMBER, Identity(always=False), primary_key=True)


SCHEMA = Table("adaptive_schema", METADATA, Column("version", Integer, nullable=False))

SPIDER = Table(
    "adaptive_spider",
    METADATA,
    _numbered(),
    Column("name", Text, nullable=False, unique=True),
    Column("generation", BigInteger, nullable=False, server_default="0"),
    Column("run", BigInteger, nullable=False, server_default="0"),
    Column("state", Text),
    sqlite_autoincrement=True,
)

SESSION = Table(
    "adaptive_session",
    METADATA,
    _numbered(),
    Column("spider_id", BigInteger, nullable=False),
    Column("worker", Text, nullable=False),
    Column("egress", Text, nullable=False),
    Column("deadline", BigInteger, nullable=False),
    Column("hungry", SmallInteger, nullable=False, server_default="0"),
    sqlite_autoincrement=True,
)

HOST = Table(
    "adaptive_host",
    METADATA,
    _numbered(),
    Column("host", Text, nullable=False, unique=True),
    sqlite_autoincrement=True,
)

LEASE = Table(
    "adaptive_lease",
    METADATA,
    Column("host_id", BigInteger, ForeignKey(HOST.c.id), primary_key=True),
    Column("egress", Text, primary_key=True),
    Column("session_id", BigInteger),
    Column("generation", BigInteger),
    Column("state", Text),
    Column("state_at", BigInteger),
    Column("wake_at", BigInteger, nullable=False, server_default="0"),
    Column("wanted_at", BigInteger, nullable=False, server_default="0"),
    Index(
        "adaptive_lease_held",
        "session_id",
        sqlite_where=text("session_id IS NOT NULL"),
        postgresql_where=text("session_id IS NOT NULL"),
    ),
)

QUEUE = Table(
    "adaptive_queue",
    METADATA,
    Column("spider_id", BigInteger, primary_key=True),
    Column("host_id", BigInteger, ForeignKey(HOST.c.id), primary_key=True),
    Column("score", Float(53)),
    Column("held", Integer, nullable=False, server_default="0"),
)
"""A spider's host: its best visit that is ready, less the discount for those that are held."""

VISIT = Table(
    "adaptive_visit",
    METADATA,
    _numbered(),
    Column("spider_id", BigInteger, nullable=False),
    Column("host_id", BigInteger, ForeignKey(HOST.c.id), nullable=False),
    Column("fingerprint", LargeBinary),
    Column("url", Text, nullable=False),
    Column("payload", Text, nullable=False),
    Column("priority", Float(53), nullable=False, server_default="0"),
    Column("state", SmallInteger, nullable=False),
    Column("due", BigInteger),
    Column("generation", BigInteger),
    Column("run", BigInteger, nullable=False, server_default="0"),
    Column("status", SmallInteger),
    Column("error", Text),
    Column("etag", Text),
    Column("last_modified", Text),
    Column("digest", LargeBinary),
    Column("item_count", Integer, nullable=False, server_default="0"),
    Column("period", Float(53)),
    Column("visited_at", BigInteger),
    Column("visit_count", Integer, nullable=False, server_default="0"),
    UniqueConstraint("spider_id", "fingerprint", name="adaptive_visit_once"),
    sqlite_autoincrement=True,
)

for name, columns, state in (
    ("ready", ("spider_id", "host_id", text("priority DESC"), "id"), READY),
    ("held", ("spider_id", "host_id", "generation"), HELD),
):
    where = text(f"state = {state}")
    expressions = [VISIT.c[each] if isinstance(each, str) else each for each in columns]
    index = Index(
        f"adaptive_visit_{name}", *expressions, sqlite_where=where, postgresql_where=where
    )
    VISIT.append_constraint(index)
Index("adaptive_visit_due", VISIT.c.spider_id, VISIT.c.state, VISIT.c.due)
Index(
    "adaptive_queue_best",
    QUEUE.c.spider_id,
    text("score DESC"),
    QUEUE.c.host_id,
    sqlite_where=text("score IS NOT NULL"),
    postgresql_where=text("score IS NOT NULL"),
    _table=QUEUE,
)

STEPS: dict[int, Callable[[Connection], None]] = {}
"""Version to what brings its tables up to the next one."""


def prepare(connection: Connection, where: str) -> None:
    """Have all tables there, of this version.

    Raises:
        FrontierError: they are of a newer version.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": LOCK})
    if not inspect(connection).has_table(SCHEMA.name):
        METADATA.create_all(connection)
        connection.execute(SCHEMA.insert().values(version=VERSION))
        _tune(connection)
        return
    version = connection.execute(SCHEMA.select()).scalar_one()
    if version > VERSION:
        raise FrontierError(
            f"the tables at {where} have version {version}, made by a newer scrapy-adaptive; "
            f"this one knows {VERSION}"
        )
    for step in range(version, VERSION):
        STEPS[step](connection)
    if version < VERSION:
        connection.execute(SCHEMA.update().values(version=VERSION))


def _tune(connection: Connection) -> None:
    """Leave PostgreSQL room for new versions of rows that change all the time."""
    if connection.dialect.name != "postgresql":
        return
    for table in (LEASE, QUEUE, SESSION):
        connection.execute(
            text(
                f"ALTER TABLE {table.name} SET "
                "(fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05)"
            )
        )
    connection.execute(text(f"ALTER TABLE {VISIT.name} SET (fillfactor = 80)"))
