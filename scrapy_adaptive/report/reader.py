"""Reads journals: of a crawl that has ended, that runs, or that was killed.

Laws
----
* What cannot be read is skipped and counted, a torn last line not even that: it is being written,
  or was when the crawl was killed.
* Several journals make one crawl: its workers'.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from .building import Builder, JournalError
from .crawl import Crawl
from .records import from_line

if TYPE_CHECKING:
    from typing import BinaryIO

    from .records import Record

LONGEST = 1_000_000
"""Characters of a line beyond which it is none of ours."""


def read_crawl(paths: Iterable[Path]) -> Crawl:
    """The crawl of these journals.

    Raises:
        OSError: one cannot be opened.
        JournalError: one is no journal, or of a version that is not known here.
    """
    builder = Builder()
    for path in paths:
        before = len(builder.runs)
        with path.open("rb") as file:
            for record in records(file):
                builder.add(record, str(path))
        if len(builder.runs) == before:
            raise JournalError(f"{path} is no journal of a crawl: it has no line of a start")
    return builder.crawl()


def records(file: BinaryIO) -> Iterator[Record | None]:
    """The records of an open journal, from where it is to its last whole line; None for a line that
    cannot be read. Called again, it goes on with what was written since."""
    while True:
        at = file.tell()
        line = file.readline(LONGEST)
        if not line.endswith(b"\n") and len(line) < LONGEST:
            file.seek(at)  # it is torn, or being written
            return
        if line.strip():
            yield from_line(line.decode("utf-8", errors="replace"))
