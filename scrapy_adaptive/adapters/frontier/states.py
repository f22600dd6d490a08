"""What is known of a host's slots, as it travels with the host's lease.

One seam: whatever else of a slot is to travel is added here, in `carry` and `begin`.

Laws
----
* Versioned JSON; durations in seconds, never instants: the next holder's clock is another.
* What cannot be read is ignored, with one warning: the host begins anew, politely.
"""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING, Any

from scrapy_adaptive.adapters.state_file import STALE_AFTER, from_json, is_learned, to_json
from scrapy_adaptive.core.types import Learned

if TYPE_CHECKING:
    from scrapy_adaptive.core.governor import Governor
    from scrapy_adaptive.frontier.protocol import State

logger = logging.getLogger("scrapy_adaptive")

VERSION = 1


def carry(governor: Governor, slots: set[str], now: float) -> State:
    """What the next holder of a host with these slots should know; `now` is monotonic."""
    kept: dict[str, Any] = {}
    for key in sorted(slots):
        if key not in governor:
            continue
        slot = governor.slot(key, now)
        entry: dict[str, Any] = {}
        if slot.silent_until > now:
            entry["pause"] = round(slot.silent_until - now, 3)
        learned = slot.learned
        if learned is not None:
            entry["learned"] = {name: to_json(each) for name, each in learned._asdict().items()}
        if entry:
            kept[key] = entry
    return {"version": VERSION, "slots": kept}


def begin(governor: Governor, host: str, state: State | None, age: float, now: float) -> None:
    """Begin with what the last holder knew, `age` seconds ago."""
    if state is None:
        return
    try:
        slots = _checked(state)
    except ValueError as error:
        logger.warning("the saved state of %s is ignored, it is damaged: %s", host, error)
        return
    for key, entry in slots.items():
        learned = entry.get("learned")
        if learned is not None and age < STALE_AFTER and key not in governor:
            values = {name: from_json(learned[name]) for name in Learned._fields}
            governor.recall({key: Learned(**values)})
        left = entry.get("pause", 0.0) - age
        if left > 0:
            governor.slot(key, now).resume_pause(now, left)


def _checked(state: Any) -> dict[str, Any]:
    """The slots of a state.

    Raises:
        ValueError: it is not what `carry` makes.
    """
    if not isinstance(state, dict) or state.get("version") != VERSION:
        raise ValueError(f"its version is not {VERSION}")
    slots = state.get("slots")
    if not isinstance(slots, dict):
        raise ValueError("it has no table of slots")
    for key, entry in slots.items():
        if not isinstance(entry, dict):
            raise ValueError(f"slot {key!r} is no table")
        pause, learned = entry.get("pause", 0.0), entry.get("learned")
        if (
            isinstance(pause, bool)
            or not isinstance(pause, (int, float))
            or not (0 <= pause < math.inf)
        ):
            raise ValueError(f"the pause of {key!r} is {pause!r}")
        if learned is not None and not (isinstance(learned, dict) and is_learned(learned)):
            raise ValueError(f"what was learned of {key!r} is {learned!r}")
    return slots
