"""What a frontier on Redis costs, beside scrapy-redis's own queue, in one run on one server.

    python benchmarks/redis_frontier.py [--rounds 20] [--urls 200000]

Who is measured takes turns, and the best round of each counts.

* Pages a second through one connection: pop, acknowledge, 30 links with deduplication; by
  scrapy-redis's own queue and duplicate filter, and by the frontier's turns of ten pages. Both
  write requests and read them; that a spider makes them is left out.
* The same with 10, 1,000 and 100,000 hosts.
* Bytes of a URL that waits, at 10 a host, and of one that is known.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    ROOT = Path(__file__).resolve().parents[1]
    sys.path[:0] = [str(ROOT), str(ROOT / "sample_project")]

import argparse
import random
import tempfile
import time
from collections.abc import Generator
from contextlib import ExitStack
from itertools import count
from typing import Any

import redis
import scrapy
from scrapy.utils.request import fingerprint
from scrapy_redis.dupefilter import RFPDupeFilter
from scrapy_redis.queue import PriorityQueue

from benchmarks.arguments import whole
from scrapy_adaptive.adapters.frontier.payload import Payloads
from scrapy_adaptive.frontier.poller import Ranking
from scrapy_adaptive.frontier.protocol import Done, Given, Lease, Visit
from scrapy_adaptive.frontier.redis import connecting
from scrapy_adaptive.frontier.redis.frontier import RedisFrontier
from tests.servers.valkey import Valkey

LINKS, TURN, BATCH, ROUND = 30, 10, 500, 20
FASTER, FLAT, WAITING, KNOWN = 3.0, 2.0, 200.0, 10.0
SIZES = (10, 1_000, 100_000)


class Spider(scrapy.Spider):
    """Whose requests these are."""

    name = "bench"


def request(host: int, number: int) -> scrapy.Request:
    """A link as a crawl yields it."""
    url = f"http://host{host}.example.com/section/{number % 97}/article-{number}.html"
    referer = f"http://host{host}.example.com/section/{number % 97}/"
    return scrapy.Request(url, headers={"Referer": referer}, meta={"depth": 3})


def row(payloads: Payloads, made: scrapy.Request) -> Visit:
    """The same as a row."""
    return Visit(made.url.split("/")[2], made.url, payloads.write(made), fingerprint(made))


def visit(payloads: Payloads, host: int, number: int) -> Visit:
    return row(payloads, request(host, number))


class Stock:
    """scrapy-redis's own queue and duplicate filter.

    Args:
        client: of a server of its own.
        hosts: that links lead to.
    """

    def __init__(self, client: Any, hosts: int) -> None:
        self._queue = PriorityQueue(client, Spider(), "bench:requests")
        self._seen = RFPDupeFilter(client, "bench:dupefilter")
        self._seen.request_fingerprint = lambda made: fingerprint(made).hex()
        self._links = Links(hosts)
        for each in self._links.take(1000):
            self._queue.push(each)

    def round(self) -> float:
        """Pages a second."""
        links = self._links.take(ROUND * LINKS)
        began = time.perf_counter()
        for page in range(ROUND):
            self._queue.pop()
            for made in links[page * LINKS : (page + 1) * LINKS]:
                if not self._seen.request_seen(made):
                    self._queue.push(made)
        return ROUND / (time.perf_counter() - began)


class Links:
    """New requests, made before the clock runs."""

    def __init__(self, hosts: int) -> None:
        self._hosts = hosts
        self._chance = random.Random("links")
        self._count = 0

    def take(self, count: int) -> list[scrapy.Request]:
        first, self._count = self._count, self._count + count
        return [request(self._chance.randrange(self._hosts), first + n) for n in range(count)]


class Ours:
    """The frontier, in turns of ten pages.

    Args:
        frontier: on a server of its own.
        hosts: that links lead to; each has a visit before.
    """

    def __init__(self, frontier: RedisFrontier, hosts: int) -> None:
        self._frontier = frontier
        self._payloads = Payloads(Spider())
        self._links = Links(hosts)
        self._ready: list[Done] = []
        for start in range(0, max(1000, hosts), BATCH):
            some = range(start, start + BATCH)
            new = [visit(self._payloads, n % hosts, 10**9 + n) for n in some]
            frontier.turn([], new, {})

    def round(self) -> float:
        """Pages a second."""
        frontier, payloads = self._frontier, self._payloads
        made = self._links.take(ROUND * LINKS)
        began = time.perf_counter()
        for start in range(0, ROUND, TURN):
            if len(self._ready) < TURN:
                for held in frontier.lease(200, 200).held:
                    self._ready += taken(payloads, held.lease, held.visits)
            batch, self._ready = self._ready[:TURN], self._ready[TURN:]
            links = [row(payloads, each) for each in made[start * LINKS : (start + TURN) * LINKS]]
            turn = frontier.turn(batch, links, {batch[0].lease: TURN})
            for lease, given in turn.refills.items():
                self._ready += taken(payloads, lease, given or [])
            over = {each.lease for each in batch} - {each.lease for each in self._ready}
            frontier.release_all([(lease, None, 0.0) for lease in over])
        return ROUND / (time.perf_counter() - began)


def taken(payloads: Payloads, lease: Lease, visits: list[Given]) -> list[Done]:
    """Visits become requests, and are done."""
    for each in visits:
        payloads.read(each.url, each.payload)
    return [Done(lease, each.id) for each in visits]


def bytes_of(frontier: RedisFrontier, urls: int) -> tuple[float, float]:
    """Bytes of each URL that waits, deduplication aside, and of each that is known."""
    client: Any = frontier.server.client
    payloads = Payloads(Spider())
    before = client.info("memory")["used_memory"]
    for start in range(0, urls, BATCH):
        new = [visit(payloads, (start + n) // 10, start + n) for n in range(BATCH)]
        frontier.turn([], new, {})
    both = client.info("memory")["used_memory"] - before
    known = list(client.scan_iter(match=f"{frontier.key}:u*", count=1000))
    for start in range(0, len(known), 1000):
        client.delete(*known[start : start + 1000])
    waiting = client.info("memory")["used_memory"] - before
    return waiting / urls, (both - waiting) / urls


def frontiers(folder: Path) -> Generator[RedisFrontier, None, None]:
    """New, empty ones, each on a server of its own."""
    with ExitStack() as stack:
        for number in count(1):
            server = stack.enter_context(Valkey(folder / str(number)))
            client = connecting.connect(server.url())
            frontier = RedisFrontier(client, "bench", Ranking(age_share=0))
            stack.callback(frontier.close)
            frontier.open("bench", "shared", 600.0)
            yield frontier


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=whole(), default=20)
    parser.add_argument("--urls", type=whole(BATCH), default=200_000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, Valkey(Path(folder) / "stock") as server:
        made = frontiers(Path(folder))
        theirs = Stock(redis.Redis.from_url(server.url()), 1000)
        own = [Ours(next(made), hosts) for hosts in SIZES]
        calls = [theirs.round, *(each.round for each in own)]
        rounds = [[call() for call in calls] for _ in range(given.rounds)]
        best, *speeds = (max(each) for each in zip(*rounds, strict=True))
        for hosts, speed in zip(SIZES, speeds, strict=True):
            print(f"{hosts:,} hosts: {speed:.0f} pages/s")
        waiting, known = bytes_of(next(made), given.urls)
        made.close()
    ratio, flat = speeds[1] / best, max(speeds) / min(speeds)
    found = (
        (
            f"scrapy-redis's queue: {best:.0f} pages/s; the frontier {ratio:.1f} times",
            ratio >= FASTER,
            f"≥ {FASTER}",
        ),
        (f"from 10 to 100,000 hosts: within {flat:.2f} times", flat <= FLAT, f"≤ {FLAT}"),
        (f"{waiting:.0f} B for each URL that waits", waiting <= WAITING, f"≤ {WAITING:.0f}"),
        (f"{known:.1f} B for each URL that is known", known <= KNOWN, f"≤ {KNOWN:.0f}"),
    )
    for told, is_kept, bound in found:
        print(f"{told} ({bound}){'' if is_kept else '  MISSED'}")
    return 0 if all(is_kept for _, is_kept, _ in found) else 1


if __name__ == "__main__":
    sys.exit(main())
