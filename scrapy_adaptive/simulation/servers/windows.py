"""Servers that count the pages of a period, and one that looks at the last hit only.

Laws
----
* Where refused hits count, whoever goes on hitting stays refused.
"""

from __future__ import annotations

import math
from collections import deque

from scrapy_adaptive.core.headers.parse import Quota

from .base import ACCEPTED, REFUSED, Page, Reply
from .ranges import SECONDS
from .rates import ROUNDING, Given, rate_of, whole


class WindowServer:
    """So many pages in each period, counted from zero; refused hits do not count.

    Args:
        count: pages of one period.
        period: seconds.
        begin: the instant at which some period begins; None: each begins with the first hit after
            the one before, as in express-rate-limit.
    """

    def __init__(self, count: Given, period: float, begin: float | None = 0.0) -> None:
        SECONDS.check(period=period)
        self._count = rate_of(count)
        self._period = period
        self._aligned = begin is not None
        self._begin = -math.inf if begin is None else begin
        self._used = 0

    def on_arrival(self, now: float, page: Page) -> Reply:
        """Accept the page if its period has room."""
        self._turn(now)
        if self._used >= whole(self._count(now)):
            return REFUSED
        self._used += 1
        return ACCEPTED

    def capacity(self, now: float) -> float:
        """The count of one period, spread over it."""
        return whole(self._count(now)) / self._period

    def retry_at(self, now: float, page: Page) -> float:
        """Now while there is room, else the period's end."""
        self._turn(now)
        return now if self._used < whole(self._count(now)) else self._begin + self._period

    def quota(self, now: float, page: Page) -> Quota:
        """The room in this period, and the seconds until it ends."""
        self._turn(now)
        reset = max(0.0, self._begin + self._period - now)
        return _quota(whole(self._count(now)), self._used, reset, self._period)

    def _turn(self, now: float) -> None:
        passed = math.floor((now - self._begin) / self._period) if self._aligned else 0
        if self._aligned and passed:
            self._begin += passed * self._period
        elif self._aligned or now < self._begin + self._period:
            return
        else:
            self._begin = now
        self._used = 0


class LogServer:
    """So many pages in the last seconds, whenever those are looked at: a sliding window log.

    Args:
        count: pages of one period.
        period: seconds.
        counts_refusals: a refused hit fills the log too.
    """

    def __init__(self, count: Given, period: float, *, counts_refusals: bool = False) -> None:
        SECONDS.check(period=period)
        self._count = rate_of(count)
        self._period = period
        self._counts_refusals = counts_refusals
        self._log: deque[float] = deque()

    def on_arrival(self, now: float, page: Page) -> Reply:
        """Accept the page if the log has room."""
        accepts = self._used(now) < whole(self._count(now))
        if accepts or self._counts_refusals:
            self._log.append(now)
        return ACCEPTED if accepts else REFUSED

    def capacity(self, now: float) -> float:
        """The count of one period, spread over it."""
        return whole(self._count(now)) / self._period

    def retry_at(self, now: float, page: Page) -> float:
        """When enough of the log is forgotten."""
        over = self._used(now) - whole(self._count(now))
        return now if over < 0 else self._log[int(over)] + self._period

    def quota(self, now: float, page: Page) -> Quota:
        """The room in the log, and the seconds until its oldest hit is forgotten."""
        used = self._used(now)
        reset = max(0.0, self._log[0] + self._period - now) if used else 0.0
        return _quota(whole(self._count(now)), used, reset, self._period)

    def _used(self, now: float) -> int:
        while self._log and now - self._log[0] >= self._period * (1.0 - ROUNDING):
            self._log.popleft()
        return len(self._log)


class CounterServer:
    """HAProxy's `http_req_rate` with `deny if { … gt count }`: two counters for a sliding period.

    The rate is this period's count plus the last one's times the share of this period that is
    left, rounded down. Every hit counts, refused or not, before it is judged.

    **Source** HAProxy, `read_freq_ctr_period` in include/haproxy/freq_ctr.h.
    """

    def __init__(self, count: Given, period: float) -> None:
        SECONDS.check(period=period)
        self._count = rate_of(count)
        self._period = period
        self._begin = 0.0
        self._hits = 0
        self._hits_before = 0

    def on_arrival(self, now: float, page: Page) -> Reply:
        """Count the hit, then accept it unless the rate is above the count."""
        self._turn(now)
        self._hits += 1
        return REFUSED if self._rate(now) > whole(self._count(now)) else ACCEPTED

    def capacity(self, now: float) -> float:
        """The count of one period, spread over it."""
        return whole(self._count(now)) / self._period

    def retry_at(self, now: float, page: Page) -> float:
        """When one more hit would not be above the count, if none came before."""
        self._turn(now)
        room = whole(self._count(now)) - self._hits
        if room > 0:
            return max(now, self._begin + self._period * _share_to_fade(self._hits_before, room))
        fades = _share_to_fade(self._hits, whole(self._count(now)))
        return self._begin + self._period * (1.0 + fades)

    def quota(self, now: float, page: Page) -> Quota:
        """The room under the count."""
        self._turn(now)
        reset = self._begin + self._period - now
        return _quota(whole(self._count(now)), self._rate(now), reset, self._period)

    def _rate(self, now: float) -> int:
        left = 1.0 - (now - self._begin) / self._period
        return math.floor(self._hits + self._hits_before * left)

    def _turn(self, now: float) -> None:
        if now - self._begin < self._period:
            return
        self._hits_before, self._hits = self._hits, 0
        self._begin += self._period
        if now - self._begin >= self._period:
            self._hits_before = 0
            self._begin = now


class LastHitServer:
    """A least gap since the last hit, accepted or refused: Connotea's rule for crawlers.

    Args:
        rate: pages a second; the gap is its inverse, 2 s at Connotea.
    """

    def __init__(self, rate: Given) -> None:
        self._rate = rate_of(rate)
        self._last_at = -math.inf

    def on_arrival(self, now: float, page: Page) -> Reply:
        """Accept the page if the gap has passed; the hit begins another one."""
        accepts = now >= self.retry_at(now, page) - ROUNDING
        self._last_at = now
        return ACCEPTED if accepts else REFUSED

    def capacity(self, now: float) -> float:
        """One page in each gap."""
        return self._rate(now)

    def retry_at(self, now: float, page: Page) -> float:
        """When the gap has passed."""
        return max(now, self._last_at + 1.0 / self._rate(now))

    def quota(self, now: float, page: Page) -> Quota:
        """One page in each gap."""
        reset = self.retry_at(now, page) - now
        return Quota(0 if reset > ROUNDING else 1, reset, 1, 1.0 / self._rate(now))


def _share_to_fade(hits: float, room: float) -> float:
    """The share of a period after which those hits of the last one are fewer than the room."""
    return 1.0 - room / hits + ROUNDING if hits >= room else 0.0


def _quota(count: float, used: float, reset: float, period: float) -> Quota:
    if count == math.inf:
        return Quota()
    return Quota(max(0, int(count - used)), reset, int(count), period)
