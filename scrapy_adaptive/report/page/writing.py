"""Writes the page of a crawl, or a table of it, to a file.

Laws
----
* A journal is never written over: it cannot be had again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from scrapy_adaptive.report.records import Start, from_line

from . import page
from .viewing import view_of

if TYPE_CHECKING:
    from typing import TextIO

    from scrapy_adaptive.report.crawl import Crawl


LONGEST = 10_000
"""Characters of the first line of a journal."""


def write_page(crawl: Crawl, path: Path) -> None:
    """Write the page of a crawl.

    Raises:
        ValueError: Bokeh is not installed.
        OSError: it cannot be written.
    """
    text = page(view_of(crawl))
    with opened(path) as file:
        file.write(text)


@contextmanager
def opened(path: Path, newline: str | None = None) -> Iterator[TextIO]:
    """The file, to be written anew.

    Raises:
        OSError: it is a journal, or cannot be written.
    """
    if _is_journal(path):
        raise OSError(f"{path} is a journal, which is not written over: name another file")
    try:
        with path.open("w", encoding="utf-8", newline=newline) as file:
            yield file
    except OSError as error:
        if error.filename is not None:
            raise
        raise OSError(f"{path}: {error}") from None  # a full disk does not say whose


def _is_journal(path: Path) -> bool:
    """Whether the file begins as a journal does."""
    with suppress(OSError, UnicodeDecodeError):
        if path.is_file():
            with path.open("rb") as file:
                return isinstance(from_line(file.readline(LONGEST).decode()), Start)
    return False
