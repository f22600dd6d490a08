"""Draws servers, networks and settings at random from a seed: no law was tuned on any of them.

Each draw is named by its seed and its number, so that a row can be crawled again alone.

The oracle knows the rule, the N and the network, but neither how late the next message will be nor
how long the next page will take. Where these make an even pace be refused, it has the fastest one
of which at most .2 % are; of a cap also what as many in flight as there are places bring. Where the
rate of a limit moves, that pace is found anew for each rate, to a tenth of a decade.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache

from scrapy_adaptive.models import (
    SERVICES,
    BanServer,
    BucketServer,
    ClassesServer,
    CounterServer,
    DeadPagesServer,
    ErrorServer,
    FailingServer,
    FirstVisitServer,
    FreeServer,
    Gate,
    HiddenBackendServer,
    LogServer,
    NestedServer,
    NoisyServer,
    PlacesServer,
    Service,
    SilentServer,
    SlowServer,
    TellingServer,
    WhileBanned,
    WindowServer,
    WorkersServer,
    constant,
    service,
    stepped,
    waving,
)
from scrapy_adaptive.simulate import BusyMachine, Page, Server, network, pages

AUTO = math.inf
"""The target concurrency that latency itself finds."""

PER_DOMAIN = 64
"""Most requests in flight."""

WHOLE = 7200.0
"""Seconds of a crawl."""

MAX_DELAY = 60.0
"""Most seconds that the law of AutoThrottle lets pass between two requests, by default."""

SAMPLES = 20_000
"""Latencies by which the oracle knows what AutoThrottle's law allows on a network."""

JITTER_REFUSED = 0.002
"""Share of refusals that the oracle may have where a jittering network alone makes them."""

PACED = 3000
"""Requests by which it knows how fast that is."""

ASKED = 3.0
"""Times that the oracle asks for a page that is broken, as Scrapy does."""


class Draw:
    """One random choice after the other."""

    def __init__(self, seed: str) -> None:
        self.seed = seed.rpartition(" ")[0]
        """The seed without the number of the draw."""
        self.chance = random.Random(seed)

    def log(self, least: float, most: float) -> float:
        """A number, uniform in its logarithm."""
        return math.exp(self.chance.uniform(math.log(least), math.log(most)))

    def count(self, least: float, most: float) -> int:
        """A whole number, about uniform in its logarithm."""
        return max(int(least), min(int(most), round(self.log(least, most))))

    def one(self, *choices: str) -> str:
        """One of these."""
        return self.chance.choice(choices)

    def yes(self, share: float = 0.5) -> bool:
        """Yes or no."""
        return self.chance.random() < share

    def services(self, least: float, most: float) -> tuple[str, Callable[[], Service]]:
        """A service time: its name, and what makes it anew."""
        name, mean = self.one(*SERVICES), self.log(least, most)
        seed = self.chance.random()
        return f"{name} {mean:.2f} s", lambda: service(name, mean, random.Random(seed))

    def service(self, least: float, most: float) -> tuple[str, Service]:
        """A service time, and its name."""
        text, make = self.services(least, most)
        return text, make()


