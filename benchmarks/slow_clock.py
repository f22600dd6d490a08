"""A clock as slow as valgrind makes the process: a second is as much work as ever.

Counting instructions makes a crawl ten times slower or more. What is done once a second, and what
waits for a pace in seconds, would then be counted ten times as often to a page, and answers would
seem to take ten times as long. With this clock, which a process that is counted imports before
anything that reads one, a second is as much work as in a crawl that nobody counts.
"""

from __future__ import annotations

import os
import selectors
import time
from collections.abc import Callable

SLOWDOWN = "BENCHMARK_SLOWDOWN"
"""The environment variable that says how much slower the process is; unset, no clock changes."""


def slow(clock: Callable[[], float], by: float) -> Callable[[], float]:
    """The clock as it would be without the slowdown.

    >>> slow(lambda: 80.0, by=40.0)()
    2.0
    """
    return lambda: clock() / by


def slow_down(by: float) -> None:
    """Slow the clocks of this process, and stretch its waits as much."""
    for name in ("time", "monotonic", "process_time"):
        setattr(time, name, slow(getattr(time, name), by))
    for kind in (selectors.EpollSelector, selectors.PollSelector, selectors.SelectSelector):
        setattr(kind, "select", _stretched(kind.select, by))  # noqa: B010  it is a class of Python's


def _stretched(select: Callable[..., object], by: float) -> Callable[..., object]:
    """Waits as long by the slow clock as was asked for."""
    return lambda self, timeout=None: select(self, timeout and timeout * by)


if SLOWDOWN in os.environ:
    slow_down(float(os.environ[SLOWDOWN]))
