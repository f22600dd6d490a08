"""What is known of one slot, and whether it may send: questions alone.

Laws
----
* In flight never exceeds the concurrency; reservations count against queues only.
* Of what holds a slot the first is named: a verdict that is awaited, a pause, a recheck, the
  places, a quota, the delay.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated

from .breaker.backoff import NO_BACKOFF, Backoff
from .breaker.breaker import Phase
from .breaker.failures import UNTRIED, Failures
from .breaker.pause import NEVER, NO_PAUSE, Pause
from .ceiling.base import Ceiling
from .diagnosis.broken_pages import NONE_SUSPECTED, SuspectedPages
from .diagnosis.page_classes import Classes
from .pacing.concurrency import Slowness
from .pacing.pace import Pace
from .permit import Permit
from .state.fields import LONG_AGO, Due, Instant, Mark
from .types import Blocked, Page, Reason, Wanted

if TYPE_CHECKING:
    from .slot_config import Limits

LATE = 4.0
"""Mean latencies for which a pause waits for what is in flight: who takes longer is no news, and is
waited for in no later pause either. A request that is never answered takes as long as its time-out,
and each refusal beside one would cost the longest wait."""

LEAST_DRAIN = 1.0
"""Seconds of that wait at least."""

DRAIN = 10.0
"""The same at most, and where no latency is known."""

LEAST_LEAD = 0.02
"""Seconds from queue to gate up to which nothing sets out ahead: the event loop's own."""

MOST_AHEAD = 64
"""Requests of one slot that are on their way to the gate ahead of their turn, at most."""

ON_TIME = 0.98
"""Share of the gap of the held rate after which a request did not come too soon."""

HEADROOM = 1.1
"""Times the rate of a rule at which its slot begins: the meter is to hold the pace, not chance."""


