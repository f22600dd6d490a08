"""What meters cost: bytes of each, and the time of a take, for a thousand to a million identities.

Run: ``python benchmarks/meters.py [--identities 1000000] [--kept 100000]``

Laws
----
* Five times as many hits are wanted as the rules allow, of identities drawn by chance.
* Bounds: 50 MB with token buckets, 80 MB with hit stacks; a take of a million identities costs at
  most twice one of a thousand; no limit is exceeded, not once.
* Like is compared with like: takes that are granted with such, takes that are held with such. Of a
  thousand identities four in five are held here, of a million, at first, none is.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.pop(0)  # this folder, whose modules are imported by their full names
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import argparse
import gc
import random
import time
import tracemalloc
from collections import defaultdict, deque
from statistics import mean
from typing import NamedTuple

from benchmarks.arguments import whole
from scrapy_adaptive.core.limits.book import Book
from scrapy_adaptive.core.limits.known import KnownLimits
from scrapy_adaptive.core.limits.rule import Identity, Rule
from scrapy_adaptive.core.permit import Permit

RULES = {
    "token bucket": ({"rate": 1.0}, 50.0),
    "hit stack": ({"max_hits": 10, "window": 10.0}, 80.0),
}
"""Words of a rule, and MB that its meters may take."""

SLOWER = 2.0
TAKES = 200_000
FEWEST = 20_000
"""Takes: of a third of them some are held by a hit stack too."""

OVERLOAD = 5.0


class Judge:
    """Counts for each identity what it was let send."""

    def __init__(self, rule: Rule) -> None:
        self.exceeded = 0
        self._rule = rule
        self._sent: defaultdict[str, deque[float]] = defaultdict(deque)

    def on_sent(self, identity: str, now: float) -> None:
        """Look at the window that ends now."""
        sent, rule = self._sent[identity], self._rule
        window, most = (rule.window, rule.max_hits) if rule.max_hits else (1.0 / rule.rate, 1)
        sent.append(now)
        if len(sent) > most:
            self.exceeded += now - sent[-most - 1] < window - 1e-6
            sent.popleft()


class Figures(NamedTuple):
    """What came of one run."""

    megabytes: float
    """0 where they were not counted, which makes takes slow."""
    granted: float
    """Microseconds of a take that was granted,"""
    held: float
    """and of one that was not."""
    exceeded: int
    share: float
    """That was granted."""


def run(
    words: dict[str, float], identities: int, kept: int, takes: int, *, is_traced: bool = False
) -> Figures:
    """So many takes of identities drawn by chance."""
    rule = Rule(id="1", identity=Identity("account", "*"), **words)  # type: ignore[arg-type]
    names = [f"user-{number:08d}" for number in range(identities)]
    gc.collect()
    gc.disable()  # what the judge remembers is not to be paid for by who takes
    if is_traced:
        tracemalloc.start()
    known = KnownLimits(Book([rule]), most=kept)
    judge, chance = Judge(rule), random.Random(1)
    now = 0.0
    spent: dict[bool, list[float]] = {True: [], False: []}
    step = 1.0 / (OVERLOAD * identities * rule.allowed_rate)
    for _ in range(takes):
        now += step
        name = names[chance.randrange(identities)]
        key = known.leaf_key("s", "host", "/", {"account": name})
        began = time.process_time()
        leaf = known.leaf(key)
        counted = known.take(leaf, now) if known.blocked(leaf, now) is None else ()
        if counted:
            known.on_ended(Permit("s", now, meters=counted), now, is_hit=True)
        spent[bool(counted)].append(time.process_time() - began)
        if counted:
            judge.on_sent(name, now)
    gc.enable()
    memory = traced(known) if is_traced else 0.0
    granted, held = (1e6 * mean(spent[which] or [0.0]) for which in (True, False))
    return Figures(memory, granted, held, judge.exceeded, len(spent[True]) / takes)


def traced(known: KnownLimits) -> float:
    """MB of the meters and their keys."""
    known.on_book(Book(known.book))  # what is remembered of matches is bounded, and is no meter
    snapshot = tracemalloc.take_snapshot()
    tracemalloc.stop()
    found = snapshot.statistics("filename")
    return sum(each.size for each in found if "core/limits" in each.traceback[0].filename) / 1e6


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--identities", type=whole(), default=1_000_000)
    parser.add_argument("--kept", type=whole(), default=100_000)
    parser.add_argument("--takes", type=whole(FEWEST), default=TAKES)
    given = parser.parse_args()
    missed = []
    for name, (words, most) in RULES.items():
        few = run(words, 1000, given.kept, given.takes // 3)
        many = run(words, given.identities, given.kept, given.takes)
        memory = run(words, given.identities, given.kept, given.takes, is_traced=True).megabytes
        print(
            f"{name}: {memory:.1f} MB; a take of 1,000 and of {given.identities:,} identities: "
            f"granted {few.granted:.1f} and {many.granted:.1f} us, held {few.held:.1f} and "
            f"{many.held:.1f} us; {many.share:.0%} granted, exceeded {many.exceeded} times"
        )
        if memory > most:
            missed.append(f"{name}: {memory:.1f} MB, {most:g} are allowed")
        for which in ("granted", "held"):
            slower = getattr(many, which) / getattr(few, which)
            print(f"  {which}: {slower:.2f} times the cost of a thousand (≤ {SLOWER:g})")
            if slower > SLOWER:
                missed.append(f"{name}: {which} {slower:.2f} times the cost of a thousand")
        if many.exceeded:
            missed.append(f"{name}: exceeded {many.exceeded} times")
    print("\n".join(missed) or "every bound is met")
    return bool(missed)


if __name__ == "__main__":
    sys.exit(main())
