"""The table of sites in a terminal, drawn anew each second.

Laws
----
* It shows a live crawl, by its address, or journals that are being written: one crawl's workers'.
* Where the output is no terminal, it is one table.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from . import units
from .asking import asked, is_address, no_crawl
from .building import Builder
from .page.cells import words
from .page.headline import about, headline
from .page.viewing import rows_of
from .page.words import COLUMNS
from .reader import Journals
from .records import is_allowed

if TYPE_CHECKING:
    from rich.console import Console, Group

MISSING = "the table needs rich: pip install scrapy-adaptive[watch]"

INTERVAL = 1.0
REST = 9.0
"""Times as long as a look took until the next one: many journals take no processor from crawls."""

SHOWN = ("site", "state", "rate", "limit", "held_by", "pages")
"""Columns that are shown."""

SHOWN_IN_WIDE = (*SHOWN, "refused", "paused")

WIDE = 100
"""Characters of a line from which a terminal is wide."""

LEAST = {"site": 16, "held_by": 14}
"""Characters of a line that these columns have in any case."""

NEVER_CUT = ("rate", "limit", "pages")
"""Columns that have their numbers whole, however narrow the terminal is."""

LINES_AROUND = 6
"""Lines of a terminal that are not rows."""

MOST_ROWS = 100
"""Rows where the output is no terminal."""

KINDS: dict[str, tuple[type, ...]] = {
    "text": (str,),
    "state": (str,),
    "rate": (int, float),
    "count": (int,),
    "seconds": (int, float),
    "pause": (list,),
}
"""Types of the values of a column, by its kind."""

Source: TypeAlias = "Callable[[], dict[str, Any]]"
"""Returns what there is to show: about, headline, sites and ended."""


def check_rich() -> None:
    """Nothing, where rich is installed.

    Raises:
        ValueError: it is not.
    """
    try:
        import rich  # noqa: F401
    except ImportError:
        raise ValueError(MISSING) from None


def watch(where: Sequence[str]) -> None:
    """Show this crawl until it ends, or until Ctrl-C.

    Args:
        where: the address that the crawl has printed, or the paths of its workers' journals.

    Raises:
        ValueError: rich is missing, or there is no crawl.
        OSError: the journal cannot be read.
    """
    check_rich()
    from rich.console import Console
    from rich.live import Live

    console = Console()
    with _source(where) as source:
        shown = source()
        if not console.is_terminal:
            console.print(drawn(shown, MOST_ROWS, console.width))
            return
        took = 0.0
        with Live(console=console, auto_refresh=False) as live:
            try:
                while not _show(live, shown, console):
                    time.sleep(max(INTERVAL, took * REST))
                    began = time.process_time()
                    shown = source()
                    took = time.process_time() - began
            except KeyboardInterrupt:
                pass
            except ValueError as error:
                live.console.print(f"{error}", markup=False)


def _show(live: Any, shown: dict[str, Any], console: Console) -> bool:
    """Draw; returns whether the crawl has ended."""
    rows = max(1, console.height - LINES_AROUND)
    live.update(drawn(shown, rows, console.width), refresh=True)
    return bool(shown["ended"])


def drawn(shown: dict[str, Any], most: int, width: int) -> Group:
    """The headline, and a table of so many sites at most, the busiest first.

    Args:
        width: characters of a line.
    """
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    keys = SHOWN_IN_WIDE if width >= WIDE else SHOWN
    indices = [index for index, column in enumerate(COLUMNS) if column.key in keys]
    for column in (COLUMNS[index] for index in indices):
        table.add_column(
            column.name,
            justify="left" if column.kind in ("text", "state") else "right",
            min_width=LEAST.get(column.key),
            overflow="fold",
            no_wrap=column.key in NEVER_CUT,
        )
    pages = next(index for index, column in enumerate(COLUMNS) if column.key == "pages")
    rows = sorted(shown["sites"], key=lambda row: -(row[pages] or 0))
    for row in rows[:most]:
        table.add_row(*(Text(words(COLUMNS[index], row[index])) for index in indices))
    left = len(rows) - most
    more = [Text(f"… and {left:,} more sites", style="dim")] if left > 0 else []
    told, said = units.printable(shown["headline"]), units.printable(shown["about"])
    return Group(Text(told, style="bold"), Text(said, style="dim"), table, *more)


@contextmanager
def _source(where: Sequence[str]) -> Iterator[Source]:
    if is_address(where[0]):
        yield lambda: _table_at(where[0])
    else:
        with Journals(map(Path, where)) as journals:
            yield _journals(journals)


def _table_at(address: str) -> dict[str, Any]:
    """The table of a live view.

    Raises:
        ValueError: nobody answers, or no live view of this version does.
    """
    found = asked(address, "table.json")
    try:
        is_told = isinstance(found["about"], str) and isinstance(found["headline"], str)
        if is_told and "ended" in found and all(map(_is_row, found["sites"])):
            return dict(found)
    except (KeyError, TypeError):
        pass
    raise no_crawl(address)


def _is_row(row: Any) -> bool:
    """Whether this is a row of the table: of each column a value of its kind, or none."""
    return len(row) == len(COLUMNS) and all(
        value is None or is_allowed(value, KINDS[column.kind])
        for column, value in zip(COLUMNS, row, strict=True)
    )


def _journals(journals: Journals) -> Source:
    """The table of what they have by now."""
    builder = Builder()

    def source() -> dict[str, Any]:
        for name, found in journals.read():
            for record in found:
                builder.add(record, name)
        journals.check()
        crawl = builder.crawl()
        return {
            "about": about(crawl),
            "headline": headline(crawl),
            "sites": rows_of(crawl),
            "ended": crawl.has_ended,
        }

    return source
