"""The governor's step: how long one takes, and how large a slot gets, whatever its history.

A step is what one request costs the governor: the permit and the answer. Times are medians over
the requests of a simulated crawl against a token bucket, in which one request in some hundreds is
refused; early and late ones are compared. The size is that of a slot with all that it holds.
Exit status 1 if the median step takes 50 µs or more, or a slot more than 100 kB.

    python benchmarks/step.py [--pages 200000] [--out FOLDER]
"""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.pop(0)  # this folder, whose queue.py would hide the standard library's
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import argparse
import random
import statistics
import time
from collections import deque
from collections.abc import Iterator
from enum import Enum
from types import FunctionType, MethodType

from benchmarks.arguments import new_folder, whole
from benchmarks.tables import Table
from scrapy_adaptive.core.breaker.global_breaker import GlobalBreaker
from scrapy_adaptive.core.diagnosis.page_classes import MOST
from scrapy_adaptive.core.governor import Governor
from scrapy_adaptive.core.slot_config import Limits
from scrapy_adaptive.core.types import Answer, Blocked, Outcome

BOUND = 50.0
"""Most microseconds of the median step."""

MOST_BYTES = 100_000
"""Of one slot: it remembers at most 256 refused pages of each kind, and nothing else that grows."""

RATE, BURST = 50.0, 20.0
"""The site's token bucket."""

LATENCY = 0.05


def steps(governor: Governor, pages: int) -> Iterator[float]:
    """Microseconds of each step of a crawl, one request at a time."""
    now, tokens, at = 0.0, BURST, 0.0
    for page in range(pages):
        begin = time.perf_counter()
        permit = governor.take("site", now)
        taken = time.perf_counter() - begin
        while isinstance(permit, Blocked):
            now = max(permit.until, now + 1e-6)
            begin = time.perf_counter()
            permit = governor.take("site", now)
            taken = time.perf_counter() - begin
        tokens = min(BURST, tokens + (now - at) * RATE)
        at = now
        outcome = Outcome.ACCEPTED if tokens >= 1.0 else Outcome.REFUSED
        tokens -= outcome is Outcome.ACCEPTED
        answer = Answer(outcome, latency=LATENCY, page=page)
        begin = time.perf_counter()
        governor.on_answer(permit, answer, now + 1e-6)
        yield 1e6 * (taken + time.perf_counter() - begin)


def size(thing: object, seen: set[int]) -> int:
    """Bytes of a thing and of all that it alone refers to."""
    shared = (type, FunctionType, MethodType, Enum, Limits)
    if id(thing) in seen or isinstance(thing, shared):
        return 0
    seen.add(id(thing))
    total = sys.getsizeof(thing)
    if isinstance(thing, dict):
        inner: list[object] = [*thing.keys(), *thing.values()]
    elif isinstance(thing, (list, tuple, set, frozenset, deque)):
        inner = list(thing)
    else:
        names = [name for kind in type(thing).__mro__ for name in getattr(kind, "__slots__", ())]
        inner = [getattr(thing, name) for name in names if hasattr(thing, name)]
        inner.append(getattr(thing, "__dict__", {}))
    return total + sum(size(each, seen) for each in inner)


def main() -> int:
    """Measure, print, and judge."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pages", type=whole(10), default=200_000)
    parser.add_argument("--out", type=new_folder, help="folder for what is printed")
    given = parser.parse_args()
    pages = given.pages
    governor = Governor(
        Limits(target_concurrency=8.0, concurrency=8),
        global_breaker=GlobalBreaker(slots=5, window=10.0, cooldown=5.0),
        chance=random.Random(1).random,
    )
    found = steps(governor, pages)
    tenth = pages // 10
    early = statistics.median(next(found) for _ in range(tenth))
    early_size = size(governor.slot("site", 0.0), set())
    late = statistics.median(found)
    late_size = size(governor.slot("site", 0.0), set())
    refused = governor.counts.refusals
    misses = late >= BOUND or late_size > MOST_BYTES
    table = Table("step")
    table.add(
        f"{pages} pages, {refused} refused",
        f"median step: {early:.1f} µs in the first tenth, {late:.1f} µs after it",
        f"one slot: {early_size} B after the first tenth, {late_size} B at the end;",
        f"a host has {MOST} more at most, one for each class of pages with a limit of its own",
        f"{'ABOVE' if misses else 'within'} the bounds: {BOUND:g} µs, {MOST_BYTES} B",
    )
    table.keep(given.out)
    return int(misses)


if __name__ == "__main__":
    sys.exit(main())
