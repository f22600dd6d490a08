"""One slot: the laws of pace, ceiling, breaker, backoff and suspected pages, composed.

Laws
----
* In flight never exceeds the concurrency; reservations count against queues only.
* A refusal sent before the present congestion epoch began is no news: it lengthens the
  pause if it must, it cuts nothing.
* A permit ends once.
"""

from __future__ import annotations

import math
from copy import copy
from typing import TYPE_CHECKING, Annotated, NamedTuple

from .breaker.backoff import BREATH, GAPS, JITTER_RATIO, NO_BACKOFF, Backoff
from .breaker.breaker import Phase, Signal
from .breaker.failures import UNHURT, UNTRIED, Failures
from .breaker.pause import NEVER, NO_PAUSE, Pause
from .ceiling.base import Ceiling
from .diagnosis.broken_pages import NONE_SUSPECTED, Blame, SuspectedPages
from .diagnosis.page_classes import Classes
from .pacing.concurrency import Slowness
from .pacing.pace import Pace
from .permit import Permit
from .state.fields import LONG_AGO, Due, Instant, Mark
from .types import Answer, Blocked, Decision, Event, Learned, Outcome, Page, Reason, Wanted

if TYPE_CHECKING:
    from .slot_config import Limits
    from .types import Recovery

LATE = 4.0
"""Mean latencies for which a pause waits for what is in flight: who takes longer is no news, and is
waited for in no later pause either. A request that is never answered takes as long as its time-out,
and each refusal beside one would cost the longest wait."""

LEAST_DRAIN = 1.0
"""Seconds of that wait at least."""

DRAIN = 10.0
"""The same at most, and where no latency is known."""

RECHECK_MOST = 12.0
"""Most seconds of a pause before a recheck: just over ten, as people write limits."""

PATIENCE = 3.0
"""Power of the visits that refused pages take, by which a recheck waits longer than usual."""

TOO_GENEROUS = 4.0
"""Gaps of the rate of its rules that a recheck may wait for, where that is longer: a rule may say
so many times what the site allows."""

LEAST_LEAD = 0.02
"""Seconds from queue to gate up to which nothing sets out ahead: the event loop's own."""

MOST_AHEAD = 64
"""Requests of one slot that are on their way to the gate ahead of their turn, at most."""

ON_TIME = 0.98
"""Share of the gap of the held rate after which a request did not come too soon."""

HEADROOM = 1.1
"""Times the rate of a rule at which its slot begins: the meter is to hold the pace, not chance."""


class Taught(NamedTuple):
    """What refusals have taught of a site."""

    ceiling: Ceiling
    backoff: Backoff


