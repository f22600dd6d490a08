"""Opens the frontier that an address names.

Laws
----
* What an engine needs is imported when it is chosen, and who lacks it is told what to install.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from .protocol import FrontierError

if TYPE_CHECKING:
    from collections.abc import Callable

    from .poller import Ranking
    from .protocol import Frontier

REDIS = ("redis", "rediss", "valkey", "valkeys")
"""Schemes of Redis and Valkey; the second of each is encrypted."""

EXTRAS = {
    "sqlite": "sql",
    **dict.fromkeys(("postgresql", "postgres"), "postgres"),
    **dict.fromkeys(REDIS, "redis"),
}
"""Schemes of an address, and the extra that each needs."""

ALLOWED = "sqlite:///PATH, postgresql://USER@HOST/DATABASE or redis://HOST/0"


def scheme_of(url: str) -> str:
    """The engine that an address names.

    Raises:
        FrontierError: there is none of that name.
    """
    scheme = url.partition(":")[0].partition("+")[0]
    if scheme not in EXTRAS or "://" not in url:
        raise FrontierError(f"allowed is {ALLOWED}")
    return scheme


def missing_file(url: str) -> str | None:
    """The file of an SQLite database that is not there; None for any other address."""
    path = url.partition("?")[0].partition(":///")[2]
    is_file = url.startswith("sqlite") and path and path != ":memory:"
    return path if is_file and not Path(path).exists() else None


def open_frontier(
    url: str, spider: str, ranking: Ranking, connect: Callable[[str], Any] | None = None
) -> Frontier:
    """The frontier of one spider.

    Args:
        connect: makes a client of redis-py for an address; None for one without more settings.

    Raises:
        FrontierError: the address cannot be used, or what it needs is not installed.
        UnavailableError: there is no answer at the address.
    """
    scheme = scheme_of(url)
    try:
        if scheme in REDIS:
            from .redis import connecting
            from .redis.frontier import RedisFrontier

            _, name = connecting.read_address(url)
            client = (connect or connecting.connect)(url)
            return RedisFrontier(client, spider, ranking, name=name)
        from .sql.frontier import SqlFrontier

        return SqlFrontier(url, spider, ranking)
    except ImportError as error:
        extra = f'pip install "scrapy-adaptive[{EXTRAS[scheme]}]"'
        raise FrontierError(f"{error.name or 'its driver'} is missing: {extra}") from None
