"""The slots of a crawl: made on first use, forgotten when idle, remembered in a line.

Laws
----
* Of more than `most` slots the least recently used are forgotten, never one that has something in
  flight, nor one that others stand under. One that is paused keeps the instant that ends its pause.
* A class of pages that alone is refused gets a slot of its own; its host's epoch is rolled back.
* What a forgotten slot had learned is what the next one of that key begins with.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from itertools import islice

from .breaker.breaker import Phase
from .ceiling.registry import CEILINGS
from .diagnosis.page_classes import DOUBT, Classes, Families
from .evidence import BLIND
from .forgotten import Forgotten, LastingPause, WhyPaused
from .permit import Permit
from .slot import Slot
from .slot_config import Limits
from .slot_state import (
    MOST_BYTES,
    MOST_OF_CLASS,
    STALE_AFTER,
    State,
    begin,
    checked,
    state_of,
    without_robots,
)
from .types import Answer, Decision, Event, Learned, Outcome

ROUNDING = 0.01
"""Seconds by which an instant may differ once it was written and read."""

EVICTION_LOOKS = 16
"""Slots looked at for one that is idle, each time a slot is made beyond the most."""


class Slots:
    """Slots by key, the least recently used first.

    Args:
        limits: bounds of a slot with none of its own.
        slot_limits: bounds of the slots that have their own, by key.
        ceiling: name of the law that learns a slot's limit: one of those in `ceiling.registry`.
        most: most slots remembered.
        on_forgotten: called with the key of each slot that is forgotten.
    """

    def __init__(
        self,
        limits: Limits,
        slot_limits: Mapping[str, Limits],
        *,
        ceiling: str,
        most: int,
        on_forgotten: Callable[[str], None],
    ) -> None:
        self.families = Families(most)
        self._limits = limits
        self._slot_limits = dict(slot_limits)
        self._ceiling = CEILINGS[ceiling]
        self._most = most
        self._on_forgotten = on_forgotten
        self._slots: OrderedDict[str, Slot] = OrderedDict()
        self._forgotten_pauses = 0.0
        self._forgotten = Forgotten(most)

    def __iter__(self) -> Iterator[Slot]:
        return iter(self._slots.values())

    def __len__(self) -> int:
        return len(self._slots)

    def __contains__(self, key: str) -> bool:
        return key in self._slots

    def __getitem__(self, key: str) -> Slot:
        return self._slots[key]

    def get(self, key: str) -> Slot | None:
        """The slot of that key, if it is known."""
        return self._slots.get(key)

    def at(self, key: str, now: float) -> Slot:
        """The slot of that key, made if nobody knows it."""
        slot = self._slots.get(key)
        if slot is None:
            slot = self._slots[key] = self._again(key, now)
            if len(self._slots) > self._most:
                self._forget_idle(now)
        return slot

    def touch(self, key: str) -> Slot:
        """The slot of that key, which is used now."""
        self._slots.move_to_end(key)
        return self._slots[key]

    def limits_of(self, key: str) -> Limits:
        """The user's bounds of that slot; a class's are its host's."""
        return self._slot_limits.get(self.families.host_of(key) or key, self._limits)

    # Slots that are not there

    def lasting_pause(self, key: str, now: float) -> LastingPause | None:
        """The pause of a slot that is not there, if it is not over."""
        return None if key in self._slots else self._forgotten.lasting_pause(key, now)

    def parked(self, now: float) -> dict[str, float]:
        """The parked slots, those that are not there too, and until when."""
        here = {slot.key: slot.paused_until for slot in self if slot.is_parked(now)}
        return self._forgotten.parked(now) | here

    def states(self, now: float) -> dict[str, State]:
        """What is worth keeping of each slot, of those that are not there too."""
        found = {key: self.state(key, now) for key in (*self._forgotten, *self._slots)}
        return {key: state for key, state in found.items() if state is not None}

    def state(self, key: str, now: float) -> State | None:
        """What is worth keeping of that slot, as JSON."""
        slot = self._slots.get(key)
        if slot is not None:
            most = MOST_BYTES if self.families.host_of(key) is None else MOST_OF_CLASS
            return state_of(slot, self._new(key, now), now, most=most)
        kept = self._forgotten.kept(key)
        if kept is not None:
            return {**kept.state, "age": round(now - kept.at, 3)}
        pause = self._forgotten.lasting_pause(key, now)
        if pause is None:
            return None
        return {
            "pause": round(pause.until - now, 3),
            "asked": pause.why is not WhyPaused.OWN,
        }

    def begin(self, key: str, state: object, age: float, now: float) -> list[str]:
        """Let this slot go on with what was kept of it, `age` seconds ago.

        Of a slot that was used here since only the pause counts; of another that is there, another
        crawler knows more.

        Returns:
            What was implausible, and is bounded now.

        Raises:
            ValueError: the state is not what `state` returns.
        """
        kept = without_robots(checked(state))
        age = max(0.0, age) + kept.get("age", 0.0)
        tried = self._new(key, now)
        doubts = begin(tried, kept, age, now)
        slot = self._slots.get(key)
        if slot is not None and not ("whole" in kept and slot.is_older(now - age)):
            slot.pause_with(tried, now)
            return doubts
        if slot is not None:
            if slot.paused_until > tried.paused_until:
                tried.pause_with(slot, now)
            tried.count_on(slot, now)
            self._slots[key] = tried
            return doubts
        if ("learned" in kept or "whole" in kept) and age <= STALE_AFTER:
            self.families.recall(key)
            if doubts:  # bounded from here, not again by each who reads it later
                kept, age = state_of(tried, self._new(key, now), now) or kept, 0.0
            bare = {name: value for name, value in kept.items() if name != "age"}
            self._forgotten.keep(key, bare, now - age)
        self._keep_paused(tried, tried.paused_until, now)
        return doubts

    def _new(self, key: str, now: float) -> Slot:
        limits = self.limits_of(key)
        return Slot(key, limits, self._ceiling(limits), now)

    def _again(self, key: str, now: float) -> Slot:
        """A new slot, with what is known of it."""
        slot = self._new(key, now)
        if key not in self._forgotten:
            return slot
        kept, pause = self._forgotten.kept(key), self._forgotten.lasting_pause(key, now)
        self._forgotten.remove(key)
        if kept is not None:
            try:
                begin(slot, kept.state, now - kept.at, now)
            except ValueError:  # what it had learned is beyond what a state may hold
                slot = self._new(key, now)
        if pause is not None and slot.paused_until < pause.until - ROUNDING:
            _pause(slot, pause, now)
        return slot

    def _keep_paused(self, slot: Slot, until: float, now: float) -> None:
        if slot.paused_until > now:
            own = WhyPaused.ASKED if slot.is_pause_asked(now) else WhyPaused.OWN
            why = WhyPaused.PARKED if slot.is_parked(now) else own
            self._forgotten.keep_paused(slot.key, LastingPause(until, why), now)

    def time_paused(self, now: float) -> float:
        """Seconds in which a slot's breaker was not closed, summed over all there were."""
        return self._forgotten_pauses + sum(slot.pause.seconds(now) for slot in self)

    def forget_unused(self, key: str, now: float) -> None:
        """Forget a slot through which nothing was sent: its requests go another way."""
        slot = self._slots.get(key)
        if slot is None or key in self.families:
            return
        if slot.is_new and not (slot.reserved or slot.robots_count):
            self._forget(slot, now)  # an earlier run may have learned something of it

    def is_hosts(self, slot: Slot, permit: Permit, answer: Answer) -> bool:
        """Whether it was the host's limit that refused a class's page: the class holds its pace,
        and the host is asked for more than it is known to allow.

        Where it is not, what the host is known to allow is in doubt: the next refusal may be its.
        """
        mine = permit.host
        if mine is None or answer.outcome is not Outcome.REFUSED:
            return False
        if permit.probe or mine.probe or not slot.is_news(permit):
            return False
        host = self._slots[mine.key]
        holds = slot.ceiling.held_rate > 0.0 and not slot.tried(permit)
        if not holds or not host.is_news(mine):
            return False
        if mine.paced and host.tried(mine):
            return True
        host.ceiling.on_doubted()
        return False

    def on_kind(self, slot: Slot, answer: Answer, decision: Decision, now: float) -> Decision:
        """Count the class of this page; split it off if it alone is refused."""
        kind, classes = answer.kind, slot.classes
        assert kind is not None
        if decision.event in (Event.ACCEPTED, Event.RECOVERED):
            if classes is not None:
                classes.on_accepted(kind)
            return decision
        if decision.event is not Event.TRIPPED or self.families.host_of(slot.key) is not None:
            return decision
        if classes is None:
            classes = slot.classes = Classes()
        if kind in self.families.kinds.get(slot.key, ()):
            slot.roll_back(now)  # it had its permit before the class was split off
            return decision
        chance = classes.on_epoch(kind)
        if chance < BLIND:
            return self._split(slot, kind, answer, decision, now)
        if chance < DOUBT:
            slot.roll_back(now)
        return decision

    def _split(
        self, host: Slot, kind: str, answer: Answer, decision: Decision, now: float
    ) -> Decision:
        """Give this class of pages a slot of its own; the host's epoch is rolled back."""
        key = self.families.add(host.key, kind)
        if key is None or host.classes is None:
            return decision
        share = host.classes.share(kind)
        host.classes.forget(kind)
        host.roll_back(now)
        slot = self.at(key, now)
        host.reserved += slot.reserved  # a job may have left pages under that key
        slot.pace.latency_delay = host.pace.latency_delay
        slot.pace.crawl_delay = host.pace.crawl_delay
        if slot.is_new and host.rate < math.inf:
            slot.recall(Learned(share * host.rate))
        slot.pace.drain(now)
        if answer.announced is not None:
            slot.pause_for(now, decision.wait, answer.announced)
        why = f"{decision.why}; only {kind} is refused: it has its own pace"
        return decision._replace(why=why, split=kind)

    def _forget_idle(self, now: float) -> None:
        looks = min(EVICTION_LOOKS, len(self._slots) - 1)
        for key in list(islice(self._slots, looks)):
            slot = self._slots[key]
            if key in self.families or not slot.may_be_forgotten(now):
                self._slots.move_to_end(key)
                continue
            self._forget(slot, now)
            if len(self._slots) <= self._most:
                return

    def _forget(self, slot: Slot, now: float) -> None:
        del self._slots[slot.key]
        self._forgotten_pauses += slot.pause.seconds(now)
        is_backing_off = slot.phase is not Phase.CLOSED and not slot.is_pause_asked(now)
        until = slot.ready_again_at
        if slot.learned is not None or is_backing_off:
            state = state_of(slot, self._new(slot.key, now), now)
            if state is not None:
                self._forgotten.keep(slot.key, state, now, until)
                self._forgotten.bound(now)
                until = slot.paused_until
        self._keep_paused(slot, until, now)
        self._on_forgotten(slot.key)


def _pause(slot: Slot, pause: LastingPause, now: float) -> None:
    """A slot that was paused when it was forgotten is so again."""
    wait = pause.until - now
    if pause.why is WhyPaused.PARKED:
        slot.park(now, wait)
    elif pause.why is WhyPaused.ASKED:  # for some of it; it was not parked for the rest
        slot.resume_pause(now, min(wait, slot.limits.max_pause))
        slot.pause_for(now, wait)
    else:
        slot.pause_for(now, wait)
