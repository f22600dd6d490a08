"""A host whose requests go to several slots has a place in each, and none moves the others.

Laws
----
* Proxies are real: servers that are asked for absolute URLs. Each logs its own hits.
* The slots are set as projects set them: by a middleware at each request, or by ADAPTIVE_SLOT.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import count, cycle, pairwise
from typing import Any

import pytest
from scrapy import Request, version_info

from benchmarks.beside.spiders import RotatingProxies
from docs.examples import proxies as examples
from docsite.hits import Hit
from tests.acceptance.alongside import once_quiet, seconds
from tests.crawling import Crawler, Reactor
from tests.servers.origin import Answer, Handler, Origin, Visit, refusal
from tests.spiders import UrlsSpider

SITE = "http://site.example"

DELAY = 0.2

EACH = 15
"""Pages for each proxy."""

MOST = 1.5
"""Times the time of one slot that four may take."""


class StickyProxiesSpider(UrlsSpider):
    """Has the proxies of its crawl, which the guide takes from the environment."""

    def __init__(self, urls: list[str | dict[str, Any]], proxies: list[str], **fields: Any) -> None:
        super().__init__(urls, **fields)
        examples.PROXIES[:] = proxies


class UniqueSlots:
    """Each request has a slot of its own."""

    def __init__(self) -> None:
        self.numbers = count()

    def process_request(self, request: Request) -> None:
        request.meta["download_slot"] = f"slot {next(self.numbers)}"


class NumberedSlots:
    """Proxies and accounts in turn, by what is no name: Scrapy takes any key."""

    def __init__(self) -> None:
        self.keys = cycle([0, 1, ("account", 2)])

    def process_request(self, request: Request) -> None:
        request.meta["download_slot"] = next(self.keys)


class OneSlot:
    """All requests have one, whatever their host."""

    def process_request(self, request: Request) -> None:
        request.meta["download_slot"] = "all"


def pages(number: int) -> list[str]:
    return [f"{SITE}/{n}" for n in range(number)]


def rotating(sites: list[Origin], **settings: Any) -> dict[str, Any]:
    """Settings of a crawl through these proxies in turn, as projects have it."""
    return {
        "PROXIES": [site.url for site in sites],
        "DOWNLOADER_MIDDLEWARES": {RotatingProxies: 740},
        **settings,
    }


def refusing_once(nth: int, retry_after: float) -> Handler:
    """Refuses its nth visit, and whatever comes before the time it asks for is over."""
    until = [0.0]

    def handler(visit: Visit) -> Answer:
        if visit.total == nth:
            until[0] = visit.elapsed + retry_after
        if visit.elapsed < until[0]:
            return refusal(retry_after=retry_after)
        return Answer()

    return handler


def served(sites: list[Origin]) -> list[Hit]:
    return [hit for site in sites for hit in site.hits() if hit.status == 200]


def assert_each_page_once(sites: list[Origin], number: int) -> None:
    assert Counter(hit.path for hit in served(sites)) == Counter(f"/{n}" for n in range(number))


@pytest.mark.parametrize("reactor", ["asyncio", "none"])
def test_four_slots_in_turn_go_at_four_times_the_pace_of_one(
    reactor: Reactor, origin: Callable[..., Origin], crawl: Crawler
) -> None:
    """Four times the pages in the same time: DOWNLOAD_DELAY is of each slot, as in stock Scrapy."""
    if reactor == "none" and version_info < (2, 19):
        pytest.skip("this Scrapy takes no proxies without a reactor")
    settings = {"DOWNLOAD_DELAY": DELAY, "ADAPTIVE_START_DELAY": DELAY}

    def ratio() -> float:
        one, four = [origin()], [origin() for _ in range(4)]
        running = [
            crawl.start(
                UrlsSpider,
                rotating(sites, **settings),
                arguments={"urls": pages(EACH * len(sites))},
                reactor=reactor,
            )
            for sites in (one, four)
        ]
        for each in running:
            assert each.wait().lost == []
        times = [seconds(sorted(served(sites), key=lambda hit: hit.start)) for sites in (one, four)]
        print(f"one {times[0]:.2f} s, four {times[1]:.2f} s")
        assert_each_page_once(four, 4 * EACH)
        for site in four:
            starts = [hit.start for hit in site.hits()]
            assert sum(later - earlier < 0.5 * DELAY for earlier, later in pairwise(starts)) <= 2
        return times[1] / times[0]

    assert once_quiet(ratio, lambda found: found <= MOST) <= MOST


def test_the_refusal_of_one_slot_leaves_the_others_going_and_nothing_is_lost(
    origin: Callable[..., Origin], crawl: Crawler
) -> None:
    """One proxy is refused for some seconds: the others are asked for their pages meanwhile."""
    sites = [origin(refusing_once(5, retry_after=8)), *(origin() for _ in range(3))]
    done = crawl(
        UrlsSpider,
        rotating(
            sites,
            DOWNLOAD_DELAY=0.05,
            ADAPTIVE_START_DELAY=0.05,
            ADAPTIVE_TARGET_CONCURRENCY=1,
        ),
        arguments={"urls": pages(100)},
    )
    assert sorted(done.urls) == sorted(pages(100))
    assert_each_page_once(sites, 100)
    refused = [hit for hit in sites[0].hits() if hit.status == 429]
    read_by = refused[0].end + 0.5  # on a busy machine too
    assert all(hit.start < read_by for hit in refused)
    before_it_ends = [hit for hit in served(sites) if hit.start < refused[0].end + 8]
    after_refusal = [hit for hit in before_it_ends if hit.start > read_by]
    assert not set(after_refusal) & set(sites[0].hits())
    assert len(before_it_ends) >= 95


def test_the_rotating_recipe_fetches_hundreds_of_pages_each_once(
    origin: Callable[..., Origin], crawl: Crawler
) -> None:
    """Each proxy is refused at some time; what it refused goes through another."""
    sites = [origin(refusing_once(nth, retry_after=2)) for nth in (20, 40, 60)]
    settings = {
        "DOWNLOADER_MIDDLEWARES": {examples.RotatingProxies: 740},
        "ADAPTIVE_START_DELAY": 0.02,
        "ADAPTIVE_TARGET_CONCURRENCY": 8,
    }
    done = crawl(
        UrlsSpider,
        rotating(sites, **settings),
        arguments={"urls": pages(300)},
    )
    assert sorted(done.urls) == sorted(pages(300))
    assert_each_page_once(sites, 300)
    assert done.stats["adaptive/slots"] == len(sites)
    assert all(any(hit.status == 429 for hit in site.hits()) for site in sites)


def test_the_sticky_recipe_keeps_each_session_at_its_proxy_and_a_pause_holds_only_its_own(
    origin: Callable[..., Origin], crawl: Crawler
) -> None:
    """One proxy is refused for some seconds: only its sessions wait, and nothing is lost."""
    sites = [origin(refusing_once(10, retry_after=4)), *(origin() for _ in range(2))]
    requests = [{"url": url, "meta": {"cookiejar": n}} for n, url in enumerate(pages(300))]
    done = crawl(
        StickyProxiesSpider,
        {
            "ADAPTIVE_SLOT": examples.sticky_slot,
            "DOWNLOADER_MIDDLEWARES": {examples.StickyProxies: 740},
            "ADAPTIVE_START_DELAY": 0.02,
            "ADAPTIVE_TARGET_CONCURRENCY": 8,
        },
        arguments={"urls": requests, "proxies": [site.url for site in sites]},
    )
    assert sorted(done.urls) == sorted(pages(300))
    for number, site in enumerate(sites):
        assert {hit.path for hit in site.hits()} == {f"/{n}" for n in range(number, 300, 3)}
    refused = [hit for hit in sites[0].hits() if hit.status == 429]
    assert refused
    after = [hit for hit in sites[0].hits() if hit.start > refused[-1].end]
    assert after[0].start >= refused[0].end + 4
    for site in sites[1:]:  # they went on all the while, or were done
        then = [hit for hit in site.hits() if refused[0].end < hit.start < after[0].start]
        assert len(then) > 20


def test_a_new_slot_for_each_request_holds_nothing_up(
    origin: Callable[..., Origin], crawl: Crawler
) -> None:
    """As with a session in the name of the slot: each is new, and leaves at once."""
    sites = [origin(lambda visit: Answer(delay=0.05)) for _ in range(2)]
    running = [
        crawl.start(
            UrlsSpider,
            {"DOWNLOADER_MIDDLEWARES": {UniqueSlots: 740}},
            arguments={"urls": [f"{site.url}/{n}" for n in range(100)]},
            adaptive=adaptive,
        )
        for site, adaptive in zip(sites, (True, False), strict=True)
    ]
    ours, stock = (each.wait() for each in running)
    assert len(ours.urls) == len(stock.urls) == 100
    assert seconds(sites[0].hits()) <= 2 * seconds(sites[1].hits()) + 3


def test_a_slot_that_a_middleware_sets_need_not_be_a_name(
    origin: Callable[..., Origin], crawl: Crawler
) -> None:
    """Numbers and tuples, as stock Scrapy takes them there, and as keys of DOWNLOAD_SLOTS."""
    site = origin(refusing_once(6, 1))
    settings = {
        "DOWNLOADER_MIDDLEWARES": {NumberedSlots: 740},
        "DOWNLOAD_SLOTS": {1: {"delay": 0.5}},
        "ADAPTIVE_START_DELAY": 0.05,
    }
    urls = [f"{site.url}/{n}" for n in range(15)]
    done = crawl(UrlsSpider, settings, arguments={"urls": urls}, timeout=40)
    assert sorted(done.urls) == sorted(urls)
    assert " ERROR: " not in done.log
    assert done.stats["adaptive/refusals"] >= 1
    assert {f"adaptive/site/{key}/pages" for key in (0, 1, ("account", 2))} <= done.stats.keys()
    assert seconds(site.hits()) > 1.5


def test_hosts_that_share_one_slot_take_turns(
    origin: Callable[..., Origin], crawl: Crawler
) -> None:
    """However many requests of the one were queued before those of the other."""
    hosts = ["127.1.0.1", "127.1.0.2"]
    site = origin(addresses=hosts)
    done = crawl(
        UrlsSpider,
        {
            "DOWNLOADER_MIDDLEWARES": {OneSlot: 740},
            "DOWNLOAD_DELAY": 0.05,
            "ADAPTIVE_START_DELAY": 0.05,
        },
        arguments={"urls": [f"{site.url_at(host)}/{n}" for host in hosts for n in range(20)]},
    )
    assert len(done.urls) == 40
    later = site.hits()[10:30]
    shares = Counter(hit.host.partition(":")[0] for hit in later)
    assert min(shares[host] for host in hosts) >= 6
