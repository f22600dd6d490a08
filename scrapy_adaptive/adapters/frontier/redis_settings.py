"""What scrapy-redis's settings and spiders mean for a frontier on Redis.

Laws
----
* The connection is scrapy-redis's own, by REDIS_URL, REDIS_PARAMS and the rest; but the client
  repeats nothing by itself, and answers bytes.
* Nothing is flushed while another session lives, nor before a crawl is finished.
* A connection that cannot be is refused in one line, and another setting than ADAPTIVE_FRONTIER is
  named in it.
* What an old queue holds is named, never read.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from scrapy.settings import BaseSettings
from scrapy.utils.misc import load_object

from scrapy_adaptive.adapters.errors import without_password
from scrapy_adaptive.adapters.scrapy_limits import is_set
from scrapy_adaptive.frontier.opening import REDIS, scheme_of

if TYPE_CHECKING:
    from scrapy_adaptive.frontier.protocol import Frontier

logger = logging.getLogger("scrapy_adaptive")

PASSED_ON = ("REDIS_HOST", "REDIS_PORT", "REDIS_DB")
"""Settings of scrapy-redis that its own code reads, where the address names no server."""

ALONE = "redis:// or redis://?prefix=NAME"
"""Addresses that name no server."""

QUEUE_KEY = "%(spider)s:requests"
"""SCHEDULER_QUEUE_KEY where it is not set."""


def connector(settings: BaseSettings) -> Callable[[str], Any]:
    """Makes clients of redis-py, as these settings say.

    `redis://` with nothing behind is where REDIS_URL, or REDIS_HOST and the rest, point to.
    """

    def connect(address: str) -> Any:
        from scrapy_redis.connection import get_redis_from_settings

        from scrapy_adaptive.frontier.protocol import FrontierError
        from scrapy_adaptive.frontier.redis.connecting import OPTIONS, read_address, refusing

        url, _ = read_address(address)
        given = _params(settings)
        fixed = {name: OPTIONS[name] for name in ("retry", "retry_on_timeout", "decode_responses")}
        own = BaseSettings({"REDIS_PARAMS": {**OPTIONS, **given, **fixed}})
        parts = urlsplit(url)
        if parts.netloc:
            own.set("REDIS_URL", url)
        elif parts.path.strip("/") or parts.query:
            raise FrontierError(f"where no server is named, nothing but {ALONE} is allowed")
        elif settings.get("REDIS_URL"):
            own.set("REDIS_URL", _checked_url(settings.get("REDIS_URL")))
        else:
            for name in PASSED_ON:
                own.set(name, settings.get(name))
        check_class(given.get("redis_cls"), has_url=bool(own.get("REDIS_URL")))
        with refusing():
            return get_redis_from_settings(own)

    return connect


def _params(settings: BaseSettings) -> dict[str, Any]:
    """REDIS_PARAMS.

    Raises:
        FrontierError: they are no dict. They are not shown: a password may be among them.
    """
    from scrapy_adaptive.frontier.protocol import FrontierError

    try:
        return settings.getdict("REDIS_PARAMS")
    except (TypeError, ValueError):
        raise FrontierError("allowed as REDIS_PARAMS is a dict") from None


def _checked_url(given: Any) -> str:
    """REDIS_URL.

    Raises:
        FrontierError: it is no address.
    """
    from scrapy_adaptive.frontier.protocol import FrontierError
    from scrapy_adaptive.frontier.redis.connecting import check_address

    try:
        check_address(str(given))
    except FrontierError as error:
        raise FrontierError(f"REDIS_URL is {without_password(str(given))!r}: {error}") from None
    return str(given)


def check_class(given: Any, *, has_url: bool) -> None:
    """Nothing, where REDIS_PARAMS name what can make a client.

    Args:
        given: its redis_cls; None for redis-py's own.
        has_url: whether an address names a server.

    Raises:
        FrontierError: it cannot.
    """
    from scrapy_adaptive.frontier.protocol import FrontierError

    try:
        found = load_object(given) if isinstance(given, str) else given
    except (ImportError, NameError, ValueError) as error:
        raise FrontierError(f"redis_cls in REDIS_PARAMS is {given!r}: {error}") from None
    if found is None or (has_url and hasattr(found, "from_url")):
        return
    if has_url or not callable(found):
        raise FrontierError(
            f"redis_cls in REDIS_PARAMS is {given!r}: allowed is a class of clients, or a function "
            "that makes one, which needs ADAPTIVE_FRONTIER to be redis:// with no server behind "
            "it, and no REDIS_URL"
        )


def follow(frontier: Frontier, address: str, spider: str, settings: BaseSettings) -> None:
    """Keep SCHEDULER_PERSIST and SCHEDULER_FLUSH_ON_START; tell of an old queue."""
    if scheme_of(address) not in REDIS:
        return
    from scrapy_adaptive.frontier.redis.frontier import RedisFrontier

    assert isinstance(frontier, RedisFrontier)
    frontier.flushes = settings.getbool("SCHEDULER_FLUSH_ON_START")
    if is_set(settings, "SCHEDULER_PERSIST"):
        frontier.persists = settings.getbool("SCHEDULER_PERSIST")
    key = str(settings.get("SCHEDULER_QUEUE_KEY") or QUEUE_KEY) % {"spider": spider}
    count = frontier.length(key)
    if count:
        logger.warning(
            "%d requests of scrapy-redis wait in %s, and are not taken over: let its own crawl "
            "finish them, or see the page on moving from scrapy-redis",
            count,
            key,
        )
