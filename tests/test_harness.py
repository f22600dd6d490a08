"""The harness measures the truth: the judge, the two servers, and the crawls."""

from __future__ import annotations

import http.client
import time
from collections.abc import Callable
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest
from scrapy import Request
from scrapy.http import Response

from docsite.hits import Hit, rude_hits
from tests.crawling import Crawler, CrawlError, Reactor
from tests.servers.nginx import ALL_HOSTS, EACH_HOST, Fragment, Nginx, limit_conn, limit_req
from tests.servers.origin import (
    PNG,
    Answer,
    Origin,
    Visit,
    answers,
    gzipped,
    image,
    links_page,
    redirect,
    refusal,
    robots_txt,
)
from tests.servers.wire import Site, silence_asked
from tests.spiders import LinksSpider, UrlsSpider

TWO_HOSTS = ("127.0.0.1", "127.1.0.5")


def visit(site: Site, path: str, address: str = "") -> tuple[int, http.client.HTTPMessage, bytes]:
    """One request on a connection of its own: status, headers, body."""
    connection = http.client.HTTPConnection(address or site.addresses[0], site.port, timeout=10)
    try:
        connection.request("GET", path, headers={"User-Agent": "visitor"})
        response = connection.getresponse()
        return response.status, response.headers, response.read()
    finally:
        connection.close()


# The judge, on hits made by hand. All instants are exact in binary.


def rude_starts(*hits: Hit, **options: Any) -> list[float]:
    return [rude.hit.start for rude in rude_hits(hits, grace=0.25, **options)]


@pytest.mark.parametrize(
    ("start", "is_rude"),
    [
        (7.5, False),  # before it
        (8.0, False),  # while it was written
        (8.25, False),  # exactly at the end of the grace
        (8.375, True),
        (9.875, True),
        (10.0, False),  # exactly when the wait is over
        (10.5, False),
    ],
)
def test_a_hit_is_rude_between_the_grace_and_the_end_of_the_wait(
    start: float, is_rude: bool
) -> None:
    refused = Hit(7.75, 8.0, 429, "/", retry_after=2.0)
    assert rude_starts(refused, Hit(start, start + 0.125, 200, "/")) == [start] * is_rude


@pytest.mark.parametrize(("start", "is_rude"), [(8.25, False), (8.375, True), (8.5, False)])
def test_a_refusal_that_names_no_time_asks_for_the_default_silence(
    start: float, is_rude: bool
) -> None:
    refused = Hit(7.75, 8.0, 503, "/")
    hits = (refused, Hit(start, start, 200, "/"))
    assert rude_starts(*hits, silence=0.5) == [start] * is_rude


def test_a_hit_that_was_in_flight_is_not_rude() -> None:
    refused = Hit(7.75, 8.0, 429, "/", retry_after=2.0)
    assert rude_starts(refused, Hit(7.875, 9.5, 200, "/")) == []


def test_another_host_may_be_visited_during_the_silence() -> None:
    refused = Hit(7.75, 8.0, 429, "/", "a.example:80", retry_after=2.0)
    elsewhere = Hit(9.0, 9.0, 200, "/", "b.example:80")
    here = Hit(9.5, 9.5, 200, "/", "a.example:80")
    assert rude_starts(refused, elsewhere, here) == [9.5]


def test_a_rude_hit_is_reported_once_and_may_itself_be_a_refusal() -> None:
    refusals = [Hit(t, t, 429, "/", retry_after=2.0) for t in (8.0, 8.125, 9.0)]
    assert rude_starts(*refusals) == [9.0]
    assert rude_starts(*refusals, Hit(10.5, 10.5, 200, "/")) == [9.0, 10.5]


def test_only_refusals_ask_for_silence() -> None:
    hits = [Hit(8.0, 8.0, 403, "/", retry_after=2.0), Hit(9.0, 9.0, 200, "/")]
    assert rude_starts(*hits) == []
    assert rude_starts(*hits, refusal_codes=frozenset({403})) == [9.0]


def test_a_wait_of_no_seconds_asks_for_nothing() -> None:
    assert rude_starts(Hit(8.0, 8.0, 429, "/", retry_after=0.0), Hit(8.5, 8.5, 200, "/")) == []


