"""Scenarios of ordinary projects: nothing refuses them."""

from __future__ import annotations

from typing import Any

from benchmarks.beside.scenario import Arena, Job, numbered, scenario
from benchmarks.beside.spiders import TwoPhasesSpider
from tests.servers.origin import Answer, Visit, answers, links_page, redirect, robots_txt

GOOD = answers({})
SPIDERS = "benchmarks.beside.spiders"


@scenario("500 pages of one fast host")
def one_host(arena: Arena) -> Job:
    """The polite start is all that may show."""
    return Job(numbered(arena.site(GOOD), 500))


@scenario("3 pages of each of 150 hosts")
def many_hosts(arena: Arena) -> Job:
    """Each host is new."""
    return Job(numbered(arena.site(GOOD, 150), 3))


@scenario("100 pages of a host that takes half a second")
def slow_host(arena: Arena) -> Job:
    """It takes eight at once without a change."""
    return Job(numbered(arena.site(lambda _: Answer(delay=0.5)), 100))


@scenario("a download in an async open_spider, robots.txt obeyed")
def early_download(arena: Arena) -> Job:
    """It leaves before the spider is opened."""
    host = arena.site(answers({"/robots.txt": robots_txt("User-agent: *\nDisallow: /no\n")}))
    settings = {
        "ROBOTSTXT_OBEY": True,
        "LOGIN_URL": f"{host[0]}/login",
        "ITEM_PIPELINES": {f"{SPIDERS}.LoginPipeline": 1},
    }
    return Job(numbered(host, 30), settings)


@scenario("FilesPipeline, closed by CLOSESPIDER_PAGECOUNT", closes_early=True)
def files_at_close(arena: Arena) -> Job:
    """What the pages found is downloaded before the end."""

    def handler(visit: Visit) -> Answer:
        if visit.path.startswith("/page/"):
            n = visit.path.rpartition("/")[2]
            return Answer(body="".join(f"<img src='/file/{n}-{m}.png'>" for m in range(7)))
        return Answer(body="file")

    settings = {
        "CLOSESPIDER_PAGECOUNT": 10,
        "ITEM_PIPELINES": {"scrapy.pipelines.files.FilesPipeline": 1},
        "FILES_STORE": str(arena.folder / "files"),
    }
    return Job(numbered(arena.site(handler), 60), settings)


@scenario(
    "the ScreenshotPipeline of Scrapy's docs, closed by CLOSESPIDER_PAGECOUNT", closes_early=True
)
def screenshots_at_close(arena: Arena) -> Job:
    """Items await the engine while it closes, and a host that is new."""
    settings = {
        "CLOSESPIDER_PAGECOUNT": 20,
        "SCREENSHOTS": arena.site(lambda _: Answer(delay=0.1), block=2)[0],
        "ITEM_PIPELINES": {f"{SPIDERS}.ScreenshotPipeline": 1},
    }
    return Job(numbered(arena.site(lambda _: Answer(delay=0.1)), 60), settings)


@scenario("4 proxies in turn, each a slot of 2/s")
def proxies_in_turn(arena: Arena) -> Job:
    """Together they make 8/s."""
    settings = {
        "PROXIES": arena.site(GOOD, 4),
        "DOWNLOAD_DELAY": 0.5,
        "DOWNLOADER_MIDDLEWARES": {f"{SPIDERS}.RotatingProxies": 740},
    }
    return Job(numbered(["http://site.example"], 160), settings)


@scenario("two phases: the second asks, on spider_idle, for what the first has found")
def two_phases(arena: Arena) -> Job:
    """The first phase is fetched outside of the scheduler."""
    return Job(numbered(arena.site(lambda _: Answer(delay=0.2)), 20), spider=TwoPhasesSpider)


@scenario("an async middleware of .4 s, DOWNLOAD_DELAY = .5")
def slow_middleware(arena: Arena) -> Job:
    """The one is done while the other passes."""
    middlewares = {f"{SPIDERS}.SlowMiddleware": 400}
    settings = {"DOWNLOAD_DELAY": 0.5, "DOWNLOADER_MIDDLEWARES": middlewares}
    return Job(numbered(arena.site(GOOD), 40), settings)


