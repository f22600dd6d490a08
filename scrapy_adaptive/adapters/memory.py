"""What a job remembers of its slots from one run to the next.

Laws
----
* A pause that still runs when the spider closes runs on in the next run of the same job.
* Instants are saved in wall-clock seconds: the monotonic clock of a process ends with it.
* A file that is damaged is ignored, with one warning.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrapy_adaptive.core.breaker import Phase

if TYPE_CHECKING:
    from scrapy_adaptive.core.governor import Governor

logger = logging.getLogger("scrapy_adaptive")

FILE = "adaptive.json"
"""Name of the file in the job's folder."""

VERSION = 1


class Memory:
    """The file in a job's folder.

    Args:
        jobdir: the job's folder; without one nothing is remembered.
        wall_clock: seconds since the epoch.
    """

    def __init__(self, jobdir: str | None, *, wall_clock: Callable[[], float] = time.time) -> None:
        self._path = Path(jobdir, FILE) if jobdir else None
        self._wall_clock = wall_clock

    def recall(self, governor: Governor, now: float) -> None:
        """Let the pauses that were saved run on; `now` is in monotonic seconds."""
        if self._path is None or not self._path.exists():
            return
        try:
            pauses = _read(json.loads(self._path.read_text(encoding="utf-8")))
        except (OSError, RecursionError, ValueError) as error:
            logger.warning("%s is ignored, it is damaged: %s", self._path, error)
            return
        for key, until in pauses.items():
            left = until - self._wall_clock()
            if left > 0:
                governor.slot(key, now).resume_pause(now, left)

    def save(self, governor: Governor, now: float) -> None:
        """Save the pauses that still run."""
        if self._path is None:
            return
        pauses = {
            slot.key: round(self._wall_clock() + slot.pause.until - now, 3)
            for slot in governor
            if slot.phase is not Phase.CLOSED and slot.pause.until > now
        }
        text = json.dumps({"version": VERSION, "paused_until": pauses})
        fresh = self._path.with_suffix(".tmp")
        try:
            fresh.write_text(text, encoding="utf-8")
            fresh.replace(self._path)
        except OSError as error:
            logger.warning("%s is not written: %s", self._path, error)


def _read(saved: Any) -> dict[str, float]:
    """The pauses in a file: slot to wall-clock seconds.

    Raises:
        ValueError: it is not what `Memory.save` writes.
    """
    if not isinstance(saved, dict) or saved.get("version") != VERSION:
        raise ValueError(f"its version is not {VERSION}")
    pauses = saved.get("paused_until")
    if not isinstance(pauses, dict):
        raise ValueError("paused_until is not a table of slots and instants")
    for key, until in pauses.items():
        if isinstance(until, bool) or not isinstance(until, (int, float)) or not abs(until) < 1e12:
            raise ValueError(f"paused_until of {key!r} is {until!r}, not seconds since the epoch")
    return pauses
