"""One slot: what it sends, what it begins with, and what changes it beside its own answers.

Laws
----
* Whether it may send is asked of `Admission`; what an answer changes stands in `Answers`.
* A pause that another slot began, or that goes on from an earlier crawl, cuts nothing.
"""

from __future__ import annotations

from typing import NamedTuple

from .breaker.backoff import BREATH, Backoff
from .breaker.breaker import Phase, Signal
from .breaker.pause import NEVER, NO_PAUSE
from .ceiling.base import Ceiling
from .diagnosis.broken_pages import SuspectedPages
from .permit import Permit
from .slot_admission import HEADROOM
from .slot_answers import Answers
from .types import Learned


class Taught(NamedTuple):
    """What refusals have taught of a site."""

    ceiling: Ceiling
    backoff: Backoff


class Slot(Answers):
    """One of Scrapy's throttling units. See `Admission` for what it is made of."""

    __slots__ = ()

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

    def resume_pause(self, now: float, wait: float) -> None:
        """The site itself asked for a pause that is not over for `wait` seconds, an earlier run or
        another slot."""
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

        What rules let pass is learned anew when the slot is asked next.
        """
        self.is_new = before.is_new
        self.accepted_count = before.accepted_count
        self.refused_count = before.refused_count
        self.again_count = before.again_count
        self._sent_count = before._sent_count
        if before.pause is not NO_PAUSE:
            self._own_pause().count_on(before.pause.seconds(now))

    def pause_for(self, now: float, wait: float, announced: float | None = None) -> None:
        """Wait for so long, `announced` seconds of it by the site's own word. No refusal of this
        slot is the reason: it cuts nothing, and an epoch that is under way goes on."""
        self._cuts_nothing |= self.phase is Phase.CLOSED
        self._begin_pause(now, wait, announced=announced)
        self._withdraw_probe()

    def pause_with(self, other: Slot, now: float) -> None:
        """Pause for as long as another slot, and for the same reason."""
        wait = other.paused_until - now
        if wait > 0.0:
            self.pause_for(now, wait, announced=other.announced_for(now) or None)

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
        self._backoff = taught.backoff
        self._failures.on_taught()
        self.swap(taught.ceiling)

    def swap(self, ceiling: Ceiling) -> Ceiling:
        """Go by another ceiling from here, to which a pause that is under way says nothing; returns
        the one it had."""
        other, self.ceiling = self.ceiling, ceiling
        self.pace.take_up(ceiling)
        if self.phase is not Phase.CLOSED:
            self._cuts_nothing, self._failed_epoch = True, False
        return other

    def forgive_failures(self, now: float) -> None:
        """The failures of late were the crawler's own line's: nothing is learned from them."""
        self._failures.forgive()
        self.pace.is_dead = False
        if self._failed_epoch:
            self._end_pause(now)
