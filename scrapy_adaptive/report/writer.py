"""Writes the journal of a run: append-only, bounded in size.

Laws
----
* Lines are handed to the operating system at each `flush`: a process that is killed loses what it
  has written since, and no more.
* A day of ten thousand sites takes less than `DAY_BYTES`: `room` says what may still be written,
  and who asks for it writes the most important first. Last lines of more sites come on top.
* What a crash left torn stays alone on its line.
* A file has one writer: workers that share their settings have a journal each.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from .records import to_line

with suppress(ImportError):  # Windows has none
    import fcntl

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import BinaryIO

    from .records import Record

BYTES_PER_SECOND = 480.0
"""Bytes a second that a journal may take in the long run: 41 MB a day."""

SAVED_MOST = 2_000_000.0
"""Bytes that it may save up for a time in which much happens, and that it begins with."""

DAY_BYTES = 50_000_000
"""What a day of ten thousand sites takes less than: the two above, and a last line of each site."""


MOST_WRITERS = 1_000
"""Crawls that write journals of one name at once."""


class Budget:
    """How many bytes a journal may take."""

    def __init__(self) -> None:
        self._room = SAVED_MOST
        self._at = 0.0

    def room(self, at: float) -> float:
        """Bytes that may be written at that instant of the run."""
        self._room = min(SAVED_MOST, self._room + BYTES_PER_SECOND * max(0.0, at - self._at))
        self._at = max(self._at, at)
        return self._room

    def spend(self, count: int) -> None:
        """So many bytes were written."""
        self._room -= count


class Writer:
    """Appends records to a file.

    Args:
        path: the file; one that is there is continued, as by a job that is resumed. Where another
            crawl is writing it, the next free name is taken: `run-2.jsonl`.

    Raises:
        OSError: it cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self._file, self.path = _open_free(path)
        if _is_torn(self.path):
            self._file.write(b"\n")
        self._file.flush()

    def write(self, record: Record) -> int:
        """Append a record; returns its bytes.

        Raises:
            OSError: it cannot be written.
        """
        return self._file.write(to_line(record).encode("ascii"))

    def append(self, lines: Iterable[str]) -> None:
        """Append records that are lines already, and hand them to the operating system.

        Raises:
            OSError: they cannot be written.
        """
        self._file.write("".join(lines).encode("ascii"))
        self._file.flush()

    def flush(self) -> None:
        """Hand what was written to the operating system.

        Raises:
            OSError: it cannot be written.
        """
        self._file.flush()

    def close(self) -> None:
        """Write no more.

        Raises:
            OSError: what was left cannot be written.
        """
        self._file.close()


def _open_free(path: Path) -> tuple[BinaryIO, Path]:
    """Open the file for nobody but us, or the first one of its name and a number that is free."""
    for number in range(1, MOST_WRITERS + 1):
        found = path if number == 1 else path.with_name(f"{path.stem}-{number}{path.suffix}")
        if found.is_fifo():  # to open one waits for who reads it, deaf to signals
            raise OSError(f"{found} is a pipe, and a journal is a file")
        file = found.open("ab")
        try:
            with suppress(NameError):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            continue
        except OSError:
            pass  # a file system without locks: nobody can tell whether another one writes it
        return file, found
    raise OSError(f"{MOST_WRITERS} crawls are writing {path}")


def _is_torn(path: Path) -> bool:
    """Whether the file ends within a line."""
    with path.open("rb") as file:
        if not file.seek(0, os.SEEK_END):
            return False
        file.seek(-1, os.SEEK_END)
        return file.read() != b"\n"
