"""What a crawl remembers of its slots for the next one.

Laws
----
* A pause that still runs when the spider closes runs on in the next crawl, and so does the wait
  for a quota that is spent.
* What was learned of a site's limit is the next crawl's first guess, for a week.
* Instants are saved in wall-clock seconds: the monotonic clock of a process ends with it.
* A file that is damaged is ignored, with one warning.
"""

from __future__ import annotations

import json
import logging
import math
import os
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrapy_adaptive.core.types import Learned
from scrapy_adaptive.report import units

from . import saved_rules

if TYPE_CHECKING:
    from scrapy_adaptive.core.governor import Governor
    from scrapy_adaptive.core.limits.known import Use

logger = logging.getLogger("scrapy_adaptive")

VERSION = 2
"""Of what is written; version 1 had the pauses alone."""

STALE_AFTER = 7 * 86_400.0
"""Seconds after which what was learned is no guess any more: a week."""

NUMBERS = Learned._fields


class StateFile:
    """The file of one crawl.

    Args:
        path: the file; None where nothing is remembered.
        wall_clock: seconds since the epoch.
    """

    def __init__(self, path: Path | None, *, wall_clock: Callable[[], float] = time.time) -> None:
        self._path = path
        self._wall_clock = wall_clock
        self._known: dict[str, tuple[float, Learned]] = {}
        """What the file had said, and when it was learned."""
        self._uses: dict[str, Use] = {}
        """What had come of requests under rules."""

    def recall(self, governor: Governor, now: float) -> None:
        """Let the saved pauses run on, and begin with what was learned; `now` is monotonic."""
        if self._path is None or not self._path.exists():
            return
        try:
            saved = _checked(json.loads(self._path.read_text(encoding="utf-8")))
        except (OSError, RecursionError, ValueError) as error:
            logger.warning("%s is ignored, it is damaged: %s", self._path, error)
            return
        wall = self._wall_clock()
        self._uses = saved_rules.uses_of(saved.get(saved_rules.FIELD))
        if governor.known is not None:
            saved_rules.recall(governor.known, saved.get(saved_rules.FIELD), now, wall)
        self._known = {
            key: (entry["at"], Learned(**{name: from_json(entry[name]) for name in NUMBERS}))
            for key, entry in saved["learned"].items()
            if abs(wall - entry["at"]) <= STALE_AFTER
        }
        if self._known:
            governor.recall({key: learned for key, (_, learned) in self._known.items()})
            age = wall - min(at for at, _ in self._known.values())
            logger.info(
                "%d slots begin with what was learned up to %s ago (%s)",
                len(self._known),
                units.duration(age),
                self._path,
            )
        for key, until in saved["paused_until"].items():
            if until > wall:
                governor.slot(key, now).resume_pause(now, until - wall)

    def save(self, governor: Governor, now: float) -> None:
        """Save the pauses that still run, and what was learned."""
        if self._path is None:
            return
        wall = self._wall_clock()
        pauses = {
            slot.key: round(wall + slot.silent_until - now, 3)
            for slot in governor
            if slot.silent_until > now
        }
        learned = {
            key: {
                "at": round(self._learned_at(key, found, wall), 3),
                **{name: to_json(value) for name, value in found._asdict().items()},
            }
            for key, found in governor.learned.items()
        }
        content = {"version": VERSION, "paused_until": pauses, "learned": learned}
        if governor.known is not None:
            content[saved_rules.FIELD] = saved_rules.saved(governor.known, self._uses, now, wall)
        text = json.dumps(content)
        try:
            _replace(self._path, text)
        except OSError as error:
            logger.warning("%s is not written: %s", self._path, error)

    def _learned_at(self, key: str, learned: Learned, wall: float) -> float:
        """When this was learned: a guess that nobody used does not get younger."""
        at, known = self._known.get(key, (wall, None))
        return at if known == learned else wall


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


def to_json(value: float) -> float | None:
    """The number; None for infinity, which JSON does not know."""
    return None if value == math.inf else value


def from_json(value: float | None) -> float:
    """The number that `to_json` made this of."""
    return math.inf if value is None else float(value)


def _checked(content: Any) -> dict[str, Any]:
    """The content of a file.

    Raises:
        ValueError: it is not what `Memory.save` writes.
    """
    saved: dict[str, Any] = content if isinstance(content, dict) else {}
    version = saved.get("version")
    if type(version) is not int or not 1 <= version <= VERSION:
        raise ValueError(f"its version is not {VERSION}")
    if version == 1:
        saved = {**saved, "learned": {}}
    for name in ("paused_until", "learned"):
        if not isinstance(saved.get(name), dict):
            raise ValueError(f"{name} is not a table of slots")
    for key, until in saved["paused_until"].items():
        if not _is_number(until):
            raise ValueError(f"paused_until of {key!r} is {until!r}, not seconds since the epoch")
    for key, entry in saved["learned"].items():
        if not isinstance(entry, dict) or not _is_number(entry.get("at")) or not is_learned(entry):
            raise ValueError(f"learned of {key!r} is {entry!r}, not an instant and numbers")
    return saved


def is_learned(entry: dict[str, Any]) -> bool:
    """Whether these are the numbers of what was learned of a slot."""
    infinite = {"refused_rate", "concurrency"}
    return set(entry) >= set(NUMBERS) and all(
        (entry[name] is None and name in infinite) or _is_positive(entry[name], name)
        for name in NUMBERS
    )


def _is_positive(value: Any, name: str) -> bool:
    return _is_number(value) and (value > 0 or (value == 0 and name in ("price", "silence")))


def _is_number(value: Any) -> bool:
    return not isinstance(value, bool) and isinstance(value, (int, float)) and abs(value) < 1e12
