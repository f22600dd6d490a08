"""What seeing a crawl costs: instructions per page with a journal and a live view, and without.

Three arms of the crawl of `overhead.py`, each in a process of its own: *blind*, without the look at
each site that is taken once a second; *off*, the add-on as it is by default; and *on*, with a
journal and a live view that nobody watches. A process that is counted has a slow clock, so that
there are as many looks and rows to a page as in a crawl at full speed.

Exit status 1 if a ratio is above its bound.

    python benchmarks/journal_cost.py
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.pop(0)  # this folder, whose modules are imported by their full names
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "sample_project"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import argparse
import tempfile
from concurrent.futures import ThreadPoolExecutor
from unittest.mock import patch

from benchmarks import overhead
from benchmarks.arguments import whole
from benchmarks.instructions import find_counter
from benchmarks.overhead import ADAPTIVE, ARMS, MANY, instructions_per_page
from scrapy_adaptive.adapters.extension import AdaptiveThrottle

ON, OFF = 1.03, 1.005
"""Most instructions with journal and live view, by those without; of these, by a blind one's."""


def crawl(base: str, pages: int, arm: str) -> None:
    """One arm, in this process."""
    with tempfile.TemporaryDirectory() as folder:
        journal = {"ADAPTIVE_JOURNAL": f"{folder}/run.jsonl"}
        watched = {"ADAPTIVE_WATCH": True, "ADAPTIVE_WATCH_PORT": 0}
        ARMS.update(blind=ADAPTIVE, off=ADAPTIVE, on={**ADAPTIVE, **journal, **watched})
        if arm == "blind":
            with patch.object(AdaptiveThrottle, "_on_tick", lambda self: None):
                overhead.crawl(base, pages, arm)
        else:
            overhead.crawl(base, pages, arm)


def judge(name: str, ratio: float, bound: float) -> bool:
    """Print a ratio, and say whether it is within its bound."""
    is_within = ratio <= bound
    print(f"{name}: {ratio:.4f}, {'within' if is_within else 'ABOVE'} the bound of {bound}")
    return is_within


def main() -> int:
    """Count the three, and judge."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--arm", help=argparse.SUPPRESS)
    parser.add_argument("--base", help=argparse.SUPPRESS)
    parser.add_argument("--pages", type=whole(), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.arm:
        crawl(given.base, given.pages, given.arm)
        return 0
    counter = find_counter()
    if counter is None:
        print("neither perf stat nor valgrind can count instructions here")
        return 0
    from tests.servers.nginx import Nginx

    with (
        tempfile.TemporaryDirectory() as folder,
        Nginx(Path(folder), pages=MANY) as site,
        ThreadPoolExecutor(2) as arms,
    ):
        blind, off, on = arms.map(
            lambda arm: instructions_per_page(site.url, counter, arm, __file__),
            ("blind", "off", "on"),
        )
    print(f"instructions per page ({counter[0]}): {blind:.3f} M, {off:.3f} M, {on:.3f} M")
    is_within = judge("off by blind", off / blind, OFF), judge("on by off", on / off, ON)
    return int(not all(is_within))


if __name__ == "__main__":
    sys.exit(main())
