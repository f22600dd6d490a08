"""The clock of what outlasts a process: leases, and quotas that a database counts."""

from __future__ import annotations

import time


def boot_time() -> float:
    """Seconds that go on while the machine sleeps, where there is such a clock."""
    clock: int | None = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)
