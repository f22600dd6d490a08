"""A limit that all slots share: one egress, one CDN, one gateway in front of many hosts.

Laws
----
* There is one when, at the start, most slots that answered lately were refused and fewer than half
  of all requests were served.
* Where most slots were refused at their start and more was served, a few of them start again: who
  is served more than before its first refusal has no limit of its own. `shared_limit` tells.
* A common limit has a slot above all others, which learns its rate as they do; what they had
  learned is put aside. A refusal is then the whole crawl's, but where a slot alone was too fast, or
  it alone is refused again and again.
* A common limit that is refuted ends: the slots get back what they had learned. It is refuted where
  the whole crawl was refused again and again well below what it was served, and where as much is
  refused as before.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING

from .breaker.breaker import Phase
from .breaker.crawl_tally import FALLEN, FALLS, Tally
from .breaker.pause import NEVER
from .breaker.shared_limit import SharedLimit
from .diagnosis.page_classes import DOUBT, Classes
from .slot import Slot
from .slot_config import Limits
from .types import Answer, Reason

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from .ceiling.base import Ceiling
    from .permit import Permit
    from .slot import Taught
    from .slot_registry import Slots
    from .types import Blocked

KEY = "\0whole crawl"
"""Key of that slot, with a number after it; no other has such a name."""

DRAIN = 1.0
"""Most seconds for which a pause of the whole crawl waits for what is in flight: one slow host
would hold up all others."""


EACH = 0.25
"""Seconds between two looks at the slots that answered lately."""


class CrawlWide:
    """The limit above all slots, while there is one.

    Args:
        slots: distinct slots that it takes; below 2 none is looked for.
        window: seconds, what "lately" means.
        cooldown: seconds of the first pause.
        make: makes the law that learns its rate.
    """

    def __init__(
        self, *, slots: int, window: float, cooldown: float, make: Callable[[Limits], Ceiling]
    ) -> None:
        self.slot: Slot | None = None
        self.causes: tuple[str, ...] = ()
        """The slots that showed the limit."""
        self._least = slots
        self._window = window
        self._cooldown = cooldown
        self._make = make
        self._count = 0
        self._starts = SharedLimit(make)
        self._looked_at = -NEVER
        self._falls = 0
        """Refusals well below the best rate of the whole crawl."""
        self._answers: deque[tuple[float, str, bool]] = deque()
        self._tally = Tally()
        self._classes = Classes()
        self._saved: dict[str, Taught] = {}

    # Sends

    def blocked(self, now: float) -> Blocked | None:
        """Why no request of any slot may be sent, and until when."""
        return None if self.slot is None else _named(self.slot.blocked(now))

    def blocked_queued(self, now: float) -> Blocked | None:
        """Why none may leave its queue: places promised count as taken."""
        return None if self.slot is None else _named(self.slot.blocked_queued(now))

    def reserve(self, now: float) -> None:
        """A place was promised to a queued request."""
        if self.slot is not None:
            self.slot.reserve(now)

    def release(self) -> None:
        """A promise ends; it may be older than the slot."""
        if self.slot is not None and self.slot.reserved:
            self.slot.reserved -= 1

    def take(self, now: float, chance: float) -> Permit | None:
        """The permit of the whole crawl, to go with that of a slot."""
        return None if self.slot is None else self.slot.take(now, chance)

    @property
    def is_paused(self) -> bool:
        """Whether the whole crawl waits, but for one request at most."""
        return self.slot is not None and self.slot.phase is not Phase.CLOSED

    def is_overtaken(self, permit: Permit) -> bool:
        """Whether the whole crawl was refused after this permit was granted."""
        mine = self._of(permit)
        return self.slot is not None and mine is not None and self.slot.is_overtaken(mine)

    # Facts

    def on_ended(self, permit: Permit, answer: Answer | None, now: float, chance: float) -> None:
        """A request ended; `answer` where it says something of the whole crawl."""
        slot, mine = self.slot, self._of(permit)
        if slot is None or mine is None:
            return
        if answer is None:
            slot.on_lost(mine)
        else:
            bare = Answer(answer.outcome, answer.latency, may_lower=False)
            slot.on_answer(mine, bare, now, chance)

    def on_answer(self, key: str, now: float, *, served: bool) -> None:
        """A slot was served, or refused."""
        answers = self._answers
        answers.append((now, key, served))
        while answers[0][0] <= now - self._window:
            answers.popleft()
        self._tally.on_answer(now, served=served, is_limited=self.slot is not None)
        if served and self.slot is not None:
            self._classes.on_accepted(key)

    def is_met_first(self, slot: Slot, permit: Permit, now: float) -> bool:
        """Weigh a refusal of a slot, while there is no common limit; whether it shows one."""
        if self.slot is not None or self._least < 2 or permit.host is not None:
            return False
        self._starts.on_refused(slot, permit, now)
        return not self._count and self._is_everywhere

    def is_found_out(self, slot: Slot, permit: Permit, now: float) -> bool:
        """A slot was served: look at the tests; whether they show a common limit."""
        if self.slot is not None or self._least < 2 or permit.host is not None:
            return False
        starts = self._starts
        starts.on_served(slot, permit, now)
        may_test = starts.may_test(slot, now)
        if not (may_test or starts.is_shown) or now < self._looked_at + EACH:
            return False
        self._looked_at = now
        lately = self._lately
        if len(starts.refused(lately)) < max(self._least, len(lately) // 2 + 1):
            return False
        if may_test:
            starts.begin_test(slot, now)
        return starts.is_shown

    def end_test(self, key: str | None = None) -> None:
        """A host that has started again gets back what it had learned, to be kept.

        Args:
            key: that of the host; None for whichever it is.
        """
        self._starts.end_test(key)

    @property
    def _lately(self) -> set[str]:
        """The slots that answered lately."""
        return {key for _, key, _ in self._answers}

    @property
    def _is_everywhere(self) -> bool:
        """Whether most slots that answered lately were refused, and fewer than half were served."""
        answers = self._answers
        if 2 * sum(served for _, _, served in answers) >= len(answers):
            return False
        refused = self._starts.refused({key for _, key, served in answers if not served})
        return len(refused) >= max(self._least, len(self._lately) // 2 + 1)

    def begin(self, slots: Iterable[Slot], now: float) -> None:
        """The limit is a common one: pause, and learn its rate."""
        limits = replace(_UNBOUND, start_delay=1.0 / self._tally.rate(now))
        self._count += 1
        self.causes = tuple(sorted(self._starts.refused(self._lately)))
        self.end_test()
        self.slot = Slot(f"{KEY} {self._count}", limits, self._make(limits), now, drain=DRAIN)
        self.slot.pace.latency_delay = 0.0
        self.slot.pause_for(now, self._cooldown)
        self._classes = Classes()
        self._tally.begin_trial()
        self._falls = 0
        self._saved = {slot.key: slot.begin_anew(self._make(slot.limits), now) for slot in slots}

    def is_met(self, slot: Slot, key: str, permit: Permit) -> bool:
        """Whether a refusal of a slot is the whole crawl's, and not its own.

        Args:
            key: the slot, or that of its host.
        """
        crawl, mine = self.slot, self._of(permit)
        if crawl is None:
            return False
        if mine is None or not crawl.is_news(mine):
            return True
        is_held = not (mine.paced and crawl.tried(mine))
        if permit.paced and slot.tried(permit) and is_held:
            return False
        return self._classes.on_epoch(key) >= DOUBT

    def is_refuted(self, permit: Permit) -> bool:
        """Whether there is no common limit after all, now that this request met it."""
        slot, mine = self.slot, self._of(permit)
        if slot is None:
            return False
        if mine is not None and not mine.probe and slot.is_news(mine):
            self._falls += slot.rate < FALLEN * self._tally.best_rate
        return self._tally.is_in_vain or self._falls >= FALLS

    def end(self, slots: Slots) -> None:
        """There is no common limit: the slots get back what they had learned."""
        self.slot = None
        self._starts = SharedLimit(self._make)
        self._tally = Tally()
        self._answers.clear()
        for key, taught in self._saved.items():
            if key in slots:
                slots[key].take_up(taught)
        self._saved = {}

    def _of(self, permit: Permit) -> Permit | None:
        """The whole crawl's permit for this request, if that slot is still there."""
        if self.slot is None or permit.crawl is None or permit.crawl.key != self.slot.key:
            return None
        return permit.crawl


_UNBOUND = Limits(target_concurrency=1e9, concurrency=1_000_000)
"""Nothing but its ceiling bounds the whole crawl. With N so large latency asks for no delay, and
its scatter from host to host is not taken for a site that gets slow."""


def _named(blocked: Blocked | None) -> Blocked | None:
    """The same, and that it holds the whole crawl."""
    return None if blocked is None else blocked._replace(reason=Reason.CRAWL_WIDE)
