"""A limit that hosts share is learned, and hosts with limits of their own are left alone.

Real crawls of hosts on loopback behind one nginx, judged by its log:

* one limit in front of all hosts: of 20/s before 20 hosts, and others drawn from the seed. After
  two minutes at least .9 of it is used, no more than one request in a hundred is refused, and no
  page is lost;
* 60 hosts of 2/s each, crawled as they are and with `ADAPTIVE_GLOBAL_TRIP_SLOTS` so high that no
  shared limit is looked for, both at the same time: at least .95 of the other's pages.

Exit status 1 if a bound is missed.

    python benchmarks/shared_limit.py [--drawn 2] [--seed 1] [--out folder]
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.pop(0)  # this folder, whose modules are imported by their full names
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "sample_project"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import argparse
import math
import random
import tempfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from benchmarks.arguments import new_folder, whole
from benchmarks.tables import Table
from docsite.hits import Hit
from tests.crawling import Crawler
from tests.servers.nginx import ALL_HOSTS, EACH_HOST, Nginx, limit_req
from tests.spiders import UrlsSpider

SECONDS = 240.0
"""Length of a crawl behind one limit."""

SETTLED = 120.0
"""Seconds after which the limit has to be known."""

OWN_SECONDS = 60.0
"""Length of a crawl of hosts with limits of their own."""

USED, REFUSED, KEPT = 0.9, 0.01, 0.95
"""Least share of the limit, most refused, least share of the pages without the shared limit."""


@dataclass(frozen=True)
class Shared:
    """One limit in front of many hosts."""

    hosts: int
    rate: int
    burst: int


def drawn(chance: random.Random) -> Shared:
    """Any such limit, of 1/s or more for each host or less."""
    hosts = chance.randint(8, 40)
    rate = round(hosts * math.exp(chance.uniform(math.log(0.5), math.log(2.5))))
    return Shared(hosts, rate, chance.randint(5, 60))


def crawl(site: Nginx, addresses: list[str], seconds: float, settings: Mapping[str, Any]) -> int:
    """Ask each host for its pages in turn; returns how many were lost."""
    urls = [url for urls in zip(*map(site.page_urls, addresses), strict=True) for url in urls]
    settings = {
        "ADAPTIVE_TARGET_CONCURRENCY": "auto",
        "CLOSESPIDER_TIMEOUT": seconds,
        "LOG_LEVEL": "INFO",
        **settings,
    }
    run = Crawler(Path(tempfile.mkdtemp()))
    done = run(UrlsSpider, settings, arguments={"urls": urls}, timeout=seconds + 60.0)
    return len(done.lost)


def shared(limit: Shared) -> tuple[str, bool]:
    """Crawl behind one limit: a line of the table, and whether it is in its bounds."""
    addresses = [f"127.1.1.{n}" for n in range(1, limit.hosts + 1)]
    conf = limit_req(f"{limit.rate}r/s", limit.burst, key=ALL_HOSTS)
    pages = math.ceil(2.0 * SECONDS * limit.rate / limit.hosts)
    with (
        tempfile.TemporaryDirectory() as folder,
        Nginx(Path(folder), conf, pages=pages, addresses=addresses) as site,
    ):
        lost = crawl(site, addresses, SECONDS, {})
        hits = site.hits()
    first, later = _parts(hits)
    used = _served(later) / (SECONDS - SETTLED) / limit.rate
    refused = 1.0 - _served(later) / len(later)
    line = (
        f"{limit.hosts:5} {limit.rate:7} {limit.burst:6}"
        f" {_served(first) / SETTLED / limit.rate:12.2f} {used:7.2f}"
        f" {100.0 * refused:10.2f} {lost:6}"
    )
    return line, used >= USED and refused <= REFUSED and not lost


def _parts(hits: list[Hit]) -> tuple[list[Hit], list[Hit]]:
    begun = hits[0].start
    first = [hit for hit in hits if hit.start < begun + SETTLED]
    later = [hit for hit in hits[len(first) :] if hit.start < begun + SECONDS]
    return first, later


def _served(hits: list[Hit]) -> int:
    return sum(hit.status == 200 for hit in hits)


def own(slots: int) -> tuple[int, int]:
    """Crawl 60 hosts of 2/s each: pages served, and refusals."""
    addresses = [f"127.1.{2 + (slots > 5)}.{n}" for n in range(1, 61)]
    conf = limit_req("2r/s", 5, key=EACH_HOST)
    with (
        tempfile.TemporaryDirectory() as folder,
        Nginx(Path(folder), conf, pages=400, addresses=addresses) as site,
    ):
        crawl(site, addresses, OWN_SECONDS, {"ADAPTIVE_GLOBAL_TRIP_SLOTS": slots})
        hits = site.hits()
    begun = hits[0].start
    hits = [hit for hit in hits if hit.start < begun + OWN_SECONDS]
    return _served(hits), len(hits) - _served(hits)


def main() -> int:
    """Print the table; 1 if a bound is missed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--drawn", type=whole(0), default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=new_folder, help="folder for the table")
    args = parser.parse_args()
    table = Table("shared_limit")
    chance = random.Random(args.seed)
    limits = [Shared(20, 20, 20), *(drawn(chance) for _ in range(args.drawn))]
    table.add(
        "One limit in front of all hosts; shares of it in the first two minutes and after", ""
    )
    table.add("hosts    rate  burst  two minutes   after  refused %   lost")
    held = True
    for limit in limits:
        line, is_held = shared(limit)
        table.add(line if is_held else f"{line}  missed")
        held &= is_held
    with ThreadPoolExecutor(2) as pool:
        (pages, refused), (most, of_those) = pool.map(own, (5, 1_000_000))
    table.add("", "60 hosts of 2/s, pages and refusals of a minute", "")
    table.add(f"as they are                      {pages:6} {refused:6}")
    table.add(f"where no shared limit is sought  {most:6} {of_those:6}")
    is_held = pages >= KEPT * most
    table.add(
        f"share of the pages               {pages / most:6.3f}{'' if is_held else '  missed'}"
    )
    table.keep(args.out)
    return 0 if held and is_held else 1


if __name__ == "__main__":
    raise SystemExit(main())
