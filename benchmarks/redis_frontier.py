"""What a frontier on Redis costs, beside scrapy-redis's own queue, in one run on one server.

    python benchmarks/redis_frontier.py [--pages 3000] [--urls 200000]

* Pages a second through one connection: pop, acknowledge, 30 links with deduplication; by
  scrapy-redis's own queue and duplicate filter, and by the frontier's turns of ten pages. Both
  write requests and read them; that a spider makes them is left out.
* The same with 10, 1,000 and 100,000 hosts.
* Bytes of a URL that waits, at 10 a host, and of one that is known.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import closing
from pathlib import Path
from typing import Any

import redis
import scrapy
from scrapy.utils.request import fingerprint
from scrapy_redis.dupefilter import RFPDupeFilter
from scrapy_redis.queue import PriorityQueue

from scrapy_adaptive.adapters.frontier.payload import Payloads
from scrapy_adaptive.frontier.poller import Ranking
from scrapy_adaptive.frontier.protocol import Done, Given, Lease, Visit
from scrapy_adaptive.frontier.redis import connecting
from scrapy_adaptive.frontier.redis.frontier import RedisFrontier
from tests.servers.valkey import Valkey

LINKS, TURN, BATCH = 30, 10, 500
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


def stock(client: Any, pages: int, hosts: int) -> float:
    """Pages a second by scrapy-redis."""
    spider = Spider()
    queue = PriorityQueue(client, spider, "bench:requests")
    seen = RFPDupeFilter(client, "bench:dupefilter")
    seen.fingerprinter = None
    seen.request_fingerprint = lambda made: fingerprint(made).hex()
    chance = random.Random("stock")
    for number in range(1000):
        queue.push(request(number % hosts, number))
    links = [request(chance.randrange(hosts), 1000 + n) for n in range(pages * LINKS)]
    began = time.perf_counter()
    for page in range(pages):
        queue.pop()
        for made in links[page * LINKS : (page + 1) * LINKS]:
            if not seen.request_seen(made):
                queue.push(made)
    return pages / (time.perf_counter() - began)


def ours(frontier: RedisFrontier, pages: int, hosts: int) -> tuple[float, float]:
    """Pages a second by the frontier, and pages for each call."""
    payloads = Payloads(Spider())
    chance = random.Random("ours")
    for start in range(0, max(1000, hosts), BATCH):
        new = [visit(payloads, (start + n) % hosts, 10**9 + start + n) for n in range(BATCH)]
        frontier.turn([], new, {})
    made = [request(chance.randrange(hosts), n) for n in range((pages + TURN) * LINKS)]
    began, trips = time.perf_counter(), frontier.server.trips
    done = 0
    ready: list[Done] = []
    while done < pages:
        if len(ready) < TURN:
            for held in frontier.lease(200, 200).held:
                ready += taken(payloads, held.lease, held.visits)
        batch, ready = ready[:TURN], ready[TURN:]
        refill = {batch[0].lease: TURN} if batch else {}
        some = made[done * LINKS : (done + len(batch)) * LINKS]
        links = [row(payloads, each) for each in some]
        turn = frontier.turn(batch, links, refill)
        for lease, given in turn.refills.items():
            ready += taken(payloads, lease, given or [])
        keep = {each.lease for each in ready}
        frontier.release_all([(each, None, 0.0) for each in {d.lease for d in batch} - keep])
        done += len(batch)
    return done / (time.perf_counter() - began), done / (frontier.server.trips - trips)


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
    """New, empty ones."""
    number = 0
    while True:
        number += 1
        with Valkey(folder / str(number)) as server:
            client = connecting.connect(server.url())
            with closing(RedisFrontier(client, "bench", Ranking(age_share=0))) as frontier:
                frontier.open("bench", "shared", 600.0)
                yield frontier


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", type=int, default=3000)
    parser.add_argument("--urls", type=int, default=200_000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        made = frontiers(Path(folder))
        speeds = {}
        for hosts in SIZES:
            speeds[hosts], per_call = ours(next(made), given.pages, hosts)
            print(f"{hosts:,} hosts: {speeds[hosts]:.0f} pages/s, {per_call:.1f} pages a call")
        with Valkey(Path(folder) / "stock") as server:
            theirs = stock(redis.Redis.from_url(server.url()), given.pages // 4, 1000)
        waiting, known = bytes_of(next(made), given.urls)
        made.close()
    ratio, flat = speeds[1000] / theirs, max(speeds.values()) / min(speeds.values())
    found = (
        (
            f"scrapy-redis's queue: {theirs:.0f} pages/s; the frontier {ratio:.1f} times",
            ratio >= FASTER,
            f"≥ {FASTER}",
        ),  # fmt: skip
        (f"from 10 to 100,000 hosts: within {flat:.2f} times", flat <= FLAT, f"≤ {FLAT}"),
        (f"{waiting:.0f} B for each URL that waits", waiting <= WAITING, f"≤ {WAITING:.0f}"),
        (f"{known:.1f} B for each URL that is known", known <= KNOWN, f"≤ {KNOWN:.0f}"),
    )
    for told, is_kept, bound in found:
        print(f"{told} ({bound}){'' if is_kept else '  MISSED'}")
    return 0 if all(is_kept for _, is_kept, _ in found) else 1


if __name__ == "__main__":
    sys.exit(main())
