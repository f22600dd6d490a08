"""What it costs to hand a host over: its slots' states as JSON, each minute, to another crawler.

Two virtual hours against models of servers. Each minute what is in flight is awaited, the states
become text, and a governor whose clock began another time goes on with them. Exit status 1 if that
costs more than 1.5 % of the goodput, or another ban.

    python benchmarks/handing_over.py [--minutes 120] [--out FOLDER]
"""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import argparse
import json
import random
from typing import NamedTuple

from benchmarks.arguments import amount, new_folder
from benchmarks.tables import Table
from scrapy_adaptive.simulate import Crawl, Readings, governor_of, network, read, read_spec

SERVERS = ("bucket:10/20", "window:120/60", "cap:4/0.5", "ban:5/20/60")
"""A bucket, a window, a cap and a ban."""

KEPT = 0.985
"""Least share of the goodput without."""

EVERY = 60.0
"""Seconds between two hand-overs."""

SETTINGS = {"ADAPTIVE_TARGET_CONCURRENCY": "8"}


class Arm(NamedTuple):
    """One crawl."""

    readings: Readings
    most_bytes: int
    """Of one slot's state."""


def crawled(spec: str, seconds: float, *, every: float, seed: int = 1) -> Arm:
    """A crawl that is handed over every so often; infinity for never."""
    site = read_spec(spec, seed)
    chance = random.Random(f"{seed} governor").random
    governor = governor_of(SETTINGS, chance)
    crawl = Crawl(governor, site.server, site.pages, network("constant", random.Random(seed)))
    most, at = 0, every
    while at < seconds:
        crawl.run(at)
        crawl.drain()
        states = governor.states(crawl.now)
        governor = governor_of(SETTINGS, chance)
        for key, state in states.items():
            text = json.dumps(state)
            most = max(most, len(text))
            doubts = governor.begin(key, json.loads(text), 0.0, crawl.now)
            assert not doubts
        crawl.hand_over(governor)
        at += every
    timeline = crawl.run(seconds)
    return Arm(read(timeline, site.server, seconds), most)


def main() -> int:
    """Crawl, print, and judge."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=amount(1.0), default=120.0)
    parser.add_argument("--out", type=new_folder, help="folder for what is printed")
    given = parser.parse_args()
    table = Table("handing_over")
    misses = 0
    head = f"{'server':<16}{'without':>10}{'with':>10}{'share':>8}{'bans':>10}{'bytes':>8}"
    table.add(f"handed over every {EVERY:g} s, {given.minutes:g} minutes", "", head)
    for spec in SERVERS:
        without = crawled(spec, 60.0 * given.minutes, every=float("inf"))
        arm = crawled(spec, 60.0 * given.minutes, every=EVERY)
        before, after = without.readings.whole, arm.readings.whole
        share = after.accepted_count / before.accepted_count
        bans = f"{without.readings.ban_count} → {arm.readings.ban_count}"
        is_missed = share < KEPT or arm.readings.ban_count > without.readings.ban_count
        misses += is_missed
        table.add(
            f"{spec:<16}{before.goodput_ratio or 0:>10.1%}{after.goodput_ratio or 0:>10.1%}"
            f"{share:>8.3f}{bans:>10}{arm.most_bytes:>8}{'  MISSED' if is_missed else ''}"
        )
    table.keep(given.out)
    return int(misses > 0)


if __name__ == "__main__":
    sys.exit(main())
