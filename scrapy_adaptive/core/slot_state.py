"""The whole state of one slot as JSON: what a job, a forgotten slot or a lease keeps of it.

Laws
----
* Ages and durations, never instants. At most `MOST_BYTES`, for a class of pages `MOST_OF_CLASS`:
  what is spare is left out where it would be more.
* Beside the whole state stand the few numbers of `Learned` and the pause. Another law, or another
  version of the program, begins with those.
* Nothing of it is believed before it is checked; a wait that no site may ask for is bounded.
"""

from __future__ import annotations

import json
import math
from typing import Any, TypeAlias, TypeGuard

from .breaker.breaker import Phase
from .headers.values import MAX_WAIT
from .slot import Slot
from .state.fields import checksum
from .state.reading import AFTER_DAMAGE, MOST, Clock, read_into
from .state.writing import DIGITS, written
from .types import Learned

State: TypeAlias = dict[str, Any]

MOST_BYTES = 4096
"""Of one slot, as JSON."""

MOST_OF_CLASS = 1024
"""Of the slot of a class of pages."""

STALE_AFTER = 7 * 86_400.0
"""Seconds after which what was learned is no guess any more: a week. A pause runs on."""

_MAY_BE_INFINITE = frozenset({"refused_rate", "concurrency"})
_MAY_BE_ZERO = frozenset({"price", "silence"})


def state_of(slot: Slot, fresh: Slot, now: float, *, most: int = MOST_BYTES) -> State | None:
    """What is worth keeping of a slot; None where there is nothing.

    Args:
        fresh: a new slot with the same bounds and the same law.
        now: monotonic seconds.
        most: bytes of it as JSON.
    """
    learned, paused_until = slot.learned, slot.paused_until
    if learned is None and paused_until <= now and slot.phase is Phase.CLOSED:
        return None
    state: State = {"fields": fields_of(slot)}
    if learned is not None:
        state["learned"] = {name: _number(value) for name, value in learned._asdict().items()}
    if paused_until > now:
        state["pause"] = round(paused_until - now, 3)
        state["asked"] = slot.is_pause_asked(now)
    for with_spare in (True, False):
        found = {**state, "whole": written(slot, fresh, now, with_spare=with_spare)}
        if len(json.dumps(found)) <= most:
            return found
    return state


def begin(slot: Slot, state: object, age: float, now: float) -> list[str]:
    """Give a new slot what was kept of another, `age` seconds ago.

    Returns:
        What was implausible, and is bounded now.

    Raises:
        ValueError: it is not what `state_of` makes; the slot is of no use any more.
    """
    kept = checked(state)
    age = max(0.0, age)
    clock = Clock(now, now - age)
    is_ours = kept.get("fields") == fields_of(slot) and "whole" in kept
    if is_ours and age <= STALE_AFTER:
        read_into(slot, kept["whole"], clock)
        slot.on_begun(now)
        return clock.doubts
    learned = kept.get("learned")
    if learned is not None and age <= STALE_AFTER:
        slot.recall(Learned(**{name: _infinite(value) for name, value in learned.items()}))
    left, doubts = bounded(kept.get("pause", 0.0) - age)
    if left > 0.0:
        resume = slot.resume_pause if kept.get("asked", True) else slot.pause_for
        resume(now, left)
    return doubts


def bounded(wait: float) -> tuple[float, list[str]]:
    """A wait that is left, no longer than a site may ask for; and what was wrong with it."""
    if wait <= MAX_WAIT:
        return wait, []
    return AFTER_DAMAGE, [f"a pause of {wait:.3g} s"]


def fields_of(slot: Slot) -> str:
    """Names the law of a slot and the fields that it has."""
    ceiling = type(slot.ceiling)
    return f"{ceiling.__name__.lower()} {checksum(Slot, ceiling)}"


def checked(state: object) -> State:
    """The same, if the parts that every version knows are what they should be.

    Raises:
        ValueError: they are not.
    """
    if not isinstance(state, dict):
        raise ValueError(f"{state!r} is not a table")
    pause, learned = state.get("pause", 0.0), state.get("learned")
    if not _is_number(pause) or pause < 0:
        raise ValueError(f"its pause is {pause!r}")
    if not _is_number(state.get("age", 0.0)) or state.get("age", 0.0) < 0:
        raise ValueError(f"its age is {state['age']!r}")
    if not isinstance(state.get("asked", True), bool):
        raise ValueError(f"asked is {state['asked']!r}")
    if learned is not None and not is_learned(learned):
        raise ValueError(f"what was learned is {learned!r}")
    return state


def without_robots(state: State) -> State:
    """The same, but for what robots.txt asks for: each run reads it, if it obeys it."""
    whole = state.get("whole")
    if not isinstance(whole, dict) or not isinstance(whole.get("pace"), dict):
        return state
    pace = {name: value for name, value in whole["pace"].items() if name != "crawl_delay"}
    return {**state, "whole": {**whole, "pace": pace}}


def is_learned(numbers: object) -> bool:
    """Whether these are the numbers of `Learned`."""
    if not isinstance(numbers, dict) or set(numbers) != set(Learned._fields):
        return False
    return all(_is_learned(name, value) for name, value in numbers.items())


def _is_learned(name: str, value: object) -> bool:
    if value is None:
        return name in _MAY_BE_INFINITE
    if not _is_number(value) or (name == "silence" and value > MAX_WAIT):
        return False
    return value > 0 or (value == 0 and name in _MAY_BE_ZERO)


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < MOST


def _number(value: float) -> float | None:
    """None for infinity, which JSON does not know."""
    return None if value == math.inf else float(f"{value:.{DIGITS}g}")


def _infinite(value: float | None) -> float:
    return math.inf if value is None else float(value)
