"""What the add-on costs: instructions per page of a full-speed crawl, with and without it.

The same crawl of small files from nginx on loopback, the host queues on, every arm in a process of
its own. Instructions are those of the whole process, counted in a crawl of few pages and in one of
many: their difference is what the pages between cost, and hardly scatters. The CPU time beside it
is of pairs of crawls in turn, from the opening of the spider to its close; it scatters by a third,
so it is printed and judged by nobody. Where neither `perf stat` nor valgrind can count, there is
nothing else.

Exit status 1 if the ratio of instructions is above the bound, or if the stats do not show exactly
one measured permit per page.

    python benchmarks/overhead.py [--pairs 5] [--pages 2000]
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.pop(0)  # this folder, whose modules are imported by their full names
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "sample_project"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import benchmarks.slow_clock  # noqa: F401  before anything that reads a clock

# isort: split
import argparse
import json
import statistics
import subprocess
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from scrapy import Spider, signals
from scrapy.crawler import AsyncCrawlerProcess, Crawler
from scrapy.http import Request, Response

from benchmarks.instructions import count, find_counter

ROOT = Path(__file__).resolve().parent.parent
BOUND = 1.06
"""Most instructions per page with the add-on, by those of stock Scrapy."""

FEW, MANY = 100, 600
"""Pages of the two runs whose difference is counted: what it takes to start falls out."""

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
ARMS: dict[str, dict[str, Any]] = {"stock": {}, "adaptive": ADAPTIVE}
"""Settings of each arm, by its name."""


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


def crawl(base: str, pages: int, arm: str) -> None:
    """One arm, in this process."""
    process = AsyncCrawlerProcess({**SETTINGS, **ARMS[arm]})
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


def command_of(base: str, pages: int, arm: str, script: str = __file__) -> list[str]:
    """What runs one arm."""
    return [sys.executable, script, "--arm", arm, "--base", base, "--pages", str(pages)]


def report_of(output: str, pages: int, arm: str) -> dict[str, Any]:
    """What an arm says of itself at its end."""
    report: dict[str, Any] = json.loads(output.splitlines()[-1])
    if report["pages"] != pages or (arm != "stock" and report["measured"] != pages):
        raise SystemExit(f"an arm did not fetch each page once: {report}")
    return report


def run_arm(base: str, pages: int, arm: str) -> dict[str, Any]:
    """One arm, in a process of its own; returns its report."""
    command = command_of(base, pages, arm)
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    if done.returncode:
        raise SystemExit(f"an arm failed:\n{done.stderr[-2000:]}")
    return report_of(done.stdout, pages, arm)


def instructions_per_page(
    base: str, counter: Sequence[str], arm: str, script: str = __file__
) -> float:
    """Of one arm, in millions; `script` is the benchmark that has it."""
    counts = []
    for pages in (FEW, MANY):
        counted, output = count(counter, command_of(base, pages, arm, script))
        report_of(output, pages, arm)
        counts.append(counted)
    return (counts[1] - counts[0]) / (MANY - FEW) / 1e6


def judge_instructions(base: str) -> bool:
    """Count, print, and say whether the ratio is within the bound."""
    counter = find_counter()
    if counter is None:
        print("neither perf stat nor valgrind can count instructions here: CPU time only")
        return True
    with ThreadPoolExecutor(2) as arms:
        stock, ours = arms.map(
            lambda arm: instructions_per_page(base, counter, arm), ("stock", "adaptive")
        )
    ratio = ours / stock
    print(
        f"instructions per page ({counter[0]}): stock {stock:.2f} M, with the add-on {ours:.2f} M, "
        f"ratio {ratio:.3f}: {'within' if ratio <= BOUND else 'ABOVE'} the bound of {BOUND}",
        flush=True,
    )
    return ratio <= BOUND


def show_cpu_time(base: str, pairs: int, pages: int) -> None:
    """Measure pairs, and print them."""
    run_arm(base, pages, "adaptive")  # warms caches, counts for nothing
    ratios = []
    for pair in range(pairs):
        order = ("adaptive", "stock") if pair % 2 else ("stock", "adaptive")
        cost = {arm: run_arm(base, pages, arm)["cpu"] / pages for arm in order}
        stock, ours = cost["stock"], cost["adaptive"]
        ratios.append(ours / stock)
        print(
            f"pair {pair + 1}: stock {stock * 1e6:6.0f} µs/page, "
            f"with the add-on {ours * 1e6:6.0f} µs/page, ratio {ratios[-1]:.3f}",
            flush=True,
        )
    print(f"CPU time per page, median ratio {statistics.median(ratios):.3f}")


def measure(pairs: int, pages: int) -> int:
    """Both; returns the exit status."""
    from tests.servers.nginx import Nginx

    with (
        tempfile.TemporaryDirectory() as folder,
        Nginx(Path(folder), pages=max(pages, MANY)) as site,
    ):
        is_within = judge_instructions(site.url)
        if pairs:
            show_cpu_time(site.url, pairs, pages)
    return int(not is_within)


def main() -> int:
    """Read the arguments and measure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--pairs", type=int, default=5, help="pairs of runs for the CPU time")
    parser.add_argument("--pages", type=int, default=2000, help="pages of each of them")
    parser.add_argument("--arm", choices=ARMS, help=argparse.SUPPRESS)
    parser.add_argument("--base", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.arm:
        crawl(arguments.base, arguments.pages, arguments.arm)
        return 0
    if arguments.pairs < 0 or arguments.pages < 1:
        parser.error("--pairs takes at least 0, --pages at least 1")
    return measure(arguments.pairs, arguments.pages)


if __name__ == "__main__":
    sys.exit(main())
