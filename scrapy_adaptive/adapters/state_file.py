"""What a crawl remembers of its slots for the next one.

Laws
----
* What is known of a slot is saved whole, with the age of all that is in it. What was learned of a
  site's limit is used again for a week. A pause that still runs runs on in the next crawl, and so
  does the wait for a quota that is spent.
* The one instant in the file is that at which it was written, in wall-clock seconds: the monotonic
  clock of a process ends with it. A wall clock that was set back since adds nothing to a wait.
* It is written at the end of a crawl, and when a long pause begins: the crawl may be killed in it.
* A file that is damaged is ignored, and so is what is wrong with one slot, with one warning. A wait
  that no site may ask for is bounded. Files of the versions before are read.
"""

from __future__ import annotations

import json
import logging
import math
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrapy_adaptive.core.slot_state import is_learned
from scrapy_adaptive.report import units

from . import saved_rules

if TYPE_CHECKING:
    from scrapy_adaptive.core.governor import Governor
    from scrapy_adaptive.core.limits.uses import Use
    from scrapy_adaptive.core.slot_state import State

logger = logging.getLogger("scrapy_adaptive")

VERSION = 3
"""Of what is written; version 1 had the pauses alone, version 2 a few numbers beside them."""


SAVE_EACH = 5.0
"""Seconds between two saves while the crawl goes on, at least, and of a pause that is worth one."""


SHARE = 0.02
"""Share of the time that these saves may take."""

MOST_SLOTS = 500
"""Slots of a crawl that is saved while it goes on: a save takes a quarter of a second, in which
nothing else happens."""


class StateFile:
    """The file of one crawl.

    Args:
        path: the file; None where nothing is remembered.
        wall_clock: seconds since the epoch.
    """

    def __init__(self, path: Path | None, *, wall_clock: Callable[[], float] = time.time) -> None:
        self._path = path
        self._wall_clock = wall_clock
        self._uses: dict[str, Use] = {}
        """What had come of requests under rules."""
        self._next_at = -math.inf
        self._is_stale = False
        """Whether a pause that is worth a save has begun since the last one."""

    def recall(self, governor: Governor, now: float) -> None:
        """Let the saved pauses run on, and begin with what was learned; `now` is monotonic."""
        if self._path is None or not self._path.exists():
            return
        wall = self._wall_clock()
        try:
            saved = _checked(json.loads(self._path.read_text(encoding="utf-8")))
        except (OSError, RecursionError, ValueError) as error:
            logger.warning("%s is ignored, it is damaged: %s", self._path, error)
            return
        self._uses = saved_rules.uses_of(saved.get(saved_rules.FIELD))
        if governor.known is not None:
            saved_rules.recall(governor.known, saved.get(saved_rules.FIELD), now, wall)
        ages, doubts = [], []
        for key, state, age in _states(saved, wall):
            try:
                doubts += [f"{key}: {doubt}" for doubt in governor.begin(key, state, age, now)]
            except ValueError as error:
                doubts.append(f"{key}: {error}")
            else:
                ages += [age] if "learned" in state else []
        self._log(ages, doubts)

    def _log(self, ages: list[float], doubts: list[str]) -> None:
        if doubts:
            logger.warning(
                "%s: what was saved of %d slots is implausible, and is ignored or bounded; the "
                "first is %s",
                self._path,
                len(doubts),
                doubts[0],
            )
        if ages:
            logger.info(
                "%d slots begin with what was learned up to %s ago (%s)",
                len(ages),
                units.duration(max(ages)),
                self._path,
            )

    def on_paused(self, governor: Governor, now: float, seconds: float) -> None:
        """A slot is paused for so many seconds."""
        self._is_stale |= self._path is not None and seconds >= SAVE_EACH
        self.tick(governor, now)

    def tick(self, governor: Governor, now: float) -> None:
        """Save what has begun since the file was written, if that was long enough ago."""
        if self._is_stale and now >= self._next_at and len(governor) <= MOST_SLOTS:
            began_at = time.perf_counter()
            self.save(governor, now)
            took = time.perf_counter() - began_at
            self._next_at = now + max(SAVE_EACH, took / SHARE)

    def save(self, governor: Governor, now: float) -> None:
        """Save the pauses that still run, and what was learned."""
        self._is_stale = False
        if self._path is None:
            return
        wall = self._wall_clock()
        content = {"version": VERSION, "at": round(wall, 3), "slots": governor.states(now)}
        if governor.known is not None:
            content[saved_rules.FIELD] = saved_rules.saved(governor.known, self._uses, now, wall)
        text = json.dumps(content, separators=(",", ":"))
        try:
            _replace(self._path, text)
        except OSError as error:
            logger.warning("%s is not written: %s", self._path, error)