@dataclass(slots=True)
class Site:
    """A server that was drawn, and how it is crawled."""

    kind: str
    text: str
    server: Server
    network: str = "constant"
    one_way: float = 0.025
    """Mean seconds of one message."""
    target_concurrency: float = 8.0
    seconds: float = WHOLE
    since: float = 0.0
    """The second from which goodput and refusals count."""
    service: Service | None = None
    """What an accepted page takes beside the network."""
    noise: float = 0.0
    """Share of the pages that is refused by chance."""
    wait: float = 0.25
    """Seconds that the oracle waits after such a refusal."""
    broken: int = 0
    """Pages of which one is refused whatever the pace; 0 for none."""
    kinds: int = 1
    """Classes of pages."""
    paced: Callable[[], Server] | None = None
    """Makes the server anew, where jitter makes an even pace be refused."""
    paced_at: Callable[[float], Server] | None = None
    """Makes it anew with a rate, where its rate moves."""
    has_places: bool = False
    """Whether it has places: then scattered service times make it be refused as well."""
    share: float = 1.0
    """What jitter leaves of the server's capacity."""
    share_of: Callable[[float], float] | None = None
    """What it leaves of a rate, where that moves."""
    own_rate: float = math.inf
    """Requests a second that N allows."""
    most_pages: int = 0
    """Pages after which the crawl is over; 0 for no end."""
    silent: float = 0.0
    """Share of the requests that are never answered."""
    timeout: float = 0.0
    """Seconds after which the crawler gives one up."""
    idle: list[tuple[float, float]] = field(default_factory=list)
    """When there is nothing to ask for."""
    machine: Callable[[float], float] | None = None
    """When the crawler does what is due at an instant; None for at once."""

    def delay(self, seed: str) -> Callable[[], float]:
        """Seconds of one message, drawn anew."""
        return network(self.network, random.Random(f"{seed} network"), self.one_way)

    def pages(self, seed: str) -> Iterator[Page]:
        """What there is to fetch."""
        shares = {f"/class{number}": 1.0 for number in range(self.kinds)}
        return pages(shares, random.Random(f"{seed} pages"))

    def oracle(self, now: float) -> float:
        """Pages a second of who knows the rule, the N and the network."""
        if any(begin <= now < end for begin, end in self.idle):
            return 0.0
        capacity = self.server.capacity(now)
        limit = capacity * self._share(capacity)
        if self.broken:
            # the capacity pays for one fetch of each broken page
            limit *= self.broken / (self.broken - 1.0 + ASKED)
        limit = min(limit, self.own_rate)
        if refusals := self.noise / (1.0 - self.noise) + self.broken_refusals:
            # each refusal: a pause, and the round trip of the one that ends it
            pause = self.wait + 2.0 * self.one_way + (self.service.mean if self.service else 0.0)
            limit = limit / (1.0 + refusals * limit * pause)
        return limit

    @property
    def broken_refusals(self) -> float:
        """Refusals of broken pages for each page that is served."""
        return ASKED / (self.broken - 1.0) if self.broken else 0.0

    def know(self, seed: str) -> None:
        """Let the oracle find out what it knows."""
        self.own_rate = self._own_rate(seed)
        if self.paced is not None and (self.has_places or self.network != "constant"):
            self.share = self._jitter_share(self.paced, seed)
            if (at := self.paced_at) is not None:
                self.share_of = cache(lambda rate: self._jitter_share(lambda: at(rate), seed))
        if self.has_places and self.service is not None:
            # as many in flight as there are places: none is ever refused
            took = self.service.mean
            self.share = max(self.share, took / (took + 2.0 * self.one_way))

    def _share(self, capacity: float) -> float:
        """What jitter leaves of that capacity."""
        if self.share_of is None or not capacity:
            return self.share
        return self.share_of(10.0 ** (round(10.0 * math.log10(capacity)) / 10.0))

    def _own_rate(self, seed: str) -> float:
        delay, took = self.delay(f"{seed} oracle"), self.service
        latencies = [delay() + delay() + (took.draw() if took else 0.0) for _ in range(SAMPLES)]
        mean = sum(latencies) / SAMPLES
        most = PER_DOMAIN / (mean + self.silent * self.timeout)
        if self.target_concurrency == AUTO:
            return most
        at, total = latencies[0], 0.0
        for latency in latencies:  # the law of AutoThrottle
            target = latency / self.target_concurrency
            at = min(MAX_DELAY, max(target, 0.5 * (at + target)))
            total += at
        return min(most, SAMPLES / total)

    def _jitter_share(self, make: Callable[[], Server], seed: str) -> float:
        """The fastest even pace that is refused no more often than the oracle may be."""

        def is_allowed(share: float) -> bool:
            server, delay, page = make(), self.delay(f"{seed} jitter"), Page(1, "/")
            rate = server.capacity(0.0) * share
            arrivals = sorted(number / rate + delay() for number in range(PACED))
            served = sum(server.on_arrival(at, page).outcome.value == "accepted" for at in arrivals)
            return served >= (1.0 - JITTER_REFUSED) * PACED

        low, high = 0.1, 1.0
        if is_allowed(high):
            return high
        while not is_allowed(low):
            low, high = 0.1 * low, low
        for _ in range(6):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if is_allowed(middle) else (low, middle)
        return low


# Limits

