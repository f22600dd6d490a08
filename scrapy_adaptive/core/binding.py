"""What binds a slot just now: what keeps the crawl from asking its site for more.

Laws
----
* A slot is asked at an instant, by its public questions alone; who wants to know what bound it for
  a while asks often, and takes what was answered most.
* The answer names what would have to change for one more request to leave. Nothing of the core's
  may bind it: then the crawl itself does, and who runs it knows how.
* The names are those of `scrapy_adaptive.report.reasons`, which has the words for them.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from .limits import known as known_limits
from .types import Reason

if TYPE_CHECKING:
    from .governor import Governor
    from .slot import Slot
    from .types import Blocked


class Binding(NamedTuple):
    """What binds a slot."""

    by: str
    """Name of the reason; of a known limit that of its rule, which begins with "rule"."""
    value: float = 0.0
    """The number that goes with it: seconds, requests, or 1/s; 0 where the core knows none."""


class Limit(NamedTuple):
    """The limit found of a site."""

    rate: float
    """1/s, which the site serves; 0 while none is known."""
    refused_rate: float
    """1/s, the lowest rate that it refused; 0 where none is remembered."""


LIMIT = "limit"
SEARCH = "search"
PLACES = "places"
BACKOFF = "backoff"
RETRY_AFTER = "retry-after"
PARKED = "parked"
QUOTA = "quota"
QUOTA_SPENT = "quota-spent"
CRAWL_DELAY = "crawl-delay"
LATENCY = "latency"
DELAY = "delay"
CONCURRENCY = "concurrency"
GLOBAL_RATE = "global-rate"
BREAKER = "breaker"
SHARED = "shared"
UPLINK = "uplink"
ROBOTS = "robots"
VERDICT = "verdict"

_OF_CRAWL = {
    Reason.GLOBAL: BREAKER,
    Reason.CRAWL_WIDE: SHARED,
    Reason.UPLINK: UPLINK,
    Reason.GLOBAL_RATE: GLOBAL_RATE,
}

_STOPS = frozenset({Reason.GLOBAL, Reason.UPLINK})
"""Nothing is sent to any site: that matters more than a site's own pause, unless it is parked."""

_PAUSES = frozenset({Reason.PAUSED, Reason.IN_FLIGHT, Reason.PROBE, Reason.RECHECK})


def binding(governor: Governor, key: str, now: float) -> Binding | None:
    """What keeps one more request of this slot in its queue; None where nothing of the core's does.

    A slot that nobody knows is not made.
    """
    if key not in governor:
        return None
    crawl, blocked = governor.blocked_by_crawl(now), governor.blocked_in_queue(key, now)
    is_parked = blocked is not None and blocked.reason is Reason.PARKED
    is_stopped = crawl is not None and crawl.reason in _STOPS and not is_parked
    if crawl is not None and (blocked is None or is_stopped or crawl.until >= blocked.until):
        return Binding(_OF_CRAWL[crawl.reason])
    ruled = _of_rule(governor, key, blocked, now)
    if ruled is not None or blocked is None:
        return ruled
    slot = governor.slot(key, now)
    host_key = governor.host_of(key)
    if host_key != key and slot.blocked_queued(now) != blocked:
        slot = governor.slot(host_key, now)
    return _of_slot(slot, blocked.reason, now)


def _of_rule(governor: Governor, key: str, blocked: Blocked | None, now: float) -> Binding | None:
    """The known limit that holds requests of this slot, if it holds them longer than `blocked`."""
    known = governor.known
    held = None if known is None else known.held(key, now)
    if known is None or held is None or (blocked is not None and blocked.until >= held.until):
        return None
    rule = known.rule_of(held.meter)
    if rule is None or rule.id == known_limits.DELAY:
        return None if rule is None else Binding(DELAY, 1.0 / rule.rate)
    return Binding(rule.label, held.until - now if held.until < math.inf else 0.0)


def limit_of(slot: Slot) -> Limit:
    """The limit found of this slot's site.

    A law that remembers a rate which was served knows a limit once a faster one was refused; one
    that remembers none (`aimd`) once it has cut.
    """
    ceiling = slot.ceiling
    learned = ceiling.learned
    if learned is None:
        return Limit(0.0, 0.0)
    if learned.refused_rate < math.inf:
        return Limit(learned.rate, learned.refused_rate)
    is_cut = ceiling.held_rate > 0.0 and not ceiling.best_rate
    return Limit(learned.rate if is_cut else 0.0, 0.0)


def _of_slot(slot: Slot, reason: Reason, now: float) -> Binding:
    if reason is Reason.PARKED:
        return Binding(PARKED, slot.paused_until - now)
    if reason in _PAUSES:
        return _of_pause(slot, now)
    if reason is Reason.QUOTA:
        return Binding(QUOTA_SPENT, slot.pace.quotas.until - now)
    if reason is Reason.CONCURRENCY:
        own = slot.limits.concurrency
        return Binding(CONCURRENCY if slot.places >= own else PLACES, math.floor(slot.places))
    if reason is Reason.ROBOTS:
        return Binding(ROBOTS)
    if reason is Reason.VERDICT:
        return Binding(VERDICT)
    return of_pace(slot)


def _of_pause(slot: Slot, now: float) -> Binding:
    left = max(0.0, slot.pause.until - now)
    return Binding(RETRY_AFTER if slot.pause.is_asked else BACKOFF, left)


def of_pace(slot: Slot) -> Binding:
    """What sets the delay; of several that are equal the user's own."""
    pace, limits = slot.pace, slot.limits
    if 0.0 < pace.delay <= limits.floor:
        return Binding(DELAY, limits.floor)
    bound = pace.bound
    if bound == "crawl-delay":
        return Binding(CRAWL_DELAY, pace.crawl_delay)
    if bound == "quota":
        return Binding(QUOTA, pace.quotas.delay)
    if bound == "latency":
        wanted = limits.target_concurrency  # under "auto" an error of a new host alone slows it
        return Binding(LATENCY, wanted if wanted < math.inf else 1.0)
    return Binding(LIMIT if limit_of(slot).rate else SEARCH, slot.ceiling.rate)
