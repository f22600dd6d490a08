"""What the host queue costs: push and pop beside Scrapy's queues, from 10 to 100,000 hosts.

Each queue is in memory, in a crawl with a real engine and the add-on's real extension, and has
several requests for each host. A round pops and pushes one request for the same host, again and
again, so that the number of hosts stays the same; queues and sizes take turns, round by round,
and medians over the rounds are printed. Every host may send and was sent to before. URLs are
parsed before they are pushed, as Scrapy's offsite filter has done by then. Between pop and push
the gate ends the popped request's reservation; that is printed as `gate`, and Scrapy's queues
have no such thing.

    python benchmarks/queue_cost.py [--rounds 15] [--requests 3]

Exit status 1 if our push and pop at 100,000 hosts take more than 3 times as long as at 10, or
at 10 hosts more than 1.5 times as long as those of Scrapy's default queue.
"""

from __future__ import annotations

import sys

sys.path.pop(0)  # this folder, whose queue.py would hide the standard library's

import argparse
import gc
import statistics
import subprocess
import time
import tracemalloc
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from scrapy import Spider
from scrapy.crawler import AsyncCrawlerProcess
from scrapy.http import Request, Response
from scrapy.pqueues import DownloaderAwarePriorityQueue, ScrapyPriorityQueue
from scrapy.squeues import FifoMemoryQueue, LifoMemoryQueue
from scrapy.utils.httpobj import urlparse_cached
from scrapy.utils.misc import build_from_crawler

from scrapy_adaptive import AdaptiveThrottle, HostQueue

ROOT = Path(__file__).resolve().parent.parent
FLAT_BOUND, SCRAPY_BOUND = 3.0, 1.5
SIZES = (10, 100, 1_000, 10_000, 100_000)
MOST_HOSTS = SIZES[-1]
AWAKE = 10
"""Hosts that may send where all others sleep."""
QUEUES: dict[str, type[Any]] = {
    "default": DownloaderAwarePriorityQueue,
    "plain": ScrapyPriorityQueue,
    "ours": HostQueue,
}
SETTINGS: dict[str, Any] = {
    "ADDONS": {"scrapy_adaptive.Addon": 500},
    "ADAPTIVE_START_DELAY": 0,
    "ADAPTIVE_MAX_SLOTS": 2 * MOST_HOSTS,
    "LOG_LEVEL": "WARNING",
    "TELNETCONSOLE_ENABLED": False,
}
MOST_STEPS = 2_000
"""Steps of a round: a pop and a push each."""
ROUND_SECONDS = 0.3
"""About the most that a round may take; a queue that is slow makes fewer steps."""


class Cost(NamedTuple):
    """Microseconds of one step."""

    pop: float
    push: float
    gate: float

    @property
    def both(self) -> float:
        """Pop and push."""
        return self.pop + self.push


