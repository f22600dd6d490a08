"""When failures are the host's trouble and not some pages'.

Laws
----
* A lone failure is no pain; half of the last ten, or three in a row, are.
* A host that never answered is dead, not throttling: its failures are never pain.
"""

from __future__ import annotations

from collections import deque

FAILURES = 5
"""Failures among the last `HISTORY` answers that count as pain."""

FAILURES_IN_A_ROW = 3
"""Failures with no acceptance between that count as pain."""

HISTORY = 10
"""Answers looked back at."""


class Failures:
    """The latest answers of one slot: failed or not."""

    __slots__ = ("_ever_accepted", "_recent")

    def __init__(self) -> None:
        self._recent: deque[bool] = deque(maxlen=HISTORY)
        self._ever_accepted = False

    def on_accepted(self) -> None:
        """The site served a request."""
        self._recent.append(False)
        self._ever_accepted = True

    def on_failed(self) -> None:
        """The site broke."""
        self._recent.append(True)

    @property
    def are_pain(self) -> bool:
        """Whether so many failed that the host is in trouble."""
        recent = list(self._recent)
        in_a_row = len(recent) >= FAILURES_IN_A_ROW and all(recent[-FAILURES_IN_A_ROW:])
        return self._ever_accepted and (in_a_row or sum(recent) >= FAILURES)
