"""The commands `report` and `watch`.

Laws
----
* They read journals, or a live view; no crawl is needed, and none is disturbed.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from scrapy_adaptive.command_line import add_command

from .asking import ADDRESS, address_of_one
from .page.cells import no_formula
from .page.viewing import rows_of
from .page.words import COLUMNS
from .page.writing import opened, write_page
from .reader import read_crawl
from .terminal import watch

if TYPE_CHECKING:
    from scrapy_adaptive.command_line import Commands

    from .crawl import Crawl
    from .page.view import Row

REPORT = "Make a page, a table or JSON of a crawl's journal, or of several workers' journals."
WATCH = "Show a crawl, or all workers of one, while it runs: in the terminal, or as a page."

PAUSE = ("last_pause_at", "last_pause_seconds", "last_pause_by")


def add(commands: Commands) -> None:
    """Add the commands."""
    report = add_command(commands, "report", REPORT, _report)
    report.add_argument("journals", metavar="JOURNAL", nargs="+", type=Path, help="run.jsonl")
    how = report.add_mutually_exclusive_group()
    how.add_argument(
        "--out", metavar="FILE", type=Path, help="the page (default: JOURNAL with .html)"
    )
    how.add_argument("--csv", metavar="FILE", type=Path, help="a line for each site")
    how.add_argument("--json", action="store_true", help="all that is known, on the output")
    live = add_command(commands, "watch", WATCH, _watch)
    live.add_argument(
        "where",
        metavar="URL|JOURNAL",
        nargs="*",
        default=[ADDRESS],
        help="the address that the crawl printed, or its journal, or several workers' journals "
        f"(default: {ADDRESS})",
    )
    live.add_argument(
        "--page", action="store_true", help="serve the live page of these journals instead"
    )
    live.add_argument(
        "--address",
        default="127.0.0.1",
        help="what the page is bound to, as ADAPTIVE_WATCH_ADDRESS (default: 127.0.0.1)",
    )
    live.add_argument(
        "--port",
        type=int,
        default=urlsplit(ADDRESS).port,
        help="where the page is; a free port where it is taken (default: %(default)s)",
    )


def _report(given: argparse.Namespace) -> str:
    crawl = read_crawl(given.journals)
    if given.json:
        return "".join(crawl.to_json())
    if given.csv:
        write_csv(crawl, given.csv)
        return f"{given.csv}"
    out = given.out or given.journals[0].with_suffix(".html")
    write_page(crawl, out)
    return f"{out}"


def _watch(given: argparse.Namespace) -> str:
    address = address_of_one(given.where)
    if not given.page:
        watch(given.where)
        return ""
    if address:
        raise ValueError(f"--page is made of journals: the crawl has its own at {address}")
    from .live.fleet import serve

    journals = [Path(each) for each in given.where]
    serve(journals, given.address, given.port, lambda url: print(f"watch at {url}", flush=True))
    return ""


def write_csv(crawl: Crawl, path: Path) -> None:
    """Write a line for each site; rates are 1/s, times seconds.

    Raises:
        OSError: it is a journal, or cannot be written.
    """
    with opened(path, newline="") as file:
        writer = csv.writer(file)
        writer.writerow([column.key for column in COLUMNS if column.kind != "pause"] + [*PAUSE])
        writer.writerows(_flat(row) for row in rows_of(crawl))


def _flat(row: Row) -> list[Any]:
    *plain, pause = row
    return [_cell(value) for value in [*plain, *(pause or [None] * len(PAUSE))]]


def _cell(value: Any) -> Any:
    return no_formula(value) if isinstance(value, str) else value
