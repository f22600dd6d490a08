"""What the whole crawl was served and refused, by spans of time.

Laws
----
* Requests are counted over spans of `SPAN` seconds.
"""

from __future__ import annotations

import math

FALLEN = 0.8
"""Share of the best rate at which the whole crawl was served, under which a refusal speaks against
a shared limit."""

FALLS = 4
"""Such refusals that refute it."""

IN_VAIN = 0.03
"""Share of refused requests above which a shared limit explains nothing."""

SPAN = 30.0
"""Seconds over which requests of the whole crawl are counted."""

LEAST = 1.0
"""Requests a second at which a shared limit is begun at least, as any host is."""

TRIAL = 2
"""Such spans in which a shared limit may be learned before it is judged."""


class Tally:
    """How many requests of the whole crawl were served and refused."""

    def __init__(self) -> None:
        self.best_rate = 0.0
        """The most that was served in one span, 1/s."""
        self.is_in_vain = False
        """Whether a common limit leaves as many refused as before."""
        self._began_at = -math.inf
        self._served = self._refused = 0
        self._trial_spans = 0

    def on_answer(self, now: float, *, served: bool, is_limited: bool) -> None:
        """A request was served, or refused; `is_limited` by a common limit."""
        if now >= self._began_at + SPAN:
            self._turn(now, is_limited=is_limited)
        self._served += served
        self._refused += not served

    def rate(self, now: float) -> float:
        """What the whole crawl was served, 1/s, in its best span or in this one, or `LEAST`."""
        return max(self.best_rate, self._served / max(1.0, now - self._began_at), LEAST)

    def begin_trial(self) -> None:
        """There is a common limit from here."""
        self._trial_spans = 0
        self.is_in_vain = False

    def _turn(self, now: float, *, is_limited: bool) -> None:
        self.best_rate = max(self.best_rate, self._served / (now - self._began_at))
        share = self._refused / max(1, self._refused + self._served)
        self._trial_spans += is_limited
        self.is_in_vain = self._trial_spans > TRIAL and share > IN_VAIN
        self._began_at, self._served, self._refused = now, 0, 0
