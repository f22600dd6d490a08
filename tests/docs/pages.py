"""The documentation as tests read it: its tables and its boxes, from the source text.

Laws
----
* A page is read as text, so that the tests need no Sphinx.
* What cannot be found raises: a test never passes because a page says nothing.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"

_TABLE = re.compile(r"^\.\. list-table::\n((?:   .*\n|\n)+)", re.MULTILINE)
_BLOCK = re.compile(r"^( *)\.\. code-block:: (\w+)\n((?:\1   .*\n|\n)+)", re.MULTILINE)
_CAPTION = re.compile(r":caption: (.*)\n")

Row = tuple[str, ...]


@dataclass(frozen=True)
class Box:
    """One code block."""

    language: str
    caption: str
    text: str


def read(page: str) -> str:
    """The source of a page, `reference/settings` for instance."""
    return (DOCS / f"{page}.rst").read_text(encoding="utf-8") + "\n"


def page_names() -> list[str]:
    """All pages."""
    found = (path.relative_to(DOCS).with_suffix("") for path in DOCS.rglob("*.rst"))
    return sorted(path.as_posix() for path in found if "_build" not in path.parts)


def rows(page: str, head: str) -> list[Row]:
    """The rows of all tables of a page whose first column is called `head`."""
    found = [table[1:] for table in _tables(read(page)) if table[0][0] == head]
    assert found, f"{page} has no table of {head}"
    return [row for table in found for row in table]


def boxes(page: str, language: str) -> Iterator[Box]:
    """The code blocks of a page."""
    for _, found, body in _BLOCK.findall(read(page)):
        options, _, text = textwrap.dedent(body).partition("\n\n")
        caption = _CAPTION.search(f"{options}\n")
        if found == language:
            lines = text if options.startswith(":") else f"{options}\n\n{text}"
            yield Box(found, caption[1] if caption else "", lines.strip("\n"))


def literal(cell: str) -> str:
    """What stands in a cell, without the marks of a literal or of a role."""
    found = re.fullmatch(r"(?::\w+:`|``)(.+?)(?:``|`)", cell)
    assert found, f"{cell!r} is no literal"
    return found[1]


def _tables(source: str) -> Iterator[list[Row]]:
    for body in _TABLE.findall(source):
        table: list[list[str]] = []
        for line in textwrap.dedent(body).splitlines():
            if line.startswith("* - "):
                table.append([line[4:]])
            elif line.startswith("  - "):
                table[-1].append(line[4:])
            elif line.strip() and table:
                table[-1][-1] += f" {line.strip()}"
        yield [tuple(row) for row in table]
