"""A site that gets slow instead of refusing: goodput over median latency, ours and AutoThrottle's.

The simulated site has 4 workers, 0.25 s each on average, exponential; both crawls may have
`IN_FLIGHT` requests in flight. AutoThrottle is its law alone, to the last bit, without Scrapy's
random delays, which would cost it more. Its N goes from one request on average to more than the
workers; ours too, and `auto`. At the median latency of each of our points, AutoThrottle's curve
is read off by linear interpolation. Exit status 1 if it is above ours anywhere.

    python benchmarks/queueing.py [--seeds 301,302,303] [--minutes 60] [--out FOLDER]
"""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.pop(0)  # this folder, whose queue.py would hide the standard library's
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import argparse
import math
import statistics
from dataclasses import dataclass
from itertools import pairwise
from multiprocessing import Pool

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.arguments import amount, new_folder, numbers
from benchmarks.simulation import ROWS, governor, play
from benchmarks.tables import Table
from scrapy_adaptive.core.pacing.concurrency import Slowness
from scrapy_adaptive.simulation.crawl import HOST

SITE = next(row for row in ROWS if row.spec == "queue:4/0.25,random")
TARGETS = (0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 12.0, 16.0, 32.0, 64.0)
IN_FLIGHT = 64
CROWDED = 8.0
"""Our points with a larger N lie close together, and are named as one."""

TICKS = (0.25, 0.5, 1.0, 2.0, 4.0)
"""Seconds of latency that the picture names."""

OURS, AUTOTHROTTLE = "scrapy-adaptive", "AutoThrottle"
COLOURS = {OURS: "#2a78b8", AUTOTHROTTLE: "#d1352b"}

NOISE = 0.5
"""Points of goodput by which means over a few seeds differ by chance."""


@dataclass(frozen=True, order=True)
class Point:
    """One N: seconds of median latency, and goodput in percent of the oracle's."""

    latency: float
    goodput: float
    target: float


class Unlimited(Slowness):
    """Latency sets the delay only, as in AutoThrottle, never what is in flight."""

    __slots__ = ()

    def on_latency(self, now: float, sent_at: float, seconds: float, level: int) -> None:
        """Nothing."""


def crawl(job: tuple[str, float, int, float]) -> tuple[float, float]:
    """One crawl; returns its median latency and its goodput."""
    arm, target, seed, minutes = job
    if arm == OURS:
        crawler = governor(target, seed)
    else:
        crawler = governor(target, seed, "aimd")  # it has no limit before a refusal
        crawler.slot(HOST, 0.0).slowness = Unlimited()
    readings = play(crawler, SITE, seed, 60.0 * minutes)
    return readings.median_latency or 0.0, 100.0 * (readings.whole.goodput_ratio or 0.0)


def at(curve: list[Point], latency: float) -> float | None:
    """Goodput of a curve at that latency; None outside of it."""
    for left, right in pairwise(sorted(curve)):
        if left.latency <= latency <= right.latency:
            share = (latency - left.latency) / ((right.latency - left.latency) or 1.0)
            return left.goodput + share * (right.goodput - left.goodput)
    return None


def draw(curves: dict[str, list[Point]], path: Path, command: str) -> None:
    """Both curves in one picture."""
    figure = Figure(figsize=(7.0, 4.6), layout="constrained")
    axes = figure.subplots()
    for arm, points in curves.items():
        latencies = [point.latency for point in points]
        goodputs = [point.goodput for point in points]
        axes.plot(latencies, goodputs, "o-", markersize=4, color=COLOURS[arm], label=arm)
        for point in points:
            if arm == AUTOTHROTTLE or point.target <= CROWDED:
                _name(axes, arm, named(point.target), point)
    crowd = [target for target in TARGETS if target > CROWDED]
    _name(axes, OURS, f"{crowd[0]:g} … {crowd[-1]:g}, auto", curves[OURS][-1])
    axes.set_ylim(0, 108)
    axes.set_xscale("log")
    axes.set_xticks(TICKS, labels=[f"{tick:g}" for tick in TICKS])
    axes.minorticks_off()
    axes.set_xlabel("median latency, seconds")
    axes.set_ylabel("goodput, % of the oracle's")
    axes.set_title(f"{SITE.spec}: each point is an N", fontsize=10)
    axes.legend(frameon=False, loc="lower right")
    figure.text(0.01, 0.002, command, fontsize=5, color="#666666")
    figure.savefig(path, dpi=110, metadata={"Description": command})


def _name(axes: Axes, arm: str, text: str, point: Point) -> None:
    """Write beside a point what it stands for: AutoThrottle's under its curve, ours above."""
    axes.annotate(
        text,
        (point.latency, point.goodput),
        textcoords="offset points",
        xytext=(4, -9) if arm == AUTOTHROTTLE else (-4, 7),
        fontsize=7,
        color=COLOURS[arm],
    )


def named(target: float) -> str:
    """An N as a user writes it."""
    return "auto" if target == math.inf else f"{target:g}"


def tabulate(table: Table, curves: dict[str, list[Point]]) -> int:
    """A line for each point; returns how many of ours AutoThrottle does better at."""
    table.add(f"{'':<16}{'N':>6}{'latency s':>11}{'goodput %':>11}{'AutoThrottle there':>20}")
    below = 0
    for arm, points in curves.items():
        for point in points:
            other = at(curves[AUTOTHROTTLE], point.latency) if arm == OURS else None
            worse = other is not None and point.goodput < other - NOISE
            below += worse
            cells = f"{named(point.target):>6}{point.latency:>11.3f}{point.goodput:>11.1f}"
            beside = "" if other is None else f"{other:>20.1f}" + ("  BELOW" if worse else "")
            table.add(f"{arm:<16}{cells}{beside}")
    return below


def main() -> int:
    """Crawl with each N; print and keep the table and the picture."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=numbers, default="301,302,303")
    parser.add_argument("--minutes", type=amount(), default=60.0)
    parser.add_argument("--out", type=new_folder, help="folder for the table and the picture")
    given = parser.parse_args()
    seeds: tuple[int, ...] = given.seeds
    arms = [(AUTOTHROTTLE, target) for target in TARGETS]
    arms += [(OURS, target) for target in (*TARGETS, math.inf)]
    jobs = [(arm, target, seed, given.minutes) for arm, target in arms for seed in seeds]
    curves: dict[str, list[Point]] = {AUTOTHROTTLE: [], OURS: []}
    with Pool() as pool:
        found = pool.imap(crawl, jobs)
        for arm, target in arms:
            latencies, goodputs = zip(*(next(found) for _ in seeds), strict=True)
            point = Point(statistics.mean(latencies), statistics.mean(goodputs), target)
            curves[arm].append(point)
    table = Table("queueing")
    table.add(f"{SITE.spec}, {given.minutes:g} minutes, means over {len(seeds)} seeds", "")
    below = tabulate(table, curves)
    table.add(
        "", f"{below or 'none'} of our points are more than {NOISE:g} below AutoThrottle's curve"
    )
    table.keep(given.out)
    if given.out:
        draw(curves, given.out / "queueing.png", table.command)
    return int(below > 0)


if __name__ == "__main__":
    sys.exit(main())
