"""What slots cost in memory: many quiet ones, and a hostile site's many hosts.

- 100,000 slots, of each of which three pages were served, must fit into 150 MB.
- 200,000 hosts that each answer `Retry-After: 1e8`, where 1,000 slots are kept, must fit into
  60 MB, 240 B each, and none of them may be asked again.

What is measured is what Python allocates for the core; queued pages are not part of it. How long
the states of slots are as JSON, `handing_over.py` prints. Exit status 1 if a bound is missed.

    python benchmarks/memory.py [--slots 100000] [--hosts 200000] [--out FOLDER]
"""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import argparse
import gc
import random
import tracemalloc
from typing import NamedTuple

from benchmarks.arguments import new_folder, whole
from benchmarks.tables import Table
from scrapy_adaptive.core.breaker.global_breaker import GlobalBreaker
from scrapy_adaptive.core.governor import Governor
from scrapy_adaptive.core.permit import Permit
from scrapy_adaptive.core.slot_config import Limits
from scrapy_adaptive.core.types import Answer, Blocked, Outcome

QUIET_BYTES = 1500
"""Most bytes of a quiet slot."""

HOSTILE_BYTES = 240
"""Most bytes of a host that is remembered by its instant alone."""

FOR_ALL = 12_000_000
"""Bytes that the crawl itself may take beside them: its slots, and what it knows of all hosts."""

YEARS = 1e8
"""Seconds that a hostile site asks for: three years."""

LIMITS = Limits(target_concurrency=float("inf"))


class Cost(NamedTuple):
    """What was found."""

    bytes: int
    hits: int
    """Most hits of a host that had asked for silence."""


def governor(most: int) -> Governor:
    """That of a crawl with the usual settings, which remembers so many slots."""
    breaker = GlobalBreaker(slots=5, window=10.0, cooldown=5.0)
    return Governor(LIMITS, global_breaker=breaker, chance=random.Random(1).random, max_slots=most)


def send(crawl: Governor, key: str, now: float) -> tuple[Permit | Blocked, float]:
    """The permit of that slot as soon as it can be had; why not, if that is never in this crawl."""
    permit = crawl.take(key, now)
    while isinstance(permit, Blocked) and permit.until < now + YEARS / 10.0:
        now = max(permit.until, now + 1e-6)
        permit = crawl.take(key, now)
    return permit, now


def quiet(slots: int) -> Cost:
    """Bytes of so many slots, of each of which three pages were served."""
    served = Answer(Outcome.ACCEPTED, latency=0.05)
    names = [f"host-{number}.example.com" for number in range(slots)]
    gc.collect()
    tracemalloc.start()
    crawl, now = governor(slots), 0.0
    for _ in range(3):
        for name in names:
            permit, now = send(crawl, name, now)
            assert isinstance(permit, Permit)
            now += 0.001
            crawl.on_answer(permit, served, now)
    gc.collect()
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(crawl) == slots
    return Cost(size, 3)


def hostile(hosts: int, most: int) -> Cost:
    """Bytes of so many hosts, each of which has asked for three years of silence."""
    refused = Answer(Outcome.REFUSED, latency=0.05, may_lower=False, announced=YEARS)
    gc.collect()
    tracemalloc.start()
    crawl, now, hits = governor(most), 0.0, 0
    for number in range(hosts):
        permit, now = send(crawl, f"host-{number}.example.com", now)
        assert isinstance(permit, Permit)
        now += 0.05
        crawl.on_answer(permit, refused, now)
    gc.collect()
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    for number in range(hosts):
        hits += isinstance(crawl.take(f"host-{number}.example.com", now + 1e6), Permit)
    return Cost(size, hits)


def main() -> int:
    """Measure, print, and judge."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--slots", type=whole(), default=100_000)
    parser.add_argument("--hosts", type=whole(), default=200_000)
    parser.add_argument("--out", type=new_folder, help="folder for what is printed")
    given = parser.parse_args()
    calm, rude = quiet(given.slots), hostile(given.hosts, 1000)
    misses = calm.bytes > QUIET_BYTES * given.slots
    misses |= rude.bytes > HOSTILE_BYTES * given.hosts + FOR_ALL or rude.hits > 0
    table = Table("memory")
    table.add(
        f"{given.slots} quiet slots: {calm.bytes / 1e6:.1f} MB, "
        f"{calm.bytes / given.slots:.0f} B each",
        f"{given.hosts} hosts that ask for {YEARS:g} s, 1000 slots: {rude.bytes / 1e6:.1f} MB, "
        f"{rude.bytes / given.hosts:.0f} B each; asked again: {rude.hits}",
        f"{'ABOVE' if misses else 'within'} the bounds: {QUIET_BYTES} B a quiet slot, "
        f"{HOSTILE_BYTES} B a host and {FOR_ALL / 1e6:g} MB for all",
    )
    table.keep(given.out)
    return int(misses)


if __name__ == "__main__":
    sys.exit(main())