class Admission:
    """What is known of one of Scrapy's throttling units, and what it may do now.

    Args:
        key: Scrapy's name of the slot.
        limits: the user's own bounds.
        ceiling: the law that learns the site's limit.
        now: monotonic seconds.
        drain: most seconds for which a pause waits for what is in flight.
    """

    __slots__ = (
        "__weakref__",
        "_backoff",
        "_cuts_nothing",
        "_drain",
        "_drained_number",
        "_epoch_at",
        "_failed_epoch",
        "_failures",
        "_probe",
        "_recheck",
        "_recheck_at",
        "_sent_at",
        "_sent_count",
        "_straggler_count",
        "accepted_count",
        "again_count",
        "ceiling",
        "classes",
        "doubts",
        "expected_places",
        "expected_rate",
        "in_flight",
        "is_new",
        "key",
        "limits",
        "pace",
        "pause",
        "refused_count",
        "reserved",
        "robots_count",
        "slowness",
        "suspected",
    )

    ceiling: Ceiling
    pace: Pace
    pause: Pause
    suspected: SuspectedPages
    classes: Annotated[Classes | None, Mark.SPARE]
    slowness: Slowness
    _epoch_at: Instant
    _recheck_at: Due | None
    _cuts_nothing: bool
    _failed_epoch: bool
    _backoff: Backoff
    _sent_at: Instant
    _failures: Failures
    accepted_count: int

    def __init__(
        self, key: str, limits: Limits, ceiling: Ceiling, now: float, *, drain: float = DRAIN
    ) -> None:
        self.key = key
        self.limits = limits
        self.ceiling = ceiling
        self.pace = Pace(limits, ceiling, now)
        self.pause = NO_PAUSE
        self._drain = drain
        self.in_flight = 0
        self.reserved = 0
        """Places promised to requests that have not reached the gate yet."""
        self.doubts = 0
        """Answers that look like refusals and wait for a verdict."""
        self.robots_count = 0
        """robots.txt files under way: the queue keeps its requests until they have arrived."""
        self.suspected = NONE_SUSPECTED
        self.classes = None
        """Which classes of pages are refused; None before the first refusal."""
        self.is_new = True
        """Whether nothing was sent yet."""
        self._epoch_at = LONG_AGO
        self._recheck_at = None
        self._probe: Permit | None = None
        """The probe that is out."""
        self._recheck: Permit | None = None
        """The recheck that is out."""
        self._drained_number = 0
        """The last request sent before a pause went on without those in flight."""
        self._straggler_count = 0
        """Requests up to that one that are still in flight."""
        self._cuts_nothing = False
        """Whether the present pause teaches the ceiling nothing: it is a broken page's, another
        slot's or an earlier run's, or that of another law."""
        self._failed_epoch = False
        """Whether the present pause is that of a host that fails, and refused nothing."""
        self._backoff = NO_BACKOFF
        self._sent_count = 0
        self._sent_at = LONG_AGO
        self._failures = UNTRIED
        self.slowness = Slowness(1.0 if limits.is_auto else NEVER)
        self.accepted_count = 0
        self.refused_count = 0
        self.again_count = 0
        """Requests fetched again because of a refusal."""
        self.expected_rate = 0.0
        """1/s that rules let pass, as a first guess; 0 without rules."""
        self.expected_places = 0
        """Requests in flight that rules allow: with the first latency they are a first guess of the
        rate; 0 where no rule says so."""

    @property
    def phase(self) -> Phase:
        """Phase of its circuit breaker."""
        return self.pause.phase

    @property
    def delay(self) -> float:
        """Least seconds between two sends."""
        return self.pace.delay

    @property
    def rate(self) -> float:
        """Most sends a second: one each `delay`; infinity without a delay."""
        return self.pace.rate

    @property
    def _paced_rate(self) -> float:
        """The same, or what rules let pass, 1/s."""
        return min(self.rate, self.expected_rate * HEADROOM or NEVER)

    @property
    def is_at_ease(self) -> bool:
        """Whether no refusal is being dealt with."""
        return self.phase is Phase.CLOSED and self._recheck_at is None and self._recheck is None

    @property
    def is_in_use(self) -> bool:
        """Whether anything is in flight or promised. A page that is to be asked for again is not:
        it may never come, and what is known of it is kept."""
        return self.in_flight > 0 or self.reserved > 0 or self.robots_count > 0

    def is_older(self, instant: float) -> bool:
        """Whether nothing was sent since that instant, and nothing is in use."""
        return self._sent_at < instant and not self.is_in_use

    def may_be_forgotten(self, now: float) -> bool:
        """Whether nothing is in flight or promised, and neither a recheck nor a delay is to come.

        Who forgets one that is paused remembers `ready_again_at`.
        """
        if self.is_in_use or (self._recheck_at is not None and now < self._recheck_at):
            return False
        return now < self.paused_until or now >= self.pace.ready_at()

    @property
    def ready_again_at(self) -> float:
        """The instant from which a request may be sent, were it forgotten until then."""
        return max(self.paused_until, self.pace.ready_at())

    @property
    def places(self) -> float:
        """Most requests in flight just now; before the first answer the delay alone holds them."""
        if self.pace.is_dead or not self._failures.is_serving:
            return self.limits.concurrency
        return min(self.limits.concurrency, self.ceiling.concurrency, self.slowness.limit)

    def blocked(self, now: float) -> Blocked | None:
        """Why nothing may be sent at `now`, and until when; None when a request may go."""
        self.pace.quotas.forget(now)
        blocked = self._blocked_beside(now, self.in_flight)
        if blocked is None and now < (ready_at := self.pace.ready_at()):
            return Blocked(ready_at, Reason.DELAY)
        return blocked

    def blocked_queued(self, now: float, lead: float = 0.0) -> Blocked | None:
        """Why no request may leave its queue at `now`, and until when; None when one may.

        Places promised to others count as taken. Until the first request was sent, and while
        robots.txt is awaited, those that would only wait behind it stay in the queue. Requests
        that take long to the gate set out as much earlier.

        Args:
            lead: seconds that requests take from their queue to the gate.
        """
        reserved = self.reserved
        self.pace.quotas.forget(now)
        ahead = min(reserved, self._sent_within(lead)) if lead > LEAST_LEAD else 0
        blocked = self._blocked_beside(now, self.in_flight + reserved, ahead)
        if blocked is not None:
            return blocked
        if self.robots_count:
            return Blocked(NEVER, Reason.ROBOTS)
        if reserved and self.is_new:
            return Blocked(NEVER, Reason.FIRST)
        ready_at = self.pace.room_at(reserved, lead if lead > LEAST_LEAD else 0.0)
        return Blocked(ready_at, Reason.DELAY) if now < ready_at else None

    def _sent_within(self, seconds: float) -> int:
        """Requests that leave for the site within so many seconds, at most."""
        latency = self.slowness.mean
        by_places = self.places * (1.0 + seconds / latency) if latency > 0.0 else self.places
        return math.ceil(min(by_places, seconds * self.rate, MOST_AHEAD))

    def _blocked_beside(self, now: float, busy: int, ahead: int = 0) -> Blocked | None:
        """What holds one more request than `busy`, but for the pace.

        Args:
            busy: requests in flight, and on their way to the gate.
            ahead: those of them that get there when others are back.
        """
        if self.doubts:
            return Blocked(NEVER, Reason.VERDICT)
        is_paused, quotas = self.pause.phase is not Phase.CLOSED, self.pace.quotas
        if (is_paused or quotas.until) and self.is_parked(now):
            return Blocked(self.paused_until, Reason.PARKED)
        if is_paused and (blocked := self._blocked_paused(now, busy)) is not None:
            return blocked
        if self._recheck_at is not None and now < self._recheck_at:
            return Blocked(self._recheck_at, Reason.RECHECK)
        if busy - ahead >= self.places:
            return Blocked(NEVER, Reason.CONCURRENCY)
        return Blocked(quotas.until, Reason.QUOTA) if quotas.is_spent else None

    def _blocked_paused(self, now: float, busy: int) -> Blocked | None:
        """What holds one more request than `busy` while the breaker is not closed."""
        pause = self.pause
        if pause.phase is Phase.HALF_OPEN:
            return Blocked(NEVER, Reason.PROBE) if self._probe is not None else None
        if busy > self.in_flight:
            return Blocked(NEVER, Reason.IN_FLIGHT)
        late = LATE * self.slowness.mean
        drain = min(self._drain, max(LEAST_DRAIN, late)) if late else self._drain
        drained_at = pause.last_refused_at + drain
        if busy - self._straggler_count and now < drained_at:
            return Blocked(max(pause.until, drained_at), Reason.IN_FLIGHT)
        return Blocked(pause.until, Reason.PAUSED) if now < pause.until else None

    @property
    def paused_until(self) -> float:
        """The instant that ends the present wait, of a pause or for a spent quota; 0 for none."""
        paused = self.pause.until if self.phase is not Phase.CLOSED else 0.0
        return max(paused, self.pace.quotas.spent_until)

    def is_pause_asked(self, now: float) -> bool:
        """Whether the site itself asked for the present pause."""
        is_paused = self.phase is not Phase.CLOSED and self.pause.is_asked
        return is_paused or now < self.pace.quotas.spent_until

    def announced_for(self, now: float) -> float:
        """Seconds from now on that the site itself asked for; 0 for none."""
        paused = self.pause.announced_for(now) if self.phase is not Phase.CLOSED else 0.0
        return max(paused, self.pace.quotas.spent_until - now, 0.0)

    def paused_for(self, now: float) -> float:
        """Seconds that are left of the present wait of a pause; 0 for none."""
        return max(0.0, self.pause.until - now) if self.phase is Phase.OPEN else 0.0

    def is_parked(self, now: float) -> bool:
        """Whether the site asks for a longer pause than the user wants to sit through."""
        quotas = self.pace.quotas
        is_paused = self.phase is not Phase.CLOSED and self.pause.is_parked(now)
        return is_paused or (now < quotas.spent_until and quotas.wait > self.limits.max_pause)

    @property
    def wanted(self) -> Wanted:
        """Which of the waiting requests should go next."""
        if self.phase is not Phase.CLOSED and self.suspected.looks_again:
            return Wanted.SUSPECTED
        if self.phase is not Phase.CLOSED or self._recheck is not None:
            return Wanted.UNSUSPECTED  # another refusal beside it would prove nothing
        return Wanted.ANY if self._recheck_at is None else Wanted.SUSPECTED

    def is_suspected(self, page: Page) -> bool:
        """Whether this page is one that a probe avoids, or the one that a recheck asks for."""
        suspect = self.suspected.suspect if self.wanted is Wanted.SUSPECTED else None
        return page in self.suspected if suspect is None else page == suspect

    def is_overtaken(self, permit: Permit) -> bool:
        """Whether congestion, or what looks like it, came after this permit was granted."""
        paused = self.phase is not Phase.CLOSED and not permit.probe
        return paused or self.doubts > 0

    def tried(self, permit: Permit) -> bool:
        """Whether this request came sooner after the one before than is known to be allowed.

        That is the lesser of what passed a stage and what was served: where a host and a class of
        its pages hold each other up, a rate passes a stage that is not reached on average.
        """
        held, best = self.ceiling.held_rate, self.ceiling.best_rate
        return permit.gap * min(held, best or held) < ON_TIME

    def is_news(self, permit: Permit) -> bool:
        """Whether a refusal of this request begins an epoch, or lengthens its pause."""
        return permit.probe or (self.phase is Phase.CLOSED and permit.sent_at >= self._epoch_at)
