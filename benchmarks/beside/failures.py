"""Scenarios of hosts that fail and of hosts that refuse."""

from __future__ import annotations

from collections import Counter
from random import Random

from benchmarks.beside.scenario import Arena, Job, numbered, scenario
from benchmarks.beside.spiders import LateSpider
from tests.servers.origin import HALF_A_WORD, Answer, Visit, answers, refusal

GOOD = answers({})
MEET = {"RETRY_HTTP_CODES": [500, 502, 503, 504, 522, 524, 408, 429]}


@scenario("20 hosts that refuse connections beside 5 good ones")
def dead_hosts(arena: Arena) -> Job:
    """The dead ones give up by Scrapy's own retries."""
    hosts = arena.site(GOOD, 5) + arena.dead(20)
    return Job(numbered(hosts, 5) + numbered(hosts[:5], 40, "/more/{}"))


@scenario("5 names that do not exist beside a good host")
def no_such_names(arena: Arena) -> Job:
    """A name that does not exist is no congestion."""
    hosts = arena.site(GOOD) + [f"http://no-such-name-{n}.invalid" for n in range(5)]
    return Job(numbered(hosts, 3) + numbered(hosts[:1], 60, "/more/{}"))


@scenario("6 dead hosts after 100 good pages")
def dead_after_good(arena: Arena) -> Job:
    """The crawl's record is good when they come."""
    return Job(numbered(arena.site(GOOD), 100) + numbered(arena.dead(6), 3))


@scenario("6 hosts that die after 15 pages each, beside a good one")
def dying_hosts(arena: Arena) -> Job:
    """From then on each connection is cut."""
    seen: dict[str, int] = {}

    def handler(visit: Visit) -> Answer:
        seen[visit.host] = seen.get(visit.host, 0) + 1
        return Answer(drop=seen[visit.host] > 15, drop_after=HALF_A_WORD)

    good = arena.site(GOOD, block=2)
    return Job(numbered(arena.site(handler, 6), 20) + numbered(good, 100))


@scenario("a host that never answers, beside 3 good ones")
def unanswering_host(arena: Arena) -> Job:
    """DOWNLOAD_TIMEOUT is 2 s."""
    silent = arena.site(lambda _: Answer(delay=60.0), block=3)
    urls = numbered(silent, 4) + numbered(arena.site(GOOD, 3), 40)
    return Job(urls, {"DOWNLOAD_TIMEOUT": 2, "RETRY_TIMES": 1})


@scenario("pages that fail once or always with a 500")
def server_errors(arena: Arena) -> Job:
    """Every seventh page is served by the second try, every eleventh never."""

    def handler(visit: Visit) -> Answer:
        n = int(visit.path.rpartition("/")[2])
        fails = n % 11 == 0 or (n % 7 == 0 and visit.count == 1)
        return Answer(500 if fails else 200)

    return Job(numbered(arena.site(handler, 4), 40))


@scenario("60 pages, every other one of which fails once with a 500", most=45.0)
def half_failing(arena: Arena) -> Job:
    """The host may be in trouble: it is slowed down until it is known that this does not help."""

    def handler(visit: Visit) -> Answer:
        return Answer(500 if int(visit.path[6:]) % 2 and visit.count == 1 else 200)

    return Job(numbered(arena.site(handler), 60))


@scenario("1000 pages, a fifth of whose answers are a 500 by chance", most=30.0)
def errors_by_chance(arena: Arena) -> Job:
    """By chance, at any pace: a page is lost after three in a row, by stock Scrapy too."""

    def handler(visit: Visit) -> Answer:
        is_error = Random(f"{visit.path} {visit.count}").random() < 0.2
        return Answer(500 if is_error else 200)

    return Job(numbered(arena.site(handler), 1000))


@scenario("1000 pages, half of 300 of which fail with a 500", most=60.0)
def broken_section(arena: Arena) -> Job:
    """Nothing fails before and after: the host may be in trouble."""

    def handler(visit: Visit) -> Answer:
        number = int(visit.path[6:])
        is_broken = 300 <= number < 600 and Random(number).random() < 0.5
        return Answer(500 if is_broken else 200)

    return Job(numbered(arena.site(handler), 1000))


@scenario("60 hosts of 2/s each, 30 pages each", refuses=True, most=45.0)
def sixty_hosts(arena: Arena) -> Job:
    """Each meets its own limit in the same seconds; an ideal crawler takes 15 s."""
    buckets: dict[str, tuple[float, float]] = {}

    def handler(visit: Visit) -> Answer:
        tokens, at = buckets.get(visit.host, (1.0, visit.elapsed))
        tokens = min(1.0, tokens + 2.0 * (visit.elapsed - at))
        served = tokens >= 1.0
        buckets[visit.host] = (tokens - served, visit.elapsed)
        return Answer() if served else refusal()

    return Job(numbered(arena.site(handler, 60), 30), {**MEET, "CONCURRENT_REQUESTS": 64})


@scenario("one 429 on each of 6 small hosts beside a healthy one", timed="127.1.2.", refuses=True)
def six_refusals(arena: Arena) -> Job:
    """The healthy host has nothing to do with them."""
    small = arena.site(lambda visit: refusal() if visit.total % 4 == 1 else Answer(), 6)
    healthy = arena.site(GOOD, block=2)
    return Job(numbered(small, 3) + numbered(healthy, 200), MEET)


