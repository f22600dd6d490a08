"""A trial of a faster rate: does it raise the share of refusals?

Laws
----
* Whether refusals depend on the rate is asked by going faster, never by going slower: a limit that
  is exceeded by a seventh shows within a few pages.
* What was thought before it is kept as the fallback: if the rate is to blame, all goes on from
  there; if it is not, what was refused is noise, and the upper bound is void.

**Source**: A. Wald, Sequential Tests of Statistical Hypotheses, 1945.
"""

from __future__ import annotations

import math
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from scrapy_adaptive.core.state.fields import Amount, Range, Seconds

from .epoch import MINUTE, Verdict
from .noise import CLUSTER, MOST, Noise, excess
from .windows import unit_above

if TYPE_CHECKING:
    from collections.abc import Collection

    from .bracket import Bracket
    from .epoch import Epoch
    from .state import State

FASTER = 1.15
"""How much faster a trial goes, as a multiple of the rate that was refused."""

MUCH_FASTER = 2.5
"""The same, where refusals come so often that what the site saves up in their pauses would hide
a smaller difference."""

SURE = 8.0
"""Log likelihood ratio from which a trial is believed that the rate is not to blame."""

BLAMED = 5.0
"""The same, that it is: this costs little if it was wrong."""


@dataclass(slots=True)
class Trial:
    """A trial of a faster rate: would refusals come more often?"""

    hits: Annotated[int, Range(1)]
    """Refusals at the slower rate."""
    pages: Annotated[int, Range(1)]
    """Requests at the slower rate."""
    faster: Annotated[float, Range(1.0)]
    """The faster rate, as a multiple of the slower one."""
    saved: Amount
    """Requests for which what the site saves up in a pause may last: they prove nothing."""
    free: Amount
    """Those of them, or at first of a window, that are left."""
    gap: Seconds
    """Mean seconds between two requests at the slower rate: more than it says where the crawler
    was late."""
    wait: Seconds
    """Seconds of the wait after the last refusal at the slower rate."""
    found: int = 0
    """Refusals here."""
    of: int = 0
    """Requests here."""
    evidence: Annotated[float, Range(-SURE, BLAMED)] = 0.0
    """Log likelihood ratio that the rate is to blame."""

    def after_reading(self, names: Collection[str]) -> None:
        """Refuse a pace and a gap that no trial can have.

        Raises:
            ValueError: there is such a one.
        """
        if not (1.0 < self.faster < math.inf and self.gap > 0.0):
            raise ValueError(f"Trial has {self.faster} and {self.gap}")

    @property
    def ratio(self) -> float:
        """Share that was refused at the slower rate, as far as it may be noise."""
        return min(self.hits / self.pages, MOST)

    @property
    def is_excess(self) -> bool:
        """Whether the faster rate was refused more often than the slower one, beyond chance: the
        limit may lie between what both had served."""
        return excess(self.found, self.of, self.hits, self.pages) > CLUSTER

    @classmethod
    def begin(
        cls,
        hits: int,
        pages: int,
        *,
        gap: float,
        wait: float,
        faster: float,
        saved: float,
        window: float,
    ) -> Trial:
        """Go faster.

        Args:
            gap: mean seconds between two requests at the slower rate.
            wait: seconds of the wait after the last refusal at the slower rate.
            faster: the faster rate, as a multiple of the slower one, > 1.
            saved: requests that the site may have saved up in the pause.
            window: requests that a window, known or possible, may serve before it refuses any.
        """
        saved /= 1.0 - 1.0 / faster
        return cls(hits, max(1, pages), faster, saved, max(window, saved), gap, wait)

    def on_served(self, gap: float) -> bool:
        """A request was served at the faster rate; returns whether the trial is over, then.

        It counts by what it took beyond the slower rate, and no more than the trial asks for: one
        that left late proves less, or takes back what others have proven.

        Args:
            gap: seconds since the request before.
        """
        self.of += 1
        beyond = min(1.0, (1.0 - gap / self.gap) / (1.0 - 1.0 / self.faster))
        self.free = min(max(self.free, self.saved), self.free - beyond)
        if self.free < 0.0:
            self.evidence = max(-SURE, self.evidence + self.free * math.log(self.faster))
            self.free = 0.0
        hits, pages = self.hits + self.found, self.pages + self.of
        return self.evidence == -SURE and hits <= MOST * pages

    def on_refused(self, served: int, wait: float, outage: float) -> bool:
        """A request was refused at the faster rate; returns whether the rate is to blame.

        At the limit, the faster rate has what is beyond it refused. It is to blame as well where
        the wait grows by the time that it had saved: the site asks for what is left of a window.

        Args:
            served: requests since the pause before.
            wait: seconds of the wait after this refusal.
            outage: seconds from the refusal to the recovery: what the site saves up in them proves
                nothing.
        """
        saved = served * self.gap * (1.0 - 1.0 / self.faster)
        if wait > self.wait + 0.5 * saved:
            return True
        self.found += 1
        self.of += 1
        self.saved = outage / self.gap / (1.0 - 1.0 / self.faster)
        self.free = max(self.free, self.saved)
        beyond = 1.0 - (1.0 - self.ratio) / self.faster
        self.evidence += math.log(beyond / self.ratio)
        return self.evidence >= BLAMED


def begin_trial(state: State, epoch: Epoch, faster: float, least: float) -> Verdict:
    """Would a faster rate be refused more often? If it would, the limit is no less than `least`."""
    bracket = state.bracket
    rate = max(faster * epoch.rate, bracket.best)
    unit = unit_above(state.quiet) if epoch.recovery.announced else 0.0
    state.fallback = before = copy(bracket)
    before.lo, before.cuts, before.best = 0.0, 0, 0.0
    before.enclose(epoch, least, state.noise.unexpected(bracket.served))
    state.trial = Trial.begin(
        state.hits,
        state.series,
        gap=epoch.gap,
        wait=epoch.recovery.waited,
        faster=rate / epoch.rate,
        saved=epoch.outage * epoch.rate,
        window=(bracket.unit or unit or min(state.quiet, MINUTE)) * epoch.rate,
    )
    return Verdict(rate)


def by_trial(state: State, epoch: Epoch) -> Verdict | None:
    """It came while a faster rate was tried."""
    trial, before = state.trial, state.fallback
    if trial is None or before is None:
        return None
    waited = epoch.recovery.waited
    if epoch.is_alone and not trial.on_refused(epoch.served, waited, epoch.outage):
        return Verdict(state.bracket.rate, is_new=False)
    return blame(state, before)


def end_trial(state: State, now: float, trial: Trial) -> None:
    """It has lasted long enough: the faster rate was refused more often, or it is noise."""
    bracket, before = state.bracket, state.fallback
    if before is not None and trial.is_excess:
        state.move(now, blame(state, before).rate)
        return
    state.noise = Noise.found(trial.hits + trial.found, trial.pages + trial.of)
    state.trial = state.fallback = None
    bracket.cuts = 0
    bracket.lift()
    state.move(now, bracket.rate)


def blame(state: State, before: Bracket) -> Verdict:
    """A trial has shown that the rate is to blame: back to what was thought before it."""
    state.trial = state.fallback = None
    state.series = state.hits = 0
    state.bracket = before
    return Verdict(before.lo)