class Slot:
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
        "_drain",
        "_drained_number",
        "_epoch_at",
        "_excused",
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
    _excused: bool
    _failed_epoch: bool
    _backoff: Backoff
    _sent_at: Instant
    _failures: Failures

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
        self._excused = False
        """Whether the present pause is a broken page's, or an earlier run's: it cut nothing."""
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

    # Questions

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
        """Whether anything is in flight, promised, or to be asked again."""
        is_promised = self.reserved > 0 or self.robots_count > 0
        return self.in_flight > 0 or is_promised or self._recheck_at is not None

    def is_older(self, instant: float) -> bool:
        """Whether nothing was sent since that instant, and nothing is in use."""
        return self._sent_at < instant and not self.is_in_use

    def may_be_forgotten(self, now: float) -> bool:
        """Whether nothing is in flight, promised, owed or to be asked again.

        Who forgets one that is paused remembers `ready_again_at`.
        """
        if self.is_in_use:
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
        """The instant that ends the pause, or the wait for a spent quota; 0 for neither."""
        paused = self.pause.until if self.phase is not Phase.CLOSED else 0.0
        return max(paused, self.pace.quotas.spent_until)

    def is_pause_asked(self, now: float) -> bool:
        """Whether the site itself asked for the present pause."""
        is_paused = self.phase is not Phase.CLOSED and self.pause.is_asked
        return is_paused or now < self.pace.quotas.spent_until

    def paused_for(self, now: float) -> float:
        """Seconds of the pause from now on; 0 for none."""
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

    # Sends

    def reserve(self, now: float) -> None:
        """Promise a place to a queued request; `blocked_queued` must have said that it may go."""
        self.reserved += 1
        self.pace.on_promised(now)

    def take(self, now: float, chance: float) -> Permit:
        """Send one request; `blocked` must have said that it may go."""
        self.is_new = False
        if self.phase is Phase.OPEN:
            self.pause.signal(Signal.CLEAR)
            self._drained_number, self._straggler_count = self._sent_count, self.in_flight
        recheck, self._recheck_at = self._recheck_at is not None, None
        if recheck:
            self.ceiling.on_resumed(now)
        paced = self.pace.on_sent(now, chance)
        self._sent_count += 1
        self.in_flight += 1
        is_probe = self.phase is Phase.HALF_OPEN
        permit = Permit(
            self.key,
            now,
            probe=is_probe,
            recheck=recheck,
            level=self.in_flight,
            paced=paced,
            gap=now - self._sent_at,
            number=self._sent_count,
        )
        self._sent_at = now
        if is_probe:
            self._probe = permit
        if recheck:
            self._recheck = permit
        return permit

    def is_overtaken(self, permit: Permit) -> bool:
        """Whether congestion, or what looks like it, came after this permit was granted."""
        paused = self.phase is not Phase.CLOSED and not permit.probe
        return paused or self.doubts > 0

    # Facts

    def on_lost(self, permit: Permit) -> None:
        """A permit ended without an answer of the site: a probe may be sent again."""
        self._end(permit)
        if permit.recheck and self.phase is Phase.CLOSED and self.suspected.suspect is not None:
            self._recheck_at = permit.sent_at

    def on_doubt(self, permit: Permit) -> None:
        """An answer that looks like a refusal has arrived: nothing leaves before the verdict."""
        if not permit.doubted and not permit.ended:
            permit.doubted = True
            self.doubts += 1

    def on_answer(self, permit: Permit, answer: Answer, now: float, chance: float) -> Decision:
        """A request ended at `now`; `chance` in [0, 1) lengthens a pause a little."""
        self._end(permit)
        before = self.delay
        if answer.quotas:
            self.pace.on_quotas(now, answer.quotas, self._sent_count - permit.number)
        if answer.outcome is Outcome.ACCEPTED:
            self._on_latency(permit, answer, now)
            event, why = self._on_accepted(permit, answer, now)
        else:  # by the pace at which it left: its own latency may slow that down
            event, why = self._on_refused(permit, answer, now, chance)
            self._on_latency(permit, answer, now)
        self._look_at_failures(now)
        delay, wait = self.delay, self.paused_for(now)
        again = answer.outcome is Outcome.REFUSED and event is not Event.BROKEN
        return Decision(event, delay, delay - before, wait, why, again=again)

    def _on_latency(self, permit: Permit, answer: Answer, now: float) -> None:
        """What the seconds until an answer teach."""
        if answer.latency is None:
            return
        if self.expected_places and answer.may_lower and not self.accepted_count:
            self._expect_places(answer.latency)
        self.pace.on_latency(
            answer.latency, may_lower=answer.may_lower, is_strange=self._is_strange(answer)
        )
        if answer.may_lower and self.phase is Phase.CLOSED:
            self.slowness.on_latency(now, permit.sent_at, answer.latency, permit.level)

    def _is_strange(self, answer: Answer) -> bool:
        """Whether this is an error of a host that has served nothing yet: nobody can tell its pace,
        but that it is there."""
        is_error = answer.outcome is Outcome.FAILED and not answer.silent
        return is_error and not (self._failures.is_serving or self.limits.only_200_lowers)

    @property
    def learned(self) -> Learned | None:
        """What is worth remembering of this slot; None before anything is known."""
        learned = self.ceiling.learned
        return None if learned is None else learned._replace(silence=self._backoff.worked)

    def recall(self, learned: Learned) -> None:
        """Begin with what an earlier crawl had learned, as a guess."""
        self.ceiling.recall(learned)
        if learned.silence:
            self._backoff = Backoff()
            self._backoff.recall(learned.silence)

    def expect(self, rate: float) -> None:
        """Rules let so many requests a second pass: a first guess, where nothing was learned yet.

        They hold by their meters; what is learned here may be less, and is never more. Infinity is
        no guess; with 0 no rule says anything any more, and a slot begins as one without rules.
        """
        before, self.expected_rate = self.expected_rate, rate
        self.pace.lift_floor(lifted=rate > 0.0)
        if self.is_new and rate:  # not the user's delay, which it replaces
            start = min(self.limits.start_delay, 1.0 / rate or self.limits.start_delay)
            self.pace.latency_delay = min(self.pace.latency_delay, start)
        if rate < NEVER:
            self._begin_at(rate * HEADROOM or self.limits.start_rate)
        elif 0.0 < before < NEVER:  # it was a guess for some pages, and others come too
            self._begin_at(self.limits.start_rate)

    def _expect_places(self, latency: float) -> None:
        """The first latency is there: so much passes with all places taken."""
        self.pace.latency_delay = 0.0
        if latency > 0.0:
            rate = min(self.expected_places / latency, self.expected_rate or NEVER)
            self._begin_at(rate * HEADROOM)

    def _begin_at(self, rate: float) -> None:
        """Go by this rate, where the site has not refused any yet."""
        if not (self.refused_count or self.ceiling.is_taught):
            self.ceiling.recall(Learned(rate))

    def resume_pause(self, now: float, wait: float) -> None:
        """The site had asked an earlier run for a pause that is not over for `wait` seconds."""
        self.pause_for(now, wait, announced=wait)

    def park(self, now: float, wait: float) -> None:
        """The site had asked for a longer pause than the user wants to sit through."""
        self.resume_pause(now, wait)
        self.pause.park()

    def on_begun(self, now: float) -> None:
        """What was kept of it was read: from here on it is used here."""
        self.pace.begin_here(self.ceiling)
        if self.pause is not NO_PAUSE:
            self.pause.begin_here(now, self.limits.max_pause)

    def count_on(self, before: Slot, now: float) -> None:
        """This slot takes the place of that one, of which nothing is in use.

        What rules let pass it learns anew when it is asked next.
        """
        self.is_new = before.is_new
        self.accepted_count = before.accepted_count
        self.refused_count = before.refused_count
        self.again_count = before.again_count
        self._sent_count = before._sent_count
        if before.pause is not NO_PAUSE:
            self._own_pause().count_on(before.pause.seconds(now))

    def pause_for(self, now: float, wait: float, announced: float | None = None) -> None:
        """Pause for so long, `announced` seconds of it by the site's own word: no refusal of this
        slot began it, so it cuts nothing, and an epoch that is under way goes on."""
        self._excused |= self.phase is Phase.CLOSED
        self._begin_pause(now, wait, announced=announced)
        self._withdraw_probe()

    def pause_with(self, other: Slot, now: float) -> None:
        """Pause for as long as another slot, and for the same reason."""
        wait = other.paused_until - now
        if wait > 0.0:
            self.pause_for(now, wait, announced=wait if other.is_pause_asked(now) else None)

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

    def begin_anew(self, ceiling: Ceiling, now: float) -> Taught:
        """The refusals of late were not this site's: forget them; returns what they taught."""
        taught = Taught(self.ceiling, self._backoff)
        self.take_up(Taught(ceiling, Backoff()))
        self.suspected = SuspectedPages(self.accepted_count)
        self._recheck_at = None
        if self.phase is not Phase.CLOSED:
            self.pause.shorten(now + BREATH)
        return taught

    def take_up(self, taught: Taught) -> None:
        """Go on with what refusals had taught; a pause that is under way taught none of it."""
        self.ceiling, self._backoff = taught
        self._failures.on_taught()
        self.pace.take_up(self.ceiling)
        if self.phase is not Phase.CLOSED:
            self._excused, self._failed_epoch = True, False

    def swap(self, ceiling: Ceiling) -> Ceiling:
        """Go by another ceiling from here; returns the one it had."""
        other, self.ceiling = self.ceiling, ceiling
        self.pace.take_up(ceiling)
        return other

    def forgive_failures(self, now: float) -> None:
        """The failures of late were the crawler's own line's: nothing is learned from them."""
        self._failures.forgive()
        self.pace.is_dead = False
        if self._failed_epoch:
            self._end_pause(now)

    def roll_back(self, now: float) -> None:
        """The present epoch is no fault of the pace: that of a class of pages, which has a slot of
        its own from here, or of first visits."""
        self.suspected.on_rollback()
        self.ceiling.on_class_split(now)
        self._excused = True

    def _end(self, permit: Permit) -> None:
        if permit.ended:
            raise ValueError(f"{permit} has ended before")
        permit.ended = True
        self.in_flight -= 1
        self._straggler_count -= permit.number <= self._drained_number
        if permit is self._probe:
            self._probe = None
        if permit is self._recheck:
            self._recheck = None
        if permit.doubted:
            permit.doubted = False
            self.doubts -= 1

    def _on_accepted(self, permit: Permit, answer: Answer, now: float) -> tuple[Event, str]:
        self.accepted_count += 1
        if self._failures is UNTRIED:
            self._failures = UNHURT
        self._failures.on_accepted()
        if self.suspected is not NONE_SUSPECTED:
            known = self.suspected.refuses_first
            self.suspected.on_accepted(answer.page)
            if self.suspected.refuses_first and not known:
                self.roll_back(now)
        self.pace.on_accepted()
        if self.phase is Phase.CLOSED:
            is_ruled = 0.0 < self.expected_rate <= self.ceiling.rate  # then its meter binds
            binding = self.pace.is_ceiling and not is_ruled
            self.ceiling.on_accepted(now, permit, answer.latency, binding=binding)
            return Event.ACCEPTED, ""
        self.ceiling.on_accepted(now, permit, None, binding=False)
        if not permit.probe:
            return Event.ACCEPTED, "was in flight when the pause began"
        recovery = self._recover(now, Signal.PROBE_ACCEPTED)
        if self.suspected is not NONE_SUSPECTED:
            self._plan_recheck(now, recovery)
        return Event.RECOVERED, f"{self.rate:.3g}/s from here"

    def _plan_recheck(self, now: float, recovery: Recovery) -> None:
        """When to ask for the suspected page again: no sooner than the site is known to serve."""
        served_gap = self.suspected.on_recovered(now)
        noise = self.ceiling.noise_ratio
        if not self.suspected.asks_again(noise):
            return
        wait = recovery.waited if recovery.tries else 0.0
        usual = max(self.ceiling.recheck, GAPS * served_gap)
        usual *= 1.0 if noise else self.suspected.visits**PATIENCE
        gap = 1.0 / self.expected_rate if self.expected_rate else 0.0
        most = max(RECHECK_MOST, TOO_GENEROUS * gap)
        self._recheck_at = now + min(max(wait, usual), most)

    def _on_refused(
        self, permit: Permit, answer: Answer, now: float, chance: float
    ) -> tuple[Event, str]:
        self._make_parts()
        failed = answer.outcome is Outcome.FAILED
        if failed and (why := self._alone(permit, answer, now)):
            return Event.LONE_FAILURE, why
        if not failed:
            self.refused_count += 1
            self._failures.on_answered()
            self._failed_epoch = False
        excuse = self._excuse(permit, answer, now, chance)
        return excuse or self._count(permit, answer, now, chance)

    def _excuse(
        self, permit: Permit, answer: Answer, now: float, chance: float
    ) -> tuple[Event, str] | None:
        """What a refusal says where the pace is not to blame; None where it may be."""
        suspected = self.suspected
        blame = suspected.blame(
            answer.page,
            probe=permit.probe,
            recheck=permit.recheck,
            now=now,
            waited=NEVER if answer.outcome is Outcome.FAILED else self._backoff.seconds,
            noise=self.ceiling.noise_ratio,
        )
        if blame is not Blame.PACE:
            wait = max(min(BREATH * suspected.visits, RECHECK_MOST), answer.announced or 0.0)
            if self.phase is Phase.CLOSED or permit.probe:
                self._backoff.first(rate=NEVER, announced=answer.announced, failed=True)
            self._backoff.lengthen(wait)  # if it is late, the pause goes on
            self._excused |= self.phase is Phase.CLOSED
            self._roll_back_for(answer.page, now)
            self._pause(now, wait, chance, answer)
            if blame is Blame.BROKEN:
                return Event.BROKEN, "this page is refused whatever the pace"
            return Event.LATE, "this page is refused, others are not"
        if self.phase is Phase.CLOSED and self._is_first_visit(answer):
            suspected.on_refused(answer.page)
            self._recheck_at = now + BREATH
            return Event.LATE, "this site refuses the first visit of each page"
        return None

    def _count(
        self, permit: Permit, answer: Answer, now: float, chance: float
    ) -> tuple[Event, str]:
        """A refusal that counts: the test request's, a late one, or the first of an epoch."""
        what, phase = answer.outcome.value, self.phase
        if permit.probe and not self._excused:
            wait = self._after_probe(answer)
            event, why = Event.PROBE_REFUSED, f"probe {what}"
        elif permit.sent_at < self._epoch_at or not (permit.probe or phase is Phase.CLOSED):
            wait = max(BREATH, answer.announced or 0.0)
            if phase is Phase.CLOSED:
                self._excused = True
                self._pause(now, wait, chance, answer)
                return Event.LATE, f"{what}, sent before a pause that is over"
            self._backoff.lengthen(wait)
            event, why = Event.LATE, f"{what}, sent before the pause began"
        else:
            wait, pace = self._trip(permit, answer, now)
            event, why = Event.TRIPPED, f"{what} at {pace}"
        if answer.outcome is not Outcome.FAILED:
            self._failures.on_taught()
        self.suspected.on_refused(answer.page)
        may_be_chance = event is Event.PROBE_REFUSED and not self._backoff.tries
        self.ceiling.on_refused(may_be_chance=may_be_chance)
        self._pause(now, wait, chance, answer)
        return event, why

    def _trip(self, permit: Permit, answer: Answer, now: float) -> tuple[float, str]:
        """An epoch begins: seconds of its first wait, and at which rate it began."""
        failed = answer.outcome is Outcome.FAILED
        rate = self._begin_epoch(now, permit, again=failed and self._failures.go_on)
        if failed:
            self._failures.on_slowed(rate)
        self._failed_epoch = failed
        debt = self.ceiling.debt(now)
        wait = self._backoff.first(
            rate=self.rate, announced=answer.announced, debt=debt, failed=failed
        )
        return wait, f"{rate:.3g}/s" + (
            f", {self.rate:.3g}/s from here" if self.rate < rate else ""
        )

    def _is_first_visit(self, answer: Answer) -> bool:
        """Whether it is refused for that alone."""
        is_new = answer.page is not None and answer.page not in self.suspected
        is_plain = answer.outcome is Outcome.REFUSED and not answer.announced
        return is_new and is_plain and self.suspected.refuses_first

    def _make_parts(self) -> None:
        """Most slots are never refused, and have no need of these."""
        if self.suspected is NONE_SUSPECTED:
            self.suspected = SuspectedPages(self.accepted_count)
        if self._backoff is NO_BACKOFF:
            self._backoff = Backoff()
        if self._failures in (UNTRIED, UNHURT):
            self._failures = copy(self._failures)

    def _alone(self, permit: Permit, answer: Answer, now: float) -> str:
        """Why a failure slows nothing down; empty where it does."""
        failures = self._failures
        is_page = self.suspected.is_failing(answer.page) and answer.announced is None
        failures.on_failed(silent=answer.silent, counts=not is_page)
        if is_page:
            self._roll_back_for(answer.page, now)
            return "this page fails while others are served"
        if self.phase is not Phase.CLOSED:
            if not permit.probe or not failures.on_test_failed():
                return ""
            self._end_pause(now)
        if failures.is_gone:
            return "the host is gone: nothing waits for it"
        if failures.are_in_vain(self._paced_rate):
            self.suspected.on_rollback()
            self.ceiling.on_rollback(now)
            return "as many fail at any pace"
        return (
            "" if failures.are_congestion(self._paced_rate) else "a lone failure is no congestion"
        )

    def _end_pause(self, now: float) -> None:
        """Nothing is gained by waiting: go on, as before the pause if no refusal made it."""
        if self.phase is Phase.CLOSED:
            return
        if self._failed_epoch:
            self.suspected.on_rollback()
            self.ceiling.on_rollback(now)
            self._excused = True
        self._recover(now, Signal.GONE)
        self._withdraw_probe()

    def _recover(self, now: float, by: Signal) -> Recovery:
        """The pause is over: the ceiling learns of it, unless it cut nothing."""
        self.pause.end(now, by)
        recovery = self._backoff.on_recovered()
        if self._excused:
            self.ceiling.on_resumed(now)
        else:
            self.ceiling.on_recovered(now, recovery)
        self._excused = self._failed_epoch = False
        return recovery

    def _look_at_failures(self, now: float) -> None:
        """A dead host is owed no pace; one that is there again is met without a volley."""
        was_dead, self.pace.is_dead = self.pace.is_dead, self._failures.is_dead
        if was_dead and not self.pace.is_dead:
            self.pace.drain(now)

    def _after_probe(self, answer: Answer) -> float:
        """Seconds of pause after a probe that was refused."""
        return self._backoff.longer(
            rate=self.rate,
            announced=answer.announced,
            failed=answer.outcome is Outcome.FAILED,
            noise=self.ceiling.noise_ratio,
        )

    def _roll_back_for(self, page: Page | None, now: float) -> None:
        """This page is at fault in the present epoch: take its cut back, if it alone caused it."""
        if page is None or self.suspected.suspect != page:
            return
        is_alone = self.suspected.sole == page
        self.suspected.on_rollback()
        if is_alone:
            self.ceiling.on_rollback(now)
            self._excused = True

    def _begin_epoch(self, now: float, permit: Permit, *, again: bool = False) -> float:
        """The ceiling hears of it, once: it cuts now, or when a test request has ended the pause.

        Args:
            again: the host was slowed down for its failures already.

        Returns the rate that was refused, 1/s.
        """
        refused_rate = self._paced_rate
        self._epoch_at = now
        self._excused = False
        self.suspected.on_epoch()
        self.ceiling.on_congestion(now, permit, rate=refused_rate, again=again)
        self.pace.drain(now)
        return refused_rate

    def _begin_pause(self, now: float, wait: float, *, announced: float | None = None) -> None:
        self._own_pause().begin(now, wait, announced=announced, most=self.limits.max_pause)

    def _own_pause(self) -> Pause:
        """Most slots are never paused: they share one."""
        if self.pause is NO_PAUSE:
            self.pause = Pause()
        return self.pause

    def _pause(self, now: float, wait: float, chance: float, answer: Answer) -> None:
        self._begin_pause(now, wait * (1.0 + JITTER_RATIO * chance), announced=answer.announced)
        self._recheck_at = None
        self._withdraw_probe()

    def _withdraw_probe(self) -> None:
        """The probe that is out is a request like any other."""
        if self._probe is not None:
            self._probe.probe = False
            self._probe = None
