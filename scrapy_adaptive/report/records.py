"""The schema of the journal: one JSON object a line.

Laws
----
* A record is of one kind, and of version `VERSION` of the schema, which the run's `start` names.
* Instants are seconds since the run's start. Counters count from there, and only rise.
* A field that a site's record does not have is as in the site's record before.
* A reader takes no notice of fields, kinds and keys that it does not know.
* No record holds a query string, a fragment or a credential.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from typing import Any, ClassVar, TypeAlias

VERSION = 1
"""Version of the schema. One more where a field that there was means something else."""


@dataclass(frozen=True, slots=True)
class Start:
    """A run begins: a process that crawls, or goes on with a job."""

    KIND: ClassVar[str] = "start"
    version: int
    started_at: float
    """Seconds since 1970, UTC: what all other instants of the run count from."""
    spider: str
    run: str = ""
    """Distinguishes this run from all others."""
    package: str = ""
    """Version of scrapy-adaptive."""


@dataclass(frozen=True, slots=True)
class SiteRecord:
    """A site at an instant. None: as in the record before."""

    KIND: ClassVar[str] = "site"
    at: float
    site: str
    """Name of the slot: the host, as a rule."""
    host: str | None = None
    """The site that this class of pages is one of; in its first record."""
    began: float | None = None
    """The instant of its first request; in its first record."""
    fresh: bool | None = None
    """Whether counters begin at 0 again: the slot had been forgotten."""
    sent: int | None = None
    served: int | None = None
    refused: int | None = None
    failed: int | None = None
    requeued: int | None = None
    """Requests fetched again because of a refusal."""
    latency: float | None = None
    """Median seconds to the response's head, of the answers since the last full record."""
    worst: float | None = None
    """The longest of them."""
    in_flight: int | None = None
    waiting: int | None = None
    """Requests in its queue, and at the gate."""
    rate: float | None = None
    """Allowed rate, 1/s; 0 where nothing bounds it."""
    state: str | None = None
    """crawling, paused, testing, parked or idle."""
    by: str | None = None
    """What holds it back: the key of a reason."""
    value: float | None = None
    """The number that goes with the reason, as its page says: seconds, requests, 1/s."""
    own: bool | None = None
    """Whether that number is from DOWNLOAD_SLOTS."""
    limit: float | None = None
    """The limit found, 1/s; 0 while none is known."""
    refused_at: float | None = None
    """The lowest rate that was refused, 1/s; 0 while none was."""
    paused: float | None = None
    """Seconds that it was paused, so far."""
    until: float | None = None
    """The instant that ends the present pause; 0 for none."""


@dataclass(frozen=True, slots=True)
class CrawlRecord:
    """The whole crawl at an instant: sites that have no record of their own are in here too."""

    KIND: ClassVar[str] = "crawl"
    at: float
    sent: int = 0
    served: int = 0
    refused: int = 0
    failed: int = 0
    requeued: int = 0
    given_up: int = 0
    in_flight: int = 0
    waiting: int = 0
    sites: int = 0
    """Slots that sent anything."""
    hidden: int = 0
    """Events that had no record, as there were too many."""
    busy: float = 0.0
    """Share of the time in which the crawler's own process was computing."""


@dataclass(frozen=True, slots=True)
class EventRecord:
    """Something happened, to a site or to the whole crawl."""

    KIND: ClassVar[str] = "event"
    at: float
    event: str
    """A key of `events.EVENTS`."""
    site: str = ""
    """Empty for the whole crawl."""
    seconds: float = 0.0
    """How long: the pause that begins, or the one that ended."""
    who: str = ""
    """Who asked for the pause: "site", or "crawler" where the site said nothing of its length."""
    status: int = 0
    """HTTP status of the answer; 0 where the download failed."""
    rate: float = 0.0
    """1/s: the rate refused, or from here; 0 for none."""
    refused_at: float = 0.0
    """1/s: the lowest rate refused, where a limit is found."""
    count: int = 0
    """Requests concerned."""
    page: str = ""
    """URL without query and credentials, or class of pages."""
    sites: tuple[str, ...] = ()
    """Some of the sites whose trouble paused the whole crawl."""


@dataclass(frozen=True, slots=True)
class End:
    """The run has ended in good order."""

    KIND: ClassVar[str] = "end"
    at: float
    reason: str
    """Scrapy's: "finished", for instance."""


Record: TypeAlias = Start | SiteRecord | CrawlRecord | EventRecord | End

KINDS: dict[str, type[Record]] = {
    kind.KIND: kind for kind in (Start, SiteRecord, CrawlRecord, EventRecord, End)
}

_TYPES = {
    "float": (int, float),
    "int": (int,),
    "str": (str,),
    "bool": (bool,),
    "tuple[str, ...]": (list,),
}
_ALLOWED = {
    kind: {each.name: _TYPES[str(each.type).removesuffix(" | None")] for each in fields(kind)}
    for kind in KINDS.values()
}
MOST = 1e30
"""Most of any number: sums and quotients of such numbers are finite yet."""

_LATEST = 100_000_000_000.0
"""Seconds since 1970 beyond which no crawl has begun."""


def to_line(record: Record) -> str:
    """The record as one line of the journal, with its end; what is as usual is left out.

    >>> to_line(EventRecord(12.5, "recovery", "example.com", seconds=7.25))
    '{"kind":"event","at":12.5,"event":"recovery","site":"example.com","seconds":7.25}\\n'
    """
    told = ((each.name, getattr(record, each.name), each.default) for each in fields(record))
    values = {name: value for name, value, default in told if value != default}
    return json.dumps({"kind": record.KIND, **values}, separators=(",", ":")) + "\n"


def from_line(line: str) -> Record | None:
    """The record of one line; None for one that is torn, or of a kind that nobody knows here.

    >>> from_line('{"kind":"end","at":60.0,"reason":"finished","more":1}')
    End(at=60.0, reason='finished')
    >>> from_line('{"kind":"end","at":60.0,"rea') is None
    True
    """
    try:
        values: Any = json.loads(line)
        kind = KINDS[values.pop("kind")]
        known = {name: value for name, value in values.items() if name in _ALLOWED[kind]}
        if not all(is_allowed(value, _ALLOWED[kind][name]) for name, value in known.items()):
            return None
        if kind is Start and not 0.0 <= known["started_at"] < _LATEST:
            return None
        if kind is EventRecord:
            known["sites"] = tuple(map(str, known.get("sites", ())))
        return kind(**known)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def is_allowed(value: Any, types: tuple[type, ...]) -> bool:
    """Whether a value is of one of these types; no number is infinite, or as good as that."""
    if isinstance(value, bool):
        return bool in types
    if isinstance(value, (int, float)) and not abs(value) <= MOST:
        return False
    return isinstance(value, types)
