"""What a journal costs: instructions of the recorder per page, by those of a page of a crawl.

The recorder alone is counted, with one tick for each hundred pages: a whole crawl takes other ways
through its event loop each time, and scatters by some percent, far more than this. A page of a
crawl is that of `overhead.py`. Exit status 1 if the share is above the bound.

    python benchmarks/journal_cost.py
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.pop(0)  # this folder, whose modules are imported by their full names
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "sample_project"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import tempfile
from collections.abc import Sequence

from benchmarks.instructions import count, find_counter
from benchmarks.journal_size import write
from benchmarks.overhead import MANY, instructions_per_page

BOUND = 0.03
"""Most instructions of the recorder, as a share of all of a page."""

PAGES_A_SECOND = 100

FEW_SECONDS, MANY_SECONDS = 20, 120
"""Lengths of the two runs whose difference is counted: what it takes to start falls out."""


def run(seconds: int) -> None:
    """Record so many seconds of a crawl of one site."""
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), hours=seconds / 3600, sites=1, pages=PAGES_A_SECOND)


def recorder_per_page(counter: Sequence[str]) -> float:
    """Instructions of the recorder for a page, in millions; what makes the pages is in them too."""
    counts = [
        count(counter, [sys.executable, __file__, str(seconds)])[0]
        for seconds in (FEW_SECONDS, MANY_SECONDS)
    ]
    return (counts[1] - counts[0]) / (MANY_SECONDS - FEW_SECONDS) / PAGES_A_SECOND / 1e6


def main() -> int:
    """Count both, and say the share."""
    if len(sys.argv) > 1:
        run(int(sys.argv[1]))
        return 0
    counter = find_counter()
    if counter is None:
        print("neither perf stat nor valgrind can count instructions here")
        return 0
    from tests.servers.nginx import Nginx

    with tempfile.TemporaryDirectory() as folder, Nginx(Path(folder), pages=MANY) as site:
        page = instructions_per_page(site.url, counter, adaptive=True)
    recorder = recorder_per_page(counter)
    share = recorder / page
    print(
        f"instructions per page ({counter[0]}): {page:.2f} M without a journal, {recorder:.3f} M "
        f"of the recorder: {share:.2%}, {'within' if share <= BOUND else 'ABOVE'} {BOUND:.0%}"
    )
    return int(share > BOUND)


if __name__ == "__main__":
    sys.exit(main())
