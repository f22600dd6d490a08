"""How often a worker calls a frontier on Redis: `python benchmarks/redis_trips.py`.

One real crawl above 20 pages a second, one below; calls from opening to close, as the stat
`adaptive/frontier/calls` counts them. Exit status 1 where there are fewer than 10 pages to a call
in the first, or more than two calls a second in the second.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    ROOT = Path(__file__).resolve().parents[1]
    sys.path[:0] = [str(ROOT), str(ROOT / "sample_project")]

import argparse
import tempfile

from tests.crawling import Crawler
from tests.servers.origin import Answer, Origin
from tests.servers.valkey import Valkey
from tests.spiders import UrlsSpider

CRAWLS = ((0.03, 900), (0.25, 120))
"""Seconds between two pages, and how many pages."""

LEAST_PAGES, MOST_CALLS = 10.0, 2.0


def main() -> int:
    argparse.ArgumentParser(description=__doc__).parse_args()
    kept = True
    with tempfile.TemporaryDirectory() as name, Origin(lambda visit: Answer()) as site:
        folder = Path(name)
        with Valkey(folder / "valkey") as server:
            crawler = Crawler(folder)
            for delay, pages in CRAWLS:
                urls = [f"{site.url}/{delay}/{n}" for n in range(pages)]
                given = {
                    "ADAPTIVE_FRONTIER": server.frontier(),
                    "ADAPTIVE_START_DELAY": delay,
                    "DOWNLOAD_DELAY": delay,
                }
                done = crawler(UrlsSpider, given, arguments={"urls": urls})
                calls = done.stats["adaptive/frontier/calls"]
                rate = pages / done.seconds
                good = calls / done.seconds <= MOST_CALLS
                if rate > 20:
                    good = pages / calls >= LEAST_PAGES
                kept &= good
                print(
                    f"{rate:.1f} pages/s: {pages / calls:.1f} pages a call, "
                    f"{calls / done.seconds:.2f} calls a second{'' if good else '  MISSED'}"
                )
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
