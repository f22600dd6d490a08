"""The slots of a crawl: made on first use, forgotten when idle, remembered in a line.

Laws
----
* Of more than `most` slots the least recently used idle ones are forgotten, never one that is
  paused or has something in flight, nor one that others stand under.
* A class of pages that alone is refused gets a slot of its own; its host is acquitted.
* What a forgotten slot had learned is the first guess of the next one of that key.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from itertools import islice

from .ceiling.aimd import Aimd
from .ceiling.base import Ceiling
from .ceiling.hold.ceiling import Hold
from .diagnosis.page_classes import BLIND, DOUBT, Classes, Families
from .slot import Slot
from .slot_config import Limits
from .types import Answer, Decision, Event, Learned

EVICTION_LOOKS = 16
"""Slots looked at for one that is idle, each time a slot is made beyond the most."""

CEILINGS: Mapping[str, Callable[[Limits], Ceiling]] = {
    "hold": lambda limits: Hold(limits.start_rate, grows_in_flight=limits.is_auto),
    "aimd": lambda limits: Aimd(limits.backoff_ratio),
}
"""The laws that learn a slot's limit, by name."""


class Slots:
    """Slots by key, the least recently used first.

    Args:
        limits: bounds of a slot with none of its own.
        slot_limits: bounds of the slots that have their own, by key.
        ceiling: name of the law that learns a slot's limit: one of `CEILINGS`.
        most: most slots remembered.
    """

    def __init__(
        self, limits: Limits, slot_limits: Mapping[str, Limits], *, ceiling: str, most: int
    ) -> None:
        self.families = Families(most)
        self._limits = limits
        self._slot_limits = dict(slot_limits)
        self._ceiling = CEILINGS[ceiling]
        self._most = most
        self._slots: OrderedDict[str, Slot] = OrderedDict()
        self._forgotten_pauses = 0.0
        self._learned: dict[str, Learned] = {}
        """What is known of slots that are not there: the first guess when they are."""

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
            limits = self.limits_of(key)
            slot = self._slots[key] = Slot(key, limits, self._ceiling(limits), now)
            if key in self._learned:
                slot.recall(self._learned.pop(key))
            self._forget_idle(now)
        return slot

    def touch(self, key: str) -> Slot:
        """The slot of that key, which is used now."""
        self._slots.move_to_end(key)
        return self._slots[key]

    def limits_of(self, key: str) -> Limits:
        """The user's bounds of that slot; a class's are its host's."""
        return self._slot_limits.get(self.families.host_of(key) or key, self._limits)

    def recall(self, learned: Mapping[str, Learned]) -> None:
        """Begin these slots with what an earlier crawl had learned, as a guess."""
        self._learned.update(learned)
        for key in learned:
            self.families.recall(key)

    @property
    def learned(self) -> dict[str, Learned]:
        """What is worth remembering, by slot; of the unused guesses too."""
        found = {slot.key: slot.learned for slot in self}
        return self._learned | {key: learned for key, learned in found.items() if learned}

    def time_paused(self, now: float) -> float:
        """Seconds in which a slot's breaker was not closed, summed over all there were."""
        return self._forgotten_pauses + sum(slot.pause.seconds(now) for slot in self)

    def forget_unused(self, key: str) -> None:
        """Forget a slot through which nothing was sent: its requests go another way."""
        slot = self._slots.get(key)
        if slot is None or key in self.families:
            return
        if slot.is_new and not (slot.reserved or slot.robots_count):
            del self._slots[key]

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
            slot.acquit(now)  # it had its permit before the class was split off
            return decision
        chance = classes.on_epoch(kind)
        if chance < BLIND:
            return self._split(slot, kind, answer, decision, now)
        if chance < DOUBT:
            slot.acquit(now)
        return decision

    def _split(
        self, host: Slot, kind: str, answer: Answer, decision: Decision, now: float
    ) -> Decision:
        """Give this class of pages a slot of its own; the host is acquitted."""
        key = self.families.add(host.key, kind)
        if key is None or host.classes is None:
            return decision
        share = host.classes.share(kind)
        host.classes.forget(kind)
        host.acquit(now)
        slot = self.at(key, now)
        host.reserved += slot.reserved  # a job may have left pages under that key
        slot.pace.latency_delay = host.pace.latency_delay
        slot.pace.crawl_delay = host.pace.crawl_delay
        if slot.is_new and host.rate < math.inf:
            slot.recall(Learned(share * host.rate))
        slot.pace.drain(now)
        if answer.told is not None:
            slot.resume_pause(now, decision.wait)
        why = f"{decision.why}; only {kind} is refused: it has its own pace"
        return decision._replace(why=why, split=kind)

    def _forget_idle(self, now: float) -> None:
        if len(self._slots) <= self._most:
            return
        looks = min(EVICTION_LOOKS, len(self._slots) - 1)
        for key in list(islice(self._slots, looks)):
            if key in self.families or not self._slots[key].is_idle(now):
                self._slots.move_to_end(key)
                continue
            slot = self._slots.pop(key)
            self._forgotten_pauses += slot.pause.seconds(now)
            if slot.learned is not None:
                self._learned[key] = slot.learned
                if len(self._learned) > self._most:
                    del self._learned[next(iter(self._learned))]
            if len(self._slots) <= self._most:
                return
