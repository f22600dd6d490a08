"""One slot: the laws of latency, bucket, ceiling, breaker and silence, composed.

Laws
----
* `delay = max(latency delay, 1 / ceiling, floors)`; the bucket turns it into instants.
* In flight never exceeds the concurrency; reservations count against queues only.
* A refusal sent before the present congestion epoch began is no news: it lengthens the
  silence if it must, it cuts nothing.
* A permit ends once.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from . import latency
from .breaker import TABLE, Phase, Signal
from .bucket import TokenBucket
from .facts import Answer, Decision, Event, Hold, Outcome, Page, Permit, Reason, Wanted
from .silence import BREATH, JITTER_RATIO, Silence
from .suspects import Suspects

if TYPE_CHECKING:
    from .ceiling import Ceiling
    from .limits import Limits

FAILURES = 5
"""Failures among the last `HISTORY` answers that count as pain: the host fails, not some pages."""

FAILURES_IN_A_ROW = 3
"""Failures with no acceptance between that count as pain."""

HISTORY = 10
"""Answers looked back at for failures."""

RECHECK_MOST = 12.0
"""Most seconds of silence before a recheck: the first rung of the ladder."""

FORGET_AFTER = 3620.0
"""Seconds after which a pause that nobody probed is no news any more: the longest rung."""

NEVER = float("inf")


class Slot:
    """What is known of one of Scrapy's throttling units, and what it may do now.

    Args:
        key: Scrapy's name of the slot.
        limits: the user's own bounds.
        ceiling: the law that learns the site's limit.
        now: monotonic seconds.
    """

    def __init__(self, key: str, limits: Limits, ceiling: Ceiling, now: float) -> None:
        self.key = key
        self.limits = limits
        self.ceiling = ceiling
        self.phase = Phase.CLOSED
        self.in_flight = 0
        self.reserved = 0
        """Places promised to requests that have not reached the gate yet."""
        self.doubts = 0
        """Answers that look like refusals and wait for a verdict."""
        self.crawl_delay = 0.0
        """Seconds between sends that the site's robots.txt asks for."""
        self.suspects = Suspects()
        self.latency_delay = max(limits.floor, limits.start_delay)
        self.paused_until = 0.0
        self._paused_at = 0.0
        self._paused_before = 0.0
        self._epoch_at = -NEVER
        self._recheck_at: float | None = None
        self._excused = False
        """Whether the present pause is a broken page's: it cut nothing."""
        self._bucket = TokenBucket(limits.burst, now)
        self._silence = Silence()
        self._failures: deque[bool] = deque(maxlen=HISTORY)
        self.accepted_count = 0
        self.refused_count = 0
        self.again_count = 0
        """Requests fetched again because of a refusal."""

    # Questions

    @property
    def floor(self) -> float:
        """Least seconds between sends that the user or robots.txt asks for."""
        return max(self.limits.floor, self.crawl_delay)

    @property
    def delay(self) -> float:
        """Least seconds between two sends."""
        return max(self.latency_delay, 1.0 / self.ceiling.rate, self.floor)

    @property
    def rate(self) -> float:
        """Most sends a second: one each `delay`; infinity without a delay."""
        return 1.0 / self.delay if self.delay else NEVER

    @property
    def bound(self) -> str:
        """What sets the delay just now."""
        bounds = {
            "ceiling": 1.0 / self.ceiling.rate,
            "crawl-delay": self.crawl_delay,
            "floor": self.limits.floor,
            "latency": self.latency_delay,
        }
        return max(bounds, key=bounds.__getitem__)

    def is_idle(self, now: float) -> bool:
        """Whether it may be forgotten: nothing in flight, promised, owed or paused.

        A pause that ended `FORGET_AFTER` ago with nothing to probe with is over too.
        """
        if self.in_flight or self.reserved or now < self._bucket.ready_at(self.delay):
            return False
        if self.phase is not Phase.CLOSED:
            return now >= self.paused_until + FORGET_AFTER
        return self._recheck_at is None

    @property
    def burst_tokens(self) -> float:
        """Most tokens it may save up just now."""
        return self._bucket.capacity

    def tokens(self, now: float) -> float:
        """Tokens saved up."""
        return self._bucket.tokens(now, self.delay)

    def time_paused(self, now: float) -> float:
        """Seconds in which the breaker was not closed."""
        running = now - self._paused_at if self.phase is not Phase.CLOSED else 0.0
        return self._paused_before + running

    def hold(self, now: float, *, reserved: bool = False) -> Hold | None:
        """Why nothing may be sent at `now`, and until when; None when a request may go.

        Args:
            reserved: count the places promised to queued requests as taken. One request may
                leave its queue ahead of a recheck, to be at hand for it.
        """
        busy = self.in_flight + (self.reserved if reserved else 0)
        if self.doubts:
            return Hold(NEVER, Reason.VERDICT)
        if self.phase is not Phase.CLOSED and busy:
            probing = self.phase is Phase.HALF_OPEN
            return Hold(NEVER, Reason.PROBE if probing else Reason.IN_FLIGHT)
        if self.phase is Phase.OPEN and now < self.paused_until:
            return Hold(self.paused_until, Reason.PAUSED)
        if self._recheck_at is not None and reserved:
            return Hold(NEVER, Reason.RECHECK) if busy else None
        if self._recheck_at is not None and now < self._recheck_at:
            return Hold(self._recheck_at, Reason.RECHECK)
        if busy >= self.limits.concurrency:
            return Hold(NEVER, Reason.CONCURRENCY)
        ready_at = self._bucket.ready_at(self.delay, 1 + (self.reserved if reserved else 0))
        if now < ready_at:
            return Hold(ready_at, Reason.DELAY)
        return None

    @property
    def wanted(self) -> Wanted:
        """Which of the waiting requests should go next."""
        if self.phase is not Phase.CLOSED:
            return Wanted.UNSUSPECTED
        return Wanted.ANY if self._recheck_at is None else Wanted.SUSPECTED

    # Sends

    def take(self, now: float, chance: float) -> Permit:
        """Send one request; `hold` must have said that it may go."""
        if self.phase is Phase.OPEN:
            self.phase = TABLE[self.phase, Signal.CLEAR]
        recheck, self._recheck_at = self._recheck_at is not None, None
        if recheck:
            self.ceiling.on_recovered(now)  # the silence before a recheck was no lack of pace
        delay = self.delay
        self._bucket.take(now, delay, chance)
        self.ceiling.on_sent(now, delay)
        self.in_flight += 1
        return Permit(self.key, now, probe=self.phase is Phase.HALF_OPEN, recheck=recheck)

    def is_overtaken(self, permit: Permit) -> bool:
        """Whether pain, or what looks like it, came after this permit was granted."""
        paused = self.phase is not Phase.CLOSED and not permit.probe
        return paused or self.doubts > 0

    # Facts

    def on_lost(self, permit: Permit) -> None:
        """A permit ended without an answer of the site: a probe may be sent again."""
        self._end(permit)
        if permit.probe:
            self.phase = TABLE[self.phase, Signal.PROBE_LOST]
        if permit.recheck and self.phase is Phase.CLOSED and self.suspects.sole is not None:
            self._recheck_at = permit.sent_at

    def on_doubt(self, permit: Permit) -> None:
        """An answer that looks like a refusal has arrived: nothing leaves before the verdict."""
        if not permit.doubted and not permit.ended:
            permit.doubted = True
            self.doubts += 1

    def on_answer(self, permit: Permit, answer: Answer, now: float, chance: float) -> Decision:
        """A request ended at `now`; `chance` in [0, 1) lengthens a silence a little."""
        self._end(permit)
        before = self.delay
        if answer.latency is not None:
            self._learn(answer.latency, may_lower=answer.may_lower)
        if answer.outcome is Outcome.ACCEPTED:
            event, why = self._on_accepted(permit, answer, now)
        else:
            event, why = self._on_refused(permit, answer, now, chance)
        wait = max(0.0, self.paused_until - now) if self.phase is Phase.OPEN else 0.0
        return Decision(event, self.delay, self.delay - before, wait, why)

    def drain(self, now: float) -> float:
        """Empty the bucket; returns the tokens lost."""
        return self._bucket.drain(now, self.delay)

    def _end(self, permit: Permit) -> None:
        if permit.ended:
            raise ValueError(f"{permit} has ended before")
        permit.ended = True
        self.in_flight -= 1
        if permit.doubted:
            permit.doubted = False
            self.doubts -= 1

    def _learn(self, seconds: float, *, may_lower: bool) -> None:
        self.latency_delay = latency.next_delay(
            self.latency_delay,
            seconds,
            target_concurrency=self.limits.target_concurrency,
            floor=self.limits.floor,
            most=self.limits.max_delay,
            may_lower=may_lower,
        )

    def _on_accepted(self, permit: Permit, answer: Answer, now: float) -> tuple[Event, str]:
        self.accepted_count += 1
        self._failures.append(False)
        self.suspects.on_accepted(answer.page)
        self._bucket.on_accepted()
        if self.phase is Phase.CLOSED:
            binding = self.delay * self.ceiling.rate <= 1.0 + 1e-9
            self.ceiling.on_accepted(now, binding=binding)
            return Event.ACCEPTED, ""
        if not permit.probe:
            return Event.ACCEPTED, "was in flight when the pause began"
        self.phase = TABLE[self.phase, Signal.PROBE_ACCEPTED]
        self._paused_before += now - self._paused_at
        self._excused = False
        self.ceiling.on_recovered(now)
        silence = self._silence.on_recovered()
        if self.suspects.sole is not None:
            self._recheck_at = now + min(silence, RECHECK_MOST)
        return Event.RECOVERED, f"{self.rate:.3g}/s from here"

    def _on_refused(
        self, permit: Permit, answer: Answer, now: float, chance: float
    ) -> tuple[Event, str]:
        what = answer.outcome.value
        self.refused_count += answer.outcome is Outcome.REFUSED
        suspects = self.suspects
        failed = answer.outcome is Outcome.FAILED
        if failed and suspects.is_failing(answer.page):
            self._pardon(answer.page, now)
            return Event.LONE_FAILURE, "this page fails while others are served"
        if failed and not self._failure_is_pain():
            return Event.LONE_FAILURE, "a lone failure is no pain"
        if suspects.is_broken(answer.page, probe=permit.probe, recheck=permit.recheck):
            self._excused |= self.phase is Phase.CLOSED
            self._pardon(answer.page, now)
            self._pause(now, self._silence.first(rate=NEVER, told=answer.told), chance)
            return Event.BROKEN, "this page is refused whatever the pace"
        if permit.probe and not self._excused:
            wait = self._silence.longer(rate=self.rate, told=answer.told, failed=failed)
            event, why = Event.PROBE_REFUSED, f"probe {what}"
        elif permit.sent_at < self._epoch_at or self.phase is Phase.OPEN:
            wait = max(BREATH, answer.told or 0.0)
            self._silence.lengthen(wait)
            event, why = Event.LATE, f"{what}, sent before the pause began"
        else:
            rate = self._begin_epoch(now)
            wait = self._silence.first(rate=self.rate, told=answer.told)
            event, why = Event.TRIPPED, f"{what} at {rate:.3g}/s, {self.rate:.3g}/s from here"
        suspects.on_refused(answer.page)
        self._pause(now, wait, chance)
        return event, why

    def _failure_is_pain(self) -> bool:
        """A host that never answered is dead, not throttling: it is left to RetryMiddleware."""
        self._failures.append(True)
        if self.phase is not Phase.CLOSED:
            return True
        recent = list(self._failures)
        in_a_row = len(recent) >= FAILURES_IN_A_ROW and all(recent[-FAILURES_IN_A_ROW:])
        return self.accepted_count > 0 and (in_a_row or sum(recent) >= FAILURES)

    def _pardon(self, page: Page | None, now: float) -> None:
        """Take the latest cut back, if this page alone caused it."""
        if page is not None and self.suspects.sole == page:
            self.suspects.on_pardon()
            self.ceiling.on_pardon(now)
            self._excused = True

    def _begin_epoch(self, now: float) -> float:
        """Cut the rate once; returns the rate that was refused, 1/s."""
        refused_rate = self.rate
        self._epoch_at = now
        self._excused = False
        self.suspects.on_epoch()
        self.ceiling.on_pain(now, rate=refused_rate)
        self.drain(now)
        return refused_rate

    def _pause(self, now: float, wait: float, chance: float) -> None:
        if self.phase is Phase.CLOSED:
            self._paused_at = now
            self.paused_until = now
        self.paused_until = max(self.paused_until, now + wait * (1.0 + JITTER_RATIO * chance))
        self.phase = TABLE[self.phase, Signal.REFUSAL]
        self._recheck_at = None
