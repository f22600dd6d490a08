"""Hosts that are not there, beside stock Scrapy; the crawler's own line; a host that redirects."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from docsite.hits import Hit
from tests.crawling import Crawl, Crawler
from tests.servers.origin import Answer, Origin, Visit, redirect
from tests.servers.wire import listen_on
from tests.spiders import UrlsSpider

AUTO = {"ADAPTIVE_TARGET_CONCURRENCY": "auto"}

GOOD = [f"127.6.1.{number}" for number in range(1, 6)]


def refusing_connections(count: int, pages: int) -> list[str]:
    """URLs of hosts where nothing listens, the hosts taking turns."""
    (socket,) = listen_on(["127.0.0.1"])
    port = socket.getsockname()[1]
    socket.close()
    hosts = [f"127.6.2.{number}" for number in range(1, count + 1)]
    return [f"http://{host}:{port}/{page}" for page in range(pages) for host in hosts]


def in_turn(site: Origin, hosts: Sequence[str], pages: int) -> list[str]:
    return [f"{site.url_at(host)}/{page}" for page in range(pages) for host in hosts]


def beside_stock(crawl: Crawler, urls: list[str], **settings: Any) -> tuple[Crawl, Crawl]:
    """The crawl with the add-on and without: as many pages and tries, 1.2 times as long + 6 s."""
    stock = crawl(UrlsSpider, settings, arguments={"urls": urls}, adaptive=False)
    ours = crawl(UrlsSpider, {**AUTO, **settings}, arguments={"urls": urls}, timeout=90)
    print(f"{ours.seconds:.1f} s, stock {stock.seconds:.1f} s")
    assert sorted(ours.urls) == sorted(stock.urls)
    assert ours.stats.get("retry/count", 0) == stock.stats.get("retry/count", 0)
    assert ours.seconds <= 1.2 * stock.seconds + 6.0
    return ours, stock


def test_twenty_dead_hosts_beside_five_good_ones(
    origin: Callable[..., Origin], crawl: Crawler
) -> None:
    """Each page of a dead host is tried three times, as by stock Scrapy."""
    site = origin(addresses=GOOD)
    ours, _ = beside_stock(crawl, refusing_connections(20, 3) + in_turn(site, GOOD, 10))
    assert ours.stats["adaptive/global_trips"] == 0


def test_names_that_do_not_exist(crawl: Crawler) -> None:
    beside_stock(crawl, [f"http://no-{host}.invalid/{page}" for page in range(3) for host in "abc"])


def test_dead_hosts_after_good_pages(origin: Callable[..., Origin], crawl: Crawler) -> None:
    """Hosts that never answered are no sign that the line is down."""
    site = origin(addresses=GOOD)
    beside_stock(crawl, in_turn(site, GOOD, 10) + refusing_connections(6, 4))


def test_a_host_that_dies_in_the_middle_of_a_crawl(
    origin: Callable[..., Origin], crawl: Crawler
) -> None:
    """Four tests, three seconds, and RetryMiddleware finishes it off."""

    def handler(visit: Visit) -> Answer:
        return Answer(drop=visit.host.startswith(f"{GOOD[0]}:") and int(visit.path[1:]) >= 10)

    site = origin(handler, addresses=GOOD[:2])
    beside_stock(crawl, in_turn(site, GOOD[:2], 30))


def test_a_site_of_which_half_of_the_pages_fail(
    origin: Callable[..., Origin], crawl: Crawler
) -> None:
    """Some pauses show that slowness does not help, in about 20 s; then all goes on as before."""

    def handler(visit: Visit) -> Answer:
        return Answer(500 if int(visit.path[1:]) % 2 else 200)

    site = origin(handler, addresses=GOOD[:1])
    options: dict[str, Any] = {"arguments": {"urls": in_turn(site, GOOD[:1], 60)}}
    stock = crawl(UrlsSpider, {}, adaptive=False, **options)
    ours = crawl(UrlsSpider, AUTO, timeout=120, **options)
    print(f"{ours.seconds:.1f} s, stock {stock.seconds:.1f} s")
    assert len(ours.urls) == len(stock.urls) == 30
    assert ours.stats["retry/count"] == stock.stats["retry/count"]
    assert ours.seconds <= stock.seconds + 60.0


def test_hosts_that_die_in_the_same_instant_are_asked_as_often_as_by_stock_scrapy(
    origin: Callable[..., Origin], crawl: Crawler
) -> None:
    """For a moment the crawler's own line seems to be down: what fails then is counted later."""
    dying = [f"127.6.5.{number}" for number in range(1, 7)]
    seen: Counter[str] = Counter()

    def handler(visit: Visit) -> Answer:
        seen[visit.host] += visit.path.startswith("/dying")
        return Answer(drop=seen[visit.host] > 5)

    def urls() -> list[str]:
        seen.clear()
        site = origin(handler, addresses=[*dying, *GOOD[:1]])
        pages = [f"{site.url_at(host)}/dying/{page}" for page in range(8) for host in dying]
        return pages + in_turn(site, GOOD[:1], 60)

    stock = crawl(UrlsSpider, {}, arguments={"urls": urls()}, adaptive=False)
    ours = crawl(UrlsSpider, AUTO, arguments={"urls": urls()}, timeout=90)
    assert len(ours.urls) == len(stock.urls) == 90
    asked = "downloader/request_count"
    assert ours.stats[asked] == stock.stats[asked] == 90 + 6 * 3 * 3