def test_stock_scrapy_is_found_rude_and_loses_what_the_limit_does_not_let_through(
    nginx: Callable[..., Nginx], crawl: Crawler
) -> None:
    site = nginx(limit_req("2r/s", burst=2), pages=60)
    done = crawl(
        UrlsSpider,
        {"CONCURRENT_REQUESTS_PER_DOMAIN": 8},
        adaptive=False,
        arguments={"urls": site.page_urls()},
    )
    hits = site.hits()
    let_through = 4 + 2 * (hits[-1].end - hits[0].start)
    assert len(hits) == done.stats["downloader/request_count"]
    assert len(done.urls) == sum(hit.status == 200 for hit in hits) <= let_through
    assert len(done.lost) == 60 - len(done.urls) > 0
    assert len(list(rude_hits(hits))) > 100


# What a Retry-After means.


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        (None, None),
        ("", None),
        ("soon", None),
        ("0", 0.0),
        ("120", 120.0),
        ("Thu, 01 Jan 1970 00:01:40 GMT", 60.0),
        ("Thu, 01 Jan 1970 00:00:10 GMT", 0.0),
        ("Thu, 01 Jan 1970 00:01:40 -0000", 60.0),
    ],
)
def test_a_retry_after_is_seconds_or_a_date(text: str | None, seconds: float | None) -> None:
    assert silence_asked(text, now=40.0) == seconds


# The scripted site.


def test_a_visit_is_logged_with_its_times_agent_and_host(origin: Callable[..., Origin]) -> None:
    site = origin(lambda _: Answer(body="hello", delay=0.125))
    before = time.time()
    status, headers, body = visit(site, "/a?b=1")
    after = time.time()
    (hit,) = site.hits()
    assert (status, headers["Content-Type"], body) == (200, "text/html; charset=utf-8", b"hello")
    assert (hit.status, hit.path, hit.agent, hit.retry_after) == (200, "/a?b=1", "visitor", None)
    assert hit.host == f"127.0.0.1:{site.port}"
    assert before <= hit.start <= hit.end - 0.125 < after


def test_a_visit_carries_its_counts(origin: Callable[..., Origin]) -> None:
    seen: list[Visit] = []

    def remember(this: Visit) -> Answer:
        seen.append(this)
        return Answer()

    site = origin(remember, addresses=TWO_HOSTS)
    for path, address in [("/a", ""), ("/b", ""), ("/a", ""), ("/a", "127.1.0.5")]:
        visit(site, path, address)
    assert [(this.path, this.count, this.total) for this in seen] == [
        ("/a", 1, 1),
        ("/b", 1, 2),
        ("/a", 2, 3),
        ("/a", 1, 4),
    ]
    assert [hit.host for hit in site.hits()[2:]] == [
        f"127.0.0.1:{site.port}",
        f"127.1.0.5:{site.port}",
    ]
    assert 0 < seen[0].elapsed < seen[-1].elapsed
    assert seen[0].headers["user-agent"] == "visitor"


def test_a_dropped_connection_is_logged_with_status_0(origin: Callable[..., Origin]) -> None:
    site = origin(lambda this: Answer(drop=this.count == 1))
    with pytest.raises(ConnectionError):
        visit(site, "/")
    assert visit(site, "/")[0] == 200
    assert [hit.status for hit in site.hits()] == [0, 200]


def test_a_handler_may_be_a_coroutine_and_may_be_exchanged(origin: Callable[..., Origin]) -> None:
    async def refuse(_: Visit) -> Answer:
        return refusal(503, retry_after=formatdate(time.time() + 30, usegmt=True))

    site = origin(refuse)
    visit(site, "/")
    site.handler = lambda _: refusal(retry_after=2)
    visit(site, "/")
    site.handler = lambda _: Answer()
    visit(site, "/")
    by_date, by_seconds, found = site.hits()
    assert [hit.status for hit in (by_date, by_seconds, found)] == [503, 429, 200]
    assert by_date.retry_after == pytest.approx(30, abs=1.5)
    assert (by_seconds.retry_after, found.retry_after) == (2.0, None)


def test_an_error_in_the_handler_is_an_error_of_the_test(origin: Callable[..., Origin]) -> None:
    site = origin(lambda _: 1 / 0)
    assert visit(site, "/")[0] == 500
    with pytest.raises(ZeroDivisionError):
        site.hits()


