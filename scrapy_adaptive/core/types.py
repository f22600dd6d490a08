"""What the laws hear and what they answer.

Laws
----
* A fact is immutable and says what happened, never what to do.
* A refusal to send is a value (`Blocked`) with its earliest instant and its reason.
* A decision carries the change *and why*.
"""

from __future__ import annotations

from collections.abc import Hashable
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from .headers.parse import Quota

Page: TypeAlias = Hashable
"""Identity of a request's page: its fingerprint in Scrapy."""


class Outcome(Enum):
    """What an answer meant for politeness."""

    ACCEPTED = "accepted"
    """The site served the request (a 404 is served too)."""
    REFUSED = "refused"
    """The site asked for less: 429, 503, a captcha."""
    FAILED = "failed"
    """The site broke: another 5xx, a lost connection, a timeout."""


class Reason(Enum):
    """Why nothing may be sent just now."""

    DELAY = "delay"
    CONCURRENCY = "concurrency"
    QUOTA = "quota spent"
    """The site's own headers say that nothing is left until their reset."""
    PAUSED = "paused"
    PARKED = "parked"
    """The site itself asked for a pause longer than the user wants a crawl to sit through."""
    IN_FLIGHT = "in flight"
    PROBE = "probe out"
    RECHECK = "recheck"
    VERDICT = "verdict awaited"
    FIRST = "first request under way"
    ROBOTS = "robots.txt awaited"
    GLOBAL = "global breaker"
    GLOBAL_RATE = "global rate"
    CRAWL_WIDE = "limit of the whole crawl"
    UPLINK = "uplink down"
    RULE = "known limit"

    @property
    def is_of_crawl(self) -> bool:
        """Whether it holds every slot, so that none is held by what it did itself."""
        return self in _OF_CRAWL

    @property
    def is_common(self) -> bool:
        """Whether what other slots have in flight may hold this one."""
        return self is Reason.RULE or self in _OF_CRAWL


_OF_CRAWL = frozenset({Reason.GLOBAL, Reason.GLOBAL_RATE, Reason.CRAWL_WIDE, Reason.UPLINK})


class Blocked(NamedTuple):
    """A refusal to send: not before `until`, because of `reason`.

    `until` is in monotonic seconds; infinity means "when an event says so".
    """

    until: float
    reason: Reason
    meter: str = ""
    """Which meter holds it, where a known limit does."""


class Wanted(Enum):
    """Which of several waiting requests serves best."""

    ANY = "any"
    UNSUSPECTED = "unsuspected"
    """A probe asks about the host: a page that was not refused before."""
    SUSPECTED = "suspected"
    """A recheck asks about the page that is suspected."""


class Event(Enum):
    """What one answer changed."""

    ACCEPTED = "accepted"
    RECOVERED = "probe accepted"
    TRIPPED = "tripped"
    LATE = "late refusal"
    """It cuts nothing: it was sent before the pause."""
    EXCUSED = "excused"
    """It cuts nothing: its page is to blame, or the limit of the whole crawl."""
    PROBE_REFUSED = "probe refused"
    BROKEN = "broken page"
    LONE_FAILURE = "lone failure"
    UPLINK_DOWN = "uplink down"


class Answer(NamedTuple):
    """How one request ended, as far as politeness cares."""

    outcome: Outcome
    latency: float | None = None
    """Seconds to the response's head; None teaches the latency law nothing."""
    may_lower: bool = True
    """Whether this latency may lower the delay: an error page's may not."""
    silent: bool = False
    """Whether nothing came back: no connection, no name, no answer in time."""
    announced: float | None = None
    """Seconds to wait, which the site itself asked for."""
    quotas: tuple[Quota, ...] = ()
    """What the headers of the response say of the site's quotas."""
    page: Page | None = None
    """Needed on a refusal or a failure, and while the slot suspects pages."""
    kind: str | None = None
    """Class of the page. Needed on a refusal, and while the slot counts classes."""


class Decision(NamedTuple):
    """What an answer changed, and why."""

    event: Event
    delay: float
    """Least seconds between two sends from now on."""
    delay_change: float
    wait: float
    """Seconds to wait from now; 0 when the slot need not wait."""
    why: str
    """Empty for an acceptance, after which the delay is what the slot is bound by."""
    split: str = ""
    """The class of pages that is refused alone, and has a slot of its own from here."""
    again: bool = False
    """Whether the request is to be fetched again without spending a retry."""


class Recovery(NamedTuple):
    """How a pause ended."""

    tries: int
    """Waits that should have sufficed and did not: test requests that were refused in it, but for
    one after the first wait and for those that chance explains."""
    waited: float
    """Seconds of the wait that the accepted probe outlasted."""
    announced: bool
    """Whether the site itself said how long to wait."""


class Learned(NamedTuple):
    """What is worth remembering of a slot: a first guess for the next crawl."""

    rate: float
    """The rate that was held, 1/s."""
    refused_rate: float = float("inf")
    """The lowest rate that was refused, 1/s; infinity where none was."""
    concurrency: float = float("inf")
    """The learned limit on what is in flight."""
    price: float = 0.0
    """Pages that a refusal cost."""
    silence: float = 0.0
    """Seconds of the wait that worked when the first one had failed."""
