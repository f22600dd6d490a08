"""The connection to a server, and what its errors mean.

Laws
----
* What may pass by itself (a restart, a failover, a full memory) is `UnavailableError`; what will
  not is `FrontierError`, in one line. So is an address, or an option, that makes no client.
* The client repeats nothing by itself: a call that may have given something must be known to have
  failed.
* A script that the server has forgotten is sent again.
* A key that holds something else than it should is set aside, named and counted; the rest goes on.
* No call waits without a bound.
* Who answers that he is not, or not any more, the one to write to is left: the next call asks anew
  where the address leads.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit, urlunsplit

import redis
from redis.backoff import NoBackoff
from redis.exceptions import (
    AuthenticationError,
    AuthorizationError,
    ClusterCrossSlotError,
    MovedError,
    NoPermissionError,
    NoScriptError,
    ReadOnlyError,
    RedisError,
    ResponseError,
)
from redis.retry import Retry

from scrapy_adaptive.frontier.protocol import FrontierError, SessionLostError, UnavailableError

from .scripts import script

logger = logging.getLogger("scrapy_adaptive")

PATIENCE = 10
"""Seconds that a call waits for an answer."""

OLDEST = (6, 2)
"""The first version of Redis that has all commands."""

SCHEMES = ("redis", "rediss", "unix")
"""What an address that redis-py reads begins with."""

FORGETFUL = "allkeys"
"""Policies that begin so have the server forget keys at will where its memory is full."""

OPTIONS: dict[str, Any] = {
    "socket_timeout": PATIENCE,
    "socket_connect_timeout": PATIENCE,
    "retry": Retry(NoBackoff(), 0),
    "retry_on_timeout": False,
    "decode_responses": False,
}

PASSING = (
    *("OOM", "LOADING", "BUSY", "READONLY", "MASTERDOWN"),
    *("CLUSTERDOWN", "TRYAGAIN", "NOREPLICAS", "MISCONF"),
)
"""How errors begin that pass by themselves."""

WRAPPED = r"^Error running script \(call to f_[0-9a-f]*\): (@user_script: ?\d+: )*-?"
"""What Redis 6.2 puts before an error that a script has met."""

NUMBERS = ("session", "generation", "visit", "spider")
"""What is counted for the whole frontier."""

DAMAGE = ("WRONGTYPE", "wrong kind of value", "not an integer")
"""What errors say where a key holds something else than it should."""

TYPES = {
    **dict.fromkeys(("boot", "count", "spiders", "n", "s", "l", "a", "b", "o"), "hash"),
    **dict.fromkeys(("sessions", "k"), "zset"),
    "h": "set",
    "t": "string",
}
"""What the keys of a frontier hold, by the first part of their names."""

SPIDER_TYPES = {
    "i": "hash",
    **dict.fromkeys(("e", "m"), "set"),
    **dict.fromkeys(("r", "g", "z", "p", "d"), "zset"),
    **dict.fromkeys(("q", "f", "gone"), "list"),
    "x": "string",
}
"""The same of one spider's."""


def check_address(address: str) -> None:
    """Nothing, where the address of a server is one: redis-py takes database 0 for a bad one.

    Raises:
        FrontierError: it is none. Nothing of it is told, for a part may be one of a password.
    """
    try:
        parts = urlsplit(address)
        is_address = parts.scheme in SCHEMES and parts.port != 0
    except ValueError:  # the port is no number, for instance
        is_address = False
    if not is_address:
        raise FrontierError("allowed is redis://HOST:PORT/0, the port being a number")
    database = unquote(parts.path).strip("/")
    if parts.scheme != "unix" and database and not re.fullmatch("[0-9]+", database):
        raise FrontierError("allowed as the database is a number, as in redis://HOST/0")


def read_address(address: str) -> tuple[str, str]:
    """The address for a client, and the frontier's name there: `redis://host/0?prefix=books`.

    Raises:
        FrontierError: the address, or the name, is none.
    """
    check_address(re.sub("^valkey", "redis", address))
    parts = urlsplit(address)
    scheme = parts.scheme.replace("valkey", "redis")
    query = dict(parse_qsl(parts.query))
    name = query.pop("prefix", "adaptive")
    if not re.fullmatch(r"[\w.-]+", name):
        raise FrontierError(f"allowed as prefix are letters, digits and . _ -, not {name!r}")
    url = urlunsplit((scheme, parts.netloc, parts.path, urlencode(query), ""))
    return url, name


def connect(address: str) -> Any:
    """A client for that address.

    Raises:
        FrontierError: the address cannot be used.
    """
    url, _ = read_address(address)
    with refusing():
        return redis.Redis.from_url(url, **OPTIONS)


