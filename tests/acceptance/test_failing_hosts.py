"""Hosts that are not there, beside stock Scrapy; the crawler's own line; a host that redirects."""

from __future__ import annotations

import asyncio
import time
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


def test_a_host_that_only_redirects(origin: Callable[..., Origin], crawl: Crawler) -> None:
    """A redirect served in time is no error: it lowers the delay as a page does."""
    short, target = GOOD[:2]

    def handler(visit: Visit) -> Answer:
        host, _, port = visit.host.partition(":")
        return redirect(f"http://{target}:{port}{visit.path}") if host == short else Answer()

    site = origin(handler, addresses=[short, target])
    beside_stock(crawl, in_turn(site, [short], 120))


CUT_AT, CUT_FOR = 3.0, 5.0
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
    assert done.stats["adaptive/global_trips"] == 1
    served = [hit.start for hit in site.hits() if hit.status == 200]
    again = min(at for at in served if at >= served[0] + CUT_AT + CUT_FOR)
    assert again <= served[0] + CUT_AT + CUT_FOR + 5.0
    assert few_tests(site.hits())
    assert "the connection of this machine seems to be down" in done.log


def few_tests(hits: list[Hit]) -> bool:
    """Whether, once the line was known to be down, no more was asked than a test now and then."""
    began_at = hits[0].start + CUT_AT
    asked = [hit for hit in hits if began_at + 3.0 <= hit.start < began_at + CUT_FOR]
    return len(asked) <= 2


def test_a_line_that_is_cut_loses_no_page(origin: Callable[..., Origin], crawl: Crawler) -> None:
    """All connections are closed."""
    hosts = [f"127.6.3.{number}" for number in range(1, 31)]
    site = origin(cut_line(drops_packets=False), addresses=hosts)
    urls = in_turn(site, hosts, 20)
    done = crawl(UrlsSpider, AUTO, arguments={"urls": urls}, timeout=60)
    assert_nothing_lost(site, done, urls)


def test_a_line_that_drops_packets_loses_no_page(
    origin: Callable[..., Origin], crawl: Crawler
) -> None:
    """Requests time out."""
    hosts = [f"127.6.4.{number}" for number in range(1, 31)]
    site = origin(cut_line(drops_packets=True), addresses=hosts)
    urls = in_turn(site, hosts, 20)
    settings = {**AUTO, "DOWNLOAD_TIMEOUT": 1}
    done = crawl(UrlsSpider, settings, arguments={"urls": urls}, timeout=60)
    assert_nothing_lost(site, done, urls)
