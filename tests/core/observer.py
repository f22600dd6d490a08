"""The observer beside a governor: it knows facts only, and what they allow.

Laws
----
* It hears who was sent, what came back and what the site asked for, never a decision's reason.
* Once the crawl has met a limit that its slots share, a refusal may be that limit's, and what a
  slot had learned is put aside: from then on the observer knows of sends, places and numbers only.
* What the governor may forget it forgets too; when the last request left it never forgets.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from dataclasses import dataclass, field

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize

from scrapy_adaptive.core.breaker.global_breaker import GlobalBreaker
from scrapy_adaptive.core.governor import Governor
from scrapy_adaptive.core.permit import Permit
from scrapy_adaptive.core.slot import Slot
from scrapy_adaptive.core.slot_admission import LEAST_DRAIN
from scrapy_adaptive.core.slot_config import Limits
from scrapy_adaptive.core.state.fields import SLOWEST
from scrapy_adaptive.core.types import Reason

LIMITS = st.builds(
    Limits,
    start_delay=st.sampled_from([0.0, 0.1, 1.0]),
    max_delay=st.sampled_from([60.0, 60.0, 0.2]),
    target_concurrency=st.sampled_from([1.0, 4.0, math.inf]),
    burst=st.sampled_from([1.0, 1.0, 2.5]),
    backoff_ratio=st.sampled_from([0.5, 0.8]),
    floor=st.sampled_from([0.0, 0.0, 0.3]),
    concurrency=st.integers(1, 4),
)


@dataclass
class Seen:
    """What the observer knows of one slot."""

    paused: bool = False
    """A refusal has arrived, and no probe has been accepted since."""
    was_forgotten: bool = False
    """It was forgotten while it was paused: what is left is a mere wait, or the whole pause."""
    excusable: bool = False
    """A page was found to be broken or failing in this pause: its cut may have been taken back."""
    quiet_until: float = -math.inf
    """The furthest instant the site asked for, or a breath after its last refusal."""
    epoch_at: float = -math.inf
    refused_at: float = -math.inf
    """The latest refusal that the slot heard as one."""
    left_at: float = -math.inf
    """The last send, whether or not the slot was forgotten since."""
    sent_at: float = -math.inf
    delay: float = 0.0
    """Least seconds between two sends, when it was last looked at."""
    stragglers: list[Permit] = field(default_factory=list)
    """What was out when a pause went on without it."""
    promised: int = 0
    promised_at: float = -math.inf


class Observer(RuleBasedStateMachine):
    """The memory of a crawl of six hosts by a governor that remembers one to three."""

    @initialize(
        limits=LIMITS,
        ceiling=st.sampled_from(["hold", "aimd"]),
        max_slots=st.integers(1, 3),
        global_slots=st.sampled_from([1, 2, 5, 1000]),
        cooldown=st.sampled_from([0.0, 5.0]),
        global_rate=st.sampled_from([0.0, 0.0, 2.0]),
        chances=st.lists(st.floats(0.0, 1.0, exclude_max=True), min_size=1, max_size=5),
    )
    def begin(
        self,
        limits: Limits,
        ceiling: str,
        max_slots: int,
        global_slots: int,
        cooldown: float,
        global_rate: float,
        chances: list[float],
    ) -> None:
        """Start a crawl."""
        self.now, self.limits, self.max_slots = 1000.0, limits, max_slots
        self.cuts_at_once = ceiling == "aimd"
        self.cooldown, self.global_gap = cooldown, 1.0 / global_rate if global_rate else 0.0
        self.governor = Governor(
            limits,
            global_breaker=GlobalBreaker(slots=global_slots, window=10.0, cooldown=cooldown),
            chance=itertools.cycle(chances).__next__,
            global_rate=global_rate,
            max_slots=max_slots,
            ceiling=ceiling,
        )
        self.seen = {key: Seen() for key in "abcdef"}
        self.out: list[Permit] = []
        self.ends: Counter[str] = Counter()
        self.ended_last: Permit | None = None
        self.shares_limit = False
        self.stopped, self.end_at, self.grant_at = False, -math.inf, -math.inf
        self.known: set[str] = set()
        self.looked_at = self.now

    def out_of(self, key: str) -> list[Permit]:
        """Permits of that slot that have not ended."""
        return [permit for permit in self.out if permit.key == key]

    def ended(self, pick: int, end: str) -> Permit:
        """One of the permits, which ends now."""
        self.end_at = self.now
        self.ends[end] += 1
        self.ended_last = self.out.pop(pick % len(self.out))
        return self.ended_last

    def is_drained(self, key: str) -> bool:
        """Whether all of that slot is back, or late enough to be no news any more."""
        seen = self.seen[key]
        awaited = [permit for permit in self.out_of(key) if permit not in seen.stragglers]
        return not awaited or self.now >= seen.refused_at + LEAST_DRAIN

    def check_numbers(self, slot: Slot) -> None:
        """Neither negative nor NaN, and finite where it must be."""
        assert max(self.limits.floor, slot.pace.crawl_delay) <= slot.delay < math.inf
        assert slot.rate > 0.0
        assert slot.ceiling.rate >= SLOWEST
        assert 1.0 <= slot.places <= self.limits.concurrency
        assert slot.ceiling.sure_gap >= 0.0
        assert 0.0 <= slot.ceiling.debt() < math.inf
        assert 0.0 <= slot.pace.tokens(self.now) <= slot.pace.tokens(math.inf) <= self.limits.burst
        assert 0.0 <= slot.pause.seconds(self.now) < math.inf
        assert 0.0 <= slot.pause.until < math.inf

    def check_forgotten(self, key: str) -> None:
        """A forgotten slot had nothing out and nothing promised.

        What it owed, a delay or a pause, it owes still: that is seen when it is sent to again.

        A step makes a slot before it lets time pass, so slots are forgotten as it begins.
        """
        seen, began_at = self.seen[key], self.looked_at
        assert not seen.promised
        assert not self.out_of(key)
        owed = seen.sent_at + seen.delay if self.limits.burst == 1.0 else -math.inf
        self.seen[key] = Seen(
            left_at=seen.left_at,
            quiet_until=max(seen.quiet_until, owed) if began_at < owed else seen.quiet_until,
            was_forgotten=seen.paused or seen.was_forgotten or began_at < owed,
        )

    def check_kept(self, made: set[str]) -> None:
        """Beyond the most, only what must not be forgotten is left beside the slot just made.

        A shared limit that begins in the same step ends pauses, which were there when it was made.
        """
        self.shares_limit |= self.governor.stopped_by(self.now) is Reason.CRAWL_WIDE
        if not self.shares_limit and made and len(self.governor) > self.max_slots:
            kept = [slot for slot in self.governor if slot.key not in made]
            assert not any(slot.may_be_forgotten(self.looked_at) for slot in kept)

    def look(self) -> None:
        """Remember which slots there are, and their delays."""
        self.shares_limit |= self.governor.stopped_by(self.now) is Reason.CRAWL_WIDE
        self.known = {slot.key for slot in self.governor}
        for slot in self.governor:
            self.seen[slot.key].delay = slot.delay
        self.looked_at = self.now
