"""Whether hosts that were refused at their start share one limit.

Laws
----
* Hosts that were all refused at their start may each have a limit of their own, or share one.
* A limit of its own never serves a host more pages in the same time than before its first refusal,
  when nothing of the limit was used up. Who was served more was refused because of the others.
* To find out, some of them start again, one after the other, while the others keep their pace.
"""

from __future__ import annotations

import math
from collections import deque
from typing import TYPE_CHECKING

from .pause import NEVER

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy_adaptive.core.ceiling.base import Ceiling
    from scrapy_adaptive.core.permit import Permit
    from scrapy_adaptive.core.slot import Slot
    from scrapy_adaptive.core.slot_config import Limits

YOUNG = 20
"""Pages up to which a host is at its start."""

MORE = 1.25
"""Times as many pages in the same time as before the first refusal, and one."""

ON_TIME = 0.9
"""Share of that time: requests do not arrive at even gaps."""

REFUTED = 2
"""Hosts whose own limits have to be refuted."""

TESTS = 6
"""Hosts that start again, at most: each may cost one refusal."""

SETTLED = 2.0
"""Seconds without a refusal before one of them does."""

LONGEST = 20.0
"""Seconds after which it has shown nothing: too little is asked of that host."""

MOST = 1000
"""Hosts whose starts are kept, at most."""


class _Start:
    """What a host was served up to its first refusal, and what it was served lately.

    Nobody knows at which of its pages the limit was last unused, so each is asked: from there to
    the refusal a limit of its own allows no more.

    Args:
        sent: the instants at which its pages were sent.
        refused_at: that of the refused one.
    """

    __slots__ = ("_lately", "_open")

    def __init__(self, sent: list[float], refused_at: float) -> None:
        count = len(sent)
        self._open = [
            (1 + math.ceil(MORE * (count - at)), ON_TIME * (refused_at - sent_at))
            for at, sent_at in enumerate(sent)
        ]
        """Pages, and seconds in which so many were not served yet, from each of them."""
        self._lately: deque[float] = deque(maxlen=1 + math.ceil(MORE * count))

    def is_refuted(self, sent_at: float) -> bool:
        """Count a page that was served; whether there were too many for a limit of its own."""
        if not self._open:
            return False
        lately = self._lately
        lately.append(sent_at)
        self._open = [
            (pages, seconds)
            for pages, seconds in self._open
            if pages > len(lately) or sent_at - lately[-pages] > seconds
        ]
        return not self._open


class SharedLimit:
    """What the starts of hosts say of a limit that they share.

    Args:
        make: makes the law that a host starts again with.
    """

    def __init__(self, make: Callable[[Limits], Ceiling]) -> None:
        self._make = make
        self._sent: dict[str, list[float]] = {}
        """When the pages of hosts were sent that are at their start."""
        self._starts: dict[str, _Start] = {}
        self._refuted: set[str] = set()
        self._tested: set[str] = set()
        self._slot: Slot | None = None
        """The host that has started again."""
        self._lent: Ceiling | None = None
        """What it had learned before."""
        self._is_over = False
        """Whether it is known what became of it; it gets that back once it is at ease."""
        self._since = self._refused_at = -NEVER

    @property
    def is_shown(self) -> bool:
        """Whether there is a shared limit."""
        return len(self._refuted) >= REFUTED

    def refused(self, hosts: set[str]) -> set[str]:
        """Those of them that were refused at their start."""
        return self._starts.keys() & hosts

    def on_served(self, slot: Slot, permit: Permit, now: float) -> None:
        """A page of a host was served."""
        key, start = slot.key, self._starts.get(slot.key)
        if start is not None:
            if start.is_refuted(permit.sent_at):
                self._refuted.add(key)
                self._is_over |= slot is self._slot
        elif slot.accepted_count <= YOUNG:
            self._sent.setdefault(key, []).append(permit.sent_at)
            if len(self._sent) > MOST:
                del self._sent[next(iter(self._sent))]
        else:
            self._sent.pop(key, None)
        if self._slot is not None:
            self._is_over |= now > self._since + LONGEST
            if self._is_over and self._slot.is_at_ease:
                self.end_test()

    def on_refused(self, slot: Slot, permit: Permit, now: float) -> None:
        """A request was refused."""
        sent = self._sent.pop(slot.key, [])
        is_start = slot.accepted_count <= YOUNG and not slot.ceiling.held_rate
        if is_start and slot.key not in self._starts and len(self._starts) < MOST:
            self._starts[slot.key] = _Start(sent, permit.sent_at)
        self._refused_at = now
        self._is_over |= slot is self._slot

    def may_test(self, slot: Slot, now: float) -> bool:
        """Whether this host may start again, to find out."""
        if self._slot is not None or slot.key not in self._starts or len(self._tested) >= TESTS:
            return False
        is_new = slot.key not in self._tested and slot.key not in self._refuted
        return is_new and slot.is_at_ease and now > self._refused_at + SETTLED

    def begin_test(self, slot: Slot, now: float) -> None:
        """This host starts again."""
        self._tested.add(slot.key)
        self._slot, self._since = slot, now
        self._lent, self._is_over = slot.swap(self._make(slot.limits)), False

    def end_test(self, key: str | None = None) -> None:
        """The host that has started again gets back what it had learned, if it is this one, or
        whichever it is."""
        if self._slot is None or self._lent is None or key not in (None, self._slot.key):
            return
        self._slot.swap(self._lent)
        self._slot = self._lent = None