class BenchSpider(Spider):
    """Fetches nothing: when its crawl is open, it measures queues."""

    name = "bench"
    measure: Callable[[BenchSpider], None]

    async def start(self) -> Any:
        """Measure, and end."""
        self.measure(self)
        nothing: tuple[Request, ...] = ()
        for request in nothing:
            yield request

    def parse(self, response: Response) -> None:
        """Callback of the requests."""

    def lose(self, failure: Any) -> None:
        """Errback of the requests."""

    @property
    def adaptive(self) -> AdaptiveThrottle:
        """The extension of this crawl."""
        return AdaptiveThrottle.of(self.crawler)

    def queue(self, name: str) -> Any:
        """An empty queue, made as Scrapy's scheduler makes it."""
        return build_from_crawler(
            QUEUES[name],
            self.crawler,
            downstream_queue_cls=LifoMemoryQueue,
            key="",
            start_queue_cls=FifoMemoryQueue,
        )

    def request(self, host: str, number: int) -> Request:
        """A request as a crawl's spider middlewares leave it."""
        request = Request(
            f"http://{host}/catalogue/page-{number}.html?sort=date&id={number}",
            callback=self.parse,
            errback=self.lose,
            headers={"Referer": f"http://{host}/catalogue/"},
            meta={"depth": 2, "link_text": "next page", "cookiejar": number % 7},
            cb_kwargs={"number": number},
        )
        urlparse_cached(request)
        return request

    def know(self, hosts: Iterable[str]) -> None:
        """Something was sent to each of these hosts before."""
        governor, clock = self.adaptive.traffic.governor, self.adaptive.traffic.clock
        for host in hosts:
            permit: Any = governor.take(host, clock())
            governor.on_dropped(permit, clock())

    def step(self, queue: Any, number: int, popped: list[Request]) -> tuple[int, int, int]:
        """Pop, let the request reach the gate, push another: nanoseconds of pop, push and gate.

        What is popped is kept, as the downloader would: no queue pays for its end.
        """
        reservations, learn = self.adaptive.traffic.reservations, self.adaptive.routing.learn
        clock = time.perf_counter_ns
        began = clock()
        request = queue.pop()
        ended = clock()
        popped.append(request)
        host = urlparse_cached(request).hostname or ""
        fresh = self.request(host, number)
        gate = clock()
        reservation = reservations.on_at_gate(request, host)
        if reservation is not None:
            learn(reservation, host)
        passed = clock()
        queue.push(fresh)
        return ended - began, clock() - passed, passed - gate

    def round(self, queue: Any, steps: int) -> Cost:
        """So many steps; returns the mean of each part."""
        popped: list[Request] = []
        taken = [self.step(queue, number, popped) for number in range(steps)]
        return Cost(*(sum(part) / len(taken) / 1e3 for part in zip(*taken, strict=True)))


def names(size: int) -> list[str]:
    """As many hosts, none of which another size has."""
    return [f"www{n}.of-{size}.example" for n in range(size)]


def measure_times(spider: BenchSpider, rounds: int, each: int) -> bool:
    """All queues at all sizes, in turn; returns whether the bounds are kept."""
    queues: dict[tuple[str, int], Any] = {}
    for size in SIZES:
        hosts = names(size)
        spider.know(hosts)
        requests = [spider.request(host, n) for n in range(each) for host in hosts]
        for name in QUEUES:
            queues[name, size] = queue = spider.queue(name)
            for request in requests:
                queue.push(request)
    settle()
    steps: dict[tuple[str, int], int] = {}
    for key, queue in queues.items():
        cost = spider.round(queue, 3)
        steps[key] = max(3, min(MOST_STEPS, int(ROUND_SECONDS * 1e6 / cost.both)))
    costs: dict[tuple[str, int], list[Cost]] = defaultdict(list)
    for _ in range(rounds):
        for key, queue in queues.items():
            costs[key].append(spider.round(queue, steps[key]))
    print_times(costs)
    return are_kept(costs)


def settle() -> None:
    """What is there stays there: the collector has no part in what is measured."""
    gc.collect()
    gc.freeze()
    gc.disable()


def median(costs: list[Cost]) -> Cost:
    """The median of each part."""
    return Cost(*map(statistics.median, zip(*costs, strict=True)))


def print_times(costs: dict[tuple[str, int], list[Cost]]) -> None:
    """One row for each size and queue."""
    print(f"{'hosts':>7}  {'queue':8}{'pop':>10}{'push':>8}{'both':>10}{'gate':>7}  (µs)")
    for size in SIZES:
        for name in QUEUES:
            pop, push, gate = median(costs[name, size])
            past = f"{gate:7.2f}" if name == "ours" else ""
            print(f"{size:7}  {name:8}{pop:10.2f}{push:8.2f}{pop + push:10.2f}{past}")


def are_kept(costs: dict[tuple[str, int], list[Cost]]) -> bool:
    """Print the ratios, each the median over the rounds, against their bounds."""

    def ratio(one: tuple[str, int], other: tuple[str, int]) -> float:
        pairs = zip(costs[one], costs[other], strict=True)
        return statistics.median(cost.both / base.both for cost, base in pairs)

    small, large = SIZES[0], SIZES[-1]
    bounds = [
        (f"ours at {large} hosts / ours at {small}", ("ours", large), ("ours", small), FLAT_BOUND),
        (f"ours / default, {small} hosts", ("ours", small), ("default", small), SCRAPY_BOUND),
    ]
    kept = True
    for what, one, other, bound in bounds:
        value = ratio(one, other)
        kept &= value <= bound
        print(
            f"{what}: {value:.2f}, {'within' if value <= bound else 'ABOVE'} the bound of {bound}"
        )
    return kept


