"""Reads journals: of a crawl that has ended, that runs, or that was killed.

Laws
----
* What cannot be read is skipped and counted, a torn last line not even that: it is being written,
  or was when the crawl was killed.
* Several journals make one crawl: its workers'. One that is named twice is one, however spelled.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from typing_extensions import Self

from .building import Builder, JournalError
from .crawl import Crawl
from .records import End, Start, from_line

if TYPE_CHECKING:
    from typing import BinaryIO

    from .records import Record

LONGEST = 1_000_000
"""Characters of a line beyond which it is none of ours."""

NONE = "is no journal of a crawl: it has no line of a start"


def read_crawl(paths: Iterable[Path]) -> Crawl:
    """The crawl of these journals.

    Raises:
        OSError: one cannot be opened.
        JournalError: one is no journal, or of a version that is not known here.
    """
    builder = Builder()
    with Journals(paths) as journals:
        for source, found in journals.read():
            for record in found:
                builder.add(record, source)
        for path in journals.unbegun:
            raise JournalError(f"{path} {NONE}")
    return builder.crawl()


class Journals:
    """Journals of one crawl's workers, read on from where they were left.

    Raises:
        OSError: one cannot be opened.
    """

    def __init__(self, paths: Iterable[Path]) -> None:
        self.unbegun = [*{os.path.realpath(path): str(path) for path in paths}.values()]
        """Those in which there is nothing yet."""
        self._going: set[str] = set()
        self._closing = ExitStack()
        with ExitStack() as stack:
            files = {path: stack.enter_context(Path(path).open("rb")) for path in self.unbegun}
            self._files = files
            self._closing = stack.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.close()

    @property
    def have_ended(self) -> bool:
        """Whether each of them says that its run has ended."""
        return not self.unbegun and not self._going

    def check(self) -> None:
        """Nothing, where one at least has begun.

        Raises:
            JournalError: none has.
        """
        if len(self.unbegun) == len(self._files):
            raise JournalError(f"{self.unbegun[0]} {NONE}")

    def read(self) -> Iterator[tuple[str, Iterator[Record | None]]]:
        """The records that each of them has more than before, None for a line that is none.

        Raises:
            JournalError: one is no journal; while its records are taken.
        """
        for path, file in self._files.items():
            yield path, self._records(path, file)

    def _records(self, path: str, file: BinaryIO) -> Iterator[Record | None]:
        is_empty = True
        for record in records(file):
            is_empty = False
            if isinstance(record, Start):
                self._going.add(path)
                if path in self.unbegun:
                    self.unbegun.remove(path)
            elif isinstance(record, End):
                self._going.discard(path)
            yield record
        if not is_empty and path in self.unbegun:
            raise JournalError(f"{path} {NONE}")


def records(file: BinaryIO) -> Iterator[Record | None]:
    """The records of an open journal, from where it is to its last whole line; None for a line that
    cannot be read. Called again, it goes on with what was written since, or begins anew where the
    journal was emptied."""
    read_to = file.tell()
    is_shorter = file.seek(0, os.SEEK_END) < read_to
    file.seek(0 if is_shorter else read_to)
    while True:
        at = file.tell()
        line = file.readline(LONGEST)
        if not line.endswith(b"\n") and len(line) < LONGEST:
            file.seek(at)  # it is torn, or being written
            return
        if line.strip():
            yield from_line(line.decode("utf-8-sig", errors="replace"))
