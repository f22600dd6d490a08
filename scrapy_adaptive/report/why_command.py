"""The command `why`: what holds a site back, from a journal or from a crawl that runs.

Laws
----
* A crawl that runs is asked once, and not disturbed.
* What is wrong is told in one line, with exit status 2.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .asking import ADDRESS, address_of_one, asked, no_crawl
from .crawl import Crawl
from .reader import read_crawl
from .why import why

DESCRIPTION = "Say what holds a site back, what was tried, what to set for more, and its cost."


def add(commands: Any) -> None:
    """Add the command to these of argparse; `run` of what it parses returns what to print."""
    parser = commands.add_parser("why", help=DESCRIPTION, description=DESCRIPTION)
    parser.add_argument("site", metavar="HOST", help="the site: its host, or the name of its slot")
    parser.add_argument(
        "where",
        metavar="URL|JOURNAL",
        nargs="*",
        default=[ADDRESS],
        help="the address that the crawl printed, or its journal, or several workers' journals "
        f"(default: {ADDRESS})",
    )
    parser.set_defaults(run=run, parser=parser)


def run(given: argparse.Namespace) -> str:
    """The answer.

    Raises:
        ValueError: there is no such site, nobody answers, or nothing can be read there.
        OSError: a file cannot be opened.
    """
    return why(crawl_at(given.where), given.site)


def crawl_at(where: Sequence[str]) -> Crawl:
    """The crawl at a live address, or that of these journals.

    Raises:
        ValueError: nobody answers, nothing can be read there, or an address is not alone.
        OSError: a file cannot be opened.
    """
    address = address_of_one(where)
    if not address:
        return read_crawl(map(Path, where))
    state = asked(address, "state.json")
    try:
        return Crawl.from_json(state)
    except ValueError:
        raise no_crawl(address) from None
