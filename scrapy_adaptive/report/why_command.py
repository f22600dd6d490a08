"""The command `why`: what holds a site back, from a journal or from a crawl that runs.

Laws
----
* A crawl that runs is asked once, and not disturbed.
* What is wrong is told in one line, with exit status 2.
"""

from __future__ import annotations

import argparse
import json
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

from .crawl import Crawl
from .reader import read_crawl
from .why import why

DESCRIPTION = "Say what holds a site back, what was tried, what to set for more, and its cost."

ADDRESS = "http://127.0.0.1:6600/"
"""Where a crawl with ADAPTIVE_WATCH is, if nothing else was set."""

STATE = "state.json"
"""Name of the model under a live crawl's address."""

PATIENCE = 10.0
"""Seconds that an answer may take."""


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
        ValueError: there is no such site, or nothing can be read there.
        OSError: nobody answers, or a file cannot be opened.
    """
    return why(crawl_at(given.where), given.site)


def crawl_at(where: Sequence[str]) -> Crawl:
    """The crawl at a live address, or that of these journals.

    Raises:
        ValueError: nothing can be read there.
        OSError: nobody answers, or a file cannot be opened.
    """
    if not where[0].startswith(("http://", "https://")):
        return read_crawl(map(Path, where))
    query = urlsplit(where[0]).query  # the token, where one is needed
    address = urljoin(where[0], STATE) + (f"?{query}" if query else "")
    try:
        with urllib.request.urlopen(address, timeout=PATIENCE) as response:
            return Crawl.from_json(json.load(response))
    except urllib.error.HTTPError as error:
        raise ValueError(f"{where[0]} answers {error.code} {error.reason}") from None
    except urllib.error.URLError as error:
        raise OSError(
            f"no crawl answers at {where[0]} ({error.reason}); is ADAPTIVE_WATCH on? A journal is "
            "named by its path"
        ) from None
