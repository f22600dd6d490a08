"""All engines, on a clock that tests set forward."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from scrapy_adaptive.frontier.poller import Ranking
from scrapy_adaptive.frontier.protocol import Frontier
from tests.frontier.engines import ENGINES, open_engine
from tests.servers.postgres import Postgres
from tests.servers.valkey import MISSING, Valkey, node, program


@dataclass
class Clock:
    """Seconds since the epoch."""

    now: float = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Valkey]:
    """A Cluster of one node: there all keys of a call must be in one hash tag."""
    if program() is None:
        pytest.skip(MISSING)
    with node(tmp_path_factory.mktemp("cluster")) as server:
        yield server


@pytest.fixture(params=(*ENGINES, "cluster"))
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A new, empty database of each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/crawl.db"
    if request.param in ("redis", "cluster"):
        server: Valkey = request.getfixturevalue(
            "valkey" if request.param == "redis" else "cluster"
        )
        return server.frontier()
    postgres: Postgres = request.getfixturevalue("postgres")
    return postgres.database()


Opened = Callable[..., Frontier]


@pytest.fixture
def opened(address: str, clock: Clock) -> Iterator[Opened]:
    """Opens a session: `opened("worker", spider="s", ttl=10.0, ranking=Ranking())`."""
    with ExitStack() as stack:

        def open_one(
            worker: str = "one",
            *,
            spider: str = "spider",
            egress: str = "shared",
            ttl: float = 10.0,
            ranking: Ranking | None = None,
        ) -> Frontier:
            ranking = ranking or Ranking(age_share=0)
            frontier = stack.enter_context(closing(open_engine(address, spider, ranking, clock)))
            frontier.open(worker, egress, ttl)
            return frontier

        yield open_one