Made = tuple[str, Callable[[], Gate], bool]
"""What it is, what makes it, and whether jitter matters at an even pace."""


def bucket(draw: Draw, rate: float = 0.0) -> Made:
    """A token bucket, of that rate if one is given."""
    rate, burst = rate or draw.log(0.1, 200.0), draw.count(1, 50)
    return f"{rate:.2f}/s burst {burst}", lambda: BucketServer(constant(rate), burst), burst <= 10


def window(draw: Draw, *, least: float = 1.0, most: float = 600.0, nested: bool = False) -> Made:
    """A count of a period."""
    count, period = draw.count(5, 1000), draw.log(least, most)
    return counted(draw, count, period, nested=nested)


def counted(draw: Draw, count: int, period: float, *, nested: bool = False) -> Made:
    """A window of one kind or another."""
    kind = draw.one("window", "log", *(() if nested else ("counter",)))
    begin = -draw.chance.random() * period
    makes: dict[str, Callable[[], Gate]] = {
        "window": lambda: WindowServer(constant(count), period, begin),
        "log": lambda: LogServer(constant(count), period),
        "counter": lambda: CounterServer(constant(count), period),
    }
    return f"{kind} {count}/{period:.1f} s", makes[kind], count <= 50


def limit(draw: Draw) -> Made:
    """A bucket or a window."""
    return bucket(draw) if draw.yes() else window(draw)


def _site(kind: str, made: Made, prefix: str = "") -> Site:
    text, make, jitters = made
    return Site(kind, prefix + text, make(), paced=make if jitters else None)


# Kinds of servers


def draw_bucket(draw: Draw) -> Site:
    return _site("bucket", bucket(draw))


def draw_window(draw: Draw) -> Site:
    return _site("window", window(draw))


def draw_cap(draw: Draw) -> Site:
    places = draw.count(2, 16)
    text, make = draw.services(0.05, 2.0)
    text, took = f"{places} at once, {text}", make()
    site = Site("cap", text, PlacesServer(places, took), service=took, has_places=True)
    site.paced = lambda: PlacesServer(places, make())
    return site


def draw_queue(draw: Draw, workers: int = 0) -> Site:
    workers = workers or draw.count(2, 50)
    text, took = draw.service(0.05, 1.0)
    return Site("queue", f"{workers} workers, {text}", WorkersServer(workers, took), service=took)


def draw_service(draw: Draw) -> Site:
    site = _site("service", limit(draw))
    text, took = draw.service(0.05, 2.0)
    site.server, site.service, site.text = (
        SlowServer(site.server, took),
        took,
        f"{site.text}, {text}",
    )
    return site


def draw_nested(draw: Draw) -> Site:
    text, make, _ = bucket(draw)
    first = make()
    if draw.yes():
        places = draw.count(2, 16)
        name, anew = draw.services(0.05, 2.0)
        text, took = f"{text}, {places} at once, {name}", anew()
        server = NestedServer([first, PlacesServer(places, took)])
        site = Site("nested", text, server, service=took, has_places=True)
        site.paced = lambda: NestedServer([make(), PlacesServer(places, anew())])
        return site
    period = draw.log(10.0, 600.0)
    count = max(5, round(first.capacity(0.0) * period * draw.log(0.3, 0.9)))
    name, makes, _ = counted(draw, count, period, nested=True)
    site = Site("nested", f"{text} and {name}", NestedServer([first, makes()]))
    site.paced = lambda: NestedServer([make(), makes()])
    return site


def draw_moving(draw: Draw) -> Site:
    """A bucket whose rate moves. Jitter leaves less of a fast one, whose gaps are short: a share of
    the rate at the start would not do."""
    rate, burst = draw.log(0.5, 50.0), draw.count(1, 50)

    def at(rate: float) -> Server:
        return BucketServer(constant(rate), burst)

    moves = constant(rate)
    if draw.yes():
        share = draw.chance.uniform(0.2, 0.8)
        moves, text = waving(moves, share), f"sine {share:.2f} of {rate:.2f}/s burst {burst}"
    else:
        text = f"steps of {rate:.2f}/s burst {burst}"
        for _ in range(draw.chance.randint(1, 3)):
            factor, since = draw.log(0.1, 10.0), draw.log(60.0, WHOLE)
            moves = stepped(moves, factor, since)
            text += f", x{factor:.2f} at {since:.0f} s"
    server = BucketServer(moves, burst)
    return Site("moving", text, server, paced=lambda: at(rate), paced_at=at)


