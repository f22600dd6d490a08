"""The governor of one crawl grants permits, hears their answers, and has the slots learn from them.

Laws
----
* What fails while the crawler's own uplink is down says nothing of a site, and spends no retry.
* An acceptance of a class of pages counts for its host too; its refusals are its own.
* granted = measured + ignored + dropped + in flight, at every instant.
"""

from __future__ import annotations

from .crawl_admission import CrawlAdmission, later_of
from .limits.book import Book
from .limits.leaf import FIELD, Leaf
from .permit import Permit
from .slot import Slot
from .types import Answer, Blocked, Decision, Event, Outcome, Reason


class Governor(CrawlAdmission):
    """All slots of one crawl, and what happens to them.

    See `CrawlAdmission` for what it is made of, and for what may be asked of it.
    """

    def begin(self, key: str, state: object, age: float, now: float) -> list[str]:
        """Let this slot go on with what was kept of it, `age` seconds ago.

        Of a slot that was used here since only the pause counts; of another that is there, another
        crawler knows more.

        Returns:
            What was implausible, and is bounded now.

        Raises:
            ValueError: the state is not what `state` returns.
        """
        return self._slots.begin(key, state, age, now)

    def on_book(self, book: Book) -> None:
        """Other rules hold from here; whatever waits has to be asked about again."""
        assert self.known is not None
        self.known.on_book(book)
        for slot in self:
            slot.expected_places = 0
            if slot.expected_rate:
                slot.expect(0.0)

    def take(self, key: str, now: float) -> Permit | Blocked:
        """The permit to send one request for this slot, or why not and until when."""
        if self.known is not None:
            return self._take_known(self._leaf(key, now), now)
        blocked = self._blocked_by_slot(key, now)
        return self._take(key, now) if blocked is None else blocked

    def _take_known(self, leaf: Leaf, now: float) -> Permit | Blocked:
        assert self.known is not None
        blocked = self._blocked_by_leaf(leaf, now)
        if blocked is not None:
            if blocked.reason is Reason.RULE:
                self.known.on_held(leaf.slot, blocked)
            return blocked
        permit = self._take(leaf.slot, now)
        permit.meters = self.known.take(leaf, now)
        return permit

    def _take(self, key: str, now: float) -> Permit:
        if self._global_rate.delay:
            self._global_rate.take(now, self._chance())
        permit = self._slots.touch(key).take(now, self._chance())
        host = self._families.host_of(key)
        if host is not None:
            permit.host = self._slots[host].take(now, self._chance())
        permit.crawl = self._crawl_wide.take(now, self._chance())
        self._uplink.on_sent(permit.key if host is None else host, now)
        self.counts.granted += 1
        self.counts.probes += permit.probe
        return permit

    def reserve(self, key: str, now: float, lead: float = 0.0) -> Blocked | None:
        """Promise one place of this slot to a queued request, or say why not.

        A reservation ends with `release`, before the gate takes the permit or when the request
        goes another way. It holds back other reservations, never a request at the gate.
        """
        if self.known is None:
            return self._reserve(key, now, lead)
        leaf = self._leaf(key, now)
        blocked = self.known.blocked_queued(leaf, now, lead)
        if blocked is not None:
            self.known.on_held(leaf.slot, blocked)
            return blocked
        blocked = self._reserve(leaf.slot, now, lead)
        if blocked is None:
            self.known.reserve(leaf, now)
        return blocked

    def _reserve(self, key: str, now: float, lead: float) -> Blocked | None:
        blocked = self.blocked_by_crawl(now)
        pause = self._slots.lasting_pause(key, now)
        if blocked is not None or pause is not None:
            return blocked or (None if pause is None else pause.blocked)
        slot = self.slot(key, now)
        blocked = slot.blocked_queued(now, lead)
        if self._uplink.is_down:
            blocked = later_of(blocked, self._blocked_by_test(key, now, queued=True))
        host_key = self._families.host_of(key)
        host = None if host_key is None else self.slot(host_key, now)
        if host is not None:
            blocked = later_of(blocked, host.blocked_queued(now, lead))
        if blocked is None:
            slot.reserve(now)
            if host is not None:
                host.reserve(now)
            self._global_rate.reserve(now)
            self._crawl_wide.reserve(now)
            self._uplink.on_promised(now)
        return blocked

    def release(self, key: str) -> None:
        """End one reservation of this slot, or of this leaf as it was reserved."""
        if self.known is not None:
            key, *meters = key.split(FIELD)
            self.known.release(meters)
        self._slots[key].reserved -= 1
        host = self._families.host_of(key)
        if host is not None:
            self._slots[host].reserved -= 1
        self._global_rate.release()
        self._crawl_wide.release()

    def forget_unused(self, key: str, now: float) -> None:
        """Forget a slot through which nothing was sent: its requests go another way."""
        self._slots.forget_unused(key, now)

    def on_answer(self, permit: Permit, answer: Answer, now: float) -> Decision:
        """A request ended with an answer of its site, or with a failure to get one."""
        if permit.ended:
            raise ValueError(f"{permit} has ended before")
        if self.known is not None:
            refused = answer.outcome is Outcome.REFUSED
            self.known.on_ended(permit, now, is_hit=True, refused=refused)
        slot, host = self._slots[permit.key], self.host_of(permit.key)
        if answer.silent:
            self._on_unanswered(host, permit, now)
        else:
            self._uplink.on_answer(host, now)
        if self._uplink.is_down:
            return self._on_uplink_down(permit, slot, now)
        counts, crawl_wide = self.counts, self._crawl_wide
        refused = answer.outcome is Outcome.REFUSED
        counts.measured += 1
        counts.refusals += refused
        counts.failures += answer.outcome is Outcome.FAILED
        if answer.outcome is not Outcome.FAILED:
            crawl_wide.on_answer(host, now, served=not refused)
        if refused and crawl_wide.is_met(slot, host, permit):
            if not crawl_wide.is_refuted(permit):
                return self._on_crawl_limit(permit, slot, answer, now)
            crawl_wide.end(self._slots)
        is_news = refused and slot.is_news(permit)
        begins = is_news and crawl_wide.is_met_first(slot, permit, now)
        decision = self._tell(permit, slot, answer, now)
        if answer.outcome is Outcome.ACCEPTED:
            begins |= crawl_wide.is_found_out(slot, permit, now)
        if begins:
            counts.global_trips += 1
            crawl_wide.begin(self._slots, now)
        self._begin_cooldown(now)
        return decision

    def _tell(self, permit: Permit, slot: Slot, answer: Answer, now: float) -> Decision:
        """What came of a request says something of its slot."""
        counts, accepted = self.counts, answer.outcome is Outcome.ACCEPTED
        self._crawl_wide.on_ended(permit, answer if accepted else None, now, self._chance())
        host, kind = permit.host, answer.kind
        if host is not None and self._slots.is_hosts(slot, permit, answer):
            slot.on_lost(permit)
            permit, slot, answer = host, self._slots[host.key], answer._replace(quotas=())
            host = kind = None
        held = 0.0 if accepted else slot.pace.tokens(now)
        decision = slot.on_answer(permit, answer, now, self._chance())
        if host is not None:
            self._tell_host(host, answer, now)
        elif kind is not None:
            decision = self._slots.on_kind(slot, answer, decision, now)
        counts.broken_pages += decision.event is Event.BROKEN
        if decision.event is Event.TRIPPED:
            counts.trips += 1
            counts.drained_tokens += held
            if self._global_breaker.on_trip(self.host_of(permit.key)):
                self._drain_all(now)
        return decision

    def _on_crawl_limit(self, permit: Permit, slot: Slot, answer: Answer, now: float) -> Decision:
        """The limit of the whole crawl was met: the slot that met it is not to blame."""
        self._crawl_wide.on_ended(permit, answer, now, self._chance())
        for each in permit.with_host:
            self._slots[each.key].on_lost(each)
        if answer.announced is not None:
            slot.resume_pause(now, answer.announced)
        self._begin_cooldown(now)
        why = "the limit of the whole crawl was met"
        return Decision(Event.EXCUSED, slot.delay, 0.0, slot.paused_for(now), why, again=True)

    def on_doubt(self, permit: Permit) -> None:
        """An answer that looks like a refusal has arrived; its verdict is awaited."""
        self._slots[permit.key].on_doubt(permit)

    def on_ignored(self, permit: Permit, now: float) -> None:
        """The request was answered by somebody else than its site."""
        self._end(permit, now)
        if self.known is not None:
            self.known.on_ended(permit, now, is_hit=True)
        self.counts.ignored += 1
        self._begin_cooldown(now)

    def on_dropped(self, permit: Permit, now: float) -> None:
        """The request was given up before it reached the wire."""
        self._end(permit, now)
        if self.known is not None:
            self.known.on_ended(permit, now, is_hit=False)
        self.counts.dropped += 1
        self._begin_cooldown(now)

    def _on_unanswered(self, host: str, permit: Permit, now: float) -> None:
        """Nothing came back: if that shows that the uplink is down, no host failed of late."""
        if not self._uplink.on_unanswered(host, now, permit.sent_at):
            return
        self.counts.global_trips += 1
        for key in self._uplink.failing:
            for each in self.family(key):
                slot = self._slots.get(each)  # forgotten, or a class's that nobody asked for
                if slot is not None:
                    slot.forgive_failures(now)

    def _on_uplink_down(self, permit: Permit, slot: Slot, now: float) -> Decision:
        """The crawler's own line is down: no site is charged with it, and no page."""
        self._end(permit, now)
        self.counts.measured += 1
        self.counts.failures += 1
        why = "no host answers: the crawler's own connection is down"
        return Decision(Event.UPLINK_DOWN, slot.delay, 0.0, 0.0, why, again=True)

    def _end(self, permit: Permit, now: float) -> None:
        """A permit ended without an answer of the site."""
        self._crawl_wide.on_ended(permit, None, now, 0.0)
        for each in permit.with_host:
            self._slots[each.key].on_lost(each)

    def _tell_host(self, permit: Permit, answer: Answer, now: float) -> None:
        """What a class's request means for its host: an acceptance is one, the class's own
        congestion is no news."""
        slot = self._slots[permit.key]
        if answer.outcome is Outcome.ACCEPTED:
            slot.on_answer(permit, answer._replace(quotas=()), now, self._chance())
        else:
            slot.on_lost(permit)

    def _begin_cooldown(self, now: float) -> None:
        """The cool-down of the whole crawl begins with the last answer: to ask is to begin it."""
        self.stopped_by(now)

    def _drain_all(self, now: float) -> None:
        self.counts.global_trips += 1
        self.counts.drained_tokens += sum(slot.pace.drain(now) for slot in self)
        self._global_rate.drain(now)
