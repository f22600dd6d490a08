"""What a site says about its limits in the headers of one response.

Laws of this module:

1. Nothing raises. A header that cannot be read is ignored and named in `Hints.ignored`.
2. An announced wait comes out whole. Of several readings the longest is kept; none is capped.
3. Work is bounded: a value longer than `MAX_BYTES` is not looked at.
4. No clock is read: `unix_now` is an argument, and every answer is seconds from now.

**Source** draft-ietf-httpapi-ratelimit-headers-10 ("draft 10") and its revisions 03 to 09.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import zip_longest
from typing import TypeAlias, TypeVar

from .values import (
    MAX_SECONDS,
    MAX_WAIT,
    as_count,
    as_name,
    as_seconds,
    read_dictionary,
    read_instant,
    read_members,
    read_number,
    read_remaining,
    read_reset,
    read_retry_after,
    split,
)

HeaderValues: TypeAlias = Mapping[str, Sequence[bytes]]
"""Lower-case header name → its lines as received, in order, duplicates kept."""

_T = TypeVar("_T")

_FAMILIES = ("ratelimit", "x-ratelimit", "x-rate-limit")
_TRIPLETS = [f"{family}-{part}" for family in _FAMILIES for part in ("limit", "remaining", "reset")]
_HINT_NAMES = ("retry-after", "ratelimit", "ratelimit-policy", *_TRIPLETS)
HEADER_NAMES = (*_HINT_NAMES, "date", "age")
"""Every header `parse_hints` reads; an adapter need not pass on any other."""

MAX_BYTES = 1_000  # of a line, or of the joined lines of a structured field; real ones: < 200
MAX_SKEW = 86_400.0  # s between the site's clock and ours; beyond a day one of them is broken


@dataclass(frozen=True, slots=True)
class Quota:
    """One limit that the site announces; None where it says nothing.

    `remaining` and `limit` count `unit`: "requests", "concurrent-requests", "content-bytes" or a
    word of the site's own. Only "requests" make a pace. `reset` and `window` are seconds.
    """

    remaining: int | None = None
    reset: float | None = None
    limit: int | None = None
    window: float | None = None
    unit: str = "requests"

    @property
    def concurrent(self) -> bool:
        """The quota limits what is in flight, so no passing of time refills it."""
        return self.unit == "concurrent-requests"

    @property
    def exhausted(self) -> bool:
        """Nothing remains until time brings it back."""
        return self.remaining == 0 and not self.concurrent


@dataclass(frozen=True, slots=True)
class Hints:
    """All that the headers of one response tell about the pace, and about how long to wait.

    Retry-After takes precedence over `reset` (draft 10, Client Behavior); both are shown whole.
    """

    retry_after: float | None = None
    """Seconds to wait, from now."""
    quotas: tuple[Quota, ...] = ()
    """What RateLimit headers tell."""
    ignored: tuple[str, ...] = ()
    """Names of the malformed headers, each once."""

    @property
    def exhausted(self) -> bool:
        """Some quota has nothing left until its reset."""
        return any(quota.exhausted for quota in self.quotas)

    @property
    def reset(self) -> float | None:
        """The longest wait among the exhausted quotas, s; None where none of them tells it.

        A reset that is past tells nothing.
        """
        resets = [q.reset for q in self.quotas if q.exhausted and q.reset]
        return max(resets, default=None)

    @property
    def announced(self) -> float | None:
        """Seconds to wait that the site asks for; None where it asks for none."""
        return self.reset if self.retry_after is None else self.retry_after


NO_HINTS = Hints()


def parse_hints(headers: HeaderValues, *, unix_now: float) -> Hints:
    """Tell what the site asks for, in seconds from now.

    `unix_now` is our wall clock, s since 1970; dates and epochs need it. A response without any
    of these headers costs a dozen lookups. One that lay in a cache (Age above 0) tells no quotas,
    which may be stale (draft 10, Caching); its Retry-After still counts.

    **Keeps** never raises; `retry_after` and every `reset` are in [0, `MAX_WAIT`).

    >>> parse_hints({"retry-after": [b"120", b"soon"]}, unix_now=0.0)
    Hints(retry_after=120.0, quotas=(), ignored=('retry-after',))
    >>> parse_hints({"retry-after": [b"5, 10"]}, unix_now=0.0).retry_after
    10.0
    >>> fields = {"ratelimit-policy": [b'"burst";q=100;w=60'], "ratelimit": [b'"burst";r=0;t=30']}
    >>> hints = parse_hints(fields, unix_now=0.0)
    >>> hints.quotas
    (Quota(remaining=0, reset=30.0, limit=100, window=60.0, unit='requests'),)
    >>> hints.exhausted, hints.reset
    (True, 30.0)
    """
    if not any(headers.get(name) for name in _HINT_NAMES):
        return NO_HINTS
    reader = _Reader(headers)
    now = _earlier_clock(headers, unix_now)
    waits = reader.lines("retry-after", partial(read_retry_after, now=now))
    from_cache = any(_Reader(headers).lines("age", read_number))
    return Hints(
        retry_after=max((wait for wait in waits if wait is not None), default=None),
        quotas=() if from_cache else _quotas(reader, now),
        ignored=tuple(dict.fromkeys(reader.ignored)),
    )


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads headers of one response and remembers which were malformed."""

    headers: HeaderValues
    ignored: list[str] = field(default_factory=list)

    def lines(self, name: str, read: Callable[[bytes], _T]) -> list[_T | None]:
        """Read each line of a header by itself; a malformed one leaves None in its place."""
        return [self._read(name, line, read) for line in self.headers.get(name, ())]

    def joined(self, name: str, read: Callable[[bytes], _T]) -> list[_T | None]:
        """The same, of lines that a proxy may have joined."""
        lines = self.headers.get(name, ())
        return [self._read(name, part, read) for line in lines for part in split(line)]

    def structured(self, name: str, read: Callable[[bytes], Iterable[_T]]) -> list[_T]:
        """Read the lines of a structured field as one value (RFC 9651 section 4.2)."""
        lines = self.headers.get(name)
        return list(self._read(name, b", ".join(lines), read) or ()) if lines else []

    def _read(self, name: str, value: bytes, read: Callable[[bytes], _T]) -> _T | None:
        try:
            if len(value) > MAX_BYTES:
                raise ValueError("too long")
            return read(value.strip(b" \t"))
        except ValueError:
            self.ignored.append(name)
            return None


