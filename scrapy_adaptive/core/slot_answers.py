"""What answers do to one slot: the laws of pace, ceiling, breaker and suspected pages, composed.

Laws
----
* The refusal of a request that was sent before the present congestion epoch began is no news: it
  lengthens the pause if it must, and cuts nothing.
* A permit ends once.
"""

from __future__ import annotations

import math
from copy import copy
from typing import TYPE_CHECKING

from .breaker.backoff import BREATH, GAPS, JITTER_RATIO, NO_BACKOFF, Backoff
from .breaker.breaker import Phase, Signal
from .breaker.failures import UNHURT, UNTRIED
from .breaker.pause import NEVER, NO_PAUSE, Pause
from .diagnosis.broken_pages import NONE_SUSPECTED, Blame, SuspectedPages
from .permit import Permit
from .slot_admission import HEADROOM, Admission
from .types import Answer, Decision, Event, Learned, Outcome, Page

if TYPE_CHECKING:
    from .types import Recovery

IDLE = 1.0
"""Seconds of a gap between two requests that always count; what is longer counts up to the
delay."""

RECHECK_MOST = 12.0
"""Most seconds to wait before a recheck: just over ten, as people write limits."""

PATIENCE = 3.0
"""Power of the visits that refused pages take, by which a recheck waits longer than usual."""

TOO_GENEROUS = 4.0
"""Gaps of the rate of its rules that a recheck may wait for, where that is longer: a rule may say
so many times what the site allows."""