def draw_noisy(draw: Draw) -> Site:
    """A limit, and refusals by chance: what jitter leaves is that of the limit alone."""
    share = draw.log(0.001, 0.01)
    site = _site("noisy", limit(draw), f"{share:.2%} 503, ")
    chance = random.Random(draw.chance.random())
    site.server = NoisyServer(site.server, share, chance)
    site.noise, site.wait = share, 0.0
    return site


def draw_ban(draw: Draw, least: float = 5.0, most: float = 120.0) -> Site:
    """A limit that bans: what jitter leaves is that of the limit alone, without its bans."""
    rate, burst, seconds = draw.log(0.1, 200.0), draw.count(1, 50), draw.log(least, most)
    way = WhileBanned.RESTARTS if draw.yes() else WhileBanned.IGNORED

    def make() -> BucketServer:
        return BucketServer(constant(rate), burst)

    text = f"{rate:.2f}/s burst {burst}, {seconds:.0f} s {way.value}"
    return Site("ban", text, BanServer(make(), seconds, way), paced=make)


MIX: tuple[tuple[int, Callable[[Draw], Site]], ...] = (
    (25, draw_bucket),
    (20, draw_window),
    (10, draw_cap),
    (10, draw_queue),
    (10, draw_service),
    (10, draw_nested),
    (5, draw_moving),
    (5, draw_noisy),
    (5, draw_ban),
)
"""Weight and maker of each kind."""


def _with_network(draw: Draw, site: Site) -> Site:
    site.network = draw.one("constant", "jittered", "heavy-tailed")
    site.one_way = draw.log(0.005, 0.8) / 2.0
    targets = [1.0, 2.0, 4.0, 8.0, 32.0, *([] if site.kind == "queue" else [AUTO])]
    site.target_concurrency = draw.chance.choice(targets)
    return site


def draw_mixed(draw: Draw, number: int) -> Site:
    """One of all kinds, with its network and its N."""
    weights, makers = zip(*MIX, strict=True)
    maker = draw.chance.choices(makers, weights)[0]
    return _with_network(draw, maker(draw))


def draw_short(draw: Draw, number: int) -> Site:
    """A crawl of 200 pages."""
    site = draw_mixed(draw, number)
    site.most_pages = 200
    return site


def draw_low(draw: Draw, number: int) -> Site:
    """The same server at N = 1, 2, 4 and 8, where the limit binds, not N."""
    draw = Draw(f"{draw.seed} {number // 4}")
    text, make, jitters = limit(draw)
    site = Site("low", text, make(), paced=make if jitters else None)
    site.network, site.one_way = draw.one("constant", "jittered"), draw.log(0.005, 0.8) / 2.0
    rate = site.server.capacity(0.0)
    site.one_way = min(site.one_way, 0.3 / rate)
    site.target_concurrency = (1.0, 2.0, 4.0, 8.0)[number % 4]
    site.kind = f"N={site.target_concurrency:g}"
    return site


def draw_chance(draw: Draw, number: int) -> Site:
    """A free site that refuses by chance."""
    share = (0.01, 0.02, 0.05, 0.10, 0.5)[number % 5]
    took = service("fixed", 0.05, random.Random(0))
    chance = random.Random(draw.chance.random())
    server = NoisyServer(FreeServer(0.05), share, chance)
    return Site(f"chance {share:.0%}", "free", server, service=took, noise=share, seconds=3600.0)


def draw_often(draw: Draw, number: int) -> Site:
    """Many refusals by chance beside a bucket, in a crawl of 300 pages."""
    share = (0.10, 0.20, 0.25, 1.0 / 3.0)[number % 4]
    text, make, _ = bucket(draw, draw.log(0.2, 20.0))
    server = NoisyServer(make(), share, random.Random(draw.chance.random()))
    return Site(f"often {share:.0%}", text, server, noise=share, most_pages=300)


