"""An API of the site, throttled per user and normalised URI by a SQL table.

Laws
----
* A call is counted under its user and its URI, in which numbers are replaced by #. A URI that is
  not in the table, or whose throttle has expired, is not counted.
* A block of time begins with a call; beyond its most calls the answer is 429 until it ends.
* The table is read again when it has changed: more calls are allowed at once, fewer from the next
  block on.
* The memory is bounded: of more counts than `MOST` the oldest blocks are forgotten.

**Source**: a published design of a per-API throttle: THROTTLED_CALLS with throttle id, normalised
URI, most locks, seconds of a block and an expiry; a map from user and URI to a counting semaphore.
"""

from __future__ import annotations

import re
import sqlite3
from collections import OrderedDict
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

PREFIX = "/api/"
"""Begins the paths of the API."""

USER = "X-User"
"""The header that names who calls."""

MOST = 10_000
"""Counts that are remembered, each of a user and a URI."""

_NUMBER = re.compile(r"(?<=/)\d+(?=/|$)")

CREATE = """
CREATE TABLE IF NOT EXISTS throttled_calls (
    throttle_id INTEGER PRIMARY KEY,
    normalized_uri TEXT NOT NULL UNIQUE,
    max_locks INTEGER NOT NULL,
    lock_timeout_seconds REAL NOT NULL,
    throttle_expiration REAL
)
"""


class Throttle(NamedTuple):
    """One row of the table."""

    most_calls: int
    seconds: float
    """Of a block."""
    expires_at: float | None
    """Seconds since the epoch; None for never."""


class Block(NamedTuple):
    """A block of time of one user and URI."""

    until: float
    most: int
    """Calls that were allowed in it when it began."""
    calls: int


def normalised(path: str) -> str:
    """The URI under which a call is counted.

    >>> normalised("/api/entity/123/version/7")
    '/api/entity/#/version/#'
    """
    return _NUMBER.sub("#", path)


class ApiThrottle:
    """The throttle of the API.

    Args:
        path: an SQLite file with the table; it is made where there is none.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._version: object = None
        self._throttles: dict[str, Throttle] = {}
        self._blocks: OrderedDict[tuple[str, str], Block] = OrderedDict()
        """User and URI to the present block."""
        self._database = sqlite3.connect(path, timeout=0.2, check_same_thread=False)
        with self._database:
            self._database.execute(CREATE)

    @property
    def count_count(self) -> int:
        """Counts that are remembered."""
        return len(self._blocks)

    def on_call(self, now: float, wall: float, user: str, path: str) -> float | None:
        """A call has come: None to serve it, or the seconds until the block ends.

        Args:
            now: seconds of one clock that never goes back.
            wall: seconds since the epoch.
        """
        self._read()
        uri = normalised(path)
        throttle = self._throttles.get(uri)
        if throttle is None or (throttle.expires_at is not None and wall >= throttle.expires_at):
            return None
        block = self._blocks.get((user, uri))
        if block is None or now >= block.until:
            block = Block(now + throttle.seconds, throttle.most_calls, 0)
            self._blocks.pop((user, uri), None)  # the oldest block goes first
        if block.calls >= max(block.most, throttle.most_calls):
            return block.until - now
        self._blocks[user, uri] = block._replace(calls=block.calls + 1)
        if len(self._blocks) > MOST:
            self._blocks.popitem(last=False)
        return None

    def _read(self) -> None:
        """The table as it is now; where it cannot be read, as it was."""
        columns = "normalized_uri, max_locks, lock_timeout_seconds, throttle_expiration"
        try:
            (version,) = self._database.execute("PRAGMA data_version").fetchone()
            if version == self._version:
                return
            rows = self._database.execute(f"SELECT {columns} FROM throttled_calls").fetchall()
        except sqlite3.Error:
            return
        self._version = version
        self._throttles = {uri: Throttle(*rest) for uri, *rest in rows}


RULES_VIEW = """
CREATE VIEW IF NOT EXISTS adaptive_rules AS
SELECT throttle_id AS id, '' AS name, '*' AS host, normalized_uri AS uri, 'user=*' AS identity,
       0 AS shared, NULL AS interval_seconds, max_locks AS max_hits,
       lock_timeout_seconds AS window_seconds, NULL AS rate, NULL AS burst, NULL AS concurrency,
       0 AS paused, 0 AS dry_run, throttle_expiration AS expires_at, NULL AS note
FROM throttled_calls
"""
"""The site's own table, as rules of a crawl: one view, and nothing is written twice."""


def offer_rules(path: Path) -> None:
    """Let crawls read the table of the API as rules."""
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(CREATE)
        database.execute(RULES_VIEW)