class Answers(Admission):
    """What the answers to a slot's requests change in it."""

    __slots__ = ()

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
        """A request ended at `now`; `chance` in [0, 1) lengthens a wait a little."""
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
        is_first = not (self.accepted_count and self.slowness.mean)
        if self.expected_places and answer.may_lower and is_first:
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

    def _on_accepted(self, permit: Permit, answer: Answer, now: float) -> tuple[Event, str]:
        self.accepted_count += 1
        if self._failures is UNTRIED:
            self._failures = UNHURT
        if self._failures is not UNHURT:
            self._failures.on_accepted(self._gap_of(permit), is_test=permit.probe)
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
        usual = GAPS * max(self.ceiling.sure_gap, served_gap)
        usual *= 1.0 if noise else self.suspected.visits**PATIENCE
        gap = 1.0 / self.expected_rate if self.expected_rate else 0.0
        most = max(RECHECK_MOST, TOO_GENEROUS * gap)
        self._recheck_at = now + min(max(wait, usual), most)

    def _on_refused(
        self, permit: Permit, answer: Answer, now: float, chance: float
    ) -> tuple[Event, str]:
        self._make_parts()
        failed = answer.outcome is Outcome.FAILED
        if failed and (why := self._on_failure(permit, answer, now)):
            return Event.LONE_FAILURE, why
        if not failed:
            self.refused_count += 1
            self._failures.on_answered()
            self._failed_epoch = False
        excuse = self._on_page_at_fault(permit, answer, now, chance)
        return excuse or self._count(permit, answer, now, chance)

    def _on_page_at_fault(
        self, permit: Permit, answer: Answer, now: float, chance: float
    ) -> tuple[Event, str] | None:
        """Pause for a page or a first visit that alone is to blame; None where the pace may be."""
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
            self._cuts_nothing |= self.phase is Phase.CLOSED
            self._roll_back_for(answer.page, now)
            self._pause(now, wait, chance, answer)
            if blame is Blame.BROKEN:
                return Event.BROKEN, "this page is refused whatever the pace"
            return Event.EXCUSED, "this page is refused, others are not"
        if self.phase is Phase.CLOSED and self._is_first_visit(answer):
            suspected.on_refused(answer.page)
            self._recheck_at = now + BREATH
            return Event.EXCUSED, "this site refuses the first visit of each page"
        return None

    def _count(
        self, permit: Permit, answer: Answer, now: float, chance: float
    ) -> tuple[Event, str]:
        """A refusal that no page is to blame for: it begins an epoch, or goes on with one."""
        if not self.is_news(permit):
            return self._on_late(answer, now, chance)
        if permit.probe and not self._cuts_nothing:
            wait = self._after_probe(answer)
            event, why = Event.PROBE_REFUSED, f"probe {answer.outcome.value}"
        else:
            wait, pace = self._trip(permit, answer, now)
            event, why = Event.TRIPPED, f"{answer.outcome.value} at {pace}"
        may_be_chance = event is Event.PROBE_REFUSED and not self._backoff.tries
        self._learn_refused(answer, may_be_chance=may_be_chance)
        self._pause(now, wait, chance, answer)
        return event, why

    def _on_late(self, answer: Answer, now: float, chance: float) -> tuple[Event, str]:
        """It was sent before the present pause, or one that is over: nothing is cut twice."""
        what, wait = answer.outcome.value, max(BREATH, answer.announced or 0.0)
        if self.phase is Phase.CLOSED:
            self._cuts_nothing = True
            why = f"{what}, sent before a pause that is over"
        else:
            self._backoff.lengthen(wait)
            self._learn_refused(answer)
            why = f"{what}, sent before the pause began"
        self._pause(now, wait, chance, answer)
        return Event.LATE, why

    def _learn_refused(self, answer: Answer, *, may_be_chance: bool = False) -> None:
        """One more refusal of the present epoch."""
        if answer.outcome is not Outcome.FAILED:
            self._failures.on_taught()
        self.suspected.on_refused(answer.page)
        self.ceiling.on_refused(may_be_chance=may_be_chance)

    def _trip(self, permit: Permit, answer: Answer, now: float) -> tuple[float, str]:
        """An epoch begins: seconds of its first wait, and the rate that was refused, in words."""
        failed = answer.outcome is Outcome.FAILED
        again = failed and self._failures.is_slowed
        rate = self._begin_epoch(now, permit, again=again)
        if failed:
            self._failures.on_slowed()
        self._failed_epoch = failed
        debt = self.ceiling.debt()
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

    def _on_failure(self, permit: Permit, answer: Answer, now: float) -> str:
        """Count a failure; returns why it slows nothing down, and nothing where it does."""
        failures = self._failures
        is_page = self.suspected.is_failing(answer.page) and answer.announced is None
        failures.on_failed(
            self._gap_of(permit),
            silent=answer.silent,
            counts=not is_page,
            is_test=permit.probe,
            served=self.accepted_count,
        )
        if self.phase is Phase.CLOSED and failures.are_in_vain():
            self.suspected.on_rollback()
            self.ceiling.on_rollback(now)
            return "as many fail at any pace"
        if is_page and not failures.are_more:
            self._roll_back_for(answer.page, now)
            return "this page fails while others are served"
        if self.phase is not Phase.CLOSED:
            if not permit.probe or not failures.on_test_failed():
                return ""
            self._end_pause(now)
        if failures.is_gone:
            self._pace_gone(failures.on_gone_failed(), now)
            return "the host is gone: nothing waits for it"
        return "" if failures.are_congestion else "a lone failure is no congestion"

    def _pace_gone(self, rate: float | None, now: float) -> None:
        """A host that is gone, but answers, is not met at once by the pace that was before."""
        if rate == math.inf:
            self.ceiling.on_rollback(now)
        elif rate is not None:
            self.ceiling.recall(Learned(rate))

    def _gap_of(self, permit: Permit) -> float | None:
        """Seconds from the request before to this one; a crawl that had nothing to ask for was not
        slow. None if it was sent before the present epoch began."""
        return min(permit.gap, max(IDLE, self.delay)) if self.is_news(permit) else None

    def _look_at_failures(self, now: float) -> None:
        """A dead host is owed no pace; one that is there again is met without a volley."""
        was_dead, self.pace.is_dead = self.pace.is_dead, self._failures.is_dead
        if was_dead and not self.pace.is_dead:
            self.pace.drain(now)

    def _after_probe(self, answer: Answer) -> float:
        """Seconds to wait after a probe that was refused."""
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
            self._cuts_nothing = True

    def roll_back(self, now: float) -> None:
        """The present epoch is not the fault of the pace, but of a class of pages, or of first
        visits: take its cut back."""
        self.suspected.on_rollback()
        self.ceiling.on_class_split(now)
        self._cuts_nothing = True

    def _begin_epoch(self, now: float, permit: Permit, *, again: bool = False) -> float:
        """The ceiling hears of it, once: it cuts now, or when a test request has ended the pause.

        Args:
            again: the host was slowed down for its failures already.

        Returns the rate that was refused, 1/s.
        """
        refused_rate = self._paced_rate
        self._epoch_at = now
        self._cuts_nothing = False
        self.suspected.on_epoch()
        self.ceiling.on_congestion(now, permit, rate=refused_rate, again=again)
        self.pace.drain(now)
        return refused_rate

    def _recover(self, now: float, by: Signal) -> Recovery:
        """The pause is over: the ceiling learns of it, unless it cut nothing."""
        self.pause.end(now, by)
        recovery = self._backoff.on_recovered()
        if self._cuts_nothing:
            self.ceiling.on_resumed(now)
        else:
            self.ceiling.on_recovered(now, recovery)
            if self._failed_epoch and self.ceiling.rate < self._failures.served_rate:
                self.ceiling.recall(Learned(self._failures.served_rate))
        self._cuts_nothing = self._failed_epoch = False
        return recovery

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

    def _end_pause(self, now: float) -> None:
        """Nothing is gained by waiting: go on, as before the pause if no refusal made it."""
        if self.phase is Phase.CLOSED:
            return
        if self._failed_epoch:
            self.suspected.on_rollback()
            self.ceiling.on_rollback(now)
            self._cuts_nothing = True
        self._recover(now, Signal.GONE)
        self._withdraw_probe()

    def _pause(self, now: float, wait: float, chance: float, answer: Answer) -> None:
        self._begin_pause(now, wait * (1.0 + JITTER_RATIO * chance), announced=answer.announced)
        self._recheck_at = None
        self._withdraw_probe()

    def _begin_pause(self, now: float, wait: float, *, announced: float | None = None) -> None:
        self._own_pause().begin(now, wait, announced=announced, most=self.limits.max_pause)

    def _own_pause(self) -> Pause:
        """Most slots are never paused: they share one."""
        if self.pause is NO_PAUSE:
            self.pause = Pause()
        return self.pause

    def _withdraw_probe(self) -> None:
        """The probe that is out is a request like any other."""
        if self._probe is not None:
            self._probe.probe = False
            self._probe = None
