"""What rules cost a crawl: CPU per page with 1,000 of them, loop lag while 10,000 change.

    python benchmarks/rules_cost.py [--pages 2000] [--rounds 5]

The same spider crawls the same pages of a real server on 20 addresses: without rules, with 1,000 in
the settings, and with 10,000 in a table of which a row changes twice a second, so that all are
read, checked and swapped each time. They take turns; medians over the rounds; CPU is that of the
crawl's process, threads included.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    ROOT = Path(__file__).resolve().parents[1]
    sys.path[:0] = [str(ROOT), str(ROOT / "sample_project")]

import argparse
import statistics
import tempfile
import threading
from contextlib import ExitStack
from typing import Any

import sqlalchemy as sa

from benchmarks.frontier_cost import HOSTS, SPIDER
from scrapy_adaptive.rules.schema import RULES
from scrapy_adaptive.rules.table import RuleTable
from tests.crawling import Crawler
from tests.servers.origin import Answer, Origin

CPU, LAG = 1.03, 2.0
FEW, MANY = 1000, 10_000
REFRESH = 0.5


def row(number: int) -> dict[str, Any]:
    """A rule: each hundredth matches the crawl, and is never felt."""
    n = number % HOSTS + 1
    host = f"127.0.2.{n}" if number % 100 == 0 else f"host{number}.example.com"
    return {"name": f"rule {number}", "host": host, "uri": f"/{number}/*", "rate": 1e6}


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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--pages", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    arms: dict[str, dict[str, Any]] = {
        "none": {},
        "few": {"ADAPTIVE_RULES": [row(number) for number in range(FEW)]},
        "many": {"ADAPTIVE_RULES_REFRESH": REFRESH},
    }
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in arms}
    swaps = 0
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        addresses = [f"127.0.2.{n + 1}" for n in range(HOSTS)]
        site = stack.enter_context(Origin(lambda visit: Answer(), addresses=addresses))
        arms["many"]["ADAPTIVE_RULES_URL"] = address = f"sqlite:///{folder}/rules.db"
        table = RuleTable(address)
        stack.callback(table.engine.dispose)
        table.create()
        with table.engine.begin() as connection:
            connection.execute(sa.insert(RULES), [row(number) for number in range(MANY)])
        crawler = Crawler(folder)
        stack.callback(crawler.stop)
        for _ in range(given.rounds):
            for name, own in arms.items():
                settings = {
                    "ADAPTIVE_START_DELAY": 0.005,
                    "CONCURRENT_REQUESTS": 64,
                    "EXTENSIONS": {"benchmarks.frontier_cost.Gauge": 0},
                    "LOG_LEVEL": "WARNING",
                    **own,
                }
                arguments = {"pages": given.pages, "port": site.port}
                with ExitStack() as editing:
                    if name == "many":
                        editing.enter_context(Editing(table))
                    done = crawler(SPIDER, settings, arguments=arguments, timeout=300)
                assert len(done.items) == given.pages
                found[name].append((done.stats["cpu"], done.stats["lag"]))
                swaps += done.stats.get("adaptive/rules/changes", 0)
    cpus, lags = (
        {name: statistics.median(each[n] for each in measured) for name, measured in found.items()}
        for n in (0, 1)
    )
    cpu, lag = cpus["few"] / cpus["none"], lags["many"] / lags["none"]
    print(
        f"without: {1000 * cpus['none'] / given.pages:.2f} ms of CPU a page, "
        f"lag {1000 * lags['none']:.1f} ms (p99)"
    )
    print(f"{FEW:,} rules: CPU per page {cpu:.3f} times (≤ {CPU})")
    print(f"{MANY:,} rules, swapped {swaps} times: lag {lag:.2f} times (≤ {LAG})")
    return 0 if cpu <= CPU and lag <= LAG else 1


if __name__ == "__main__":
    sys.exit(main())