@scenario("500 pages, one in 50 of which always answers 503", refuses=True, most=45.0)
def dead_pages(arena: Arena) -> Job:
    """Each of them is asked for eight times, as it may be of a slow backend; a pause follows."""
    hosts = arena.site(lambda visit: refusal() if int(visit.path[6:]) % 50 == 7 else Answer())
    return Job(numbered(hosts, 500), MEET)


@scenario("600 pages, one in 20 of which is behind 10 each 30 s", refuses=True, most=150.0)
def slow_backend(arena: Arena) -> Job:
    """No path tells which: they look like dead pages while the others are served."""
    served: Counter[float] = Counter()

    def handler(visit: Visit) -> Answer:
        window = visit.elapsed // 30.0
        if int(visit.path[6:]) % 20:
            return Answer()
        served[window] += 1
        return Answer() if served[window] <= 10 else refusal()

    return Job(numbered(arena.site(handler), 600), MEET)


@scenario("600 pages of a host of 10/s, of 1/s from second 20 to 40", refuses=True, most=130.0)
def busy_host(arena: Arena) -> Job:
    """An ideal crawler takes 78 s; one that stays at the pace of a busy host takes six minutes."""
    tokens, at = 5.0, 0.0

    def handler(visit: Visit) -> Answer:
        nonlocal tokens, at
        rate = 1.0 if 20.0 <= visit.elapsed < 40.0 else 10.0
        tokens = min(5.0, tokens + rate * (visit.elapsed - at))
        at = visit.elapsed
        if tokens < 1.0:
            return refusal()
        tokens -= 1.0
        return Answer()

    return Job(numbered(arena.site(handler), 600), MEET)


@scenario("200 pages of a host that refuses one request in ten", refuses=True, most=120.0)
def refusals_by_chance(arena: Arena) -> Job:
    """By chance, at any pace."""

    def handler(visit: Visit) -> Answer:
        is_refused = Random(f"{visit.path} {visit.count}").random() < 0.1
        return refusal() if is_refused else Answer()

    return Job(numbered(arena.site(handler), 200), MEET)


@scenario(
    "pictures of a paused host, 200 kB pages, and another host", timed="127.1.2.", refuses=True
)
def paused_media(arena: Arena) -> Job:
    """Scrapy's scraper is full when 5 MB of pages await their pictures."""
    media = arena.site(lambda visit: _refused_for(visit, 30))[0]
    body = f"<img src='{media}/{{}}.png'>" + " " * 200_000
    with_pictures = arena.site(lambda visit: Answer(body=body.format(visit.path[6:])), block=3)
    plain = arena.site(GOOD, block=2)
    settings = {
        **MEET,
        "ITEM_PIPELINES": {"scrapy.pipelines.files.FilesPipeline": 1},
        "FILES_STORE": str(arena.folder / "files"),
    }
    return Job(numbered(with_pictures, 40) + numbered(plain, 150), settings)


@scenario("stale copies in the cache (RFC 9111) of a host that now answers 503")
def stale_copies(arena: Arena) -> Job:
    """A stale copy is served in place of a server error."""

    def handler(visit: Visit) -> Answer:
        if visit.count > 1:
            return Answer(503)
        return Answer(headers={"Cache-Control": "max-age=0", "ETag": '"1"'})

    settings = {
        "HTTPCACHE_ENABLED": True,
        "HTTPCACHE_DIR": str(arena.folder / "cache"),
        "HTTPCACHE_POLICY": "scrapy.extensions.httpcache.RFC2616Policy",
    }
    urls = numbered(arena.site(handler), 20)
    return Job(urls, settings, warm=urls)


@scenario("100 cached pages of a host that is paused for 15 s", timed="/page/", refuses=True)
def cached_pages_of_a_paused_host(arena: Arena) -> Job:
    """A page that is not asked of the site need not wait for it: they come a second later."""

    def handler(visit: Visit) -> Answer:
        paused = visit.path.startswith("/new/") and visit.count == 1
        return refusal(retry_after=15) if paused else Answer()

    host = arena.site(handler)
    settings = {"HTTPCACHE_ENABLED": True, "HTTPCACHE_DIR": str(arena.folder / "cache")}
    settings |= {"HTTPCACHE_IGNORE_HTTP_CODES": [429], **MEET}
    cached = numbered(host, 100)
    urls = numbered(host, 2, "/new/{}") + cached
    return Job(urls, settings, LateSpider, {"ahead": 2}, warm=cached)


@scenario("4 proxies in turn, one refused for 60 s", timed="/page/", share=0.7, refuses=True)
def refused_proxy(arena: Arena) -> Job:
    """The three others go on."""
    refused = arena.site(lambda visit: _refused_for(visit, 60), block=4)
    proxies = arena.site(GOOD, 3) + refused
    settings = {
        **MEET,
        "PROXIES": proxies,
        "DOWNLOAD_DELAY": 0.2,
        "DOWNLOADER_MIDDLEWARES": {"benchmarks.beside.spiders.RotatingProxies": 740},
    }
    return Job(numbered(["http://site.example"], 200), settings)


def _refused_for(visit: Visit, seconds: int) -> Answer:
    return refusal(retry_after=seconds) if visit.elapsed < seconds else Answer()
