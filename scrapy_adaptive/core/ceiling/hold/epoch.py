"""One congestion epoch, from its first refusal to the recovery, and what it tells of a rate.

Laws
----
* Refusals are gathered while the pause lasts; an epoch is what they came to, and never changes.
* Rates are requests a second, instants monotonic seconds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from scrapy_adaptive.core.state.fields import Amount, Instant, Seconds

if TYPE_CHECKING:
    from scrapy_adaptive.core.types import Recovery

    from .history import History

ISOLATED = 30
"""Requests served since the last recovery, from which a lone refusal stands in isolation."""

BURST = 100
"""Requests that a burst may hold, or a window whose first ones they are: what was served before the
first refusal tells of a rate only beyond them."""

SHORTEST = 0.75
"""Seconds of a pause that is short at any rate, and of a stage at least: limits of a second
show in it."""

SHORT = 4.8
"""Gaps of the refused rate in a pause that is short."""

MINUTE = 60.0
"""Seconds: what a window of a minute lets pass is worth a look. What is served for longer at a rate
that did not bind has passed all the same; a trial need not outlast a longer window. After a
longer pause all counts that was served since the last one that was not short."""


@dataclass(slots=True)
class Congestion:
    """The present congestion epoch, as far as it has come."""

    at: Instant = 0.0
    """When its first refusal arrived."""
    rate: Amount = 0.0
    """The rate in use then, 1/s."""
    level: int = 1
    """Requests in flight when the first refused one left."""
    busy: Amount = 0.0
    """Seconds from the recovery before to the refusal."""
    gap: Seconds = 0.0
    """Mean seconds between two sends before it."""
    refusals: int = 0
    by_chance: int = 0
    """Further ones, of test requests that chance may have refused."""

    def close(self, now: float, recovery: Recovery, history: History, rate: float) -> Epoch:
        """What it came to.

        Args:
            history: of what was served since the recovery before.
            rate: the rate in use now, 1/s.
        """
        served = history.served
        outage = now - self.at
        seconds = self.busy + max(outage, history.waited)
        least = served / seconds if seconds > 0.0 else 0.0
        refused = max(self.rate, min(rate, least))
        is_soon = recovery.waited <= max(SHORTEST, SHORT / refused)
        is_short = is_soon and not (recovery.tries or recovery.announced)
        is_cheap = recovery.waited <= self.busy or served < ISOLATED
        is_announced = recovery.announced and not recovery.tries
        span = self.busy + outage - recovery.waited
        since = served
        if outage > MINUTE and not is_short:
            since += history.before
            span += history.before_seconds
            seconds += history.before_seconds
        return Epoch(
            rate=refused,
            least=least,
            average=max(least, since / seconds) if seconds > 0.0 else 0.0,
            served=served,
            since=since,
            level=self.level,
            outage=outage,
            span=span,
            gap=max(self.gap, 1.0 / refused),
            refusals=self.refusals,
            by_chance=self.by_chance,
            recovery=recovery,
            is_short=is_short,
            is_alone=self.refusals == 1 and (is_short or (is_announced and is_cheap)),
        )


NO_CONGESTION = Congestion()
"""What a ceiling has that was never refused; it is shared, and nothing changes it."""


@dataclass(frozen=True, slots=True)
class Epoch:
    """One congestion epoch, from the refusal to the recovery."""

    rate: float
    """The rate that was refused, 1/s."""
    least: float
    """The rate that was served from recovery to recovery, 1/s: the limit is no less."""
    average: float
    """The same, or what was served since the last pause that was not short, 1/s: after one of
    over a minute, as short ones may have come by chance, in the same window of time."""
    served: int
    """Requests served since the recovery before."""
    since: int
    """Requests in `average`."""
    level: int
    """Requests in flight when the first refused one left."""
    outage: float
    """Seconds from the refusal to the recovery."""
    span: float
    """Seconds from the first of those in `since` to the last test request that was refused."""
    gap: float
    """Mean seconds between two sends before it: no less than by the rate, and more where the
    crawler was late."""
    refusals: int
    by_chance: int
    """Further ones, of test requests that chance may have refused."""
    recovery: Recovery
    is_short: bool
    """Whether a pause of a few gaps ended it."""
    is_alone: bool
    """Whether one request alone was refused, and a pause of a few gaps ended it. A pause that the
    site asked for may be as long as what was served before took: chance asks for seconds too, a
    window for what is left of it. A few requests tell neither, so it may be longer there."""

    def surely(self, burst: int) -> float:
        """The rate that was served beyond a burst of so many requests, less one standard error of
        their count; 1/s."""
        beyond = max(0.0, self.served - burst)
        return self.least * max(0.0, beyond - math.sqrt(beyond)) / max(1.0, self.served)

    @property
    def allowed(self) -> float:
        """A rate that the site allows, as likely as not; 1/s."""
        if self.recovery.tries:
            return self.average
        # a token came back in the first wait
        return max(self.average, 0.5 * min(self.rate, 1.0 / self.recovery.waited))


class Verdict(NamedTuple):
    """How to go on after it."""

    rate: float
    """1/s."""
    is_new: bool = True
    """Whether a stage begins; else the present one goes on."""
