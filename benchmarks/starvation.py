"""Slow hosts beside fast ones: by how much do they hold them up, with and without the add-on?

Fast and slow hosts are loopback addresses of one nginx; their delays are given by DOWNLOAD_SLOTS,
and the add-on's start delay is the fast hosts' delay. Each crawl has a process and an nginx of
its own, and ends when the fast hosts' last page is there. The time of the fast hosts is from
their first hit to their last, in nginx's log. Exit status 1 if with the add-on they take more
than the bound beside slow hosts, as a multiple of their time alone, or if a page was lost.

    python benchmarks/starvation.py [--repeats 3] [--cap 180]

Stock Scrapy is run once beside the slow hosts, as it takes minutes.
"""

from __future__ import annotations

import sys

sys.path.pop(0)  # this folder, whose queue.py would hide the standard library's

import argparse
import json
import os
import statistics
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scrapy import Spider
from scrapy.crawler import AsyncCrawlerProcess
from scrapy.http import Request, Response

ROOT = Path(__file__).resolve().parent.parent
BOUND = 1.2
PAGES = 6
"""Pages of each host, fast or slow."""
FAST = [f"127.1.4.{n}" for n in range(1, 71)]
SLOW = [f"127.1.5.{n}" for n in range(1, 31)]
FAST_DELAY, SLOW_DELAY = 0.2, 20.0
START_DELAY = FAST_DELAY
"""ADAPTIVE_START_DELAY; a host's own delay is a floor below which the pace never goes."""

SETTINGS: dict[str, Any] = {
    "CONCURRENT_REQUESTS": 16,
    "DOWNLOAD_SLOTS": {
        **{host: {"delay": FAST_DELAY} for host in FAST},
        **{host: {"delay": SLOW_DELAY} for host in SLOW},
    },
    "LOG_LEVEL": "INFO",
    "TELNETCONSOLE_ENABLED": False,
    "ADAPTIVE_START_DELAY": START_DELAY,
}
"""The same in every arm: stock Scrapy has no use for the last one."""


@dataclass(frozen=True, slots=True)
class Arm:
    """One kind of crawl."""

    adaptive: bool
    beside: bool
    """Whether the slow hosts are crawled too."""

    def __str__(self) -> str:
        crawler = "with the add-on" if self.adaptive else "stock Scrapy"
        return f"{crawler}, {'fast beside slow' if self.beside else 'fast alone'}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a crawl."""

    seconds: float
    """From the first hit of a fast host to the last."""
    fast_pages: int
    slow_pages: int
    handed_back: int


class HostsSpider(Spider):
    """Fetches the pages of all hosts, in turn, and ends with the fast hosts' last page."""

    name = "hosts"
    port: str
    hosts: str
    left: int = PAGES * len(FAST)

    async def start(self) -> Any:
        """The first page of each host, then the second of each, and so on."""
        for number in range(PAGES):
            for host in self.hosts.split(","):
                yield Request(f"http://{host}:{self.port}/page/{number}.html")

    def parse(self, response: Response) -> None:
        """Count the fast hosts' pages.

        The process ends on the spot: Scrapy's own way to close waits for the slow hosts.
        """
        self.left -= response.url.split("/")[2].split(":")[0] in FAST
        if not self.left:
            assert self.crawler.stats is not None
            print(json.dumps(self.crawler.stats.get_value("adaptive/handed_back", 0)), flush=True)
            os._exit(0)


def in_turn(beside: bool) -> list[str]:
    """The hosts, the slow ones spread evenly among the fast."""
    if not beside:
        return FAST
    places = {
        host: (n + 0.5) / len(hosts) for hosts in (FAST, SLOW) for n, host in enumerate(hosts)
    }
    return sorted(places, key=places.__getitem__)


def crawl(arm: Arm, port: str) -> None:
    """One arm, in this process."""
    addons = {"ADDONS": {"scrapy_adaptive.Addon": 500}} if arm.adaptive else {}
    process = AsyncCrawlerProcess({**SETTINGS, **addons})
    process.crawl(HostsSpider, port=port, hosts=",".join(in_turn(arm.beside)))
    process.start()
    raise SystemExit("the crawl has ended without all pages of the fast hosts")


