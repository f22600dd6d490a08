"""What is known of a host's slots, as it travels with the host's lease.

Laws
----
* Versioned JSON with ages and durations, never instants: the next holder's clock is another.
* What cannot be read is ignored, with one warning: the host begins anew, politely.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scrapy_adaptive.core.governor import Governor
    from scrapy_adaptive.frontier.protocol import State

logger = logging.getLogger("scrapy_adaptive")

VERSION = 2
"""Of what is carried; version 1 had a pause and a few numbers of each slot, and is read too."""


def carry(governor: Governor, slots: set[str], now: float) -> State:
    """What the next holder of a host with these slots should know; `now` is monotonic."""
    found = {key: governor.state(key, now) for key in sorted(slots)}
    kept = {key: state for key, state in found.items() if state is not None}
    return {"version": VERSION, "slots": kept}


def begin(governor: Governor, host: str, state: State | None, age: float, now: float) -> None:
    """Begin with what the last holder knew, `age` seconds ago."""
    if state is None:
        return
    doubts: list[str] = []
    try:
        for key, each in _slots(state).items():
            doubts += governor.begin(key, each, age, now)
    except ValueError as error:
        doubts.append(str(error))
    if doubts:
        logger.warning(
            "the saved state of %s is ignored or bounded, it is damaged: %s", host, doubts[0]
        )


def _slots(state: Any) -> dict[str, Any]:
    """The slots of a state.

    Raises:
        ValueError: it is not what `carry` makes.
    """
    version = state.get("version") if isinstance(state, dict) else None
    if type(version) is not int or not 1 <= version <= VERSION:
        raise ValueError(f"its version is not {VERSION}")
    slots = state.get("slots")
    if not isinstance(slots, dict):
        raise ValueError("it has no table of slots")
    return slots
