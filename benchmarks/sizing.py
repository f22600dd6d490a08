"""How large a Redis a crawl needs: memory, scripts a second, nodes.

    python benchmarks/sizing.py [--waiting 200] [--known 10] [--links 30] [--pushes 25000]

Computed, not measured: from bytes of a URL that waits and of one that is known, which
`benchmarks/redis_frontier.py` bounds, and from links a second that one Redis is assumed to take.
That benchmark prints what one connection gets, in pages of 30 links.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.pop(0)  # this folder, whose modules are imported by their full names
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import argparse

from benchmarks.arguments import amount

SIZES = ((1_000_000, 10_000), (10_000_000, 100_000), (100_000_000, 1_000_000), (10**9, 10_000_000))
"""URLs and hosts of a crawl."""

STATE = 3_000
"""Bytes of what was learned of a host; kept for a week."""

HELD = 0.5
"""Share of its URLs that wait at the worst moment."""

USABLE = 6.0
"""GB of a node of 8 GB that data may take."""

DAYS = 30


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--waiting", type=amount(), default=200.0, help="bytes")
    parser.add_argument("--known", type=amount(), default=10.0, help="bytes")
    parser.add_argument("--links", type=amount(), default=30.0, help="links of a page")
    parser.add_argument(
        "--pushes", type=amount(), default=25_000.0, help="links a second of one Redis"
    )
    given = parser.parse_args()
    print(
        "     URLs      hosts  waiting GB  known GB  learned GB  pages/s  scripts/s  nodes of 8 GB"
    )
    for urls, hosts in SIZES:
        waiting = urls * HELD * given.waiting / 1e9
        known = urls * given.known / 1e9
        learned = hosts * STATE / 1e9
        pages = urls / (DAYS * 86_400)
        by_memory = (waiting + known + learned) / USABLE
        by_links = pages * given.links / given.pushes
        nodes = max(1, -(-max(by_memory, by_links) // 1))
        print(
            f"{urls:>9.0e} {hosts:>10,} {waiting:>11.1f} {known:>9.1f} {learned:>11.1f} "
            f"{pages:>8.0f} {pages / 10:>10.1f} {nodes:>14.0f}"
        )


if __name__ == "__main__":
    main()
