"""What the commands share: a parser that says in one line what is wrong, and printing.

Laws
----
* A bad argument is answered by one line that names it and what is allowed, and exit status 2.
* A command returns what there is to print; ValueError and OSError tell its user what is wrong.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Callable, Sequence
from http.client import HTTPException
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

if TYPE_CHECKING:
    Commands: TypeAlias = "argparse._SubParsersAction[OneLineParser]"
    """Where each command adds its parser."""

INTERRUPTED = 130
"""Exit status after Ctrl-C: 128 and the number of SIGINT."""

CLOSED_PIPE = 141
"""Exit status of a command whose reader has gone: 128 and the number of SIGPIPE."""


class OneLineParser(argparse.ArgumentParser):
    """Says what is wrong in one line, without the usage above it."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message} (see --help)\n")


def add_command(
    commands: Commands,
    name: str,
    told: str,
    run: Callable[[argparse.Namespace], str],
    **options: Any,
) -> argparse.ArgumentParser:
    """Add a command of that name, told in a line; `run` returns what it prints."""
    parser = commands.add_parser(name, help=told, description=told, **options)
    parser.set_defaults(run=run, parser=parser)
    return parser


def run_command(
    add_all: Callable[[Commands], None], arguments: Sequence[str] | None, *, prog: str
) -> int:
    """Run the command that the words name; returns its exit status.

    Args:
        add_all: adds every command there is.
        arguments: the words after the program's name; None: those of the process.
        prog: the program's name, as its user typed it.
    """
    parser = OneLineParser(prog=prog, description="Adaptive politeness for Scrapy.")
    add_all(parser.add_subparsers(metavar="COMMAND", required=True))
    given = parser.parse_args(arguments)
    try:
        told = given.run(given)
    except (ValueError, OSError, HTTPException) as error:
        given.parser.error(str(error))
    except KeyboardInterrupt:
        return INTERRUPTED
    try:
        return print_text(told) if told else 0
    except OSError as error:
        parser.exit(2, f"{given.parser.prog}: the output cannot be written: {error}\n")


def print_text(text: str) -> int:
    """Print; returns the exit status, as that of `cat` where the reader has gone (`| head`).

    Raises:
        OSError: the output cannot be written: its disk is full.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # it may know fewer letters than hosts do
    try:
        print(text, flush=True)
    except BrokenPipeError:
        _drop_output()
        return CLOSED_PIPE
    except OSError:
        _drop_output()
        raise
    return 0


def _drop_output() -> None:
    """Python would flush once more at its end, and complain then."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
