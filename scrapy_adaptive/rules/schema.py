"""The tables of known limits, and how a database is reached.

Laws
----
* SQLAlchemy is named in this folder only, and imported when somebody has a table.
* What a database has to say of an error is told in one line, without the password of its address.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError

PATIENCE = 5
"""Seconds that a call waits for a connection or for a lock, and a transaction for its next word."""

DRIVERS = ("sqlite", "sqlite+pysqlite", "postgres", "postgresql", "postgresql+psycopg")
"""What an address may begin with."""

metadata = sa.MetaData()

_BIG = sa.BigInteger().with_variant(sa.Integer, "sqlite")

RULES = sa.Table(
    "adaptive_rules",
    metadata,
    sa.Column("id", _BIG, primary_key=True),
    sa.Column("name", sa.Text, nullable=False, server_default=""),
    sa.Column("host", sa.Text, nullable=False, server_default="*"),
    sa.Column("uri", sa.Text, nullable=False, server_default="*"),
    sa.Column("identity", sa.Text),
    sa.Column("shared", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("interval_seconds", sa.Double),
    sa.Column("max_hits", sa.Integer),
    sa.Column("window_seconds", sa.Double),
    sa.Column("rate", sa.Double),
    sa.Column("burst", sa.Double),
    sa.Column("concurrency", sa.Integer),
    sa.Column("paused", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("dry_run", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("expires_at", sa.Double),
    sa.Column("note", sa.Text),
)
"""One row is one rule."""

HITS = sa.Table(
    "adaptive_hits",
    metadata,
    sa.Column("rule_id", sa.Text, primary_key=True),
    sa.Column("key", sa.Text, primary_key=True),
    sa.Column("cell", _BIG, primary_key=True, autoincrement=False),
    sa.Column("taken", sa.Integer, nullable=False),
)
"""Hits of quotas, in cells of their windows, by the end of each in milliseconds since the epoch."""

USES = sa.Table(
    "adaptive_uses",
    metadata,
    sa.Column("rule_id", sa.Text, primary_key=True),
    sa.Column("sent", _BIG, nullable=False),
    sa.Column("refused", _BIG, nullable=False),
    sa.Column("held", _BIG, nullable=False),
)
"""What came of the requests under each rule, over all crawls."""


class DatabaseError(OSError):
    """The database cannot be reached, or is none of ours."""


def engine_for(url: str) -> sa.Engine:
    """The engine of this address.

    Raises:
        ValueError: it is no address of a database that is known here.
    """
    try:
        found = sa.make_url(url)
    except (SQLAlchemyError, ValueError):  # ValueError: the port is no number
        raise ValueError("the address of a database, as SQLAlchemy writes it") from None
    if found.drivername not in DRIVERS:
        raise ValueError("sqlite:///… or postgresql+psycopg://…")
    if found.drivername in ("postgresql", "postgres"):
        found = found.set(drivername="postgresql+psycopg")
    bounds = f"-c lock_timeout={PATIENCE}s -c idle_in_transaction_session_timeout={PATIENCE}s"
    options: dict[str, Any] = {
        "connect_timeout": PATIENCE,
        "options": " ".join((bounds, *found.normalized_query.get("options", ()))),
    }
    pooling: dict[str, Any] = {"pool_pre_ping": True, "pool_size": 1}
    if found.get_backend_name() == "sqlite":
        options = {"timeout": PATIENCE}
        pooling = {"poolclass": sa.NullPool}  # the file may be another by the next call
        if found.database in (None, "", ":memory:"):
            raise ValueError("a file, as in sqlite:////var/lib/rules.db: a table in memory ends")
    try:
        return sa.create_engine(found, connect_args=options, **pooling)
    except ImportError as error:
        raise ValueError(f"one whose driver is installed ({error})") from None


def told(error: Exception) -> str:
    """What went wrong, in one line."""
    cause = getattr(error, "orig", None) or error
    lines = str(cause).strip().splitlines()
    return lines[0] if lines else type(cause).__name__
