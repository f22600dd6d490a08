"""Where chance decides: the worst of twenty crawls with refusals that no rate causes.

One hit in 200 is refused by chance, or one page in 200 is dead, or one class of pages has a limit
of its own: refusals say less of the rate there, and it depends on when they come. Goodput is a
share of an oracle that knows the server (and the class), as in `simulation.py`. Exit status 1 if
the worst seed of a row keeps less than `KEPT`.

    python benchmarks/worst_seed.py [--seeds 501-520] [--minutes 120] [--only TEXT] [--out FOLDER]
"""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.pop(0)  # this folder, whose queue.py would hide the standard library's
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import argparse
import statistics
from multiprocessing import Pool

from benchmarks.arguments import amount, new_folder, part_of, span
from benchmarks.simulation import TAIL, UNBOUND, Row, crawl
from benchmarks.tables import Table

KEPT = 90.0
"""Percent of goodput that the worst seed has to keep."""

ROWS = (
    Row("bucket:10/20,noise=0.005", KEPT),
    Row("bucket:10/20,noise=0.005", KEPT, network=TAIL, target_concurrency=UNBOUND),
    Row("bucket:2/5,noise=0.005", KEPT),
    Row("bucket:10/20,dead=200", KEPT),
    Row("bucket:10/20,dead=200", KEPT, network=TAIL, target_concurrency=UNBOUND),
    Row("bucket:2/5,dead=200", KEPT),
    Row("endpoint:10/1", KEPT),
)


def main() -> int:
    """Crawl all rows; print and keep the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=span, default="501-520", help="first and last")
    parser.add_argument("--minutes", type=amount(), default=120.0)
    names = part_of(row.name for row in ROWS)
    parser.add_argument("--only", type=names, default="", help="rows whose name has this in it")
    parser.add_argument("--out", type=new_folder, help="folder for the table")
    given = parser.parse_args()
    seeds: range = given.seeds
    rows = [row for row in ROWS if given.only in row.name]
    jobs = [(row, seed, given.minutes) for row in rows for seed in seeds]
    table = Table("worst_seed")
    heads = "".join(f"{head:>9}" for head in ("worst", "seed", "median", "mean", "refused"))
    table.add(f"{'':<40}{heads}   bar")
    missed = 0
    with Pool() as pool:
        found = pool.imap(crawl, jobs)
        for row in rows:
            parts = [next(found).whole for _ in seeds]
            goodputs = [100.0 * (part.goodput_ratio or 0.0) for part in parts]
            worst, seed = min(zip(goodputs, seeds, strict=True))
            refused = statistics.mean(100.0 * part.refused_ratio for part in parts)
            middle, mean = statistics.median(goodputs), statistics.mean(goodputs)
            cells = f"{worst:>9.1f}{seed:>9}{middle:>9.1f}{mean:>9.1f}{refused:>9.2f}"
            verdict = "  MISSED" if worst < row.goodput else ""
            missed += worst < row.goodput
            table.add(f"{row.name:<40}{cells}   {row.goodput:.0f}{verdict}")
    table.add("", f"{missed or 'none'} of {len(rows)} rows miss their bar")
    table.keep(given.out)
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