def measure_sleep(spider: BenchSpider, rounds: int, each: int) -> bool:
    """All hosts but a few sleep: what the others cost, and what a push for a sleeper does."""
    hosts = names(MOST_HOSTS)
    awake, asleep = hosts[:AWAKE], hosts[AWAKE:]
    traffic = spider.adaptive.traffic
    spider.know(hosts)
    for host in asleep:
        traffic.governor.slot(host, traffic.clock()).resume_pause(traffic.clock(), 3000.0)
    queue = spider.queue("ours")
    for host in [host for host in (*asleep, *awake) for _ in range(each)]:
        queue.push(spider.request(host, 0))
    looks = put_to_sleep(spider, queue, set(asleep))
    settle()
    costs = [spider.round(queue, MOST_STEPS) for _ in range(rounds)]
    pop, push, gate = median(costs)
    sleepers = [spider.request(host, 1) for host in asleep[: rounds * MOST_STEPS]]
    late = elapsed(queue.push, sleepers) / len(sleepers) * 1e6
    assert {host for host in asleep if queue.awaits(host)} == set(asleep)
    print(
        f"ours, {MOST_HOSTS} hosts of which all but {AWAKE} sleep: pop {pop:.2f} µs, "
        f"push {push:.2f} µs, gate {gate:.2f} µs; push for a sleeper {late:.2f} µs; "
        f"longest pop while they fell asleep {looks:.2f} ms"
    )
    return True


def put_to_sleep(spider: BenchSpider, queue: Any, hosts: set[str]) -> float:
    """Pop until these hosts are known to be asleep; returns the longest pop, in milliseconds."""
    longest = 0.0
    while not all(map(queue.awaits, hosts)):
        began = time.perf_counter()
        request = queue.pop()
        longest = max(longest, time.perf_counter() - began)
        if request is not None:
            spider.adaptive.traffic.reservations.on_left(request)
            queue.push(request)
    return longest * 1e3


def elapsed(call: Callable[[Request], Any], requests: list[Request]) -> float:
    """Seconds that these calls take."""
    began = time.perf_counter()
    for request in requests:
        call(request)
    return time.perf_counter() - began


def measure_memory(spider: BenchSpider, rounds: int, each: int) -> bool:
    """What waits, one request for each host: bytes per host, the requests themselves aside."""
    requests = [spider.request(host, 0) for host in names(MOST_HOSTS)]
    for name in QUEUES:
        queue = spider.queue(name)
        gc.collect()
        tracemalloc.start()
        for request in requests:
            queue.push(request)
        gc.collect()
        size, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        print(f"memory per waiting host, {name}: {size / len(requests):.0f} B")
        del queue
    return True


PARTS: dict[str, Callable[[BenchSpider, int, int], bool]] = {
    "times": measure_times,
    "sleep": measure_sleep,
    "memory": measure_memory,
}


def run_part(part: str, rounds: int, each: int) -> int:
    """Measure one part, inside a crawl in this process; returns the exit status."""
    verdicts: list[bool] = []

    def measure(spider: BenchSpider) -> None:
        verdicts.append(PARTS[part](spider, rounds, each))

    process = AsyncCrawlerProcess(SETTINGS)
    process.crawl(BenchSpider, measure=measure)
    process.start()
    return int(verdicts != [True])


def main() -> int:
    """Read the arguments and measure, each part in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=15, help="rounds of each queue and size")
    parser.add_argument("--requests", type=int, default=3, help="requests for each host")
    parser.add_argument("--part", choices=PARTS, help="measure this part only")
    arguments = parser.parse_args()
    if arguments.rounds < 3 or arguments.requests < 1:
        parser.error("--rounds takes at least 3, --requests at least 1")
    if arguments.part:
        return run_part(arguments.part, arguments.rounds, arguments.requests)
    options = ["--rounds", str(arguments.rounds), "--requests", str(arguments.requests)]
    commands = [[sys.executable, __file__, "--part", part, *options] for part in PARTS]
    return max(subprocess.run(command, check=False, cwd=ROOT).returncode for command in commands)


if __name__ == "__main__":
    sys.exit(main())
