"""A limit that all slots share: one egress, one CDN, one gateway in front of many hosts.

Laws
----
* Each refusal of a slot is weighed. One at a rate that the slot had held before, or after a
  silence, is not explained by a limit of its own; one at a rate that it tried is. So many more of
  the first kind, on enough slots, and the limit is taken for one of the whole crawl.
* Such a limit has a slot of its own above all others, which learns a rate as they do. What they had
  learned before is put aside: they begin anew.
* A refusal is a slot's own where that slot tried a faster rate and the whole crawl did not, or where
  it alone is refused again and again. Every other one is the whole crawl's.
* If most slots turn out to have limits of their own after all, the slots get back what they had
  learned, and more has to be seen before the next try.

**Source**: E. S. Page, Continuous Inspection Schemes, 1954.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING

from .classes import DOUBT, Classes
from .limits import Limits
from .slot import Slot, Taught

if TYPE_CHECKING:
    from collections.abc import Callable

    from .ceiling import Ceiling
    from .facts import Permit
    from .slots import Slots

KEY = "\0whole crawl"
"""Key of that slot, with a number after it; no other has such a name."""

FALLEN = 0.8
"""Share of the best rate that a slot was seen to be allowed, under which a refusal contradicts that
it has a limit of its own."""

CONTRADICTED = 8.0
"""Factor by which such a refusal speaks for a common limit."""

UNEXPLAINED = 1.25
"""Factor of one that came no sooner after the request before than the slot's own limit allows."""

EXPLAINED = 0.5
"""Factor of one that came sooner."""

SURE = 1000.0
"""Evidence from which the limit is taken for a common one."""

FEWEST = 3
"""Slots whose refusals contradict a limit of their own."""

SUREST = 1e12
"""Evidence that it takes at most, where it was wrong before."""

BIN = 30.0
"""Seconds over which the rate of the whole crawl is counted."""

DRAIN = 1.0
"""Most seconds for which a pause of the whole crawl waits for what is in flight: one slow host
holds up all others."""


class CrawlWide:
    """The limit above all slots, if there is one.

    Args:
        slots: distinct slots that it takes, >= 2.
        window: seconds of the rate at which it begins.
        cooldown: seconds of the first pause.
        make: makes the law that learns its rate.
    """

    def __init__(
        self, *, slots: int, window: float, cooldown: float, make: Callable[[Limits], Ceiling]
    ) -> None:
        self.slot: Slot | None = None
        self._least = slots
        self._window = window
        self._cooldown = cooldown
        self._make = make
        self._count = 0
        self._evidence = 1.0
        self._sure = SURE
        self._suspects: set[str] = set()
        self._contradicted: set[str] = set()
        self._answers: deque[tuple[float, str, bool]] = deque()
        self._classes = Classes()
        self._best_rate = 0.0
        self._bin_at = -math.inf
        self._bin = 0
        self._saved: dict[str, Taught] = {}

    def on_answer(self, key: str, now: float, *, served: bool) -> None:
        """A slot was served, or refused."""
        answers = self._answers
        answers.append((now, key, served))
        while answers[0][0] <= now - self._window:
            answers.popleft()
        if not served:
            return
        if now >= self._bin_at + BIN:
            self._best_rate = max(self._best_rate, self._bin / (now - self._bin_at))
            self._bin_at, self._bin = now, 0
        self._bin += 1
        if self.slot is not None:
            self._classes.on_accepted(key)

    @property
    def _is_everywhere(self) -> bool:
        """Whether most slots that answered lately were refused, and fewer than half were served."""
        answers = self._answers
        served = sum(served for _, _, served in answers)
        if 2 * served >= len(answers):
            return False
        refused = {key for _, key, served in answers if not served}
        return len(refused) >= self._least and 2 * len(refused) > len(
            {key for _, key, _ in answers}
        )

    def on_refusal(self, slot: Slot, permit: Permit) -> bool:
        """Weigh a refusal of a slot; returns whether the limit is the whole crawl's by it."""
        if self.slot is not None or self._least < 2:
            return False
        if slot.ceiling.held_rate and not slot.ceiling.noise_ratio:
            is_fallen = slot.rate < FALLEN * slot.ceiling.best_rate
            if is_fallen:
                self._contradicted.add(slot.key)
            self._suspects.add(slot.key)
            explained = EXPLAINED if slot.tried(permit) else UNEXPLAINED
            self._evidence *= CONTRADICTED if is_fallen else explained
            if self._evidence <= 1.0:
                self._evidence = 1.0
                self._suspects.clear()
                self._contradicted.clear()
        if self._is_everywhere and self._sure == SURE:
            return True
        return (
            self._evidence >= self._sure
            and len(self._suspects) >= self._least
            and len(self._contradicted) >= FEWEST
        )

    def begin(self, slots: Iterable[Slot], now: float) -> None:
        """The limit is the whole crawl's: pause, and learn its rate."""
        rate = max(self._best_rate, self._bin / max(1.0, now - self._bin_at), 1.0 / BIN)
        limits = Limits(start_delay=1.0 / rate, target_concurrency=1e9, concurrency=100_000)
        self._count += 1
        self.slot = Slot(f"{KEY} {self._count}", limits, self._make(limits), now, drain=DRAIN)
        self.slot.pace.latency_delay = 0.0
        self.slot.pause_for(now, self._cooldown)
        self._classes = Classes()
        self._saved = {slot.key: slot.begin_anew(self._make(slot.limits), now) for slot in slots}

    def of(self, permit: Permit) -> Permit | None:
        """The whole crawl's permit for this request, if its slot is still there."""
        if self.slot is None or permit.crawl is None or permit.crawl.key != self.slot.key:
            return None
        return permit.crawl

    def is_own(self, key: str, permit: Permit, *, tried: bool) -> bool:
        """Whether a refusal of a slot is its own, while there is a limit above it."""
        crawl, mine = self.slot, self.of(permit)
        if crawl is None or mine is None or not crawl.is_news(mine):
            return False
        if tried and not (mine.paced and crawl.tried(mine)):
            return True
        return self._classes.on_epoch(key) < DOUBT

    @property
    def is_refuted(self) -> bool:
        """Whether the whole crawl was served well above the rate at which it is refused now."""
        return self.slot is not None and self.slot.rate < FALLEN * self._best_rate

    def end(self, slots: Slots) -> None:
        """There is no such limit: the slots get back what they had learned."""
        self.slot = None
        self._evidence = 1.0
        self._sure = min(self._sure * SURE, SUREST)
        self._best_rate = 0.0
        self._suspects.clear()
        self._contradicted.clear()
        self._answers.clear()
        for key, taught in self._saved.items():
            if key in slots:
                slots[key].restore(taught)
        self._saved = {}