def _earlier_clock(headers: HeaderValues, unix_now: float) -> float:
    """Choose the clock that waits longer for a date: the site's (its Date header) or ours.

    A Date more than `MAX_SKEW` from ours is a broken or a long cached one, and is left aside.
    """
    dates = _Reader(headers).lines("date", read_instant)
    near = [t for t in dates if t is not None and abs(t - unix_now) <= MAX_SKEW]
    return min([unix_now, *near])


_Keyed: TypeAlias = tuple[str, Quota]  # the key of a policy is its name, before draft 08 its limit


def _quotas(reader: _Reader, now: float) -> tuple[Quota, ...]:
    """Join what remains to the policy it belongs to; then come policies nothing was said of."""
    seconds = partial(read_reset, now=now, max_seconds=MAX_WAIT)
    seconds_or_ms = partial(read_reset, now=now, max_seconds=MAX_SECONDS)
    policies = _Policies()
    policies.add(reader.structured("ratelimit-policy", _read_policies))
    found = reader.structured("ratelimit", _read_service_limits)
    found += _read_triplets(reader, "ratelimit", seconds, policies)
    found += _read_triplets(reader, "x-ratelimit", seconds_or_ms, policies)
    found += _read_triplets(reader, "x-rate-limit", seconds_or_ms, policies)

    joined = [
        replace(policies.get(key, quota), remaining=quota.remaining, reset=quota.reset)
        for key, quota in found
    ]
    found_keys = {key for key, _ in found}
    return (*joined, *(quota for key, quota in policies.items() if key not in found_keys))


class _Policies(dict[str, Quota]):
    """Policies by key; the first that tells its window stays."""

    def add(self, policies: Iterable[_Keyed]) -> None:
        for key, quota in policies:
            if key not in self or self[key].window is None:
                self[key] = quota


def _read_policies(value: bytes) -> list[_Keyed]:
    """Read RateLimit-Policy: `"name";q=100;w=60;qu="requests"` since draft 08, `100;w=60` before.

    >>> _read_policies(b"10;w=1, 50;w=60")[1]
    ('50', Quota(remaining=None, reset=None, limit=50, window=60.0, unit='requests'))
    """
    policies = []
    for name, params in read_members(value):
        limit = as_count(name if isinstance(name, int) else params.get("q"))
        window = as_seconds(params.get("w"))
        if window == 0:
            raise ValueError("a window of no time")
        unit = as_name(params.get("qu", "requests"))
        policies.append((as_name(name), Quota(limit=limit, window=window, unit=unit)))
    return policies


def _read_service_limits(value: bytes) -> list[_Keyed]:
    """Read RateLimit: `"name";r=4;t=60` since draft 08, `limit=5, remaining=4, reset=60` in 07."""
    try:
        members = read_members(value)
    except ValueError:
        found = read_dictionary(value)
        limit, reset = as_count(found.get("limit")), as_seconds(as_count(found.get("reset")))
        remaining = as_count(found["remaining"]) if "remaining" in found else None
        return [(str(limit), Quota(remaining, reset, limit))]
    return [
        (as_name(name), Quota(as_count(params.get("r")), as_seconds(params.get("t"))))
        for name, params in members
    ]


def _read_triplets(
    reader: _Reader, family: str, reset: Callable[[bytes], float], policies: _Policies
) -> list[_Keyed]:
    """Read -Limit, -Remaining and -Reset; the n-th lines of the three belong together.

    -Limit is a policy list whose first member is in force: draft 03 writes `100, 100;w=60`. Where
    there is a -Remaining for each member, they were lines that a proxy has joined.
    """
    found = []
    limits = reader.lines(f"{family}-limit", _read_policies)
    remaining = reader.joined(f"{family}-remaining", read_remaining)
    if len(limits) == 1 and limits[0] is not None and len(limits[0]) == len(remaining):
        limits = [[each] for each in limits[0]]
    for line, count, wait in zip_longest(
        limits, remaining, reader.joined(f"{family}-reset", reset)
    ):
        policies.add(line or ())
        if line or count is not None or wait is not None:
            found.append((line[0][0] if line else "", Quota(count, wait)))
    return found
