"""The command `simulate`: hours of a crawl in seconds, in a small table.

Laws
----
* The governor is made by who calls: the simulation knows the core alone.
"""

from __future__ import annotations

import argparse
import math
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from scrapy_adaptive.command_line import add_command

from .crawl import Crawl
from .drawing import SUFFIXES, check_drawing, draw
from .network import NETWORKS, network
from .readings import Part, Readings, read
from .spec import describe, read_spec

if TYPE_CHECKING:
    from scrapy_adaptive.command_line import Commands
    from scrapy_adaptive.core.governor import Governor

MakeGovernor: TypeAlias = (
    "Callable[[Mapping[str, str], Callable[[], float], Iterable[str]], Governor]"
)
"""Makes a governor of settings, as strings, of chance, and of the classes of pages; ValueError
tells what is wrong."""

DESCRIPTION = "Crawl a model of a server in virtual time, as fast as the settings and it allow."


def add(commands: Commands, make_governor: MakeGovernor) -> None:
    """Add the command.

    Args:
        make_governor: makes what paces the crawl.
    """
    parser = add_command(
        commands,
        "simulate",
        DESCRIPTION,
        lambda given: _run(given, make_governor),
        epilog=describe(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_arguments(parser)


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
        help="short for -s ADAPTIVE_TARGET_CONCURRENCY=N (default: auto)",
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
        check_drawing(given.plot)
    site = read_spec(given.server, given.seed)
    chance = random.Random(f"{given.seed} governor").random
    governor = make_governor(dict(given.settings), chance, site.kinds)
    delay = network(given.network, random.Random(f"{given.seed} network"))
    until = given.minutes * 60.0
    timeline = Crawl(governor, site.server, site.pages, delay).run(until)
    readings = read(timeline, site.server, until)
    setting = f"{given.network} network, seed {given.seed}"
    if given.plot:
        draw(timeline, site.server, readings, until, given.plot, title=given.server, note=setting)
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
