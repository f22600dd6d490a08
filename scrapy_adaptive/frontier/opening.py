"""Opens the frontier that an address names.

Laws
----
* What an engine needs is imported when it is chosen, and who lacks it is told what to install.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .protocol import FrontierError

if TYPE_CHECKING:
    from .poller import Ranking
    from .sql.frontier import SqlFrontier

EXTRAS = {"sqlite": "sql", "postgresql": "postgres"}
"""Schemes of an address, and the extra that each needs."""

ALLOWED = "sqlite:///PATH or postgresql://USER@HOST/DATABASE"


def scheme_of(url: str) -> str:
    """The engine that an address names.

    Raises:
        FrontierError: there is none of that name.
    """
    scheme = url.partition(":")[0].partition("+")[0]
    if scheme not in EXTRAS or "://" not in url:
        raise FrontierError(f"allowed is {ALLOWED}")
    return scheme


def open_frontier(url: str, spider: str, ranking: Ranking) -> SqlFrontier:
    """The frontier of one spider.

    Raises:
        FrontierError: the address cannot be used, or what it needs is not installed.
        UnavailableError: there is no answer at the address.
    """
    scheme = scheme_of(url)
    try:
        from .sql.frontier import SqlFrontier

        return SqlFrontier(url, spider, ranking)
    except ImportError as error:
        extra = f'pip install "scrapy-adaptive[{EXTRAS[scheme]}]"'
        raise FrontierError(f"{error.name or 'its driver'} is missing: {extra}") from None
