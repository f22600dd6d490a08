"""What a crawl gains by a rule: simulated servers, known exactly, twice too generous, half.

Run: ``python benchmarks/known_limits.py [--minutes 20] [--seeds 3] [--out FOLDER]``

Laws
----
* The very governor of real crawls, over a jittered network, in virtual time.
* Bounds: with the limit known, in each crawl, no refusal (a limit on concurrency: .05 %, as a
  server may free its place after the client's next request), and 98 % of the limit; 96 % for more
  than 32 hits in a window; in the first minute too. With twice the limit, over all seeds together,
  within a point of goodput and .05 points of refusals of learning alone. With half of it, half.
* A page takes its place of a limit on concurrency for as long as it is served; who must not send
  another before its answer is there gets, at most, the share that the network's time leaves.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.pop(0)  # this folder, whose modules are imported by their full names
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import argparse
import json
import random
from typing import Any, NamedTuple

from benchmarks.arguments import amount, beginning_of, new_folder, whole
from benchmarks.tables import Table
from scrapy_adaptive.simulate import Crawl, governor_of, network, read, read_spec

Rule = dict[str, Any]

ROUND_TRIP = 0.05
"""Mean seconds of a message over the network and back."""


class Case(NamedTuple):
    """A server, and the rules that say what it allows."""

    server: str
    rules: list[Rule]
    least: float
    """Share of the limit that has to be reached with these rules."""
    most_refused: float = 0.0
    service: float = 0.0
    """Seconds that each page keeps its place, where places are what is limited."""

    @property
    def reach(self) -> float:
        """Most of the limit that a client gets who waits for an answer before it sends another."""
        return self.service / (self.service + ROUND_TRIP) if self.service else 1.0


CASES = (
    Case("bucket:50/20", [{"rate": 50}], 0.98),
    Case("window:300/10", [{"max_hits": 300, "window": 10}], 0.96),
    Case("window:300/10,first-hit", [{"max_hits": 300, "window": 10}], 0.96),
    Case("window:10/15", [{"max_hits": 10, "window": 15}], 0.98),
    Case("log:300/10", [{"max_hits": 300, "window": 10}], 0.96),
    Case("log:30/5", [{"max_hits": 30, "window": 5}], 0.98),
    Case("log:10/15", [{"max_hits": 10, "window": 15}], 0.98),
    Case("log:60/60", [{"max_hits": 60, "window": 60}], 0.96),
    Case("log:10/15,counted", [{"max_hits": 10, "window": 15}], 0.98),
    Case("counter:100/10", [{"max_hits": 100, "window": 10}], 0.96),
    Case("cap:4/0.2", [{"concurrency": 4}], 0.98, 0.0005, service=0.2),
    Case("connotea", [{"interval": 2}], 0.96),
    Case("connotea,agent", [{"interval": 30}], 0.98),
    Case("connotea,visitor", [{"max_hits": 10, "window": 15}], 0.98),
)

GOODPUT, REFUSED = 0.01, 0.0005
"""By how much a rule that is too generous may be worse than none."""


class Figures(NamedTuple):
    """What came of one crawl; of several the worst goodput, and all refusals."""

    goodput: float
    first: float
    """Goodput of the first minute."""
    refused_count: int
    hits: int
    mean: float
    """Goodput of all together."""

    @property
    def refused(self) -> float:
        """Share of all hits."""
        return self.refused_count / max(1, self.hits)


def crawl(case: Case, rules: list[Rule], seed: int, minutes: float) -> Figures:
    """One crawl."""
    site = read_spec(case.server, seed)
    settings = {"ADAPTIVE_TARGET_CONCURRENCY": "8"}
    if rules:
        settings["ADAPTIVE_RULES"] = json.dumps(rules)
    governor = governor_of(settings, random.Random(f"{seed} governor").random)
    delay = network("jittered", random.Random(f"{seed} network"))
    until = minutes * 60.0
    timeline = Crawl(governor, site.server, site.pages, delay).run(until)
    whole = read(timeline, site.server, until).whole
    served = sum(at <= 60.0 for at in timeline.accepted)
    first = served / (site.server.capacity(0.0) * 60.0) / case.reach
    goodput = (whole.goodput_ratio or 0.0) / case.reach
    hits = whole.accepted_count + whole.refused_count
    return Figures(goodput, first, whole.refused_count, hits, goodput)


def crawls(case: Case, rules: list[Rule], seeds: int, minutes: float) -> Figures:
    """One crawl for each seed."""
    found = [crawl(case, rules, seed, minutes) for seed in range(1, seeds + 1)]
    refused, hits = (sum(each[n] for each in found) for n in (2, 3))
    return Figures(
        min(each.goodput for each in found),
        min(each.first for each in found),
        int(refused),
        int(hits),
        sum(each.goodput for each in found) / seeds,
    )


def scaled(rules: list[Rule], factor: float) -> list[Rule]:
    """The same rules, so many times as generous."""
    found = []
    for rule in rules:
        changed = dict(rule)
        for word in ("rate", "max_hits", "concurrency"):
            if word in rule:
                changed[word] = max(1, rule[word] * factor)
                changed[word] = int(changed[word]) if word != "rate" else changed[word]
        if "interval" in rule:
            changed["interval"] = rule["interval"] / factor
        found.append(changed)
    return found


def check(case: Case, known: Figures, learned: Figures, generous: Figures) -> list[str]:
    """Bounds that are missed."""
    missed = []
    if known.refused > case.most_refused:
        missed.append(f"{known.refused:.3%} refused")
    if known.goodput < case.least:
        missed.append(f"{known.goodput:.1%} of the limit, {case.least:.0%} asked for")
    if known.first < case.least:
        missed.append(f"{known.first:.1%} in the first minute, {case.least:.0%} asked for")
    if generous.mean < learned.mean - GOODPUT:
        missed.append(f"twice too generous: {generous.mean - learned.mean:+.1%} goodput")
    if generous.refused > learned.refused + REFUSED:
        missed.append(f"twice too generous: {generous.refused - learned.refused:+.2%} refused")
    return missed


def cell(figures: Figures) -> str:
    return (
        f"{figures.mean:6.1%} {figures.goodput:6.1%} {figures.first:6.1%} {figures.refused:6.2%}"
        f" {figures.refused_count:5d}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--minutes", type=amount(1.0), default=20.0)
    parser.add_argument("--seeds", type=whole(), default=3)
    specs = beginning_of(case.server for case in CASES)
    parser.add_argument("--only", type=specs, default="", help="servers whose spec begins so")
    parser.add_argument("--out", type=new_folder, help="folder for the table")
    given = parser.parse_args()
    head = "  mean  worst first  refused times"
    table = Table("known_limits")
    table.add(
        f"{given.minutes:g} simulated minutes of {given.seeds} seeds, jittered network, N = 8",
        "mean and worst share of the limit, worst first minute, share and number of refusals",
        "",
        f"{'':26}" + "".join(f"{name:^33}" for name in ("learned", "known", "twice", "half")),
        f"{'server':26}" + f"{head}  " * 4,
    )
    missed = []
    for case in CASES:
        if not case.server.startswith(given.only):
            continue
        arms: tuple[list[Rule], ...] = (
            [],
            case.rules,
            scaled(case.rules, 2.0),
            scaled(case.rules, 0.5),
        )
        found = [crawls(case, rules, given.seeds, given.minutes) for rules in arms]
        table.add(f"{case.server:26}" + "   ".join(map(cell, found)))
        missed += [f"{case.server}: {each}" for each in check(case, found[1], found[0], found[2])]
    table.add("", *(missed or ["every bound is met"]))
    table.keep(given.out)
    return bool(missed)


if __name__ == "__main__":
    sys.exit(main())
