"""How many instructions a process executes: the same on a busy machine as on an idle one.

`perf stat` counts them where the machine and its kernel allow it, at no cost; else valgrind's
cachegrind does, which makes the process some forty times slower.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence

from benchmarks.slow_clock import SLOWDOWN

PERF = ("perf", "stat", "-x,", "-e", "instructions:u")
VALGRIND = (
    "valgrind",
    "--tool=cachegrind",
    "--cache-sim=no",
    "--cachegrind-out-file=/dev/null",
)
ENVIRONMENT = {**os.environ, "PYTHONHASHSEED": "0"}
"""The order of sets is the same in each run."""

TIMES_SLOWER = 10
"""How much slower valgrind makes a crawl, about; its clock is made as slow."""


def counted(said: str) -> int | None:
    """The count in what either of the two says, None where there is none.

    >>> counted("3762976888,,instructions:u,2736,100.00,,")
    3762976888
    >>> counted("==42== I   refs:      3,762,976,888")
    3762976888
    >>> counted("<not supported>,,instructions:u,0,100.00,,")
    """
    found = re.search(r"^(\d+),.*instructions|I +refs: +([\d,]+)", said, re.MULTILINE)
    return int((found[1] or found[2]).replace(",", "")) if found else None


def find_counter() -> Sequence[str] | None:
    """The command before a command whose instructions are to be counted; None without any."""
    for counter in (PERF, VALGRIND):
        if shutil.which(counter[0]):
            done = subprocess.run([*counter, "true"], capture_output=True, text=True, check=False)
            if counted(done.stderr) is not None:
                return counter
    return None


def count(counter: Sequence[str], command: Sequence[str]) -> tuple[int, str]:
    """Run a command; returns its instructions and its standard output.

    Raises:
        RuntimeError: it failed.
    """
    slower = {SLOWDOWN: str(TIMES_SLOWER)} if tuple(counter) == VALGRIND else {}
    done = subprocess.run(
        [*counter, *command],
        capture_output=True,
        text=True,
        check=False,
        env={**ENVIRONMENT, **slower},
    )
    instructions = counted(done.stderr)
    if done.returncode or instructions is None:
        raise RuntimeError(done.stderr[-2000:])
    return instructions, done.stdout
