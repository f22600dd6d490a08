"""What a frontier costs, in ratios of one run: `python benchmarks/frontier.py [--rows 1000000]`.

* Ranking 500 visits, beside iudex's window function over all that is due, and the same answer.
* The same with ten times the rows.
* Inserting with deduplication, beside a bare `executemany` into the same indexes.
* A swap of 500 orders.
* A real crawl: CPU per page and lag of the event loop, beside the same crawl without a frontier.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    ROOT = Path(__file__).resolve().parents[1]
    sys.path[:0] = [str(ROOT), str(ROOT / "sample_project")]

import argparse
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from typing import Any

from sqlalchemy import Connection, text

from benchmarks.arguments import whole
from scrapy_adaptive.frontier.poller import Ranking
from scrapy_adaptive.frontier.protocol import Visit
from scrapy_adaptive.frontier.sql import statements as sql
from scrapy_adaptive.frontier.sql.frontier import SqlFrontier
from scrapy_adaptive.frontier.sql.schema import READY

DUE = 0.3
"""Share of the rows that is due."""

ORDERS = 500
DISCOUNT = 1.0
PER_HOST = 100
ROUNDS = 7

IUDEX = text(f"""
SELECT id, priority - :discount * (depth - 1) AS rank FROM (
    SELECT id, priority, row_number() OVER (
        PARTITION BY host_id ORDER BY priority DESC, id) AS depth
    FROM adaptive_visit WHERE spider_id = :spider AND state = {READY}) AS x
WHERE depth <= :per_host ORDER BY rank DESC, id LIMIT :most
""")

BOUNDS = {"ranking": 0.1, "ten times the rows": 1.5, "inserting": 0.5, "swap": 0.3}


def best(call: Callable[[], Any]) -> float:
    """Seconds of the quickest of several calls."""
    return min(timed(call) for _ in range(ROUNDS))


def timed(call: Callable[[], Any]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def load(frontier: SqlFrontier, rows: int, hosts: int) -> None:
    """Fill the tables, a share of the rows being due."""
    chance = random.Random("frontier")
    with frontier.database.transaction() as connection:
        numbers = frontier.hosts.numbers(connection, (f"host{n}.example" for n in range(hosts)))
        ids = list(numbers.values())
        now = frontier.database.now(connection)
        columns = "spider_id, host_id, fingerprint, url, payload, priority, state, due"
        mark = ", ".join(["?" if frontier.database.is_sqlite else "%s"] * 8)
        insert = f"INSERT INTO adaptive_visit ({columns}) VALUES ({mark})"
        for start in range(0, rows, 50_000):
            connection.exec_driver_sql(
                insert,
                [
                    row(frontier.spider, ids, number, chance, now)
                    for number in range(start, min(rows, start + 50_000))
                ],
            )
        queue = "INSERT INTO adaptive_queue (spider_id, host_id) VALUES (:spider, :host)"
        connection.execute(text(queue), [{"spider": frontier.spider, "host": n} for n in ids])
    with frontier.database.transaction() as connection:
        for start in range(0, len(ids), 5000):
            frontier.queues.touch(connection, ids[start : start + 5000])
    with frontier.database.engine.connect() as connection:
        connection.execution_options(isolation_level="AUTOCOMMIT").exec_driver_sql("ANALYZE")


def row(
    spider: int, hosts: list[int], number: int, chance: random.Random, now: int
) -> tuple[object, ...]:
    is_due = chance.random() < DUE
    return (
        spider,
        chance.choice(hosts),
        chance.randbytes(20),
        f"http://example.com/{number}",
        "",
        round(chance.uniform(0, 20), 3),
        READY if is_due else 0,
        now if is_due else now + 10**9,
    )


def rank(frontier: SqlFrontier, connection: Connection) -> list[Any]:
    """The product's own ranking."""
    statement = sql.RANK_SQLITE if frontier.database.is_sqlite else sql.RANK_POSTGRESQL
    asked = {"spider": frontier.spider, "session": 0, "egress": "", "now": 10**15}
    bounds = {"per_host": PER_HOST, "discount": DISCOUNT, "most": ORDERS}
    bounds["lowest"] = float("-inf")
    return list(connection.execute(statement, {**asked, **bounds}).all())


def rank_as_iudex(frontier: SqlFrontier, connection: Connection) -> list[Any]:
    asked = {"spider": frontier.spider, "discount": DISCOUNT, "per_host": PER_HOST}
    return list(connection.execute(IUDEX, {**asked, "most": ORDERS}).all())


