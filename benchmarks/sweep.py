"""Do the results hang on a constant? Each one halved and doubled, against a few servers.

A line is a constant at half or twice its value; a cell is the goodput, as a share of an oracle
that knows the server, and the share of refused hits, both in percent and means over the seeds. The
first line is the law as it is. Marked by `!` is a goodput more than two points under it, or
refusals more than a tenth of a point over it.

    python benchmarks/sweep.py [--seeds 202] [--minutes 60] [--only TEXT] [--out FOLDER]

Windows in human units, and counts that cannot be halved, are no constants to sweep.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.pop(0)  # this folder, whose queue.py would hide the standard library's
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import argparse
import ast
import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from importlib.util import resolve_name
from multiprocessing import Pool
from pkgutil import walk_packages
from string import ascii_lowercase
from types import ModuleType
from typing import TypeVar

from benchmarks.arguments import amount, new_folder, numbers, part_of
from benchmarks.simulation import ROWS as TABLE
from benchmarks.simulation import Row, crawl
from benchmarks.tables import Table
from scrapy_adaptive import core
from scrapy_adaptive.core import evidence
from scrapy_adaptive.core.breaker import backoff
from scrapy_adaptive.core.ceiling.hold import (
    bracket,
    epoch,
    explanations,
    history,
    noise,
    trial,
)
from scrapy_adaptive.core.ceiling.hold import ceiling as hold
from scrapy_adaptive.core.ceiling.hold import concurrency_cap as caps
from scrapy_adaptive.core.diagnosis import page_classes as classes
from scrapy_adaptive.core.pacing import concurrency as slowness

WORSE_GOODPUT = 2.0
"""Points of goodput under the law as it is, from which a cell is marked."""

WORSE_REFUSED = 0.1
"""Points of refusals over it."""

WIDTH = 30
"""Letters of the longest name of a constant, and some space."""

REGIMES = (
    "bucket:2/5",
    "bucket:10/1",
    "window:60/60",
    "bucket:10/20,step=4@3600",
    "bucket:10/20,sine=0.6",
    "bucket:10/20,noise=0.005",
    "bucket:10/20,dead=200",
    "ban:10/20/60,restarted",
    "cap:4/0.25 heavy-tailed",
    "queue:4/0.25,random",
)
"""One server of each regime, of those in the simulation's table; the quick ones."""

ENDPOINT = Row("endpoint:10/1")
"""A limit of one class of pages."""

ROWS = (
    *(
        replace(row, spec=row.spec.replace("@3600", "@1800"))
        for name in REGIMES
        for row in TABLE
        if row.name == name
    ),
    ENDPOINT,
)


@cache
def importers(home: ModuleType, name: str) -> tuple[ModuleType, ...]:
    """Modules of the core that import a name from the one that defines it."""
    found = []
    for each in walk_packages(core.__path__, f"{core.__name__}."):
        module = import_module(each.name)
        tree = ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))
        for node in (node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)):
            source = resolve_name("." * node.level + (node.module or ""), module.__package__)
            if source == home.__name__ and any(alias.name == name for alias in node.names):
                found.append(module)
    return tuple(found)


@dataclass(frozen=True)
class Constant:
    """A number of the law, and the module that names it."""

    name: str
    home: ModuleType
    is_multiple: bool = False
    """What matters of it is its distance from 1."""

    @property
    def title(self) -> str:
        """Module and name."""
        return f"{self.home.__name__.rpartition('.')[2]}.{self.name}"

    def set(self, value: float) -> None:
        """Have the law use that value, in this process."""
        for module in (self.home, *importers(self.home, self.name)):
            setattr(module, self.name, value)

    def scaled(self, factor: float) -> float:
        """The value times that; whole where the value is."""
        value: float = getattr(self.home, self.name)
        if self.is_multiple:
            return 1.0 + factor * (value - 1.0)
        return max(1, round(factor * value)) if isinstance(value, int) else factor * value


CONSTANTS = (
    *(Constant(name, bracket) for name in ("STEP", "NARROW", "FAR", "PRICE", "MARGIN")),
    Constant("RARER", bracket, is_multiple=True),
    Constant("CUTS", explanations),
    *(Constant(name, epoch) for name in ("ISOLATED", "BURST", "SHORTEST", "SHORT", "MINUTE")),
    Constant("AT_START", hold),
    *(Constant(name, trial, is_multiple=True) for name in ("FASTER", "MUCH_FASTER")),
    *(Constant(name, noise) for name in ("MOST", "CLUSTER")),
    *(Constant(name, trial) for name in ("SURE", "BLAMED")),
    *(Constant(name, caps) for name in ("RETEST", "SERVED")),
    Constant("SLOW", slowness, is_multiple=True),
    *(Constant(name, slowness) for name in ("SCATTER", "ROUND", "APART", "MEASURES", "LESS")),
    Constant("GAPS", backoff, is_multiple=True),
    *(Constant(name, backoff) for name in ("BREATH", "CREDIT")),
    *(Constant(name, evidence) for name in ("BLIND", "LEAST_SHARE", "MEMORY")),
    Constant("DOUBT", classes),
    Constant("OWN", classes, is_multiple=True),
    Constant("IDLE", history),
)