def run_arm(arm: Arm, cap: float) -> Outcome:
    """One arm, in a process of its own; it is ended after `cap` seconds."""
    from tests.servers.nginx import Nginx

    hosts = in_turn(arm.beside)
    with tempfile.TemporaryDirectory() as folder:
        site = Nginx(Path(folder), pages=PAGES, addresses=hosts)
        command = [sys.executable, __file__, "--port", str(site.port)]
        command += ["--adaptive"] * arm.adaptive + ["--beside"] * arm.beside
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, check=False, cwd=ROOT, timeout=cap
            )
        except subprocess.TimeoutExpired:
            done = None
        finally:
            site.stop()
        if done is not None and done.returncode:
            raise SystemExit(f"{arm}: failed\n{done.stderr[-2000:]}")
        hits = [(hit.host.partition(":")[0], hit.start) for hit in site.hits() if hit.status == 200]
    starts = [start for host, start in hits if host in FAST]
    return Outcome(
        seconds=starts[-1] - starts[0],
        fast_pages=len(starts),
        slow_pages=len(hits) - len(starts),
        handed_back=json.loads(done.stdout.splitlines()[-1]) if done is not None else 0,
    )


def ratio(times: dict[Arm, list[float]], *, adaptive: bool) -> float:
    """Median time beside slow hosts over median time alone."""
    beside, alone = (times[Arm(adaptive, each)] for each in (True, False))
    return statistics.median(beside) / statistics.median(alone)


def measure(repeats: int, cap: float) -> int:
    """All arms in turn; prints them and returns the exit status."""
    sys.path[:0] = [str(ROOT), str(ROOT / "sample_project")]
    print(
        f"{len(FAST)} hosts at {FAST_DELAY} s, {len(SLOW)} at {SLOW_DELAY} s, {PAGES} pages each; "
        f"CONCURRENT_REQUESTS = {SETTINGS['CONCURRENT_REQUESTS']}, "
        f"ADAPTIVE_START_DELAY = {START_DELAY} in every arm"
    )
    arms = [Arm(adaptive, beside) for adaptive in (True, False) for beside in (False, True)]
    times: dict[Arm, list[float]] = {arm: [] for arm in arms}
    all_fetched = True
    for repeat in range(repeats):
        for arm in arms:
            if repeat and not arm.adaptive and arm.beside:
                continue
            outcome = run_arm(arm, cap)
            times[arm].append(outcome.seconds)
            fetched = outcome.fast_pages == PAGES * len(FAST)
            all_fetched &= fetched or not arm.adaptive
            print(
                f"{f'{arm}:':36} {'' if fetched else 'more than '}{outcome.seconds:6.2f} s for "
                f"{outcome.fast_pages} fast pages, {outcome.slow_pages} slow ones meanwhile, "
                f"{outcome.handed_back} handed back",
                flush=True,
            )
    ours, stock = ratio(times, adaptive=True), ratio(times, adaptive=False)
    within = ours <= BOUND and all_fetched
    print(f"stock Scrapy, beside / alone: {stock:.2f}")
    print(
        f"with the add-on, beside / alone: {ours:.3f}: "
        f"{'within' if within else 'ABOVE'} the bound of {BOUND}"
    )
    return int(not within)


def main() -> int:
    """Read the arguments and measure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--repeats", type=int, default=3, help="runs of each arm")
    parser.add_argument("--cap", type=float, default=180.0, help="most seconds of one run")
    parser.add_argument("--port", help=argparse.SUPPRESS)
    parser.add_argument("--adaptive", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--beside", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.port:
        crawl(Arm(arguments.adaptive, arguments.beside), arguments.port)
    if arguments.repeats < 1 or arguments.cap <= 0:
        parser.error("--repeats takes at least 1, --cap more than 0")
    return measure(arguments.repeats, arguments.cap)


if __name__ == "__main__":
    sys.exit(main())