@contextmanager
def refusing() -> Iterator[None]:
    """What redis-py cannot make a client or a connection of is refused.

    Raises:
        FrontierError: an option has no such name, or not such a value.
    """
    try:
        yield
    except (TypeError, ValueError) as error:
        told = " ".join(str(error).split()) or type(error).__name__
        if found := re.search(r"unexpected keyword argument '(\w+)'", told):
            raise FrontierError(
                f"{found[1]!r} is no option of this connection: allowed behind the ? of an address "
                "are prefix and, as in REDIS_PARAMS, what redis-py's connections take"
            ) from None
        raise FrontierError(f"redis-py can make no connection of this: {told}") from None


class Server:
    """One frontier's place on a server.

    Args:
        client: of redis-py.
        name: of the frontier; all its keys have it as their hash tag.
        clock: seconds since the epoch; None for the server's own.

    Raises:
        FrontierError: the server is too old, or forgets keys; or an option cannot be used.
        UnavailableError: it does not answer.
    """

    def __init__(
        self, client: Any, name: str = "adaptive", clock: Callable[[], float] | None = None
    ) -> None:
        self.client = client
        self.prefix = f"{{{name}}}"
        self.trips = 0
        """Calls that were made."""
        self.damaged = 0
        """Entries that were set aside."""
        self._clock = clock
        self._has_answered = False
        """Whether this was the right server once."""
        given = client.get_connection_kwargs() if hasattr(client, "get_connection_kwargs") else {}
        given = given or client.connection_pool.connection_kwargs
        self.shown = f"redis://{given.get('host', '')}:{given.get('port', '')}/{given.get('db', 0)}"
        if "path" in given:
            self.shown = f"unix://{given['path']}?db={given.get('db', 0)}"
        if (watched := getattr(client.connection_pool, "service_name", None)) is not None:
            self.shown = f"redis, {watched} of its Sentinels"
        with self.errors(), refusing():  # here the first connection is made
            found = client.info()
        version = str(found.get("redis_version", "0"))
        numbers = tuple(int(each) for each in re.findall(r"\d+", version)[:2])
        if numbers < OLDEST:
            raise FrontierError(
                f"{self.shown} is Redis {version}; needed is 6.2 or newer, or Valkey"
            )
        policy = str(found.get("maxmemory_policy", ""))
        if policy.startswith(FORGETFUL):
            raise FrontierError(
                f"{self.shown} has maxmemory-policy {policy}: it would forget visits; allowed is "
                "noeviction, or one that begins with volatile"
            )

    def call(self, name: str, *arguments: Any, key: str | None = None) -> Any:
        """What a script answers.

        Args:
            key: another key than the frontier's own.

        Raises:
            SessionLostError: another has ended the session.
            UnavailableError: nothing happened, or nobody knows.
        """
        with self.errors():
            answer = self._call(name, key, arguments)
        self._has_answered = True
        return answer

    def call_all(self, name: str, calls: Sequence[Sequence[Any]]) -> None:
        """The same script several times, in one round trip.

        Raises:
            UnavailableError: nobody knows which of them happened.
        """
        if len(calls) > 1:
            found = script(name)
            now = "" if self._clock is None else int(self._clock() * 1000)
            self.trips += 1
            with self.errors():
                try:
                    with self.client.pipeline(transaction=False) as pipe:
                        for arguments in calls:
                            pipe.evalsha(found.digest, 1, self.prefix, now, *arguments)
                        pipe.execute()
                    return
                except NoScriptError:
                    pass
        for arguments in calls:
            self.call(name, *arguments)

    def _call(self, name: str, key: str | None, arguments: Sequence[Any]) -> Any:
        found = script(name)
        now = "" if self._clock is None else int(self._clock() * 1000)
        keys = (self.prefix,) if key is None else (self.prefix, key)
        given = (len(keys), *keys, now, *arguments)
        self.trips += 1
        try:
            return self.client.evalsha(found.digest, *given)
        except NoScriptError:
            return self.client.eval(found.text, *given)

    def now(self) -> int:
        """Milliseconds since the epoch, by the server's clock."""
        if self._clock is not None:
            return int(self._clock() * 1000)
        seconds, micros = self.client.time()
        return int(seconds) * 1000 + int(micros) // 1000

    def tell(self, damage: Sequence[bytes]) -> None:
        """Entries were set aside."""
        self.damaged += len(damage)
        for each in damage:
            logger.warning("an entry of the frontier is skipped: %s", _shown(each))

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Errors of the server become those of the protocol."""
        try:
            yield
        except (AuthenticationError, AuthorizationError, NoPermissionError) as error:
            raise FrontierError(f"{self.shown}: {_told(error)}") from None
        except MovedError as error:
            raise self._moved(error) from None
        except ClusterCrossSlotError:
            told = f"on a Cluster the key of the seeds must begin with {self.prefix}"
            raise FrontierError(f"{self.shown}: {told}") from None
        except ResponseError as error:
            raise self._refused(error) from error
        except (RedisError, OSError) as error:
            raise UnavailableError(f"{self.shown}: {_told(error)}") from error

    def _moved(self, error: MovedError) -> Exception:
        """What it means that another node has the frontier."""
        where = f"{error.host}:{error.port}"
        told = f"this node of the Cluster does not have the frontier: name {where}"
        if not self._has_answered:
            return FrontierError(f"{self.shown}: {told}")
        self._leave()  # it has been failed over, and the address may follow
        return UnavailableError(f"{self.shown}: {told}")

    def _refused(self, error: ResponseError) -> Exception:
        """What it means that a call was refused."""
        told = _told(error)
        if told.startswith("LOST"):
            return SessionLostError()
        if isinstance(error, ReadOnlyError) or told.startswith("READONLY"):
            self._leave()
        if any(each in told for each in DAMAGE) and (names := self._mend()):
            return UnavailableError(f"{self.shown}: {names} held what it must not")
        if told.startswith(PASSING) or type(error) is not ResponseError:
            return UnavailableError(f"{self.shown}: {told}")
        return FrontierError(f"{self.shown}: {told}")

    def _leave(self) -> None:
        """Connect anew with the next call: an open connection stays where it is."""
        pool = getattr(self.client, "connection_pool", None)
        if pool is not None:
            pool.disconnect()

    def _mend(self) -> str:
        """Set aside what is damaged; returns the last one's name.

        Raises:
            FrontierError: that is not allowed here.
            UnavailableError: the server does not answer any more.
        """
        try:
            return self._set_aside()
        except NoPermissionError as error:
            raise FrontierError(f"{self.shown}: {_told(error)}") from None
        except (RedisError, OSError) as error:
            raise UnavailableError(f"{self.shown}: {_told(error)}") from error

    def _set_aside(self) -> str:
        """Rename keys that hold something else than they should; returns the last one's name."""
        name = ""
        hosts: dict[str, list[bytes]] = {}
        for key in self.client.scan_iter(match=f"{self.prefix}:*", count=1000):
            kind = expected_type(key[len(self.prefix) + 1 :].decode("utf-8", "replace"))
            found = self.client.type(key).decode()
            lane = re.fullmatch(rb"(\d+):q:[^:]*:(.*)", key[len(self.prefix) + 1 :], re.DOTALL)
            if lane and found == "list":
                hosts.setdefault(lane[1].decode(), []).append(lane[2])
            if kind is None or found in (kind, "none"):
                continue
            self.client.rename(key, b"%s:damaged:%s" % (self.prefix.encode(), key))
            self.tell([b"%s is a %s, not a %s" % (key, found.encode(), kind.encode())])
            name = ascii(key)
            if key == f"{self.prefix}:count".encode():
                self._count_far_on(key, *NUMBERS)
        for spider, found in hosts.items():
            for start in range(0, len(found), 1000):
                self._call("place", None, (spider, *found[start : start + 1000]))
        return self._mend_counts() or name

    def _count_far_on(self, key: Any, *names: Any) -> None:
        """Numbers that must never return go on beyond all that may have been given."""
        seconds, _ = self.client.time()
        self.client.hset(key, mapping=dict.fromkeys(names, int(seconds) * 100_000))

    def _mend_counts(self) -> str:
        """Counts that are no numbers begin anew, those of what must never return far beyond."""
        mended = ""
        prefix = self.prefix
        spiders = [number.decode() for number in self.client.hvals(f"{prefix}:spiders")]
        keys = [f"{prefix}:count", *(f"{prefix}:{number}:i" for number in spiders)]
        for key in keys:
            for name, value in self.client.hgetall(key).items():
                is_own = name not in (b"state", b"name")
                if is_own and not re.fullmatch(rb"-?\d{1,15}", value):
                    if key.endswith(":count"):
                        self._count_far_on(key, name)
                    else:
                        self.client.hset(key, name, 0)
                    self.tell([b"%s of %s is no number" % (name, key.encode())])
                    mended = key
        return mended


def expected_type(name: str) -> str | None:
    """What a key holds, by its name without the prefix; None for what is not the frontier's.

    >>> expected_type("l:shared"), expected_type("1:q:0:example.com"), expected_type("1:u:17")
    ('hash', 'list', 'set')
    """
    first, _, rest = name.partition(":")
    if not first.isdecimal():
        return TYPES.get(first)
    second, mark, _ = rest.partition(":")
    if re.fullmatch(r"u|y|v\d+", second):
        return "set" if mark else "hash"
    return SPIDER_TYPES.get(second)


def _told(error: BaseException) -> str:
    """The server's own words, in one line."""
    told = " ".join(str(error).split()) or type(error).__name__
    told = re.sub(r"^Command # .* of pipeline caused error: ", "", told)
    told = re.sub(WRAPPED, "", told)
    return re.sub(r",? ?script: ?[0-9a-f]*,? ?(on @?\S+)?", "", told)[:200]


def _shown(damage: bytes) -> str:
    return ascii(damage.decode("utf-8", "backslashreplace"))[1:-1][:200]
