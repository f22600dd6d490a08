"""The connection to a database, and what its errors mean.

Laws
----
* What may pass by itself (a lock, a restart, a full disk) is `UnavailableError`; what will not
  is `FrontierError`, in one line.
* SQLite: a write-ahead log, one writer at a time, which takes its lock before it reads.
* No call waits without a bound. Who stops in the midst of a transaction loses it: nobody waits for
  his locks without a bound.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import create_engine, event, make_url, text
from sqlalchemy.exc import ArgumentError, DataError, DBAPIError, ProgrammingError

from scrapy_adaptive.frontier.protocol import FrontierError, UnavailableError

if TYPE_CHECKING:
    from sqlalchemy import URL, Connection, Engine

PATIENCE = 10
"""Seconds that a call waits for a lock or for a connection, and a transaction for its next word."""

RETRY = 0.02
"""Seconds between two looks whether a lock is free, where SQLite does not wait for it."""

CHECKPOINT = 20_000
"""Pages of SQLite's log between two checkpoints: they cost most of a commit."""

DRIVERS = ("sqlite", "sqlite+pysqlite", "postgresql", "postgresql+psycopg")
"""What an address may begin with."""

CLOCK = text("SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000 AS bigint)")


class Database:
    """One database.

    Args:
        address: as a user writes it.
        clock: seconds since the epoch; None for the database's own.

    Raises:
        FrontierError: the address cannot be used.
    """

    def __init__(self, address: str, clock: Callable[[], float] | None = None) -> None:
        try:
            url = make_url(address)
        except (ArgumentError, ValueError):  # ValueError: the port is no number
            raise FrontierError("it is no address of a database") from None
        if url.drivername == "postgres":  # as some hosts of databases spell it
            url = url.set(drivername="postgresql")
        if url.drivername not in DRIVERS:
            raise FrontierError(f"allowed is one of {', '.join(DRIVERS)}, not {url.drivername}")
        self.address = url.render_as_string(hide_password=True)
        self.is_sqlite = url.get_backend_name() == "sqlite"
        self.path = Path(url.database or "") if self.is_sqlite else None
        """The file; None where there is none on this machine."""
        self._clock = time.time if clock is None and self.is_sqlite else clock
        self.engine = self._sqlite(url) if self.is_sqlite else self._postgresql(url)

    def _sqlite(self, url: URL) -> Engine:
        if not url.database or url.database == ":memory:":
            raise FrontierError("allowed is the path of a file: what is in memory survives nothing")
        if url.query:
            raise FrontierError("allowed is the path of a file, without options")
        folder = Path(url.database).absolute().parent
        if not folder.is_dir():
            raise FrontierError(f"there is no folder {folder}")
        arguments = {"timeout": PATIENCE, "check_same_thread": False}
        engine = create_engine(url, connect_args=arguments)

        @event.listens_for(engine, "connect")
        def on_connect(connection: Any, record: Any) -> None:
            connection.isolation_level = None  # the driver begins no transaction of its own
            _write_ahead(connection)
            for pragma in (
                "synchronous=NORMAL",
                f"wal_autocheckpoint={CHECKPOINT}",
                "cache_size=-65536",
            ):
                connection.execute(f"PRAGMA {pragma}")

        @event.listens_for(engine, "begin")
        def on_begin(connection: Connection) -> None:
            connection.exec_driver_sql("BEGIN IMMEDIATE")

        return engine

    def _postgresql(self, url: URL) -> Engine:
        if "+" not in url.drivername:
            url = url.set(drivername="postgresql+psycopg")
        bounds = (
            f"-c lock_timeout={PATIENCE}s -c statement_timeout={6 * PATIENCE}s "
            f"-c idle_in_transaction_session_timeout={PATIENCE}s"
        )
        arguments = {
            "connect_timeout": PATIENCE,
            "options": " ".join((bounds, *url.normalized_query.get("options", ()))),
            "keepalives_idle": PATIENCE,
            "tcp_user_timeout": 2000 * PATIENCE,
        }
        return create_engine(url, connect_args=arguments, pool_pre_ping=True, pool_size=1)

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """All that is said on this connection happens, or nothing of it.

        Raises:
            UnavailableError: nothing happened, or nobody knows.
            FrontierError: nothing happened, nor will it if it is repeated.
        """
        with self.errors(), self.engine.begin() as connection:
            yield connection

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Errors of the database become those of the protocol."""
        try:
            yield
        except (DataError, ProgrammingError) as error:  # of a table that is gone, too
            self.engine.dispose()
            raise FrontierError(f"{self.address}: {_told(error)}") from error
        except DBAPIError as error:
            self.engine.dispose()
            raise UnavailableError(f"{self.address}: {_told(error)}") from error

    def now(self, connection: Connection) -> int:
        """Milliseconds since the epoch; of workers on several machines by one clock."""
        if self._clock is not None:
            return int(self._clock() * 1000)
        return int(connection.execute(CLOCK).scalar_one())


def _write_ahead(connection: Any) -> None:
    """Have SQLite keep a write-ahead log: to begin one it waits for no lock by itself."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            return
        except connection.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() >= deadline:
                raise
        time.sleep(RETRY)


def _told(error: DBAPIError) -> str:
    """The database's own words, in one line."""
    return " ".join(str(error.orig).split())[:200]
