"""Writes the journal of a run: append-only, bounded in size.

Laws
----
* Lines are handed to the operating system at each `flush`: a process that is killed loses what it
  has written since, and no more.
* A day of whatever crawl takes less than `DAY_BYTES`: `room` says what may still be written, and
  who asks for it writes the most important first.
* What a crash left torn stays alone on its line.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from .records import to_line

if TYPE_CHECKING:
    from .records import Record

BYTES_PER_SECOND = 480.0
"""Bytes a second that a journal may take in the long run: 41 MB a day."""

SAVED_MOST = 2_000_000.0
"""Bytes that it may save up for a time in which much happens, and that it begins with."""

DAY_BYTES = 50_000_000
"""What a day of ten thousand sites takes less than: the two above, and a last line of each site."""


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
        path: the file; one that is there is continued, as by a job that is resumed.

    Raises:
        OSError: it cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("ab")
        if _is_torn(path):
            self._file.write(b"\n")
        self._file.flush()

    def write(self, record: Record) -> int:
        """Append a record; returns its bytes.

        Raises:
            OSError: it cannot be written.
        """
        return self._file.write(to_line(record).encode("ascii"))

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


def _is_torn(path: Path) -> bool:
    """Whether the file ends within a line."""
    with path.open("rb") as file:
        if not file.seek(0, os.SEEK_END):
            return False
        file.seek(-1, os.SEEK_END)
        return file.read() != b"\n"
