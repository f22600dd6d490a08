"""A known limit, checked when it is made.

Laws
----
* A rule is immutable; every number states its unit and its range, and is refused at construction.
* Of rules of one name the most specific that matches a request counts; rules of different names
  apply together.
* A rule without a limit is an exemption from less specific ones of its name.

Durations are seconds; instants of expiry are seconds since the epoch, by the wall clock.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from scrapy_adaptive.core.diagnosis.page_classes import normalised

ANY = "*"

DRY_RUN = "\tdry run"
"""Ends the lasting id of a dry run: a tab is in no word of a rule."""

LONGEST = 366 * 86_400.0
"""Most seconds of an interval or a window: a year."""

MOST = 1_000_000_000
"""Most hits of a window, and most requests at once."""

QUOTA = 60.0
"""Seconds: a window from here on is a quota. It may be used as fast as everything else allows, and
has to outlive the process; a shorter one is spread evenly, as the limiters of servers want it."""


LEEWAY = 0.5
"""Of a hit: a window's hits are spread so that one which left late, for want of an exact timer, is
made up for by the next. Two never leave at once by it, and the window's own count holds as well."""


class RuleError(ValueError):
    """A field of a rule is not allowed.

    Attributes:
        field: its name.
        value: what it was.
        allowed: what it may be, in words.
    """

    def __init__(self, field: str, value: object, allowed: str) -> None:
        shown = repr(value)
        shown = shown if len(shown) <= 200 else shown[:200] + "…"
        super().__init__(f"{field} = {shown}: allowed is {allowed}")
        self.field, self.value, self.allowed = field, value, allowed


class Identity(NamedTuple):
    """Who a request is sent as, in a rule: `account=alice`, or `account=*`."""

    source: str
    pattern: str

    @property
    def is_glob(self) -> bool:
        """Whether more than one may be meant: each of them is counted by itself."""
        return any(sign in self.pattern for sign in "*?[")

    def __str__(self) -> str:
        return f"{self.source}={self.pattern}"