CHANCY = ("noise=", "window:")
"""Servers where a crawl hangs on chance: their cells are means over several times the seeds."""

CRAWLS = 4
"""Times as many."""

Cell = tuple[float, float]
Swept = tuple[int | None, float]
"""The number of a constant, None for the law as it is; and what it is multiplied by."""

Job = tuple[Swept, Row, tuple[int, ...], float]
V = TypeVar("V")


def cell(job: Job) -> Cell:
    """Goodput and refusals of one server, in percent, with one constant scaled."""
    (number, factor), row, seeds, minutes = job
    constant = None if number is None else CONSTANTS[number]
    usual = 0.0 if constant is None else constant.scaled(1.0)
    if constant is not None:
        constant.set(constant.scaled(factor))
    try:
        return crawled(row, seeds, minutes)
    finally:
        if constant is not None:
            constant.set(usual)


def crawled(row: Row, seeds: tuple[int, ...], minutes: float) -> Cell:
    """Goodput and refusals of one server, in percent, with the law as it is in this process."""
    times = CRAWLS if any(name in row.spec for name in CHANCY) else 1
    crawls = [seed + 1000 * number for number in range(times) for seed in seeds]
    found = [crawl((row, seed, minutes)).whole for seed in crawls]
    goodput = statistics.mean(100.0 * (part.goodput_ratio or 0.0) / row.share for part in found)
    return goodput, statistics.mean(100.0 * part.refused_ratio for part in found)


def heads(rows: tuple[Row, ...]) -> list[str]:
    """Which server each letter stands for, and the letters over their columns."""
    letters = ascii_lowercase[: len(rows)]
    names = [f"{letter}  {row.name}" for letter, row in zip(letters, rows, strict=True)]
    return [*names, "", " " * WIDTH + "".join(letter.rjust(12) + " " for letter in letters)]


def line(title: str, cells: list[Cell], usual: list[Cell]) -> str:
    """One constant's results."""
    parts = []
    for (goodput, refused), (whole, least) in zip(cells, usual, strict=True):
        worse = goodput < whole - WORSE_GOODPUT or refused > least + WORSE_REFUSED
        parts.append(f"{goodput:.1f}/{refused:.2f}{'!' if worse else ' '}".rjust(13))
    return f"{title:<{WIDTH}}" + "".join(parts)


def arguments(what: str, *, seeds: str, only: str, names: Iterable[str]) -> argparse.Namespace:
    """What was asked for on the command line: seeds, minutes, only some of these names, out."""
    parser = argparse.ArgumentParser(description=what)
    parser.add_argument("--seeds", type=numbers, default=seeds)
    parser.add_argument("--minutes", type=amount(), default=60.0)
    parser.add_argument(
        "--only", type=part_of(names), default="", help=f"{only} whose name has this in it"
    )
    parser.add_argument("--out", type=new_folder, help="folder for the table")
    return parser.parse_args()


def tabulate(
    name: str,
    rows: tuple[Row, ...],
    lines: dict[str, V],
    cell: Callable[[tuple[V, Row, tuple[int, ...], float]], Cell],
    given: argparse.Namespace,
) -> None:
    """Crawl all rows for each line, the first being the law as it is; print and keep the table.

    Args:
        lines: by title, what `cell` is told.
    """
    jobs = [(each, row, given.seeds, given.minutes) for each in lines.values() for row in rows]
    table = Table(name)
    table.add(*heads(rows))
    usual: list[Cell] = []
    with Pool() as pool:
        found = pool.imap(cell, jobs)
        for title in lines:
            cells = [next(found) for _ in rows]
            usual = usual or cells
            table.add(line(title, cells, usual))
    table.keep(given.out)


def main() -> int:
    """Sweep all constants."""
    names = (constant.title for constant in CONSTANTS)
    given = arguments((__doc__ or "").splitlines()[0], seeds="202", only="constants", names=names)
    lines: dict[str, Swept] = {"as it is": (None, 1.0)}
    for number, constant in enumerate(CONSTANTS):
        if given.only in constant.title:
            lines |= {f"{constant.title} x {factor:g}": (number, factor) for factor in (0.5, 2.0)}
    tabulate("sweep", ROWS, lines, cell, given)
    return 0


if __name__ == "__main__":
    sys.exit(main())
