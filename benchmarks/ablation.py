"""What does each part of the law earn? Each one left out, against a few servers.

A line is the law without one of its parts; a cell is the goodput, as a share of an oracle that
knows the server, and the share of refused hits, both in percent and means over the seeds. The
first line is the law as it is. Marked by `!` is a goodput more than two points under it, or
refusals more than a tenth of a point over it.

    python benchmarks/ablation.py [--seeds 203] [--minutes 60] [--only TEXT] [--out FOLDER]

What latency teaches costs goodput and earns latency: see `queueing.py`.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.pop(0)  # this folder, whose queue.py would hide the standard library's
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from functools import partial
from typing import Any
from unittest.mock import patch

from benchmarks.simulation import ROWS as TABLE
from benchmarks.simulation import Row
from benchmarks.sweep import Cell, arguments, crawled, tabulate
from scrapy_adaptive.core.breaker.backoff import Backoff
from scrapy_adaptive.core.ceiling.hold import bracket, ceiling, climb, explanations, state
from scrapy_adaptive.core.ceiling.hold.ceiling import Hold
from scrapy_adaptive.core.ceiling.hold.concurrency_cap import Cap
from scrapy_adaptive.core.ceiling.hold.noise import Noise
from scrapy_adaptive.core.diagnosis.broken_pages import Blame, SuspectedPages

REGIMES = (
    "bucket:1/5",
    "bucket:2/100",
    "bucket:10/20,step=4@3600",
    "bucket:10/20,sine=0.6",
    "window:60/60",
    "window:60/60,retry-after",
    "window:600/60",
    "connotea",
    "ban:10/20/60,restarted",
    "bucket:10/20,noise=0.005",
    "bucket:2/5,noise=0.005",
    "bucket:10/20,dead=200",
    "cap:4/0.25 heavy-tailed",
    "bucket:1/1 heavy-tailed",
)
"""One server or two of each regime, of those in the simulation's table; the quick ones."""

BACK = tuple(
    Row(f"bucket:{bucket},step=0.3@1200,step=3.3@{back}", 0.0)
    for bucket, back in (("10/20", 2400), ("2/5", 1800))
)
"""A limit that falls, and comes back."""

ROWS = (
    *(
        replace(row, spec=row.spec.replace("@3600", "@1800"))
        for name in REGIMES
        for row in TABLE
        if row.name == name
    ),
    *BACK,
)

Patch = Callable[[], AbstractContextManager[Any]]


def puts(owner: Any, name: str, value: object) -> Patch:
    """Something else in its place."""
    return partial(patch.object, owner, name, value)


def answers(owner: type, name: str, value: object) -> Patch:
    """A method whose answer is always the same."""
    return puts(owner, name, lambda *_, **__: value)


def drops(owner: type, method: str, **usual: object) -> Patch:
    """A method that is told the same, whatever happened."""
    original: Callable[..., object] = getattr(owner, method)

    def dull(self: object, *args: object, **told: object) -> object:
        return original(self, *args, **{**told, **usual})

    return puts(owner, method, dull)


DEBT = Hold.debt


def start_debt(self: Hold) -> float:
    """A debt at the start only."""
    return 0.0 if self.held_rate else DEBT(self)


def short_stage(known: state.State) -> float:
    """A stage that need not outlast any pause."""
    quiet, known.quiet = known.quiet, 0.0
    try:
        return climb.needed(known)
    finally:
        known.quiet = quiet


WITHOUT_CHANCE = tuple(each for each in explanations.EXPLANATIONS if each.__name__ != "by_chance")

PARTS: dict[str, tuple[Patch, ...]] = {
    "search": (puts(climb, "is_closed", lambda *_: True),),
    "outlasting pauses": (puts(ceiling, "needed", short_stage),),
    "doubling far below hi": (puts(bracket, "FAR", math.inf),),
    "looks at the best rate": (answers(state.State, "until_return", math.inf),),
    "debt": (puts(Hold, "debt", start_debt),),
    "debt at the start": (puts(ceiling, "AT_START", 0.0),),
    "human windows": (puts(explanations, "explained", lambda *_: (0.0, 0.0)),),
    "trials of a faster rate": (
        puts(explanations, "CUTS", math.inf),
        puts(explanations, "MUCH_FASTER", 1.0 + 1e-9),
    ),
    "recount of noise": (answers(Noise, "on_held", None),),
    "price of what noise hides": (answers(Noise, "unexpected", 0.0),),
    "caps": (answers(Cap, "on_epoch", False),),
    "chance": (puts(explanations, "EXPLANATIONS", WITHOUT_CHANCE),),
    "broken pages": (answers(SuspectedPages, "blame", Blame.PACE),),
    "chance of a test request": (drops(Backoff, "longer", noise=0.0),),
}
"""What is left out, by the name of the part."""

Job = tuple[str, Row, tuple[int, ...], float]


def cell(job: Job) -> Cell:
    """Goodput and refusals of one server, in percent, without one part."""
    name, row, seeds, minutes = job
    with ExitStack() as left_out:
        for part in PARTS.get(name, ()):
            left_out.enter_context(part())
        return crawled(row, seeds, minutes)


def main() -> int:
    """Leave each part out."""
    given = arguments((__doc__ or "").splitlines()[0], seeds="203", only="parts", names=PARTS)
    lines = {"as it is": "", **{f"no {name}": name for name in PARTS if given.only in name}}
    tabulate("ablation", ROWS, lines, cell, given)
    return 0


if __name__ == "__main__":
    sys.exit(main())
