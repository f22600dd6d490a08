"""Whether a worker on this machine lives.

Laws
----
* A worker of a SQLite frontier holds a lock on a file of its own beside the database; the system
  lets go of it when the process ends, however it ends. Process ids prove nothing in containers.
* The file has its name once it is locked: nobody finds it without its lock.
* Where there is no such lock (Windows), a dead worker's hosts move when its lease has run out.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows
    HAS_LOCKS = False
else:
    HAS_LOCKS = True


class Liveness:
    """The locks of the workers of one database.

    Args:
        database: its file.
    """

    def __init__(self, database: Path) -> None:
        self._database = database
        self._file: int | None = None
        self._path: Path | None = None

    def begin(self, session: int) -> None:
        """This session lives until `end`, or until this process ends."""
        self.end()
        if not HAS_LOCKS:
            return
        self._path = self._path_of(session)
        new = self._path.with_name(f"{self._path.name}.new")
        self._file = os.open(new, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(self._file, fcntl.LOCK_EX)
        new.rename(self._path)

    def end(self) -> None:
        """The session is over."""
        if self._path is not None:
            self._path.unlink(missing_ok=True)
        if self._file is not None:
            os.close(self._file)
        self._file = self._path = None

    def is_dead(self, session: int) -> bool:
        """Whether the session's process has ended for sure."""
        path = self._path_of(session)
        if not HAS_LOCKS or path == self._path:
            return False
        try:
            file = os.open(path, os.O_RDWR)
        except OSError:
            return False
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        finally:
            os.close(file)
        with suppress(OSError):
            path.unlink()
        return True

    def _path_of(self, session: int) -> Path:
        return self._database.with_name(f"{self._database.name}-worker-{session}")