def draw_half_percent(draw: Draw, number: int) -> Site:
    """Half a percent of refusals by chance on slow limits."""
    kind = ("bucket", "window", "cap")[number % 3]
    rate = draw.log(0.5, 10.0)
    anew: Callable[[], Server] | None = None
    if kind == "cap":
        places, name = draw.count(2, 16), draw.one(*SERVICES)
        took = service(name, places / rate, random.Random(seed := draw.chance.random()))
        inner: Server = PlacesServer(places, took)
        text, used = f"{places} at once, {took.mean:.2f} s", took

        def anew() -> Server:
            return PlacesServer(places, service(name, places / rate, random.Random(seed)))

    elif kind == "window":
        period = draw.log(1.0, 600.0)
        text, make, _ = counted(draw, max(5, round(rate * period)), period)
        inner, used = make(), None
    else:
        burst = draw.count(1, 50)
        inner, text, used = BucketServer(constant(rate), burst), f"{rate:.2f}/s burst {burst}", None
    server = NoisyServer(inner, 0.005, random.Random(draw.chance.random()))
    site = Site(f".5% {kind}", text, server, service=used, noise=0.005, wait=0.0)
    site.paced, site.has_places = anew, kind == "cap"
    return site


def draw_broken(draw: Draw, number: int) -> Site:
    """Some pages are refused whatever the pace: half a percent of them, one, two or five."""
    site = draw_mixed(draw, number)
    site.broken = (200, 100, 50, 20)[number % 4]
    site.kind = f"broken {1.0 / site.broken:.1%}"
    site.server = DeadPagesServer(site.server, site.broken)
    return site


def draw_hidden(draw: Draw, number: int) -> Site:
    """Some pages are behind a slow backend with a limit of its own, and no path tells which."""
    if number % 2:
        text, make, _ = counted(draw, draw.count(5, 100), draw.log(10.0, 90.0))
    else:
        text, make, _ = bucket(draw, draw.log(0.1, 2.0))
    kind = text.split()[0] if number % 2 else "bucket"
    took = service("fixed", 0.05, random.Random(0)) if number // 2 % 2 else None
    site: Server = FreeServer(0.05) if took else BucketServer(constant(20.0), 5)
    server = HiddenBackendServer(site, make(), every := draw.count(3, 50))
    text = f"one in {every} behind {text}, others {'free' if took else '20/s'}"
    return Site(f"hidden {kind}", text, server, service=took, seconds=1800.0)


def draw_falls(draw: Draw, number: int) -> Site:
    """A limit that falls: for a time, where the half an hour after it counts; or for good, where
    the hour from then on does."""
    rate, burst = draw.log(0.5, 30.0), draw.count(1, 50)
    factor, begins, lasts = draw.log(0.05, 0.8), draw.log(120.0, 2400.0), draw.log(60.0, 2400.0)

    def at(rate: float) -> Server:
        return BucketServer(constant(rate), burst)

    moves = stepped(constant(rate), factor, begins)
    text = f"{rate:.2f}/s burst {burst}, x{factor:.2f} from {begins:.0f} s"
    kind, since, counts = "falls for good", begins, 3600.0
    if number % 2 == 0:
        kind, since, counts = "falls for a time", begins + lasts, 1800.0
        moves, text = stepped(moves, 1.0 / factor, since), f"{text} for {lasts:.0f} s"
    site = Site(kind, text, BucketServer(moves, burst), paced=lambda: at(rate), paced_at=at)
    site.since, site.seconds = since, since + counts
    return _with_network(draw, site)


def draw_first(draw: Draw, number: int) -> Site:
    """Each page's first visit is refused."""
    return Site(
        "first visit", "10/s", FirstVisitServer(BucketServer(constant(10.0), 5)), seconds=1800.0
    )


