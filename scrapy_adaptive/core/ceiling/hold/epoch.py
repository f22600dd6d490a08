"""One congestion epoch, from its first refusal to the recovery, and what it tells of a rate.

Laws
----
* Pain is gathered while the pause lasts; an epoch is what it came to, and is never changed.
* Rates are requests a second, instants monotonic seconds.
"""

from __future__ import annotations

from dataclasses import dataclass

from scrapy_adaptive.core.ceiling.base import GAPS
from scrapy_adaptive.core.state.fields import Instant
from scrapy_adaptive.core.types import Recovery

ISOLATED = 30
"""Requests served since the last refusal, from which a lone refusal stands in isolation."""

DEEPEST = 0.5
"""Share of a held rate that one epoch leaves at least, where a short silence ended it: a limit
that fell further shows in the next."""

ROUGH = 2.0
"""Requests by which a short account, or a run, may be off: its two ends."""

SHORTEST = 0.75
"""Least seconds of a stage: a hurry gets to 50/s in about five, and limits of a second show."""

SETTLING = 4.0
"""Times the usual silence before a recheck while the rate itself is in doubt."""


@dataclass(slots=True)
class Pain:
    """The present congestion epoch, as far as it has come."""

    at: Instant
    """When its first refusal arrived."""
    rate: float
    """The rate in use then, 1/s."""
    level: int
    """Requests in flight when the first refused one left."""
    passed: int
    """Requests that had passed at that rate."""
    busy: float
    """Seconds from the recovery before to the refusal."""
    refusals: int = 0

    def close(
        self,
        now: float,
        recovery: Recovery,
        *,
        served: int,
        spacing: int,
        rate: float,
        held: float,
        rested: float,
    ) -> Epoch:
        """What it came to.

        Args:
            served: requests since the recovery before.
            spacing: requests served since the refusal before.
            rate: the rate in use now, 1/s.
            held: the highest rate that passed a stage, 1/s.
            rested: seconds of silence before that recovery whose savings may have been served.
        """
        outage = now - self.at
        seconds = self.busy + outage
        seconds_saved = seconds + max(0.0, rested - recovery.waited)
        least = served / seconds_saved if seconds_saved > 0.0 else 0.0
        refused = max(self.rate, min(rate, least))
        is_short = not (recovery.tries or recovery.told) and recovery.waited <= max(
            SHORTEST, SETTLING * GAPS / refused
        )
        is_cheap = recovery.waited <= self.busy or served < ISOLATED
        is_told = recovery.told and not recovery.tries
        return Epoch(
            rate=refused,
            least=least,
            served=served,
            seconds=seconds,
            spacing=spacing,
            passed=self.passed,
            outage=outage,
            span=seconds - recovery.waited,
            refusals=self.refusals,
            recovery=recovery,
            is_short=is_short,
            is_alone=self.refusals == 1 and (is_short or (is_told and is_cheap)),
            was_held=refused <= held * (1.0 + 1e-9),
        )


@dataclass(frozen=True, slots=True)
class Epoch:
    """One congestion epoch, from the refusal to the recovery."""

    rate: float
    """The rate that was refused, 1/s."""
    least: float
    """The rate that was served from recovery to recovery, or from refusal to refusal where that is
    slower, 1/s: the limit is no less."""
    served: int
    """Requests served since the recovery before."""
    seconds: float
    """From that recovery to the present one."""
    spacing: int
    """Requests served since the refusal before."""
    passed: int
    """Those of them that show something of the rate that was refused."""
    outage: float
    """Seconds from the refusal to the recovery."""
    span: float
    """Seconds from the recovery before to the last probe that was refused."""
    refusals: int
    recovery: Recovery
    is_short: bool
    """Whether a silence of a few gaps ended it."""
    is_alone: bool
    """Whether one request alone was refused, and a silence of a few gaps ended it. One that the
    site asked for may be as long as what was served before took: chance asks for seconds too, a
    window for what is left of it. A few requests tell neither, so it may be longer there."""
    was_held: bool
    """Whether the rate had passed a stage before."""

    @property
    def usual_outage(self) -> float:
        """Seconds that the next such outage will last: a probe that took longer than its silence
        was late by chance."""
        return min(self.outage, 2.0 * self.recovery.waited)

    @property
    def is_hasty(self) -> bool:
        """Whether a held rate was refused once, soon after another refusal."""
        return self.is_alone and self.was_held and self.spacing < ISOLATED

    def allowed(self, last: Epoch | None = None) -> float:
        """A rate that the site allows, as likely as not; 1/s.

        A short account is read together with a long one before it. Chance may explain a short one,
        but not two in a row.
        """
        least, rate = self.least, self.rate
        is_second = last is not None and last.is_hasty
        if not self.recovery.tries:  # a token came back in the first silence
            least = max(least, 0.5 * min(rate, 1.0 / self.recovery.waited))
        if self.is_hasty:
            if not is_second:
                least = max(least, rate * self.served / (self.served + ROUGH))
            if last is not None and last.is_alone and (is_second or last.served >= ISOLATED):
                both = self.served + last.served
                least = max(least, both / (self.seconds + last.seconds))
        if self.was_held and self.is_short:
            least = max(least, DEEPEST * rate)
        return least
