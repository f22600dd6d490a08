"""The command `simulate`: hours of a crawl in seconds, told in a small table.

Laws
----
* The governor is made by who calls: the simulation knows the core alone.
* A bad argument is answered by one line that names it and what is allowed, and exit status 2.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from .client import Crawl
from .network import NETWORKS, network
from .plot import SUFFIXES, check_matplotlib, draw
from .readings import Part, Readings, read
from .spec import describe, read_spec

if TYPE_CHECKING:
    from scrapy_adaptive.core.governor import Governor

MakeGovernor: TypeAlias = "Callable[[Mapping[str, str], Callable[[], float]], Governor]"
"""Makes a governor of settings, as strings, and of chance; ValueError tells what is wrong."""

CLOSED_PIPE = 141
"""Exit status of a command whose reader has gone: 128 and the number of SIGPIPE."""

DESCRIPTION = "Crawl a model of a server in virtual time, as fast as the settings and it allow."


class OneLineParser(argparse.ArgumentParser):
    """Says what is wrong in one line, without the usage above it."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message} (see --help)\n")


def main(
    arguments: Sequence[str] | None,
    make_governor: MakeGovernor,
    *,
    prog: str,
    others: Callable[[Any], None] = lambda commands: None,
) -> int:
    """Run the command; returns its exit status.

    Args:
        arguments: the words after the program's name; None: those of the process.
        make_governor: makes what paces the crawl.
        prog: the program's name, as its user typed it.
        others: adds other commands than this one.
    """
    parser = OneLineParser(prog=prog, description="Adaptive politeness for Scrapy.")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    simulate = commands.add_parser(
        "simulate",
        help=DESCRIPTION,
        description=DESCRIPTION,
        epilog=describe(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_arguments(simulate)
    simulate.set_defaults(run=lambda given: _run(given, make_governor), parser=simulate)
    others(commands)
    given = parser.parse_args(arguments)
    try:
        told = given.run(given)
    except (ValueError, OSError) as error:
        given.parser.error(str(error))
    return _print(told)


def _print(text: str) -> int:
    """Print; returns the exit status, as that of `cat` where the reader has gone (`| head`)."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        # Python would flush once more at its end, and complain then.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return CLOSED_PIPE
    return 0


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--server", metavar="SPEC", required=True, help="the model and its numbers, see below")
    add("--minutes", type=_minutes, default=60.0, help="length of the crawl (default: 60)")
    add(
        "--network",
        choices=NETWORKS,
        default=NETWORKS[0],
        help=f"50 ms there and back on average: {', '.join(NETWORKS)} (default: {NETWORKS[0]})",
    )
    add("--seed", type=int, default=1, help="the same seed, the same crawl (default: 1)")
    add(
        "--target-concurrency",
        metavar="N",
        dest="settings",
        action="append",
        default=[],
        type=lambda text: ("ADAPTIVE_TARGET_CONCURRENCY", text),
        help="short for -s ADAPTIVE_TARGET_CONCURRENCY=N (default: 1)",
    )
    add(
        "-s",
        metavar="NAME=VALUE",
        dest="settings",
        action="append",
        type=_setting,
        default=[],
        help="a setting of the crawl, as often as needed; the last one of a name counts",
    )
    add("--plot", metavar="FILE", type=_picture, help=f"draw the crawl: {', '.join(SUFFIXES)}")


def _run(given: argparse.Namespace, make_governor: MakeGovernor) -> str:
    """Crawl, draw, and return the table."""
    if given.plot:
        check_matplotlib()
    site = read_spec(given.server, given.seed)
    governor = make_governor(dict(given.settings), random.Random(f"{given.seed} governor").random)
    delay = network(given.network, random.Random(f"{given.seed} network"))
    until = given.minutes * 60.0
    timeline = Crawl(governor, site.server, site.pages, delay).run(until)
    readings = read(timeline, site.server, until)
    setting = f"{given.network} network, seed {given.seed}"
    if given.plot:
        whole = readings.whole
        limit = "no limit" if whole.goodput_ratio is None else f"{_goodput(whole)} of the limit"
        note = f"{limit}, {whole.refused_ratio:.2%} refused; {setting}"
        draw(timeline, site.server, until, given.plot, title=given.server, note=note)
    return f"{given.server}, {setting}\n\n{table(readings, until)}"


def table(readings: Readings, until: float) -> str:
    """The readings of a crawl of so many seconds, in lines."""
    parts = (readings.whole, readings.first, readings.second_half)
    heads = ("whole", f"first {min(until / 60.0, 10.0):g} min", "second half")
    latency, reached = readings.median_latency, readings.reached_at
    rows: list[tuple[str, Sequence[str]]] = [
        ("", heads),
        ("accepted, pages", [f"{part.accepted_count:,}" for part in parts]),
        ("of the limit", [_goodput(part) for part in parts]),
        ("refused, hits", [f"{part.refused_count:,}" for part in parts]),
        ("of all hits", [f"{part.refused_ratio:.2%}" for part in parts]),
        ("90 % of the limit after", ["–" if reached is None else f"{reached:.1f} s"]),
        ("longest pause", [f"{readings.longest_pause:.1f} s"]),
        ("median latency", ["–" if latency is None else f"{latency:.3f} s"]),
        ("bans", [f"{readings.ban_count:,}"]),
        ("hits while banned", [f"{readings.banned_count:,}"]),
        ("pages given up", [f"{readings.lost_count:,}"]),
    ]
    return "\n".join(
        (f"{name:<24}" + "".join(f"{cell:>14}" for cell in cells)).rstrip() for name, cells in rows
    )


def _goodput(part: Part) -> str:
    return "–" if part.goodput_ratio is None else f"{part.goodput_ratio:.1%}"


def _minutes(text: str) -> float:
    try:
        minutes = float(text)
    except ValueError:
        minutes = math.nan
    if not 0 < minutes < math.inf:
        raise argparse.ArgumentTypeError(f"must be a number, more than 0, not {text!r}")
    return minutes


def _setting(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not name or not sign:
        raise argparse.ArgumentTypeError(f"must be NAME=VALUE, not {text!r}")
    return name, value


def _picture(text: str) -> Path:
    path = Path(text)
    if path.suffix not in SUFFIXES:
        raise argparse.ArgumentTypeError(f"must end in {' or '.join(SUFFIXES)}, not {text!r}")
    if not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"no such folder: {str(path.parent)!r}")
    return path
