"""What rules cost a crawl: instructions per page with 1,000 of them, loop lag while 10,000 change.

    python benchmarks/rules_cost.py [--only instructions] [--only lag] [--pages 2000] [--rounds 5]

* Instructions: the crawl of `overhead.py` without rules and with 1,000 in the settings, of which 10
  match each page's host and one holds for it. Counted, so that a busy machine says the same.
* Lag: the same spider crawls the same pages of a real server on 20 addresses, without rules and
  with 10,000 in a table of which a row changes twice a second, so that all are read, checked and
  swapped each time. They take turns; medians over the rounds of the 99th percentile of how late a
  timer is.

Exit status 1 if a bound is missed.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.pop(0)  # this folder, whose modules are imported by their full names
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "sample_project"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import benchmarks.slow_clock  # noqa: F401  before anything that reads a clock

# isort: split
import argparse
import statistics
import tempfile
import threading
from contextlib import ExitStack
from typing import Any

import sqlalchemy as sa

from benchmarks import overhead
from benchmarks.arguments import whole
from benchmarks.frontier_cost import HOSTS, SPIDER
from benchmarks.instructions import find_counter
from benchmarks.overhead import ADAPTIVE, ARMS, MANY, instructions_per_page
from scrapy_adaptive.rules.schema import RULES
from scrapy_adaptive.rules.table import RuleTable
from tests.crawling import Crawler
from tests.servers.nginx import Nginx
from tests.servers.origin import Answer, Origin

COST, LAG = 1.03, 2.0
"""Most instructions with rules, by those without; most lag, by that without."""

FEW, TABLE = 1000, 10_000
REFRESH = 0.5


def row(number: int) -> dict[str, Any]:
    """A rule of the table: each hundredth matches the crawl, and is never felt."""
    n = number % HOSTS + 1
    host = f"127.0.2.{n}" if number % 100 == 0 else f"host{number}.example.com"
    return {"name": f"rule {number}", "host": host, "uri": f"/{number}/*", "rate": 1e6}


def own_row(number: int) -> dict[str, Any]:
    """A rule of the settings: ten are of the host that is crawled, and one of them holds."""
    host = f"host{number}.example.com" if number >= 10 else "127.0.0.1"
    uri = "/page/*" if number == 0 else f"/other{number}/*"
    return {"name": f"rule {number}", "host": host, "uri": uri, "rate": 1e6, "burst": 1e6}


class Editing:
    """Changes a row of a table twice a second."""

    def __init__(self, table: RuleTable) -> None:
        self._table = table
        self._has_ended = threading.Event()
        self._thread = threading.Thread(target=self._edit)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._has_ended.set()
        self._thread.join()

    def _edit(self) -> None:
        rate = 1e6
        while not self._has_ended.wait(REFRESH):
            rate += 1.0
            with self._table.engine.begin() as connection:
                connection.execute(sa.update(RULES).where(RULES.c.id == 1).values(rate=rate))


def judge(what: str, ratio: float, most: float) -> bool:
    """Print a ratio, and say whether it is within its bound."""
    print(f"{what}: {ratio:.3f} times, at most {most:g}", flush=True)
    return ratio <= most


def crawl(base: str, pages: int, arm: str) -> None:
    """One arm whose instructions are counted, in this process."""
    rules = {"ADAPTIVE_RULES": [own_row(number) for number in range(FEW)]}
    ARMS.update(none=ADAPTIVE, few={**ADAPTIVE, **rules})
    overhead.crawl(base, pages, arm)


def is_cheap() -> bool:
    """Count instructions."""
    counter = find_counter()
    if counter is None:
        print("neither perf stat nor valgrind can count instructions here")
        return True
    with tempfile.TemporaryDirectory() as folder, Nginx(Path(folder), pages=MANY) as site:
        none, few = (
            instructions_per_page(site.url, counter, arm, __file__) for arm in ("none", "few")
        )
    print(f"instructions per page ({counter[0]}): {none:.2f} M without rules, {few:.2f} M with")
    return judge(f"{FEW:,} rules", few / none, COST)


def is_quick(pages: int, rounds: int) -> bool:
    """Measure the lag of the loop."""
    lags: dict[str, list[float]] = {"none": [], "table": []}
    swaps = 0
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        addresses = [f"127.0.2.{n + 1}" for n in range(HOSTS)]
        site = stack.enter_context(Origin(lambda visit: Answer(), addresses=addresses))
        table = RuleTable(f"sqlite:///{folder}/rules.db")
        stack.callback(table.engine.dispose)
        table.create()
        with table.engine.begin() as connection:
            connection.execute(sa.insert(RULES), [row(number) for number in range(TABLE)])
        crawler = Crawler(folder)
        stack.callback(crawler.stop)
        own = {"ADAPTIVE_RULES_URL": table.address, "ADAPTIVE_RULES_REFRESH": REFRESH}
        settings = {
            "ADAPTIVE_START_DELAY": 0.005,
            "CONCURRENT_REQUESTS": 64,
            "EXTENSIONS": {"benchmarks.frontier_cost.Gauge": 0},
            "LOG_LEVEL": "WARNING",
        }
        arguments = {"pages": pages, "port": site.port}
        for _ in range(rounds):
            done = crawler(SPIDER, settings, arguments=arguments, timeout=300)
            lags["none"].append(done.stats["lag"])
            with Editing(table):
                done = crawler(SPIDER, settings | own, arguments=arguments, timeout=300)
            assert len(done.items) == pages
            lags["table"].append(done.stats["lag"])
            swaps += done.stats["adaptive/rules/changes"]
    none, many = (statistics.median(measured) for measured in lags.values())
    print(f"99th percentile of lag: {1000 * none:.1f} ms without rules, {1000 * many:.1f} ms with")
    return judge(f"{TABLE:,} rules, swapped {swaps} times", many / none, LAG)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--only", action="append", choices=["instructions", "lag"])
    parser.add_argument(
        "--pages", type=whole(HOSTS), default=2000, help="of each crawl whose lag is judged"
    )
    parser.add_argument("--rounds", type=whole(), default=5)
    parser.add_argument("--arm", help=argparse.SUPPRESS)
    parser.add_argument("--base", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.arm:
        crawl(given.base, given.pages, given.arm)
        return 0
    parts = given.only or ["instructions", "lag"]
    kept = "instructions" not in parts or is_cheap()
    kept &= "lag" not in parts or is_quick(given.pages, given.rounds)
    return int(not kept)


if __name__ == "__main__":
    sys.exit(main())
