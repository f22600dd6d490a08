"""What the add-on costs: CPU time per page of a full-speed crawl, with and without it.

Runs the same crawl of small files from nginx on loopback in pairs, one arm after the other in
turn, each in a process of its own. CPU time is the crawler's own, from the opening of the
spider to its close. Exit status 1 if the median ratio is above the bound, or if the stats do
not show exactly one measured permit per page.

    python benchmarks/overhead.py [--pairs 9] [--pages 2000]
"""

from __future__ import annotations

import sys

sys.path.pop(0)  # this folder, whose queue.py would hide the standard library's

import argparse
import json
import statistics
import subprocess
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from scrapy import Spider, signals
from scrapy.crawler import AsyncCrawlerProcess, Crawler
from scrapy.http import Request, Response

ROOT = Path(__file__).resolve().parent.parent
BOUND = 1.05
SETTINGS = {
    "CONCURRENT_REQUESTS": 16,
    "CONCURRENT_REQUESTS_PER_DOMAIN": 16,
    "LOG_LEVEL": "INFO",
    "TELNETCONSOLE_ENABLED": False,
}
ADAPTIVE = {
    "ADDONS": {"scrapy_adaptive.Addon": 500},
    "ADAPTIVE_START_DELAY": 0,
    "ADAPTIVE_TARGET_CONCURRENCY": 16,
}


class PagesSpider(Spider):
    """Fetches the pages of one site and says what it cost."""

    name = "pages"
    base: str
    pages: str
    cpu: float = 0.0

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> PagesSpider:
        """Measure from opening to close."""
        spider = super().from_crawler(crawler, *args, **kwargs)
        crawler.signals.connect(spider.on_opened, signals.spider_opened)
        crawler.signals.connect(spider.on_closed, signals.spider_closed)
        return spider

    async def start(self) -> Any:
        """All pages, once."""
        for number in range(int(self.pages)):
            yield Request(f"{self.base}/page/{number}.html")

    def parse(self, response: Response) -> None:
        """Nothing to do: the crawl itself is measured."""

    def on_opened(self) -> None:
        """Start the meter."""
        self.cpu = -time.process_time()

    def on_closed(self) -> None:
        """Stop the meter."""
        assert self.crawler.stats is not None
        self.crawler.stats.set_value("cpu", self.cpu + time.process_time())


def crawl(base: str, pages: int, *, adaptive: bool) -> None:
    """One arm, in this process."""
    process = AsyncCrawlerProcess({**SETTINGS, **(ADAPTIVE if adaptive else {})})
    crawler = process.create_crawler(PagesSpider)
    process.crawl(crawler, base=base, pages=str(pages))
    process.start()
    assert crawler.stats is not None
    stats = crawler.stats.get_stats()
    report = {
        "cpu": stats["cpu"],
        "pages": stats.get("downloader/response_status_count/200", 0),
        "measured": stats.get("adaptive/permits/measured"),
    }
    print(json.dumps(report))


def run_arm(base: str, pages: int, *, adaptive: bool) -> dict[str, Any]:
    """One arm, in a process of its own; returns its report."""
    arm = "adaptive" if adaptive else "stock"
    command = [sys.executable, __file__, "--arm", arm, "--base", base, "--pages", str(pages)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    if done.returncode:
        raise SystemExit(f"the {arm} arm failed:\n{done.stderr[-2000:]}")
    report: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    if report["pages"] != pages or (adaptive and report["measured"] != pages):
        raise SystemExit(f"the {arm} arm did not fetch each page once: {report}")
    return report


def measure(pairs: int, pages: int) -> int:
    """All pairs; prints them and returns the exit status."""
    sys.path[:0] = [str(ROOT), str(ROOT / "sample_project")]
    from tests.servers.nginx import Nginx

    ratios = []
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        site = Nginx(Path(folder), pages=pages)
        stack.callback(site.stop)
        run_arm(site.url, pages, adaptive=True)  # warms caches, counts for nothing
        for pair in range(pairs):
            order = (True, False) if pair % 2 else (False, True)
            cost = {
                adaptive: run_arm(site.url, pages, adaptive=adaptive)["cpu"] / pages
                for adaptive in order
            }
            ratios.append(cost[True] / cost[False])
            print(
                f"pair {pair + 1}: stock {cost[False] * 1e6:6.0f} µs/page, "
                f"with the add-on {cost[True] * 1e6:6.0f} µs/page, ratio {ratios[-1]:.3f}",
                flush=True,
            )
    median = statistics.median(ratios)
    verdict = "within" if median <= BOUND else "ABOVE"
    print(f"CPU time per page, median ratio {median:.3f}: {verdict} the bound of {BOUND}")
    return int(median > BOUND)


def main() -> int:
    """Read the arguments and measure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--pairs", type=int, default=9, help="pairs of runs, at least 7")
    parser.add_argument("--pages", type=int, default=2000, help="pages per run")
    parser.add_argument("--arm", choices=("stock", "adaptive"), help=argparse.SUPPRESS)
    parser.add_argument("--base", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.arm:
        crawl(arguments.base, arguments.pages, adaptive=arguments.arm == "adaptive")
        return 0
    if arguments.pairs < 7 or arguments.pages < 1:
        parser.error("--pairs takes at least 7, --pages at least 1")
    return measure(arguments.pairs, arguments.pages)


if __name__ == "__main__":
    sys.exit(main())
