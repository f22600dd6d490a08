"""No real crawl is worse off: crawls as people write them, beside stock Scrapy's of the same sites.

Each scenario is crawled by two processes at the same time, one of them with the add-on, from sites
of their own on loopback: what went wrong for users once, what projects do every day, and project
shapes drawn at random. The add-on's crawl may fetch no fewer pages, scrape no fewer items (files
count as items), hit the sites no more often, and take at most 1.2 times stock's time and the 6 s of
a polite start; where a site refuses, a bound of its own is named, and stock's hits are no measure.

    python benchmarks/beside_stock.py [--only NAME,NAME] [--shapes 12] [--seed 1] [--out folder]

A name may be the beginning of several; `--only shape` runs the shapes alone. Exit status 1 if one
is worse off.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.pop(0)  # this folder, whose modules are imported by their full names
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "sample_project"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import argparse
import tempfile

from benchmarks.arguments import new_folder
from benchmarks.beside import failures, projects  # noqa: F401 - they enter their scenarios
from benchmarks.beside.compare import Result, bound_of, compare, failings
from benchmarks.beside.scenario import SCENARIOS, Scenario
from benchmarks.beside.shapes import shape_scenario
from benchmarks.tables import Table


def chosen(only: str, shapes: int, seed: int) -> list[Scenario]:
    """All scenarios, or those whose names begin so."""
    known = [*SCENARIOS.values(), *(shape_scenario(seed, n) for n in range(1, shapes + 1))]
    begins = tuple(name.strip() for name in only.split(",") if name.strip())
    return [each for each in known if not begins or each.name.startswith(begins)]


def row(name: str, stock: Result, ours: Result, bound: float, verdict: str) -> str:
    """One scenario in the table."""
    numbers = "".join(
        f" {arm.seconds:7.1f}{' ' if arm.ended else '+'}{arm.pages:5} {arm.items:5} {arm.hits:5} │"
        for arm in (stock, ours)
    )
    return f"{name:30}│{numbers} {bound:6.1f} │ {verdict}"


def run(scenarios: list[Scenario], out: Path | None) -> int:
    """All of them in turn; prints the table, and returns the exit status."""
    table = Table("beside_stock")
    head = "  seconds pages items  hits │"
    table.add(f"{'':30}│{'stock Scrapy':^27}│{'with the add-on':^27}│")
    table.add(f"{'':30}│{head}{head} s at most│")
    worse = 0
    for scenario in scenarios:
        with tempfile.TemporaryDirectory(prefix="beside-") as folder:
            stock, ours = compare(scenario, Path(folder))
        failed = failings(scenario, stock, ours)
        worse += bool(failed)
        bound = bound_of(scenario, stock)
        verdict = ", ".join(failed) or "as good"
        if stock.within_cap > stock.seconds:
            verdict += f"; stock's within its cap: {stock.within_cap:.1f} s"
        table.add(row(scenario.name, stock, ours, bound, verdict))
    table.add("", *(f"{each.name}: {each.about}" for each in scenarios))
    table.add("", f"{len(scenarios) - worse} of {len(scenarios)} as good as stock Scrapy")
    table.keep(out)
    return int(worse > 0)


def main() -> int:
    """Read the arguments and run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--only", default="", help="beginnings of names, by commas")
    parser.add_argument("--shapes", type=int, default=12, help="project shapes to draw")
    parser.add_argument("--seed", type=int, default=1, help="of the shapes")
    parser.add_argument("--out", type=new_folder, help="folder for the table")
    arguments = parser.parse_args()
    scenarios = chosen(arguments.only, arguments.shapes, arguments.seed)
    if not scenarios:
        parser.error(f"--only takes beginnings of {', '.join([*SCENARIOS, 'shape'])}")
    return run(scenarios, arguments.out)


if __name__ == "__main__":
    sys.exit(main())