@scenario("300 pages, all of them in the HTTP cache")
def warm_cache(arena: Arena) -> Job:
    """No site is asked for anything."""
    settings = {"HTTPCACHE_ENABLED": True, "HTTPCACHE_DIR": str(arena.folder / "cache")}
    urls = numbered(arena.site(GOOD, 3), 100)
    return Job(urls, settings, warm=urls)


@scenario("a host that only redirects to another")
def redirects_only(arena: Arena) -> Job:
    """A redirect that is served in time is no error."""
    (target,) = arena.site(GOOD, block=2)
    return Job(numbered(arena.site(lambda visit: redirect(target + visit.path)), 120))


@scenario("a host most of whose pages are not there")
def not_found(arena: Arena) -> Job:
    """Neither is a 404."""

    def handler(visit: Visit) -> Answer:
        return Answer(200 if visit.path.endswith("0") else 404)

    return Job(numbered(arena.site(handler), 150), {"HTTPERROR_ALLOW_ALL": True})


@scenario("Scrapy's default queue set by name, slow hosts beside a fast one")
def queue_by_name(arena: Arena) -> Job:
    """Its broad-crawl page told people to."""
    slow = arena.site(GOOD, 4, block=2)
    settings: dict[str, Any] = {
        "SCHEDULER_PRIORITY_QUEUE": "scrapy.pqueues.DownloaderAwarePriorityQueue",
        "DOWNLOAD_SLOTS": {f"127.1.2.{n}": {"delay": 3.0} for n in range(1, 5)},
    }
    return Job(numbered(slow, 5) + numbered(arena.site(GOOD), 150), settings)


@scenario("the settings of a new project (`scrapy startproject`)")
def template(arena: Arena) -> Job:
    """A page a second."""
    settings = {"DOWNLOAD_DELAY": 1, "CONCURRENT_REQUESTS_PER_DOMAIN": 1, "ROBOTSTXT_OBEY": True}
    return Job(numbered(arena.site(GOOD), 15), settings)


@scenario("robots.txt: there, missing, broken, of 12 hosts")
def robots(arena: Arena) -> Job:
    """Some pages are forbidden."""

    def handler(visit: Visit) -> Answer:
        host = int(visit.host.partition(":")[0].rpartition(".")[2])
        if visit.path != "/robots.txt":
            return Answer()
        disallow = robots_txt("User-agent: *\nDisallow: /page/3\n")
        return (disallow, Answer(404), Answer(500))[host % 3]

    return Job(numbered(arena.site(handler, 12), 10), {"ROBOTSTXT_OBEY": True})


@scenario("20 files of 4 MB, each sent over 2 s")
def slow_bodies(arena: Arena) -> Job:
    """A slow body is no slow site."""
    answer = Answer(body=b"0" * 4_000_000, body_seconds=2.0)
    return Job(numbered(arena.site(lambda _: answer), 20))


@scenario("links to follow, four levels deep, with a JOBDIR")
def links(arena: Arena) -> Job:
    """Each page has five links, some of them known."""

    def handler(visit: Visit) -> Answer:
        n = int(visit.path.rpartition("/")[2])
        return links_page(f"/page/{m}" for m in range(5 * n + 1, 5 * n + 6) if m < 400)

    urls = [f"{arena.site(handler)[0]}/page/0"]
    return Job(urls, arguments={"follow": True}, jobdir=True)


@scenario("a download handler like a browser's: 1.5 s a page, 4 at once")
def browser(arena: Arena) -> Job:
    """It says nothing of latency and has its own concurrency."""
    handlers = {"DOWNLOAD_HANDLERS": {"http": f"{SPIDERS}.BrowserHandler"}}
    return Job(numbered(["http://127.1.1.1"], 40), handlers)
