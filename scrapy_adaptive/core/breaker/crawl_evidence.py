"""What refusals all over a crawl say of a limit that its slots share.

Laws
----
* A refusal well below the best rate at which its slot was served, or no sooner after its last
  request than its own limit allows, speaks for a common limit; one that came sooner speaks against.
* Evidence is a product of likelihood ratios that never falls below one.
* Requests are counted over spans of `SPAN` seconds.

**Source**: E. S. Page, Continuous Inspection Schemes, 1954.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scrapy_adaptive.core.facts import Permit
    from scrapy_adaptive.core.slot import Slot

FALLEN = 0.8
"""Share of the best rate at which a slot was served, under which a refusal contradicts that it has
a limit of its own. The same for the whole crawl."""

CONTRADICTED = 8.0
"""Factor by which such a refusal speaks for a common limit: one of four or five is one where there
is one, one of forty elsewhere."""

UNEXPLAINED = 1.25
"""Factor of one that came no sooner than the slot's own limit allows."""

EXPLAINED = 0.5
"""Factor of one that came sooner: one of four there, one of two elsewhere."""

SURE = 1000.0
"""Evidence from which there is a common limit."""

SUREST = 1e9
"""Evidence that it takes at most, where one was refuted before."""

FEWEST = 3
"""Slots whose refusals have to contradict a limit of their own."""

FEWEST_SHARE = 0.1
"""The same, as a share of the slots that answered lately: of many some are always misled."""

YOUNG = 20
"""Pages that a slot was served, below which it is at its start."""

WORTH = 0.01
"""Share of refused requests from which a common limit is looked for."""

IN_VAIN = 0.03
"""Share of refused requests above which a common limit explains nothing."""

SPAN = 30.0
"""Seconds over which requests of the whole crawl are counted."""

LEAST = 1.0
"""Requests a second at which a shared limit is begun at least, as any host is."""

TRIAL = 2
"""Such spans in which a common limit may be learned before it is judged."""


class Evidence:
    """What the refusals of slots say of a common limit.

    Args:
        slots: distinct slots that it takes.
    """

    def __init__(self, slots: int) -> None:
        self.young: set[str] = set()
        """Slots that were refused at their start."""
        self._slots = slots
        self._sure = SURE
        self._sum = 1.0
        self._refused: set[str] = set()
        self._contradicted: set[str] = set()

    def on_refused(self, slot: Slot, permit: Permit) -> None:
        """A slot was refused; where refusals come by chance it says nothing."""
        ceiling, key = slot.ceiling, slot.key
        if not ceiling.held_rate and slot.accepted_count < YOUNG:
            self.young.add(key)
            return
        self.young.discard(key)
        if not ceiling.held_rate or ceiling.noise_ratio:
            return
        self._refused.add(key)
        if slot.rate < FALLEN * ceiling.best_rate:
            self._contradicted.add(key)
            self._sum *= CONTRADICTED
        else:
            self._sum *= EXPLAINED if slot.tried(permit) else UNEXPLAINED
        if self._sum <= 1.0:
            self._forget()

    @property
    def is_sure(self) -> bool:
        """Whether they show one, as far as their number goes."""
        return self._sum >= self._sure

    def is_broad(self, slots: int) -> bool:
        """Whether they come from enough of so many slots that answered lately."""
        is_contradicted = len(self._contradicted) >= max(FEWEST, FEWEST_SHARE * slots)
        return is_contradicted and len(self._refused) >= self._slots

    def begin_anew(self) -> None:
        """They were misleading: more is needed the next time."""
        self._sure = min(SURE * self._sure, SUREST)
        self.young.clear()
        self._forget()

    def _forget(self) -> None:
        self._sum = 1.0
        self._refused.clear()
        self._contradicted.clear()


class Tally:
    """How many requests of the whole crawl were served and refused, by spans of time."""

    def __init__(self) -> None:
        self.best_rate = 0.0
        """The most that was served in one span, 1/s."""
        self.is_in_vain = False
        """Whether a common limit leaves as many refused as before."""
        self._began_at = -math.inf
        self._served = self._refused = 0
        self._last_share = 0.0
        self._trial_spans = 0

    def on_answer(self, now: float, *, served: bool, is_limited: bool) -> None:
        """A request was served, or refused; `is_limited` by a common limit."""
        if now >= self._began_at + SPAN:
            self._turn(now, is_limited=is_limited)
        self._served += served
        self._refused += not served

    @property
    def share_refused(self) -> float:
        """Share of the requests that were refused, in this span or the one before."""
        return max(self._last_share, self._share)

    @property
    def _share(self) -> float:
        return self._refused / max(1, self._refused + self._served)

    def rate(self, now: float) -> float:
        """What the whole crawl was served, 1/s, in its best span or in this one, or `LEAST`."""
        return max(self.best_rate, self._served / max(1.0, now - self._began_at), LEAST)

    def begin_trial(self) -> None:
        """There is a common limit from here."""
        self._trial_spans = 0
        self.is_in_vain = False

    def _turn(self, now: float, *, is_limited: bool) -> None:
        self.best_rate = max(self.best_rate, self._served / (now - self._began_at))
        self._last_share = self._share
        self._trial_spans += is_limited
        self.is_in_vain = self._trial_spans > TRIAL and self._share > IN_VAIN
        self._began_at, self._served, self._refused = now, 0, 0
