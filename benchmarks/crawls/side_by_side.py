"""All arms against one kind of site, at the same time.

Laws
----
* All crawls are ready before any begins, and all begin at the same instant.
* However it ends, no process and no file stays behind.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.crawls.arms import Arm
from benchmarks.crawls.measure import BIN, Outcome, measure
from benchmarks.crawls.processes import ENVIRONMENT, READY, ROOT, Crawl, Site
from benchmarks.crawls.sites import Kind

SHOT = 2.0
"""Seconds from the starting shot until the start, by when all have heard it and the oracle runs."""


@dataclass(frozen=True, slots=True)
class Result:
    """All arms' outcomes against one kind of site."""

    kind: Kind
    seconds: float
    capacity: float
    """Pages an ideal crawler is served."""
    outcomes: Sequence[Outcome]

    @property
    def limits(self) -> list[float]:
        """What the site serves in each second of the run."""
        if self.kind.is_measured:
            return [self.capacity / self.seconds] * round(self.seconds / BIN)
        return [
            self.kind.limit_at((n + 0.5) * BIN, self.seconds)
            for n in range(round(self.seconds / BIN))
        ]


def crawl_all(kind: Kind, arms: Sequence[Arm], seconds: float, folder: Path) -> Result:
    """Run all arms against sites of this kind."""
    with ExitStack() as stack:
        sites = [_open(stack, kind, folder / f"{arm.name}-site", seconds, arm.nice) for arm in arms]
        ideal = _open(stack, kind, folder / "ideal", seconds) if kind.is_measured else None
        crawls = []
        for arm, site in zip(arms, sites, strict=True):
            crawls.append(Crawl(arm, site.port, folder / "crawls" / arm.name, seconds))
            stack.callback(crawls[-1].stop)
        for crawl in crawls:
            crawl.wait_ready()
        began_at = time.time() + SHOT
        shot = folder / "crawls" / "shot"
        shot.write_text(str(began_at))
        shot.rename(shot.with_name("go"))
        if ideal is not None:
            stack.enter_context(_oracle(ideal, began_at, seconds))
        time.sleep(began_at - time.time() + seconds)
        reports = [crawl.report(patience=READY) for crawl in crawls]
    capacity = kind.capacity(seconds)
    if ideal is not None:
        hits = [hit for hit in ideal.hits() if hit.status == 200]
        capacity = float(sum(began_at <= hit.end <= began_at + seconds for hit in hits))
    outcomes = [
        measure(
            arm.name,
            site.hits(),
            report,
            began_at=began_at,
            seconds=seconds,
            capacity=capacity,
            limit=kind.limit or capacity / seconds,
        )
        for arm, site, report in zip(arms, sites, reports, strict=True)
    ]
    return Result(kind, seconds, capacity, outcomes)


def _open(stack: ExitStack, kind: Kind, folder: Path, seconds: float, nice: int = 0) -> Site:
    site = Site(kind.name, folder, seconds, nice)
    stack.callback(site.stop)
    return site


@contextmanager
def _oracle(site: Site, began_at: float, seconds: float) -> Iterator[None]:
    base = f"http://127.0.0.1:{site.port}"
    command = [sys.executable, "-m", "benchmarks.crawls.oracle", base, str(began_at), str(seconds)]
    process = subprocess.Popen(command, cwd=ROOT, env=ENVIRONMENT, stdin=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.kill()
        process.wait()
