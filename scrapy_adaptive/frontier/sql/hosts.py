"""The numbers of hosts.

Laws
----
* A host's row is never deleted, so that its number may be remembered.
* A number that was given out in a transaction that failed is forgotten with it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from sqlalchemy import bindparam, text

from .schema import HOST

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from .connecting import Database

MOST_REMEMBERED = 200_000

ADD = text("INSERT INTO adaptive_host (host) VALUES (:host) ON CONFLICT (host) DO NOTHING")
FIND = text("SELECT id, host FROM adaptive_host WHERE host IN :hosts").bindparams(
    bindparam("hosts", expanding=True)
)


class Hosts:
    """Names and numbers of hosts, remembered once they are seen to be there."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._numbers: dict[str, int] = {}
        self._names: dict[int, str] = {}

    def number(self, connection: Connection, name: str) -> int:
        """The number of one host."""
        return self.numbers(connection, [name])[name]

    def numbers(self, connection: Connection, names: Iterable[str]) -> dict[str, int]:
        """The numbers of these hosts; who has none gets one."""
        wanted = set(names)
        unknown = sorted(wanted - self._numbers.keys())
        if not unknown:
            return {name: self._numbers[name] for name in wanted}
        found = self._find(connection, unknown)
        missing = [name for name in unknown if name not in found]
        if missing:
            connection.execute(ADD, [{"host": name} for name in missing])
            made = self._find(connection, missing)
        else:
            made = {}
        if len(self._numbers) > MOST_REMEMBERED:
            self._numbers.clear()
            self._names.clear()
        # What was made just now is not there yet: the transaction may fail.
        self._numbers.update(found)
        self._names.update({number: name for name, number in found.items()})
        known = {name: self._numbers[name] for name in wanted if name in self._numbers}
        return {**known, **found, **made, **self._rest(connection, wanted, found, made)}

    def name(self, connection: Connection, number: int) -> str:
        """The name of one host; one that was not seen to be there may be gone with what made it."""
        found = self._names.get(number)
        if found is None:
            row = connection.execute(HOST.select().where(HOST.c.id == number)).one()
            found = str(row.host)
        return found

    def _rest(
        self,
        connection: Connection,
        wanted: set[str],
        found: dict[str, int],
        made: dict[str, int],
    ) -> dict[str, int]:
        """What was forgotten between, where too many were remembered."""
        rest = [
            name
            for name in wanted
            if name not in found and name not in made and name not in self._numbers
        ]
        return self._find(connection, sorted(rest)) if rest else {}

    def _find(self, connection: Connection, names: list[str]) -> dict[str, int]:
        return {
            row.host: row.id
            for start in range(0, len(names), 5000)
            for row in connection.execute(FIND, {"hosts": names[start : start + 5000]})
        }
