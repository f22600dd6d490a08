"""Real crawls, minutes long, side by side: what is each arm served, and how often refused?

Every arm is a `scrapy crawl` process of its own against an instance of its own of the same real
site on loopback, all at the same time, one kind of site after the other. What was served and
refused is counted from the site's log. The arms that do not feel a refusal (stock Scrapy and
AutoThrottle) run at a lower priority, they and their sites, or they would starve the others on a
machine with few cores; see `arms`.

Goodput is distinct pages served ÷ what an ideal crawler is served: limit × time, for `step` its
integral, for `queue` 4 workers ÷ 100 ms, for `limit_conn` what a plain client that keeps four
requests in flight is served beside the arms (`oracle`); pages of `limit_conn-slow` take four times
as long.

    python benchmarks/crawls/run.py [--minutes 3] [--servers a,b] [--arms x,y] [--out folder]

Into the folder go, per kind of site, a table, a plot and all numbers, and `summary.txt`: the
tables of all kinds that the folder holds, of earlier runs too, the peers that are better than the
candidate, and the bounds that it misses. Exit status 1 if this run misses one.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.pop(0)  # this folder, whose modules are imported by their full names
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import argparse
import shlex
import signal
import tempfile
from collections.abc import Sequence

from benchmarks.crawls.arms import ARMS, Arm
from benchmarks.crawls.side_by_side import Result, crawl_all
from benchmarks.crawls.sites import KINDS, Kind
from benchmarks.crawls.summary import keep, summarise, text_of, verdict


def chosen(names: str, known: Sequence[Kind] | Sequence[Arm]) -> list[str]:
    """The names of a list, all of them known."""
    wanted = [name for name in names.split(",") if name] or [each.name for each in known]
    for name in wanted:
        if name not in [each.name for each in known]:
            allowed = ", ".join(each.name for each in known)
            raise argparse.ArgumentTypeError(f"{name} is none of {allowed}")
    return wanted


def run(kinds: Sequence[Kind], arms: Sequence[Arm], seconds: float, out: Path, name: str) -> int:
    """All kinds of sites in turn; prints and writes what came of it, returns the exit status."""
    out.mkdir(parents=True, exist_ok=True)
    results: list[Result] = []
    for kind in kinds:
        with tempfile.TemporaryDirectory(prefix="crawls-") as folder:
            results.append(crawl_all(kind, arms, seconds, Path(folder)))
        keep(out, name, results[-1])
        (out / "summary.txt").write_text(summarise(out))
        print(text_of(name, results[-1]), flush=True)
    text, missed = verdict(results)
    print(text)
    return int(missed)


def main() -> int:
    """Read the arguments and run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--minutes", type=float, default=3.0, help="length of each crawl")
    parser.add_argument("--servers", default="", help="kinds of sites, by commas; all by default")
    parser.add_argument("--arms", default="", help="arms, by commas; all by default")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/crawls/results"))
    arguments = parser.parse_args()
    try:
        kinds, arms = chosen(arguments.servers, KINDS), chosen(arguments.arms, ARMS)
    except argparse.ArgumentTypeError as error:
        parser.error(str(error))
    if arguments.minutes <= 0:
        parser.error("--minutes takes more than 0")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    return run(
        [kind for kind in KINDS if kind.name in kinds],
        [arm for arm in ARMS if arm.name in arms],
        60.0 * arguments.minutes,
        arguments.out,
        shlex.join(["python", "benchmarks/crawls/run.py", *sys.argv[1:]]),
    )


if __name__ == "__main__":
    sys.exit(main())