def _replace(path: Path, text: str) -> None:
    """Write the file whole or not at all, by way of a new file beside it that is nobody's."""
    number, name = tempfile.mkstemp(prefix=f".{path.name}-", suffix=".tmp", dir=path.parent)
    fresh = Path(name)
    try:
        with os.fdopen(number, "w", encoding="utf-8") as file:
            file.write(text)
        fresh.chmod(path.stat().st_mode if path.exists() else 0o666 & ~_umask())
        fresh.replace(path)
    except BaseException:
        with suppress(OSError):
            fresh.unlink()
        raise


def _umask() -> int:
    """What new files are not allowed; it can only be read by setting it."""
    found = os.umask(0o077)
    os.umask(found)
    return found


def _states(saved: dict[str, Any], wall: float) -> Iterator[tuple[str, State, float]]:
    """The state of each slot, and the seconds since it was that."""
    if saved["version"] == VERSION:
        age = max(0.0, wall - saved["at"])
        yield from ((key, state, age) for key, state in saved["slots"].items())
        return
    pauses, learned = saved["paused_until"], saved.get("learned", {})
    for key in {**pauses, **learned}:
        at, numbers = wall, {}
        if key in learned:
            at = learned[key]["at"]
            numbers = {name: value for name, value in learned[key].items() if name != "at"}
        pause = max(0.0, pauses.get(key, 0.0) - min(at, wall))
        yield key, {"learned": numbers, "pause": pause} if numbers else {"pause": pause}, wall - at


def _checked(content: Any) -> dict[str, Any]:
    """The content of a file.

    Raises:
        ValueError: it is not what `StateFile.save` writes, nor what earlier versions wrote.
    """
    saved: dict[str, Any] = content if isinstance(content, dict) else {}
    version = saved.get("version")
    if type(version) is not int or not 1 <= version <= VERSION:
        raise ValueError(f"its version is not {VERSION}")
    if version == VERSION:
        if not _is_number(saved.get("at")) or not isinstance(saved.get("slots"), dict):
            raise ValueError("it has no instant, or no table of slots")
        if not all(isinstance(state, dict) for state in saved["slots"].values()):
            raise ValueError("a slot is no table")
        return saved
    _check_former(saved, version)
    return saved


def _check_former(saved: dict[str, Any], version: int) -> None:
    for name in ("paused_until", "learned")[:version]:
        if not isinstance(saved.get(name), dict):
            raise ValueError(f"{name} is not a table of slots")
    for key, until in saved["paused_until"].items():
        if not _is_number(until):
            raise ValueError(f"paused_until of {key!r} is {until!r}, not seconds since the epoch")
    for key, entry in saved.get("learned", {}).items():
        is_table = isinstance(entry, dict) and _is_number(entry.get("at"))
        numbers = {name: each for name, each in entry.items() if name != "at"} if is_table else {}
        if not is_learned(numbers):
            raise ValueError(f"learned of {key!r} is {entry!r}, not an instant and numbers")


def _is_number(value: Any) -> bool:
    return not isinstance(value, bool) and isinstance(value, (int, float)) and abs(value) < 1e12
