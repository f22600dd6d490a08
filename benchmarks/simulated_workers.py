"""Workers that hand one host on, in virtual time: as polite and as quick as one of them alone?

Each worker has a governor of its own, and keeps it. The host goes from one to the next each minute
with the states of its slots, as a frontier's lease does; or, some times an hour, its holder is
killed: then the next goes on once the lease has run out, with the states of the last heartbeat;
what was in flight is served, and nobody learns of it. Exit status 1 if that costs more than a
bound.

    python benchmarks/simulated_workers.py [--minutes 120] [--out FOLDER]
"""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import argparse
import json
import math
import random
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.arguments import amount, new_folder
from benchmarks.tables import Table
from scrapy_adaptive.simulate import Crawl, Readings, governor_of, network, read, read_spec

if TYPE_CHECKING:
    from scrapy_adaptive.core.governor import Governor

SERVERS = ("bucket:10/20", "window:120/60", "cap:4/0.5", "ban:5/20/60")
"""A bucket, a window, a cap and a ban that begins again with each request in it."""

WORKERS = (1, 4, 8, 32)

TURN = 60.0
"""Seconds for which a worker has the host."""

LEASE, BEAT = 10.0, 10.0 / 3.0
"""Seconds without a heartbeat after which a host is another's, and between two heartbeats."""

KILLS = 6
"""Holders killed an hour."""

KEPT, KEPT_KILLED = 0.99, 0.97
"""Least share of one worker's goodput."""

SETTINGS = {"ADAPTIVE_TARGET_CONCURRENCY": "8"}


class Fleet:
    """Workers of whom one has the host."""

    def __init__(self, count: int, seed: int) -> None:
        self._chance = random.Random(f"{seed} governor").random
        self._workers = [governor_of(SETTINGS, self._chance) for _ in range(count)]
        self._holder = 0

    @property
    def holder(self) -> Governor:
        """Who has the host."""
        return self._workers[self._holder]

    def kill(self) -> None:
        """A worker that knows nothing takes the holder's place in the fleet."""
        self._workers[self._holder] = governor_of(SETTINGS, self._chance)

    def next(self, states: str, age: float, now: float) -> Governor:
        """The next worker has the host."""
        self._holder = (self._holder + 1) % len(self._workers)
        for key, state in json.loads(states).items():
            doubts = self.holder.begin(key, state, age, now)
            assert not doubts
        return self.holder


def crawled(spec: str, seconds: float, *, workers: int, kills: float = 0.0) -> Readings:
    """A crawl of so many workers, with so many kills an hour."""
    seed = 1
    site = read_spec(spec, seed)
    fleet = Fleet(workers, seed)
    crawl = Crawl(fleet.holder, site.server, site.pages, network("constant", random.Random(seed)))
    chance = random.Random(f"{spec} kills")
    turn_at = TURN if workers > 1 else math.inf
    kill_at = chance.expovariate(kills / 3600.0) if kills else math.inf
    while min(turn_at, kill_at) < seconds:
        if kill_at < turn_at:
            beat_at = kill_at - chance.uniform(0.0, min(BEAT, kill_at - crawl.now))
            crawl.run(beat_at)
            states = json.dumps(fleet.holder.states(crawl.now))
            crawl.run(kill_at)
            crawl.drain()
            fleet.kill()
            crawl.wait(beat_at + LEASE)
            crawl.hand_over(fleet.next(states, crawl.now - beat_at, crawl.now))
            kill_at = crawl.now + chance.expovariate(kills / 3600.0)
        else:
            crawl.run(turn_at)
            crawl.drain()
            states = json.dumps(fleet.holder.states(crawl.now))
            crawl.hand_over(fleet.next(states, 0.0, crawl.now))
        turn_at = crawl.now + TURN if workers > 1 else math.inf
    timeline = crawl.run(seconds)
    return read(timeline, site.server, seconds)


class Row(NamedTuple):
    """One crawl beside that of one worker."""

    workers: int
    kills: float
    share: float
    refused: float
    bans: int

    def is_missed(self, one: Readings) -> bool:
        """Whether it is worse than allowed."""
        least = KEPT_KILLED if self.kills else KEPT
        return self.share < least or self.bans > one.ban_count


def main() -> int:
    """Crawl, print, and judge."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=amount(1.0), default=120.0)
    parser.add_argument("--out", type=new_folder, help="folder for what is printed")
    given = parser.parse_args()
    table = Table("simulated_workers")
    head = f"{'server':<16}{'workers':>8}{'kills/h':>8}{'share':>8}{'refused':>9}{'bans':>6}"
    table.add(f"a host handed on every {TURN:g} s, {given.minutes:g} minutes", "", head)
    misses = 0
    for spec in SERVERS:
        one = crawled(spec, 60.0 * given.minutes, workers=1)
        for workers, kills in [*((count, 0) for count in WORKERS), (WORKERS[-1], KILLS)]:
            found = crawled(spec, 60.0 * given.minutes, workers=workers, kills=kills)
            whole = found.whole
            share = whole.accepted_count / one.whole.accepted_count
            row = Row(workers, kills, share, whole.refused_ratio, found.ban_count)
            is_missed = row.is_missed(one)
            misses += is_missed
            table.add(
                f"{spec:<16}{workers:>8}{kills:>8}{share:>8.3f}{row.refused:>9.2%}{row.bans:>6}"
                f"{'  MISSED' if is_missed else ''}"
            )
    table.keep(given.out)
    return int(misses > 0)


if __name__ == "__main__":
    sys.exit(main())