def test_a_stopped_site_cuts_off_what_is_in_flight(crawl: Crawler) -> None:
    with Origin(lambda _: Answer(delay=60)) as site:
        running = crawl.start(
            UrlsSpider, {"RETRY_ENABLED": False}, adaptive=False, arguments={"urls": [site.url]}
        )
        running.until(lambda: site.in_flight())
    assert [hit.status for hit in site.hits()] == [0]
    assert running.wait().lost == [site.url]


def test_scrapy_reads_every_kind_of_answer(origin: Callable[..., Origin], crawl: Crawler) -> None:
    site = origin(
        answers(
            {
                "/robots.txt": robots_txt("User-agent: *\nDisallow: /private"),
                "/": links_page(["/gzipped", "/image", "/moved", "/private"]),
                "/gzipped": gzipped("<p>unpacked"),
                "/image": image(),
                "/moved": redirect("/found"),
            },
            otherwise=lambda _: Answer(404),
        )
    )
    site.handler = answers({"/found": Answer(body="found")}, otherwise=site.handler)
    done = crawl(
        LinksSpider,
        {"ROBOTSTXT_OBEY": True},
        adaptive=False,
        arguments={"urls": [f"{site.url}/"]},
    )
    bodies = {
        item["url"].removeprefix(site.url): item["body_start"]
        for item in done.items
        if "status" in item
    }
    assert bodies.keys() == {"/", "/gzipped", "/image", "/found"}
    assert (bodies["/gzipped"], bodies["/found"]) == ("<p>unpacked", "found")
    assert bodies["/image"][1:4] == PNG[1:4].decode()
    assert done.lost == [f"{site.url}/private"]
    assert [hit.path for hit in site.hits()][:2] == ["/robots.txt", "/"]


# nginx.


def test_nginx_refuses_beyond_its_rate_and_only_a_refusal_names_a_time(
    nginx: Callable[..., Nginx],
) -> None:
    site = nginx(limit_req("1r/m", burst=1), pages=3, retry_after="2")
    got = [visit(site, f"/page/{n}.html") for n in range(3)]
    assert [status for status, _, _ in got] == [200, 200, 429]
    assert [headers["Retry-After"] for _, headers, _ in got] == [None, None, "2"]
    hits = site.hits()
    assert [(hit.status, hit.retry_after) for hit in hits] == [(200, None), (200, None), (429, 2.0)]
    assert [hit.path for hit in hits] == ["/page/0.html", "/page/1.html", "/page/2.html"]
    assert {(hit.host, hit.agent) for hit in hits} == {(f"127.0.0.1:{site.port}", "visitor")}


@pytest.mark.parametrize(("key", "statuses"), [(EACH_HOST, [200, 200]), (ALL_HOSTS, [200, 503])])
def test_the_hosts_of_nginx_have_a_budget_each_or_share_one(
    nginx: Callable[..., Nginx], key: str, statuses: list[int]
) -> None:
    site = nginx(limit_req("1r/m", status=503, key=key), pages=1, addresses=TWO_HOSTS)
    assert [visit(site, "/page/0.html", address)[0] for address in TWO_HOSTS] == statuses


def test_nginx_limits_what_is_in_flight_and_logs_how_long_it_took(
    nginx: Callable[..., Nginx], crawl: Crawler
) -> None:
    site = nginx(limit_conn(3), pages=5, delay=0.5)
    done = crawl(
        UrlsSpider,
        {"CONCURRENT_REQUESTS_PER_DOMAIN": 5, "RETRY_ENABLED": False},
        adaptive=False,
        arguments={"urls": site.page_urls()},
    )
    hits = site.hits()
    assert len(done.urls) == 3
    assert sorted(hit.status for hit in hits) == [200, 200, 200, 503, 503]
    assert all(0.49 <= hit.end - hit.start < 5 for hit in hits if hit.status == 200)


def test_nginx_that_cannot_start_says_why(nginx: Callable[..., Nginx]) -> None:
    with pytest.raises(RuntimeError, match='unknown directive "no_such_limit"'):
        nginx(Fragment(location="no_such_limit 1;"))


# The crawls.


class RefusesBadPages:
    """A downloader middleware of this module."""

    def process_request(self, request: Request) -> None:
        if "bad" in request.url:
            raise ValueError("a bad page")


class UnmakeableSpider(UrlsSpider):
    """Fails before it crawls."""

    def __init__(self, urls: list[str | dict[str, Any]]) -> None:
        raise ValueError("no such thing")