def test_a_host_that_only_redirects(origin: Callable[..., Origin], crawl: Crawler) -> None:
    """A redirect served in time is no error: it lowers the delay as a page does."""
    short, target = GOOD[:2]

    def handler(visit: Visit) -> Answer:
        host, _, port = visit.host.partition(":")
        return redirect(f"http://{target}:{port}{visit.path}") if host == short else Answer()

    site = origin(handler, addresses=[short, target])
    beside_stock(crawl, in_turn(site, [short], 120))


CUT_AT, CUT_FOR = 3.0, 20.0
"""Seconds from the first hit to the cut, and of the cut."""


def cut_line(*, drops_packets: bool) -> Callable[[Visit], Any]:
    """Thirty hosts behind a line that is cut in the middle of the crawl."""
    began_at: list[float] = []

    async def handler(visit: Visit) -> Answer:
        now = time.monotonic()
        began_at.append(now)
        until = began_at[0] + CUT_AT + CUT_FOR
        if not began_at[0] + CUT_AT <= now < until:
            return Answer()
        if drops_packets:
            await asyncio.sleep(until - now)
        return Answer(drop=True)

    return handler


def assert_nothing_lost(site: Origin, done: Crawl, urls: list[str]) -> None:
    """No page, no more retries than CONCURRENT_REQUESTS, and soon going again."""
    assert sorted(done.urls) == sorted(urls)
    assert done.stats.get("retry/count", 0) <= 16
    assert done.stats["adaptive/global_trips"] >= 1
    served = [hit.start for hit in site.hits() if hit.status == 200]
    again = min(at for at in served if at >= served[0] + CUT_AT + CUT_FOR)
    late = again - served[0] - CUT_AT - CUT_FOR
    print(f"{done.stats.get('retry/count', 0)} retries, going again after {late:.2f} s")
    assert late <= 5.0
    assert few_tests(site.hits())
    assert "the connection of this machine seems to be down" in done.log


def few_tests(hits: list[Hit]) -> bool:
    """Whether, once the line was known to be down, no more was asked than a test now and then.

    Twisted asks once more by itself where a connection that it has kept is closed.
    """
    began_at = hits[0].start + CUT_AT
    late = [hit for hit in hits if began_at + 4.0 <= hit.start < began_at + CUT_FOR]
    asked = {(hit.host, hit.path) for hit in late}
    return len(asked) <= 1 + (CUT_FOR - 4.0) / 2.0


def test_a_line_that_is_cut_for_twenty_seconds_loses_no_page(
    origin: Callable[..., Origin], crawl: Crawler
) -> None:
    """All connections are closed; and, beside it, packets are dropped, so that requests time out.

    The two crawls run side by side: most of their time they sleep.
    """
    running = []
    for block, drops_packets in ((3, False), (4, True)):
        hosts = [f"127.6.{block}.{number}" for number in range(1, 31)]
        site = origin(cut_line(drops_packets=drops_packets), addresses=hosts)
        urls = in_turn(site, hosts, 20)
        settings = {**AUTO, "DOWNLOAD_TIMEOUT": 1} if drops_packets else AUTO
        started = crawl.start(UrlsSpider, settings, arguments={"urls": urls}, timeout=90)
        running.append((site, urls, started))
    for site, urls, started in running:
        assert_nothing_lost(site, started.wait(), urls)
