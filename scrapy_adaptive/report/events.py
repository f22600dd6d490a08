"""What happens to a site: the one registry of its words.

Laws
----
* Whoever records a new kind of event adds it here, and nowhere else.
* An event that nobody knows here is shown by its key.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from . import units

if TYPE_CHECKING:
    from .records import EventRecord


@dataclass(frozen=True, slots=True)
class Event:
    """One kind of event."""

    key: str
    title: str
    meaning: str
    """A sentence for who meets the title."""


PAUSE = "pause"
LONGER = "longer"
PARKED = "parked"
RECOVERY = "recovery"
LIMIT = "limit"
BROKEN = "broken"
GIVEN_UP = "given-up"
SPLIT = "split"
STOPPED = "stopped"
RESUMED = "resumed"

EVENTS: dict[str, Event] = {
    each.key: each
    for each in (
        Event(PAUSE, "paused", "The site refused, and nothing is sent to it for a while."),
        Event(LONGER, "paused for longer", "The test request after a pause was refused too."),
        Event(PARKED, "parked", "The site asked for a longer wait than ADAPTIVE_MAX_PAUSE."),
        Event(
            RECOVERY,
            "recovered",
            "Its test request was served, or failed alone.",
        ),
        Event(LIMIT, "limit found", "A faster rate was refused, this one is served."),
        Event(BROKEN, "broken page", "The page is refused whatever the pace."),
        Event(GIVEN_UP, "given up", "Requests that will not be sent again by scrapy-adaptive."),
        Event(SPLIT, "pages apart", "One kind of pages alone is refused: it has its own pace."),
        Event(STOPPED, "whole crawl paused", "Nothing is sent to any site for a while."),
        Event(RESUMED, "whole crawl goes on", "Requests are sent again."),
    )
}


def title(key: str) -> str:
    """The event in a word or two."""
    return EVENTS[key].title if key in EVENTS else key


def sentence(record: EventRecord) -> str:
    """What happened, for people.

    >>> from .records import EventRecord
    >>> sentence(EventRecord(9.0, "pause", "a.example", 7.2, "site", 429, 4.0))
    'paused for 7.2 s, as the site asked, after a 429; the pace limit was 4/s'
    >>> sentence(EventRecord(9.0, "limit", "a.example", rate=3.9, refused_at=4.1))
    'limit found: 3.9/s is served, 4.1/s was refused'
    """
    parts = [title(record.event)]
    if record.event == LIMIT:
        refused = f", {units.rate(record.refused_at)} was refused" if record.refused_at else ""
        return f"{parts[0]}: {units.rate(record.rate)} is served{refused}"
    if record.seconds:
        parts.append(f"{_WHEN.get(record.event, 'for')} {units.duration(record.seconds)}")
    said = " ".join(parts)
    if record.who == "site":
        said += ", as the site asked,"
    if record.event in (PAUSE, LONGER, PARKED):
        said += f" after {f'a {record.status}' if record.status else 'a failed download'}"
    if record.rate:
        said += f"{_AT.get(record.event, '; the pace limit was')} {units.rate(record.rate)}"
    if record.count:
        said += f": {record.count:,} {'request' if record.count == 1 else 'requests'}"
    if record.page:
        said += f": {record.page}"
    if record.sites:
        said += f" ({', '.join(record.sites)})"
    return said


_WHEN = {RECOVERY: "after", RESUMED: "after"}
_AT = {RECOVERY: "; goes on at up to"}
