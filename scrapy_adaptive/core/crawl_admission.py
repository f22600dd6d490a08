"""All slots of one crawl, and whether a request may go, and when: questions, which send nothing.

Laws
----
* A question may make a slot that nobody knew, take note that a time is over, and no more.
* The uplink, the global breaker and the crawl-wide bucket stand before every slot.
* A class of pages that is split off has a slot of its own under the host's: it may send when both
  may.
* Known limits stand beside the slots: a request leaves when its slot and every meter let it. Keys
  of leaves (`limits/known.py`) are understood where it is asked what may go.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from .breaker.global_breaker import GlobalBreaker
from .breaker.uplink import Cut, Uplink
from .ceiling.registry import CEILINGS
from .crawl_wide import CrawlWide
from .forgotten import WhyPaused
from .limits.known import KnownLimits
from .limits.leaf import Leaf
from .pacing.global_rate import GlobalRate
from .permit import Permit
from .slot import Slot
from .slot_config import Limits
from .slot_registry import Slots
from .slot_state import State
from .types import Blocked, Reason, Wanted


@dataclass(slots=True)
class Counts:
    """What has happened so far, over all slots; numbers of events but for the tokens."""

    granted: int = 0
    measured: int = 0
    ignored: int = 0
    dropped: int = 0
    refusals: int = 0
    failures: int = 0
    trips: int = 0
    global_trips: int = 0
    probes: int = 0
    broken_pages: int = 0
    drained_tokens: float = 0.0

    @property
    def in_flight(self) -> int:
        """Permits granted and not ended."""
        return self.granted - self.measured - self.ignored - self.dropped


class CrawlAdmission:
    """All slots of one crawl.

    Args:
        limits: bounds of a slot with none of its own.
        slot_limits: bounds of the slots that have their own, by key.
        global_breaker: the breaker of the whole crawl.
        global_rate: sends a second over all slots; 0 sets no bound.
        max_slots: most slots remembered, >= 1.
        chance: returns a number in [0, 1) each time it is called.
        ceiling: name of the law that learns a slot's limit: one of `CEILINGS`.

    Raises:
        ValueError: a number is out of its range.
    """

    def __init__(
        self,
        limits: Limits,
        *,
        global_breaker: GlobalBreaker,
        chance: Callable[[], float],
        slot_limits: Mapping[str, Limits] | None = None,
        global_rate: float = 0.0,
        max_slots: int = 10_000,
        ceiling: str = "hold",
    ) -> None:
        if max_slots < 1:
            raise ValueError(f"max_slots = {max_slots}")
        self.counts = Counts()
        self._slots = Slots(
            limits,
            slot_limits or {},
            ceiling=ceiling,
            most=max_slots,
            on_forgotten=self._on_forgotten,
        )
        self._families = self._slots.families
        self._global_breaker = global_breaker
        self._uplink = Uplink()
        self._crawl_wide = CrawlWide(
            slots=global_breaker.slots,
            window=global_breaker.window,
            cooldown=global_breaker.cooldown,
            make=CEILINGS[ceiling],
        )
        self._global_rate = GlobalRate(global_rate)
        self._chance = chance
        self.known: KnownLimits | None = None
        """What rules say of limits; None without rules."""

    def _on_forgotten(self, key: str) -> None:
        if self.known is not None:
            self.known.forget(key)

    def __iter__(self) -> Iterator[Slot]:
        return iter(self._slots)

    def __len__(self) -> int:
        return len(self._slots)

    def __contains__(self, key: str) -> bool:
        return key in self._slots

    def limits_of(self, key: str) -> Limits:
        """The user's bounds of that slot."""
        return self._slots.limits_of(key)

    def host_of(self, key: str) -> str:
        """The slot that this one is under; its own key, unless it is a class's."""
        return self._families.host_of(key) or key

    @property
    def kinds(self) -> Mapping[str, Mapping[str, str]]:
        """Of each slot with classes under it: the key of each class's slot."""
        return self._families.kinds

    def family(self, key: str) -> tuple[str, ...]:
        """The slots that are held by what this one does: a host's and its classes'."""
        return self._families.of(key)

    def slot(self, key: str, now: float) -> Slot:
        """The slot of that key, made if nobody knows it."""
        return self._slots.at(key, now)

    def state(self, key: str, now: float) -> State | None:
        """What is worth keeping of that slot, as JSON with ages; None where there is nothing."""
        self._crawl_wide.end_test(key)
        return self._slots.state(key, now)

    def states(self, now: float) -> dict[str, State]:
        """The same of all slots, of those that nobody has used yet too. Of one that is tested for a
        limit of all it is what it had learned once the crawl has ended."""
        return self._slots.states(now)

    def end(self, now: float) -> None:
        """The crawl ends: what pauses all of it is kept with each of its slots."""
        left = self.crawl_paused_until - now
        self._crawl_wide.end_test()
        for slot in self._slots if left > 0.0 else ():
            slot.pause_for(now, left)

    def knows(self, key: str, now: float) -> bool:
        """Whether this slot is there, or its pause is remembered."""
        return key in self._slots or self._slots.lasting_pause(key, now) is not None

    def paused_until(self, key: str, now: float) -> float:
        """The instant until which this slot is paused; 0 if it is not. The slot is not made."""
        slot = self._slots.get(key)
        if slot is not None:
            return slot.paused_until
        pause = self._slots.lasting_pause(key, now)
        return 0.0 if pause is None else pause.until

    @property
    def crawl_paused_until(self) -> float:
        """The instant until which a limit that the whole crawl shares pauses it; 0 for none."""
        slot = self._crawl_wide.slot
        return 0.0 if slot is None else slot.paused_until

    def blocked(self, key: str, now: float) -> Blocked | None:
        """Why nothing may be sent for this slot at `now`, and until when; None when one may."""
        if self.known is not None:
            return self._blocked_by_leaf(self._leaf(key, now), now)
        return self._blocked_by_slot(key, now)

    def _blocked_by_slot(self, key: str, now: float) -> Blocked | None:
        blocked = self._blocked_by_stop(now, queued=False) if self._may_be_stopped else None
        blocked = blocked or self._blocked_of(key, now)
        if self._uplink.is_down:
            blocked = later_of(blocked, self._blocked_by_test(key, now, queued=False))
        host = self._families.host_of(key)
        if host is not None:
            blocked = later_of(blocked, self._blocked_of(host, now))
        blocked = later_of(blocked, self._crawl_wide.blocked(now))
        return blocked or self._global_rate.blocked(now)

    def _blocked_of(self, key: str, now: float) -> Blocked | None:
        """What this slot itself says; one that is not there is not made while it is paused."""
        slot = self._slots.get(key)
        if slot is None:
            pause = self._slots.lasting_pause(key, now)
            if pause is not None:
                return pause.blocked
            slot = self.slot(key, now)
        return slot.blocked(now)

    def slot_key(self, key: str) -> str:
        """The slot of a leaf's key; a slot's key is its own."""
        return key if self.known is None else self.known.leaf(key).slot

    def _leaf(self, key: str, now: float) -> Leaf:
        """The leaf of that key; what its rules say is what its slot begins with."""
        known = self.known
        assert known is not None
        leaf = known.enter(key)
        rate, places = known.expected.get(leaf.slot), known.places.get(leaf.slot, 0)
        if rate is not None or places:
            host = self._families.host_of(leaf.slot)
            for each in (leaf.slot,) if host is None else (leaf.slot, host):
                slot = self.slot(each, now)
                slot.expected_places = places
                if rate is not None and slot.expected_rate != rate:
                    slot.expect(rate)
        return leaf

    def _blocked_by_leaf(self, leaf: Leaf, now: float) -> Blocked | None:
        assert self.known is not None
        return later_of(self._blocked_by_slot(leaf.slot, now), self.known.blocked(leaf, now))

    def wanted(self, key: str) -> Wanted:
        """Which of the slot's requests serves best just now."""
        slot = self._slots.get(key)
        if slot is None or slot.wanted is Wanted.ANY or not slot.suspected:
            return Wanted.ANY
        return slot.wanted

    def blocked_by_stop(self, now: float) -> Blocked | None:
        """Why no request of any slot may be sent at `now`, and until when; None when one may.

        The crawler's own uplink is down, or the global breaker is open.
        """
        return self._blocked_by_stop(now, queued=False) if self._may_be_stopped else None

    @property
    def _may_be_stopped(self) -> bool:
        return self._uplink.down_at < math.inf or self._global_breaker.is_open

    def _blocked_by_stop(self, now: float, *, queued: bool) -> Blocked | None:
        until = self._uplink.hold_until(now, queued=queued)
        if until is not None:
            return Blocked(until, Reason.UPLINK)
        if not self._global_breaker.is_open:
            return None
        until = self._global_breaker.hold_until(now, in_flight=self.counts.in_flight)
        return None if until is None else Blocked(until, Reason.GLOBAL)

    def blocked_by_crawl(self, now: float) -> Blocked | None:
        """Why no request of any slot may leave its queue at `now`, and until when."""
        blocked = self._blocked_by_stop(now, queued=True) if self._may_be_stopped else None
        blocked = blocked or self._global_rate.blocked_queued(now)
        return later_of(blocked, self._crawl_wide.blocked_queued(now))

    def blocked_in_queue(self, key: str, now: float, lead: float = 0.0) -> Blocked | None:
        """Why no request of this slot may leave its queue at `now`, the whole crawl aside.

        Places promised to queued requests count as taken. A slot nobody knows is not made.

        Args:
            lead: seconds that requests take from their queue to the gate.
        """
        blocked = self._blocked_in_queue(key, now, lead)
        if self._uplink.is_down:
            blocked = later_of(blocked, self._blocked_by_test(key, now, queued=True))
        host = self._families.host_of(key)
        of_host = None if host is None else self._blocked_in_queue(host, now, lead)
        return blocked if of_host is None else later_of(blocked, of_host)

    def _blocked_in_queue(self, key: str, now: float, lead: float) -> Blocked | None:
        slot = self._slots.get(key)
        if slot is not None:
            return slot.blocked_queued(now, lead)
        pause = self._slots.lasting_pause(key, now)
        return None if pause is None else pause.blocked

    def _blocked_by_test(self, key: str, now: float, *, queued: bool) -> Blocked | None:
        """While the line is down: why another host than this slot's is tested first."""
        until = self._uplink.hold_failing_until(self.host_of(key), now, queued=queued)
        return None if until is None else Blocked(until, Reason.PAUSED)

    def parked(self, now: float) -> dict[str, float]:
        """Slots whose site asked for a longer pause than the user wants to sit through, and until
        when; of rules, leaves have to be asked."""
        return self._slots.parked(now)

    def is_parked(self, key: str, now: float) -> bool:
        """Whether this slot is parked, or the one that it is under, or this leaf."""
        return self.parked_until(key, now) > 0.0

    def parked_until(self, key: str, now: float) -> float:
        """The instant until which this slot is parked, or this leaf; 0 if it is not."""
        until, key = self.parked_by_rule_until(key, now), self.slot_key(key)
        return max(until, *(self._parked_until(each, now) for each in {key, self.host_of(key)}))

    def parked_by_rule_until(self, key: str, now: float) -> float:
        """The instant until which rules park this leaf; 0 if they do not."""
        if self.known is None:
            return 0.0
        leaf = self.known.leaf(key)
        return self.known.parked_until(leaf, now, self.limits_of(leaf.slot).max_pause)

    def _parked_until(self, key: str, now: float) -> float:
        slot = self._slots.get(key)
        if slot is not None:
            return slot.paused_until if slot.is_parked(now) else 0.0
        pause = self._slots.lasting_pause(key, now)
        return pause.until if pause is not None and pause.why is WhyPaused.PARKED else 0.0

    def is_stopped_by_rule(self, key: str, now: float) -> bool:
        """Whether a rule holds this leaf for longer than anybody waits."""
        if self.known is None:
            return False
        leaf = self.known.leaf(key)
        return self.known.is_stopped(leaf, now, self.limits_of(leaf.slot).max_pause)

    def is_overtaken(self, permit: Permit, now: float) -> bool:
        """Whether congestion came after this permit was granted: it must not be used any more."""
        if self._uplink.is_down:
            return permit.sent_at <= self._uplink.down_at
        if self.blocked_by_stop(now) is not None or self._crawl_wide.is_overtaken(permit):
            return True
        return any(self._slots[each.key].is_overtaken(each) for each in permit.with_host)

    def time_paused(self, now: float) -> float:
        """Seconds in which a slot's breaker was not closed, summed over all slots."""
        return self._slots.time_paused(now)

    @property
    def has_shared_limit(self) -> bool:
        """Whether one limit holds for the whole crawl: any answer may free a place of it."""
        return self._crawl_wide.slot is not None

    @property
    def stop_causes(self) -> tuple[str, ...]:
        """Slots whose trouble stopped the whole crawl last."""
        if self._uplink.is_down:
            return self._uplink.failing
        return (
            self._crawl_wide.causes if self._crawl_wide.is_paused else self._global_breaker.causes
        )

    @property
    def uplink_cut(self) -> Cut:
        """The present time in which the crawler's own line is down, or the last."""
        return self._uplink.cut

    def stopped_by(self, now: float) -> Reason | None:
        """What stops the whole crawl, but for one test request; None where nothing does."""
        if self._uplink.is_down:
            return Reason.UPLINK
        if self.blocked_by_stop(now) is not None:
            return Reason.GLOBAL
        return Reason.CRAWL_WIDE if self._crawl_wide.is_paused else None

    def is_stopped(self, now: float) -> bool:
        """Whether the whole crawl is; a cool-down begins with the last answer back."""
        return self.stopped_by(now) is not None


def later_of(blocked: Blocked | None, other: Blocked | None) -> Blocked | None:
    """The one of the two that blocks for longer."""
    if blocked is None or (other is not None and other.until > blocked.until):
        return other
    return blocked
