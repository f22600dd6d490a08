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
from operator import attrgetter
from typing import Any
from unittest.mock import PropertyMock, patch

from benchmarks.simulation import ROWS as TABLE
from benchmarks.simulation import Row
from benchmarks.sweep import Cell, arguments, crawled, tabulate
from scrapy_adaptive.core.breaker import backoff as silence
from scrapy_adaptive.core.breaker.backoff import Silence
from scrapy_adaptive.core.ceiling.hold import bracket, epoch, noise
from scrapy_adaptive.core.ceiling.hold import ceiling as hold
from scrapy_adaptive.core.ceiling.hold import state as belief
from scrapy_adaptive.core.ceiling.hold.ceiling import Hold
from scrapy_adaptive.core.ceiling.hold.concurrency_cap import Caps
from scrapy_adaptive.core.ceiling.hold.epoch import Epoch
from scrapy_adaptive.core.ceiling.hold.history import Ledger
from scrapy_adaptive.core.ceiling.hold.noise import Noise
from scrapy_adaptive.core.ceiling.hold.state import Belief
from scrapy_adaptive.core.diagnosis.broken_pages import Suspects

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


def reads(owner: type, name: str, value: object) -> Patch:
    """A property that is always the same."""
    return puts(owner, name, PropertyMock(return_value=value))


def drops(owner: type, method: str, **usual: object) -> Patch:
    """A method that is told the same, whatever happened."""
    original: Callable[..., object] = getattr(owner, method)

    def dull(self: object, *args: object, **told: object) -> object:
        return original(self, *args, **{**told, **usual})

    return puts(owner, method, dull)


def refused_step(_: Belief, epoch: Epoch, __: float) -> tuple[float, float]:
    """What is known without runs."""
    return 0.0, epoch.rate


def forget(self: Belief, _: float) -> None:
    """No rate that passed before is remembered."""
    self.lo = 0.0


DEBT = Hold.debt


def start_debt(self: Hold, now: float) -> float:
    """A debt at the start only."""
    return 0.0 if self.belief.lo else DEBT(self, now)


PARTS: dict[str, tuple[Patch, ...]] = {
    "price of a silence": (puts(Belief, "price", property(attrgetter("cost"))),),
    "search": (puts(belief, "is_closed", lambda *_: True),),
    "outlasting silences": (puts(hold, "OUTLAST_MOST", 0.0),),
    "hurry far below hi": (puts(belief, "FAR", math.inf),),
    "gentle hurry": (puts(bracket, "GENTLY", 2.0),),
    "hope": (answers(Belief, "lose", None),),
    "debt": (puts(Hold, "debt", start_debt),),
    "debt at the start": (puts(hold, "AT_START", 0.0),),
    "second sleep of a debt": (puts(silence, "CREDIT", 1),),
    "time between refusals": (reads(Belief, "carried", 0.0),),
    "joint short accounts": (reads(Epoch, "is_hasty", False),),
    "half of a held rate": (puts(epoch, "DEEPEST", 0.0),),
    "account of a burst": (answers(Belief, "is_burst", False),),
    "gap of a refused step": (answers(Belief, "shown_by_gap", 0.0),),
    "rate that passed before": (puts(Belief, "fall_back", forget),),
    "two runs": (puts(Belief, "limits", refused_step),),
    "runs between refusals": (answers(Ledger, "since_emptied", None),),
    "late timers": (answers(Ledger, "time", None),),
    "late probes": (puts(Epoch, "usual_outage", property(attrgetter("outage"))),),
    "human windows": (answers(Belief, "window", None),),
    "windows that are told": (answers(Belief, "is_window", False),),
    "refutation of windows": (answers(Belief, "refutes_window", False),),
    "noise": (puts(hold, "DEEP", math.inf), reads(Belief, "seen", 0.0)),
    "look after some cuts": (puts(hold, "DEEP", math.inf),),
    "look after one refusal": (reads(Belief, "seen", 0.0),),
    "more evidence where open": (drops(Noise, "on_refused", is_open=False),),
    "recount of noise": (answers(Noise, "on_held", None),),
    "end of noise": (puts(noise, "GONE", math.inf),),
    "price of what noise hides": (reads(Noise, "unexpected", 0.0),),
    "excuse of a probe": (drops(Silence, "longer", by_chance=False),),
    "caps": (answers(Caps, "on_epoch", False),),
    "closed door": (answers(Hold, "_as_closed_door", False),),
    "chance": (answers(Belief, "is_chance", False),),
    "broken pages": (answers(Suspects, "is_broken", False),),
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
    given = arguments((__doc__ or "").splitlines()[0], seeds="203", only="parts")
    lines = {"as it is": "", **{f"no {name}": name for name in PARTS if given.only in name}}
    tabulate("ablation", ROWS, lines, cell, given)
    return 0


if __name__ == "__main__":
    sys.exit(main())
