"""The engines of the frontier, as tests open them on a clock of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from scrapy_adaptive.frontier.opening import REDIS, scheme_of
from scrapy_adaptive.frontier.poller import Ranking
from scrapy_adaptive.frontier.protocol import Frontier

ENGINES = ("sqlite", "postgresql", "redis")


def open_engine(
    address: str, spider: str, ranking: Ranking, clock: Callable[[], float] | None
) -> Frontier:
    """The frontier at an address."""
    if scheme_of(address) in REDIS:
        from scrapy_adaptive.frontier.redis import connecting
        from scrapy_adaptive.frontier.redis.frontier import RedisFrontier

        _, name = connecting.read_address(address)
        client = connecting.connect(address)
        return RedisFrontier(client, spider, ranking, name=name, clock=clock)
    from scrapy_adaptive.frontier.sql.frontier import SqlFrontier

    return SqlFrontier(address, spider, ranking, clock)


def waits(frontier: Frontier, url: str) -> bool:
    """Whether the visit of a URL is neither done nor forgotten."""
    from scrapy_adaptive.frontier.sql.frontier import SqlFrontier

    if isinstance(frontier, SqlFrontier):
        asked = "SELECT state, due FROM adaptive_visit WHERE url = ?"
        with frontier.database.transaction() as connection:
            row = connection.exec_driver_sql(asked, (url,)).one()
        return (row.state, row.due) != (0, None)
    from scrapy_adaptive.frontier.redis.frontier import RedisFrontier

    assert isinstance(frontier, RedisFrontier)
    client: Any = frontier.server.client
    prefix = frontier.server.prefix
    queued = [each for key in client.keys(f"{prefix}:*:q:*") for each in client.lrange(key, 0, -1)]
    held = [
        each.partition(b" ")[2]
        for key in client.keys(f"{prefix}:o:*")
        for each in client.hvals(key)
    ]
    return url.encode() in [*queued, *held]


def abandon(frontier: Frontier) -> None:
    """Leave it as a process does that dies: its session goes on."""
    from scrapy_adaptive.frontier.sql.frontier import SqlFrontier

    if isinstance(frontier, SqlFrontier):
        frontier.database.engine.dispose()
        if frontier._liveness is not None:
            frontier._liveness.end()
