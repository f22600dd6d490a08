"""``python -m docsite``: the site on 127.0.0.1.

Laws
----
* One line on standard output when the site is ready, with its address; nothing else.
* Every number of the load control is an option of its own name.
* A bad argument, a bad folder or a taken port is one line and a non-zero exit status.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sqlite3
import sys
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from docsite.api import ApiThrottle, offer_rules
from docsite.app import Site, serve
from docsite.arguments import OneLineParser, factor, folder, port, seconds
from docsite.load_control import LoadControl
from docsite.load_rules import LoadRules, LoadRulesError
from docsite.pages import read_manifest


def build_parser() -> OneLineParser:
    parser = OneLineParser(prog="docsite", description="Pages behind a load control.")
    parser.add_argument("--pages", type=folder, required=True, help="folder of docsite.render")
    parser.add_argument("--log", type=Path, required=True, help="file of hits, begun anew")
    parser.add_argument("--port", type=port, default=8080, help="0: any free port (default: 8080)")
    parser.add_argument(
        "--latency", type=seconds, default=0.0, help="seconds a page takes (default: 0)"
    )
    parser.add_argument(
        "--speed", type=factor, default=1.0, help="100 makes a rule's 30 s into 0.3 s (default: 1)"
    )
    parser.add_argument("--retry-after", action="store_true", help="a refusal names its wait")
    parser.add_argument("--api", type=Path, help="SQLite file whose table throttles an API, /api/…")
    parser.add_argument("--no-load-control", action="store_true", help="refuse nobody")
    rules = parser.add_argument_group("load control, in the rules' own seconds")
    for field in fields(LoadRules):
        option = f"--{field.name.replace('_', '-')}"
        words = f"{field.metadata['help']} (default: {field.default})"
        if isinstance(field.default, bool):
            switch = argparse.BooleanOptionalAction
            rules.add_argument(option, action=switch, default=field.default, help=words)
        elif isinstance(field.default, (int, float)):
            kind = type(field.default)
            rules.add_argument(option, type=kind, default=field.default, help=words)
    return parser


def read_rules(arguments: argparse.Namespace) -> LoadRules:
    """The rules on the command line, on the site's clock. Raises LoadRulesError."""
    given: dict[str, Any] = vars(arguments)
    names = [field.name for field in fields(LoadRules) if field.name in given]
    return LoadRules(**{name: given[name] for name in names}).sped_up(arguments.speed)


def _api(path: Path | None) -> ApiThrottle | None:
    """The throttle of the API, whose table crawls may read as rules. Raises OSError."""
    if path is None:
        return None
    try:
        offer_rules(path)
        return ApiThrottle(path)
    except sqlite3.Error as error:
        raise OSError(f"--api: {path}: {error}") from None


def main(argv: Sequence[str] | None = None) -> int:
    parser = build_parser()
    arguments = parser.parse_args(argv)
    manifest = read_manifest(arguments.pages)
    if manifest is None:
        parser.error(f"--pages: {arguments.pages} was not made by docsite.render")
    try:
        control = None if arguments.no_load_control else LoadControl(read_rules(arguments))
    except LoadRulesError as error:
        parser.error(str(error))

    pages = manifest.files(arguments.pages)
    try:
        with arguments.log.open("a", encoding="utf-8", buffering=1) as log:

            def begin(number: int) -> None:
                log.truncate(0)  # not before: the port may be taken, by a site that writes there
                print(f"docsite: {len(pages)} pages at http://127.0.0.1:{number}/", flush=True)

            site = Site(
                pages,
                control,
                log,
                latency=arguments.latency,
                tell_wait=arguments.retry_after,
                api=_api(arguments.api),
            )
            with contextlib.suppress(KeyboardInterrupt):
                asyncio.run(serve(site, arguments.port, begin))
    except OSError as error:
        print(f"docsite: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
