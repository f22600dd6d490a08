"""Slots that are not there, and what is still known of them.

Laws
----
* Of a slot that was paused the instant that ends its pause is kept until it has come, however many
  there are: none of them is asked again before.
* The states of at most so many others are kept, as text: the first guess when they come again.
"""

from __future__ import annotations

import json
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from .types import Blocked, Reason

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .slot_state import State

FEW = 1000
"""Instants that are kept before those that have come are looked for."""


class WhyPaused(Enum):
    """Why nothing is sent to such a slot."""

    PARKED = "parked"
    """Its site asked for a longer pause than the user wants to sit through."""
    ASKED = "asked"
    """Its site asked for it."""
    OWN = "own"
    """A refusal, without a word of the site."""


class LastingPause(NamedTuple):
    """A pause that is not over."""

    until: float
    """Monotonic seconds."""
    why: WhyPaused

    @property
    def blocked(self) -> Blocked:
        """Why nothing may be sent."""
        is_parked = self.why is WhyPaused.PARKED
        return Blocked(self.until, Reason.PARKED if is_parked else Reason.PAUSED)


class Kept(NamedTuple):
    """The state of a slot."""

    state: State
    at: float
    """The monotonic second at which it was that."""


class Forgotten:
    """What is known of slots that are not there.

    Args:
        most: states that are kept; the one kept longest is given up first.
    """

    __slots__ = ("_most", "_paused", "_pruned_at", "_states")

    def __init__(self, most: int) -> None:
        self._most = most
        self._paused: dict[WhyPaused, dict[str, float]] = {why: {} for why in WhyPaused}
        """The instants alone: a hostile site has more hosts than there are slots."""
        self._states: dict[str, tuple[str, float, float]] = {}
        self._pruned_at = FEW

    def __contains__(self, key: str) -> bool:
        return key in self._states or any(key in each for each in self._paused.values())

    def __iter__(self) -> Iterator[str]:
        keys = dict.fromkeys(self._states)
        for each in self._paused.values():
            keys.update(dict.fromkeys(each))
        return iter(keys)

    def lasting_pause(self, key: str, now: float) -> LastingPause | None:
        """The longest pause of that slot, if it is not over."""
        found = [LastingPause(at[key], why) for why, at in self._paused.items() if key in at]
        longest = max(found, key=lambda pause: pause.until, default=None)
        return longest if longest is not None and now < longest.until else None

    def parked(self, now: float) -> dict[str, float]:
        """Slots that are parked, and until when."""
        return {key: at for key, at in self._paused[WhyPaused.PARKED].items() if now < at}

    def keep(self, key: str, state: State, at: float, ready_at: float = 0.0) -> None:
        """Keep the state of a slot that is not there, and may send from `ready_at` on."""
        self._states.pop(key, None)
        self._states[key] = (json.dumps(state, separators=(",", ":")), at, ready_at)

    def keep_paused(self, key: str, pause: LastingPause, now: float) -> None:
        """Keep the instant that ends its pause, unless a later one is known."""
        instants = self._paused[pause.why]
        instants[key] = max(pause.until, instants.get(key, pause.until))
        if sum(map(len, self._paused.values())) > self._pruned_at:
            self._prune(now)

    def bound(self, now: float) -> None:
        """Give up what is more than may be kept, but for the instants from which they may send."""
        while len(self._states) > self._most:
            key = next(iter(self._states))
            _, _, ready_at = self._states.pop(key)
            if ready_at > now:
                pause = self.lasting_pause(key, now)
                why = WhyPaused.OWN if pause is None else pause.why
                self.keep_paused(key, LastingPause(ready_at, why), now)

    def kept(self, key: str) -> Kept | None:
        """The state of that slot."""
        found = self._states.get(key)
        return None if found is None else Kept(json.loads(found[0]), found[1])

    def remove(self, key: str) -> None:
        """It is there again."""
        self._states.pop(key, None)
        for instants in self._paused.values():
            instants.pop(key, None)

    def _prune(self, now: float) -> None:
        """Forget the instants that have come, once as many were added as were left."""
        for why, instants in self._paused.items():
            self._paused[why] = {key: at for key, at in instants.items() if now < at}
        self._pruned_at = max(FEW, 2 * sum(map(len, self._paused.values())))
