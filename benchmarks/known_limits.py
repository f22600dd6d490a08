"""What a crawl gains by a rule: simulated servers, known exactly, twice too generous, half.

Run: ``python benchmarks/known_limits.py [--minutes 20] [--seeds 3] [--out FOLDER]``

Laws
----
* The very governor of real crawls, over a jittered network, in virtual time.
* Bounds, over all seeds: with the limit known, no refusal (a limit on concurrency: .05 %, as a
  server may free its place after the client's next request), and 98 % of the limit; 96 % for more
  than 32 hits in a window; in the first minute too. With twice the limit, within a point of goodput
  and .05 points of refusals of learning alone. With half of it, half.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from pathlib import Path
from typing import Any, NamedTuple

from scrapy_adaptive.simulate import governor_of
from scrapy_adaptive.simulation.crawl import Crawl
from scrapy_adaptive.simulation.network import network
from scrapy_adaptive.simulation.readings import read
from scrapy_adaptive.simulation.spec import read_spec

Rule = dict[str, Any]


class Case(NamedTuple):
    """A server, and the rules that say what it allows."""

    server: str
    rules: list[Rule]
    least: float
    """Share of the limit that has to be reached with these rules."""
    most_refused: float = 0.0


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
    Case("cap:4/0.2", [{"concurrency": 4}], 0.75, 0.0005),
    Case("connotea", [{"interval": 2}], 0.96),
    Case("connotea,agent", [{"interval": 30}], 0.98),
    Case("connotea,visitor", [{"max_hits": 10, "window": 15}], 0.98),
)

GOODPUT, REFUSED = 0.01, 0.0005
"""By how much a rule that is too generous may be worse than none."""


class Figures(NamedTuple):
    """What came of one crawl, or the worst of several."""

    goodput: float
    first: float
    """Goodput of the first minute."""
    refused: float
    """Share of all hits."""
    refused_count: int


def crawl(server: str, rules: list[Rule], seed: int, minutes: float) -> Figures:
    """One crawl."""
    site = read_spec(server, seed)
    settings = {"ADAPTIVE_TARGET_CONCURRENCY": "8"}
    if rules:
        settings["ADAPTIVE_RULES"] = json.dumps(rules)
    governor = governor_of(settings, random.Random(f"{seed} governor").random)
    delay = network("jittered", random.Random(f"{seed} network"))
    until = minutes * 60.0
    timeline = Crawl(governor, site.server, site.pages, delay).run(until)
    whole = read(timeline, site.server, until).whole
    served = sum(at <= 60.0 for at in timeline.accepted)
    first = served / (site.server.capacity(0.0) * 60.0)
    return Figures(whole.goodput_ratio or 0.0, first, whole.refused_ratio, whole.refused_count)


def worst(server: str, rules: list[Rule], seeds: int, minutes: float) -> Figures:
    """The worst of several seeds, in each figure."""
    found = [crawl(server, rules, seed, minutes) for seed in range(1, seeds + 1)]
    return Figures(
        min(each.goodput for each in found),
        min(each.first for each in found),
        max(each.refused for each in found),
        sum(each.refused_count for each in found),
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
    if generous.goodput < learned.goodput - GOODPUT:
        missed.append(f"twice too generous: {generous.goodput - learned.goodput:+.1%} goodput")
    if generous.refused > learned.refused + REFUSED:
        missed.append(f"twice too generous: {generous.refused - learned.refused:+.2%} refused")
    return missed


def cell(figures: Figures) -> str:
    return (
        f"{figures.goodput:7.1%} {figures.first:7.1%} {figures.refused:7.2%}"
        f" {figures.refused_count:5d}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", default="", help="servers whose spec begins so")
    parser.add_argument("--out", type=Path, help="folder for known_limits.txt")
    given = parser.parse_args()
    head = "goodput first min refused  hits"
    lines = [
        f"{given.minutes:g} simulated minutes, the worst of {given.seeds} seeds, jittered network",
        "N = 8",
        "",
        f"{'':26}" + "".join(f"{name:^33}" for name in ("learned", "known", "twice", "half")),
        f"{'server':26}" + f"{head}  " * 4,
    ]
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
        found = [worst(case.server, rules, given.seeds, given.minutes) for rules in arms]
        lines.append(f"{case.server:26}" + "   ".join(map(cell, found)))
        print(lines[-1], flush=True)
        missed += [f"{case.server}: {each}" for each in check(case, found[1], found[0], found[2])]
    text = "\n".join([*lines, "", *(missed or ["every bound is met"])])
    print(f"\n{text}")
    if given.out:
        (given.out / "known_limits.txt").write_text(f"{text}\n", encoding="utf-8")
    return bool(missed)


if __name__ == "__main__":
    sys.exit(main())
