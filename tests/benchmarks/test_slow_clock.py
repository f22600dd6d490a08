"""A process that is counted has a clock as slow as itself, and waits by it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from benchmarks.slow_clock import SLOWDOWN

ROOT = Path(__file__).resolve().parents[2]

WAITS = """
import benchmarks.slow_clock, asyncio, time
real, slow = time.perf_counter(), time.monotonic()
asyncio.run(asyncio.sleep(0.02))
print(time.perf_counter() - real, time.monotonic() - slow)
"""


def test_a_wait_takes_as_much_longer_as_the_clock_is_slower() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WAITS],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        env={**os.environ, SLOWDOWN: "10"},
        timeout=60,
    )
    real, slow = map(float, done.stdout.split())
    assert real >= 0.18
    assert slow < real / 5.0