def _follows() -> Any:
    """A field that follows from the others: asked for at each request, computed once."""
    return field(init=False, repr=False, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One known limit.

    Raises:
        RuleError: a field is out of its range.
    """

    id: str
    """Tells rules apart: the id of a row, or the place in the setting."""
    is_stored: bool = False
    """Whether it stands in the table: of one name those win."""
    name: str = ""
    host: str = ANY
    """A host, `*.suffix` for all under it, or `*`."""
    uri: str = ANY
    """A normalised path, a prefix that ends with `/*`, or `*`."""
    identity: Identity | None = None
    """Who must send it; None for everybody, together."""
    shared: bool = False
    """One count for all that match; else one for each host, and each identity of a pattern."""
    interval: float = 0.0
    """Least seconds from an answer to the next request; 0 for none."""
    max_hits: int = 0
    """Most hits within any `window` seconds; 0 for no limit."""
    window: float = 0.0
    rate: float = math.inf
    """Most hits a second; infinity for no limit."""
    burst: float = 0.0
    """Hits at once under `rate` or `window`; 0 for ADAPTIVE_BURST."""
    concurrency: int = 0
    """Most requests in flight; 0 for no limit."""
    paused: bool = False
    dry_run: bool = False
    """Counts and tells, holds nobody."""
    expires_at: float = math.inf
    note: str = ""

    limits: bool = _follows()
    """Whether it limits anything; else it exempts."""
    is_quota: bool = _follows()
    """Whether its window has to outlive the process."""
    spacing: float = _follows()
    """Seconds for which each hit counts in the bucket that spreads them; 0 for no bucket."""
    leeway: float = _follows()
    """Hits that the bucket lets leave too early, where the rule says nothing of a burst."""
    pace: float = _follows()
    """Hits a second that it allows in the long run, quotas aside; infinity for no limit."""
    allowed_rate: float = _follows()
    """Hits a second that it allows in the long run."""
    is_pace: bool = _follows()
    """Whether it says how fast requests may go, in place of DOWNLOAD_DELAY."""

    def __post_init__(self) -> None:
        self._check()
        is_quota = self.window >= QUOTA
        spread = self.max_hits and (not is_quota or self.burst)
        of_window, of_rate = self.window / self.max_hits if spread else 0.0, 1.0 / self.rate
        spacing = max(of_window, of_rate)
        seconds = max(spacing, self.interval)
        pace = 1.0 / seconds if seconds else math.inf
        allowed = min(pace, self.max_hits / self.window if self.max_hits else math.inf)
        limits = bool(self.interval or self.max_hits or self.concurrency or self.paused)
        facts = {
            "limits": limits or self.rate < math.inf,
            "is_quota": is_quota,
            "spacing": spacing,
            "leeway": LEEWAY if spread and (1.0 - LEEWAY) * of_window >= of_rate else 0.0,
            "pace": pace,
            "allowed_rate": allowed,
            "is_pace": allowed < math.inf and not self.dry_run,
        }
        for name, value in facts.items():
            object.__setattr__(self, name, value)

    def _check(self) -> None:
        _check_scope(self)
        allowed: dict[str, tuple[bool, str]] = {
            "interval": (0 <= self.interval <= LONGEST, "seconds, more than 0, up to a year"),
            "max_hits": (0 <= self.max_hits <= MOST, "a whole number, 1 to 1,000,000,000"),
            "window": (0 <= self.window <= LONGEST, "seconds, more than 0, up to a year"),
            "rate": (self.rate > 0, "hits a second, more than 0"),
            "burst": (self.burst == 0 or 1 <= self.burst < math.inf, "hits at once, 1 or more"),
            "concurrency": (0 <= self.concurrency <= MOST, "a whole number, 1 to 1,000,000,000"),
            "expires_at": (not math.isnan(self.expires_at), "seconds since the epoch"),
        }
        for name, (holds, words) in allowed.items():
            if not holds:
                raise RuleError(name, getattr(self, name), words)
        if bool(self.max_hits) != bool(self.window):
            name = "window" if self.max_hits else "max_hits"
            raise RuleError(name, None, "a value: max_hits and window go together")
        if self.burst and not (self.max_hits or self.rate < math.inf):
            raise RuleError("burst", self.burst, "no value without a rate, or max_hits in a window")

    @property
    def layer(self) -> tuple[str, bool]:
        """Its name, and whether it is a dry run: of one layer one rule counts, and rules of
        different ones apply together."""
        return self.name, self.dry_run

    @property
    def lasting_id(self) -> str:
        """What outlives a change of the settings: rules there have no id of their own. A dry run
        does not count for the rule in force that it may stand beside."""
        if self.is_stored:
            return self.id
        words = " ".join([self.name, self.host, self.uri, str(self.identity or ANY)])
        return words + DRY_RUN if self.dry_run else words

    @property
    def label(self) -> str:
        """What people call it."""
        return f"rule {self.id} ({self.name})" if self.name else f"rule {self.id}"


def _check_scope(rule: Rule) -> None:
    host = rule.host.removeprefix("*.")
    is_host = host.isascii() and host == host.lower() and "" not in host.split(".")
    if rule.host != ANY and (not is_host or any(sign in host for sign in "*/ :@?#\t\n\x1e\x1f\0")):
        words = "a host in lower case without a port, *.suffix for all under it, or *"
        raise RuleError("host", rule.host, words)
    path = rule.uri.removesuffix("/*")
    if rule.uri != ANY and (
        not rule.uri.startswith("/") or "*" in path or (path and normalised_uri(path) != path)
    ):
        raise RuleError(
            "uri", rule.uri, "a path that begins with /, a prefix such as /search/*, or *"
        )
    identity = rule.identity
    if identity is not None and not (
        identity.source.isidentifier() and identity.pattern and identity.pattern.isprintable()
    ):
        raise RuleError("identity", str(identity), "source=value, for instance account=alice")


def normalised_uri(path: str) -> str:
    """A path as rules name it: numbers and identifiers are replaced by #.

    >>> normalised_uri("/entity/123/version/7"), normalised_uri("/index.php?id=7")
    ('/entity/#/version/#', '/index.php?id')
    """
    plain, _, query = path.partition("?")
    return normalised(plain, query)