def draw_long_ban(draw: Draw, number: int) -> Site:
    """Bans of five seconds to two hours, by header, in a virtual day."""
    rate, burst, seconds = draw.log(0.5, 20.0), draw.count(1, 50), draw.log(5.0, 7200.0)
    way = WhileBanned.RESTARTS if number % 2 else WhileBanned.IGNORED
    told = ("no header", "true header", "Retry-After: 1")[number // 2 % 3]
    inner = BanServer(BucketServer(constant(rate), burst), seconds, way)
    server: Server = inner
    if told != "no header":
        wait = None if told == "true header" else 1.0
        server = TellingServer(inner, inner, retry_after=True, wait=wait, quota=None)
    text = f"{rate:.2f}/s burst {burst}, {seconds:.0f} s {way.value}, {told}"
    return Site(f"{way.value}, {told}", text, server, seconds=86_400.0)


def draw_quota(draw: Draw, number: int) -> Site:
    """Windows of ten minutes to a day, from the fifth of eight: the first four teach them."""
    period = (600.0, 900.0, 3600.0, 86_400.0)[number % 4]
    text, make, _ = counted(draw, draw.count(20, 5000), period)
    return Site(f"quota {period:.0f} s", text, make(), seconds=8.0 * period, since=4.0 * period)


def draw_queues(draw: Draw, number: int) -> Site:
    """Queues of 4, 20 and 50 workers."""
    workers = (4, 20, 50)[number % 3]
    site = draw_queue(draw, workers)
    site.kind = f"queue {workers}"
    site.target_concurrency = draw.chance.choice([8.0, 32.0, 64.0])
    site.seconds = 3600.0
    return site


def draw_classes(draw: Draw, number: int) -> Site:
    """Ten classes of pages of 1/s each, without and with a limit of the host's; classes with
    limits that are drawn; and ten classes of a host with a limit that is blind to them."""
    if number % 4 == 2:
        kinds: dict[str, Gate] = {}
        texts = []
        for each in range(draw.count(2, 12)):
            rate = draw.log(0.2, 5.0)
            period = draw.log(1.0, 60.0)
            count = max(2, round(rate * period))
            kinds[f"/class{each}"], text = (
                (BucketServer(constant(rate), draw.count(1, 10)), f"{rate:.2f}/s")
                if draw.yes()
                else (LogServer(constant(count), period), f"{count}/{period:.1f} s")
            )
            texts.append(text)
        return Site("classes drawn", ", ".join(texts), ClassesServer(kinds), kinds=len(kinds))
    rate, burst = draw.log(2.0, 20.0), draw.count(2, 50)
    host = BucketServer(constant(rate), burst)
    text = f"host {rate:.2f}/s burst {burst}"
    if number % 4 == 3:
        return Site("classes blind", text, host, kinds=10)
    alike = ClassesServer({f"/class{each}": BucketServer(constant(1.0), 2) for each in range(10)})
    if number % 4 == 0:
        return Site("classes alike", "ten of 1/s", alike, kinds=10)
    return Site("classes and host", f"ten of 1/s, {text}", NestedServer([host, alike]), kinds=10)


def _spells(draw: Draw, most: float) -> list[tuple[float, float]]:
    """One to four times of the crawl, of a second to so many: from when until when."""
    starts = [draw.chance.uniform(60.0, WHOLE) for _ in range(draw.chance.randint(1, 4))]
    return [(start, start + draw.log(1.0, most)) for start in starts]


def draw_troubled(draw: Draw, number: int) -> Site:
    """Bursts of failures, refusals that take seconds, requests that are never answered, and times
    in which the crawl has nothing to ask for."""
    site = draw_mixed(draw, number)
    site.kind = trouble = ("failing", "slow refusals", "silent", "idle")[number % 4]
    if trouble == "slow refusals":
        took = service("fixed", 1e-9, random.Random(0))
        site.server = SlowServer(site.server, took, draw.log(0.5, 5.0))
    elif trouble == "failing":
        site.server = FailingServer(site.server, _spells(draw, 60.0))
    elif trouble == "idle":
        site.idle = sorted(_spells(draw, 1800.0))
    else:
        site.silent, site.timeout = draw.log(0.0005, 0.01), draw.log(5.0, 180.0)
        chance = random.Random(draw.chance.random())
        site.server = SilentServer(site.server, site.silent, site.timeout, chance)
    return site


def draw_errors(draw: Draw, number: int) -> Site:
    """A site that answers 500 and never 429, for five minutes: beyond a limit, beyond one that
    falls for a minute or two, by chance, for some pages, or on each page's first visit."""
    kind = ("limit", "falls", "by chance", "pages", "first visit")[number % 5]
    took = service("fixed", draw.log(0.01, 0.5), random.Random(0))
    site = Site(kind, f"{took.mean:.2f} s", FreeServer(took.mean), service=took, seconds=300.0)
    chance = random.Random(draw.chance.random())
    if kind in ("limit", "falls"):
        rate, burst = draw.log(0.3, 80.0), draw.count(1, 40)
        moves, site.text = constant(rate), f"{rate:.2f}/s burst {burst}, {site.text}"
        if kind == "falls":
            factor, begins = 1.0 / draw.log(2.0, 30.0), draw.log(20.0, 100.0)
            ends = begins + draw.log(30.0, 150.0)
            moves = stepped(stepped(moves, factor, begins), 1.0 / factor, ends)
            site.text += f", x{factor:.2f} from {begins:.0f} s to {ends:.0f} s"
        site.server = SlowServer(BucketServer(moves, burst), took)
    elif kind == "by chance":
        share = draw.chance.uniform(0.05, 0.8)
        site.server = NoisyServer(site.server, share, chance)
        site.text = f"{share:.0%}, {site.text}"
    elif kind == "pages":
        site.broken = (2, 3, 5, 10)[number // 5 % 4]
        site.server = DeadPagesServer(site.server, site.broken)
        site.text = f"one in {site.broken}, {site.text}"
    else:
        site.server = FirstVisitServer(site.server)
    site.server = ErrorServer(site.server)
    return _with_network(draw, site)


def draw_busy(draw: Draw, number: int) -> Site:
    """A limit of 5 to 100 a second, crawled on a machine whose stalls are about as long as the gaps
    between two requests; the oracle's is not busy."""
    rate = draw.log(5.0, 100.0)
    made = bucket(draw, rate) if number % 2 else counted(draw, round(10.0 * rate), 10.0)
    site = _site("busy, bucket" if number % 2 else "busy, window", made)
    stall, work, spell = draw.log(0.1, 1.0), draw.log(0.3, 3.0), draw.log(1.0, 60.0)
    chance = random.Random(draw.chance.random())
    site.machine = BusyMachine(chance, work=work / rate, stall=stall / rate, spell=spell)
    site.text += f", works {work:.1f} gaps, stalls {stall:.1f}, other ones after {spell:.0f} s"
    return site


def draw_minute(draw: Draw, number: int) -> Site:
    """The first minute at some plain limits, over a network of 2 ms."""
    made: tuple[tuple[str, Callable[[], Server], float], ...] = (
        ("50/s burst 20", lambda: BucketServer(constant(50.0), 20), 0.0),
        ("20/s burst 5", lambda: BucketServer(constant(20.0), 5), 0.0),
        ("counter 200/10 s", lambda: CounterServer(constant(200.0), 10.0), 0.0),
        ("cap 4 of 200 ms", lambda: PlacesServer(4, service("fixed", 0.2, draw.chance)), 0.2),
        ("6 workers of 100 ms", lambda: WorkersServer(6, service("fixed", 0.1, draw.chance)), 0.1),
        ("ban of 5 s", lambda: BanServer(BucketServer(constant(20.0), 20), 5.0), 0.0),
    )
    text, make, took = made[number % len(made)]
    used = service("fixed", took, draw.chance) if took else None
    return Site(text, text, make(), one_way=0.001, seconds=60.0, service=used, network="jittered")


GROUPS: dict[str, Callable[[Draw, int], Site]] = {
    "mixed": draw_mixed,
    "short": draw_short,
    "low": draw_low,
    "chance": draw_chance,
    "often": draw_often,
    "half-percent": draw_half_percent,
    "broken": draw_broken,
    "hidden": draw_hidden,
    "falls": draw_falls,
    "first-visit": draw_first,
    "bans": draw_long_ban,
    "quotas": draw_quota,
    "queues": draw_queues,
    "classes": draw_classes,
    "troubled": draw_troubled,
    "errors": draw_errors,
    "busy": draw_busy,
    "minute": draw_minute,
}
"""What may be drawn, by name."""


def drawn(group: str, seed: int, number: int) -> Site:
    """That server of that seed."""
    name = f"{group} {seed} {number}"
    site = GROUPS[group](Draw(name), number)
    site.know(name)
    return site
