"""The rules by which sites refuse, as pure classes.

Laws
----
* Time is an argument, in seconds; no rule reads a clock, and `now` never goes back.
* A rule is told of every hit and says at once whether it is served.
* A site's rule has one budget for all its clients, as the server of each crawl has one client.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a rule says to a hit."""

    served: bool
    banned: bool = False
    """Refused because a ban ran already, which this hit has begun anew."""
    headers: Mapping[str, str] = field(default_factory=dict)


SERVED, REFUSED = Verdict(served=True), Verdict(served=False)


class Limiter(Protocol):
    """A site's rule."""

    def hit(self, now: float) -> Verdict:
        """A request has arrived."""


class Unlimited:
    """Serves all."""

    def hit(self, now: float) -> Verdict:
        """Served."""
        return SERVED


class TokenBucket:
    """`rate` tokens a second, at most `burst` saved up; a hit without a token is refused.

    Like nginx's `limit_req` with `nodelay`, a refusal costs nothing.
    """

    def __init__(self, rate: float, burst: float) -> None:
        self.rate = rate
        self._burst = burst
        self._tokens = burst
        self._counted_at = -math.inf

    def set_rate(self, now: float, rate: float) -> None:
        """From `now` on it fills by another rate."""
        self._fill(now)
        self.rate = rate

    def hit(self, now: float) -> Verdict:
        """Served while there is a token."""
        self._fill(now)
        if self._tokens < 1.0:
            return REFUSED
        self._tokens -= 1.0
        return SERVED

    def _fill(self, now: float) -> None:
        if now > self._counted_at:
            saved = self._tokens + (now - self._counted_at) * self.rate
            self._tokens, self._counted_at = min(self._burst, saved), now


class Step:
    """A token bucket whose rate falls to `ratio` of itself for the second third of the run.

    Args:
        seconds: length of the run, which begins with the first hit.
    """

    def __init__(self, rate: float, burst: float, *, ratio: float, seconds: float) -> None:
        self._bucket = TokenBucket(rate, burst)
        self._changes = [(seconds / 3, ratio * rate), (2 * seconds / 3, rate)]
        self._began_at: float | None = None

    def hit(self, now: float) -> Verdict:
        """Served while there is a token."""
        if self._began_at is None:
            self._began_at = now
        while self._changes and now - self._began_at >= self._changes[0][0]:
            elapsed, rate = self._changes.pop(0)
            self._bucket.set_rate(self._began_at + elapsed, rate)
        return self._bucket.hit(now)


class TwoPeriodCounter:
    """At most `limit` hits a period, by the count of this period and a share of the last.

    Refusals count, so that whoever goes on is never served. **Source**: HAProxy's
    `http_req_rate`, freq_ctr.c: the last period counts as far as a window of one period that
    ends now still covers it. The first period begins with the first hit.
    """

    def __init__(self, limit: int, period: float) -> None:
        self._limit = limit
        self._period = period
        self._began_at = -math.inf
        self._this, self._last = 0, 0

    def hit(self, now: float) -> Verdict:
        """Counted, then judged."""
        elapsed = (now - self._began_at) / self._period
        if elapsed >= 2.0:
            self._began_at, self._this, self._last, elapsed = now, 0, 0, 0.0
        elif elapsed >= 1.0:
            self._began_at += self._period
            self._this, self._last, elapsed = 0, self._this, elapsed - 1.0
        self._this += 1
        left = 1.0 - elapsed
        return SERVED if self._this + left * self._last <= self._limit else REFUSED


class Window:
    """At most `limit` hits in each window of `period` seconds; the first begins with a hit.

    With `headers` every answer says what is left (draft-ietf-httpapi-ratelimit-headers-10) and a
    refusal says when to come again, in whole seconds rounded up.
    """

    def __init__(self, limit: int, period: float, *, headers: bool = False) -> None:
        self._limit = limit
        self._period = period
        self._headers = headers
        self._began_at = -math.inf
        self._count = 0

    def hit(self, now: float) -> Verdict:
        """Served while the window is not full."""
        if math.isinf(self._began_at):
            self._began_at = now
        if windows := math.floor((now - self._began_at) / self._period):
            self._began_at += windows * self._period
            self._count = 0
        self._count += 1
        served = self._count <= self._limit
        return Verdict(served, headers=self._say(now, served) if self._headers else {})

    def _say(self, now: float, served: bool) -> dict[str, str]:
        reset = max(1, math.ceil(self._began_at + self._period - now))
        remaining = max(0, self._limit - self._count)
        headers = {
            "RateLimit-Policy": f'"default";q={self._limit};w={self._period:.0f}',
            "RateLimit": f'"default";r={remaining};t={reset}',
        }
        return headers if served else {**headers, "Retry-After": str(reset)}


class Ban:
    """A token bucket that bans for `seconds` who exceeds it; each hit begins the ban anew."""

    def __init__(self, rate: float, burst: float, seconds: float) -> None:
        self._bucket = TokenBucket(rate, burst)
        self._seconds = seconds
        self._ends_at = -math.inf

    def hit(self, now: float) -> Verdict:
        """Served while there is no ban and a token."""
        banned = now < self._ends_at
        if not banned and self._bucket.hit(now).served:
            return SERVED
        self._ends_at = now + self._seconds
        return Verdict(served=False, banned=banned)