def ranking(frontier: SqlFrontier) -> tuple[float, float]:
    """Seconds of the product's ranking, and of iudex's; the answers are the same."""
    with frontier.database.transaction() as connection:
        ours, theirs = rank(frontier, connection), rank_as_iudex(frontier, connection)
        # Of equal ranks either may come first.
        assert [each.rank for each in ours] == [each.rank for each in theirs]
        return (
            best(lambda: rank(frontier, connection)),
            best(lambda: rank_as_iudex(frontier, connection)),
        )


def inserting(frontier: SqlFrontier) -> float:
    """Share of the speed of a bare executemany that inserting with deduplication has."""
    chance = random.Random("insert")

    def links(count: int) -> list[Visit]:
        return [
            Visit(
                f"host{chance.randrange(2000)}.example",
                f"http://example.com/new/{chance.randrange(10**9)}",
                fingerprint=chance.randbytes(20),
            )
            for _ in range(count)
        ]

    def bare(found: list[Visit]) -> None:
        with frontier.database.transaction() as connection:
            names = frontier.hosts.numbers(connection, (each.host for each in found))
            mark = ", ".join(["?" if frontier.database.is_sqlite else "%s"] * 9)
            columns = "spider_id, host_id, fingerprint, url, payload, priority, state, due, run"
            connection.exec_driver_sql(
                f"INSERT INTO adaptive_visit ({columns}) VALUES ({mark})",
                [
                    (frontier.spider, names[e.host], e.fingerprint, e.url, "", 0.0, 1, 1, 0)
                    for e in found
                ],
            )

    theirs, ours = [], []
    for _ in range(12):
        batch = links(1000)
        theirs.append(timed(lambda batch=batch: bare(batch)))  # type: ignore[misc]
        batch = links(1000)
        ours.append(timed(lambda batch=batch: frontier.turn([], batch, {})))  # type: ignore[misc]
    return statistics.median(theirs) / statistics.median(ours)


def swapping(frontier: SqlFrontier) -> float:
    """Seconds of a swap of 500 orders."""
    frontier.open("bench", "shared", 600)
    leased = frontier.lease(ORDERS, ORDERS)
    seconds = []
    for _ in range(5):
        back = {held.lease: [visit.id for visit in held.visits] for held in leased.held}
        began = time.perf_counter()
        leased = frontier.lease(ORDERS, ORDERS, back=back)
        seconds.append(time.perf_counter() - began)
        assert sum(len(held.visits) for held in leased.held) == ORDERS
    return statistics.median(seconds)


def bench(address: Callable[[], str], name: str, rows: int, hosts: int) -> bool:
    """One database; returns whether every bound is kept."""
    found: dict[str, float] = {}
    chosen = Ranking(DISCOUNT, PER_HOST, age_share=0)
    with closing(SqlFrontier(address(), "bench", chosen)) as small:
        load(small, rows // 10, hosts)
        few, _ = ranking(small)
    with closing(SqlFrontier(address(), "bench", chosen)) as frontier:
        load(frontier, rows, hosts)
        many, theirs = ranking(frontier)
        print(
            f"{name}: {rows:,} rows, {hosts:,} hosts: ranking {ORDERS} takes {1000 * many:.1f} ms, "
            f"iudex's window {1000 * theirs:.0f} ms, with a tenth of the rows {1000 * few:.1f} ms"
        )
        found["ranking"] = many / theirs
        found["ten times the rows"] = many / few
        found["inserting"] = inserting(frontier)
        found["swap"] = swapping(frontier)
    kept = True
    for what, value in found.items():
        most = BOUNDS[what]
        good = value >= most if what == "inserting" else value <= most
        kept &= good
        unit = " s" if what == "swap" else ""
        sign = "≥" if what == "inserting" else "≤"
        print(f"  {what}: {value:.3f}{unit} ({sign} {most}{unit}){'' if good else '  MISSED'}")
    return kept


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=whole(), default=1_000_000)
    parser.add_argument("--hosts", type=whole(), default=20_000)
    parser.add_argument("--only", choices=("sqlite", "postgresql"))
    given = parser.parse_args()
    kept = True
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        if given.only != "postgresql":
            names = iter(("small", "large"))
            address = lambda: f"sqlite:///{folder / next(names)}.db"  # noqa: E731
            kept &= bench(address, "SQLite", given.rows, given.hosts)
        if given.only != "sqlite":
            from tests.servers.postgres import shared

            server = stack.enter_context(shared("bench"))
            kept &= bench(server.database, "PostgreSQL", given.rows, given.hosts)
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