class MarkSpider(UrlsSpider):
    """Reports what its requests carry in their meta."""

    def parse(self, response: Response) -> Any:
        yield {"url": response.url, "status": 200, "mark": response.meta["mark"]}


@pytest.mark.parametrize("reactor", ["asyncio", "select", "none"])
def test_a_crawl_yields_its_items_on_every_reactor(
    reactor: Reactor, origin: Callable[..., Origin], crawl: Crawler
) -> None:
    site = origin()
    urls = [f"{site.url}/{n}" for n in range(3)]
    before = time.time()
    done = crawl(UrlsSpider, adaptive=False, reactor=reactor, arguments={"urls": urls})
    after = time.time()
    page = {"status": 200, "body_start": "<title>page</title>"}
    assert sorted(done.items, key=lambda item: item["url"]) == [{"url": u, **page} for u in urls]
    assert (done.returncode, done.stderr, done.lost) == (0, "", [])
    assert (done.stats["finish_reason"], done.stats["item_scraped_count"]) == ("finished", 3)
    assert before < done.started_at < site.hits()[0].start < done.ended_at < after
    assert "Spider closed (finished)" in done.log
    reactor_named = {"asyncio": "AsyncioSelectorReactor", "select": "SelectReactor"}
    assert reactor_named.get(reactor, "Not using a Twisted reactor") in done.log


def test_a_test_brings_its_own_spider_and_middleware(
    origin: Callable[..., Origin], crawl: Crawler
) -> None:
    site = origin()
    urls = [{"url": f"{site.url}/{path}", "meta": {"mark": path}} for path in ("good", "bad")]
    done = crawl(
        "tests.test_harness:MarkSpider",
        {"DOWNLOADER_MIDDLEWARES": {RefusesBadPages: 10}},
        adaptive=False,
        arguments={"urls": urls},
    )
    assert {"url": f"{site.url}/good", "status": 200, "mark": "good"} in done.items
    assert {"url": f"{site.url}/bad", "error": "ValueError: a bad page"} in done.items
    assert [hit.path for hit in site.hits()] == ["/good"]


def test_an_interrupted_crawl_is_resumed_from_its_jobdir(
    origin: Callable[..., Origin], crawl: Crawler, tmp_path: Path
) -> None:
    site = origin(lambda _: Answer(delay=0.01))
    urls = [f"{site.url}/{n}" for n in range(100)]
    options: dict[str, Any] = {
        "adaptive": False,
        "jobdir": tmp_path / "job",
        "arguments": {"urls": urls},
    }
    running = crawl.start(UrlsSpider, **options)
    running.until(lambda: len(site.hits()) >= 20)
    running.interrupt()
    first = running.wait()
    second = crawl(UrlsSpider, **options)
    assert first.stats["finish_reason"] == "shutdown"
    assert 20 <= len(first.urls) < 100
    assert sorted(first.urls + second.urls) == sorted(urls)


def test_a_killed_crawl_leaves_what_it_had(origin: Callable[..., Origin], crawl: Crawler) -> None:
    site = origin(answers({"/slow": Answer(delay=60)}))
    urls = [f"{site.url}/quick", f"{site.url}/slow"]
    running = crawl.start(UrlsSpider, adaptive=False, arguments={"urls": urls})
    running.until(lambda: running.outcome().items)
    running.kill()
    done = running.wait(check=False)
    assert (done.returncode, done.stats, done.urls) == (-9, {}, urls[:1])


@pytest.mark.parametrize(
    ("spider", "message"),
    [
        ("tests.no_such_module:Spider", "No module named 'tests.no_such_module'"),
        (UnmakeableSpider, "ValueError: no such thing"),
    ],
)
@pytest.mark.parametrize("reactor", ["asyncio", "select", "none"])
def test_a_crawl_that_crashes_says_why(
    spider: Any, message: str, reactor: Reactor, crawl: Crawler
) -> None:
    with pytest.raises(CrawlError, match=rf"ended with code 1(?s:.*){message}"):
        crawl(spider, adaptive=False, reactor=reactor, arguments={"urls": []})


def test_a_crawl_that_does_not_end_is_killed_in_time(
    origin: Callable[..., Origin], crawl: Crawler
) -> None:
    site = origin(lambda _: Answer(delay=60))
    with pytest.raises(CrawlError, match="did not end in time"):
        crawl(UrlsSpider, adaptive=False, arguments={"urls": [site.url]}, timeout=1.5)
