"""Slots that are not there, and what is still known of them.

Laws
----
* Of a slot that was silent its instant is kept until that has come, however many there are: none of
  them is asked again before.
* The states of at most so many others are kept, as text: the first guess when they come again.
"""

from __future__ import annotations

import json
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from .types import Hold, Reason

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .slot_state import State

FEW = 1000
"""Instants that are kept before those that have come are looked for."""


class Silence(Enum):
    """Why nothing is sent to such a slot."""

    PARKED = "parked"
    """Its site asked for a longer silence than the user wants to sit through."""
    ASKED = "asked"
    """Its site asked for it."""
    OWN = "own"
    """A refusal, without a word of the site."""


class Silent(NamedTuple):
    """A silence that lasts."""

    until: float
    """Monotonic seconds."""
    why: Silence

    @property
    def hold(self) -> Hold:
        """Why nothing may be sent."""
        is_parked = self.why is Silence.PARKED
        return Hold(self.until, Reason.PARKED if is_parked else Reason.PAUSED)


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

    __slots__ = ("_most", "_pruned_at", "_silent", "_states")

    def __init__(self, most: int) -> None:
        self._most = most
        self._silent: dict[Silence, dict[str, float]] = {why: {} for why in Silence}
        """The instants alone: a hostile site has more hosts than there are slots."""
        self._states: dict[str, tuple[str, float, float]] = {}
        self._pruned_at = FEW

    def __contains__(self, key: str) -> bool:
        return key in self._states or any(key in each for each in self._silent.values())

    def __iter__(self) -> Iterator[str]:
        keys = dict.fromkeys(self._states)
        for each in self._silent.values():
            keys.update(dict.fromkeys(each))
        return iter(keys)

    def silent(self, key: str, now: float) -> Silent | None:
        """The longest silence of that slot, if it lasts."""
        found = [Silent(at[key], why) for why, at in self._silent.items() if key in at]
        longest = max(found, key=lambda silent: silent.until, default=None)
        return longest if longest is not None and now < longest.until else None

    def parked(self, now: float) -> dict[str, float]:
        """Slots that are parked, and until when."""
        return {key: at for key, at in self._silent[Silence.PARKED].items() if now < at}

    def keep(self, key: str, state: State, at: float, ready_at: float = 0.0) -> None:
        """Keep the state of a slot that is no more, or not yet there, and may send then."""
        self._states.pop(key, None)
        self._states[key] = (json.dumps(state, separators=(",", ":")), at, ready_at)

    def keep_silent(self, key: str, silent: Silent, now: float) -> None:
        """Keep the instant that ends its silence, unless a later one is known."""
        instants = self._silent[silent.why]
        instants[key] = max(silent.until, instants.get(key, silent.until))
        if sum(map(len, self._silent.values())) > self._pruned_at:
            self._prune(now)

    def bound(self, now: float) -> None:
        """Give up what is more than may be kept, but for the instants from which they may send."""
        while len(self._states) > self._most:
            key = next(iter(self._states))
            _, _, ready_at = self._states.pop(key)
            if ready_at > now:
                silent = self.silent(key, now)
                why = Silence.OWN if silent is None else silent.why
                self.keep_silent(key, Silent(ready_at, why), now)

    def kept(self, key: str) -> Kept | None:
        """The state of that slot."""
        found = self._states.get(key)
        return None if found is None else Kept(json.loads(found[0]), found[1])

    def remove(self, key: str) -> None:
        """It is there again."""
        self._states.pop(key, None)
        for instants in self._silent.values():
            instants.pop(key, None)

    def _prune(self, now: float) -> None:
        """Forget the instants that have come, once as many were added as were left."""
        for why, instants in self._silent.items():
            self._silent[why] = {key: at for key, at in instants.items() if now < at}
        self._pruned_at = max(FEW, 2 * sum(map(len, self._silent.values())))
