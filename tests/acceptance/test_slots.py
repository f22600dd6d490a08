"""Scrapy's own settings and meta keys keep their meaning; the site's log is the judge, but for the
gaps between requests: a busy site notes one late, and the first most of all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import mean, median
from typing import Any

import pytest
from scrapy import Request
from scrapy.exceptions import CloseSpider
from scrapy.http import Response

from docsite.hits import Hit
from tests.acceptance.readings import READING, when_left
from tests.crawling import Crawl, Crawler
from tests.servers.origin import Answer, Origin, Visit, redirect, refusal
from tests.spiders import UrlsSpider

HERE, THERE = "127.1.0.1", "127.1.0.2"
EAGER = {"ADAPTIVE_START_DELAY": 0.01, "ADAPTIVE_TARGET_CONCURRENCY": 8}
"""Would keep eight requests in flight."""


def slow(visit: Visit) -> Answer:
    return Answer(delay=0.3)


def hits_at(site: Origin, address: str) -> list[Hit]:
    return [hit for hit in site.hits() if hit.host.startswith(address)]


def assert_apart(hits: Sequence[Hit], done: Crawl, delay: float) -> None:
    """`delay` seconds lie between requests as they left, but that a late one is near the next."""
    left = sorted(when_left(hits, done).values())
    assert len(left) == len(hits)
    gaps = [later - earlier for earlier, later in pairwise(left)]
    assert mean(gaps) >= 0.98 * delay
    assert median(gaps) >= 0.9 * delay


def most_in_flight(hits: Sequence[Hit]) -> int:
    """Most requests in service at once."""
    return max(sum(other.start <= hit.start < other.end for other in hits) for hit in hits)


def urls(site: Origin, *addresses: str, count: int = 8) -> list[str]:
    return [f"{site.url_at(address)}/{n}" for n in range(count) for address in addresses]


def with_meta(urls: Sequence[str], **meta: Any) -> list[dict[str, Any]]:
    return [{"url": url, "meta": dict(meta)} for url in urls]


def test_download_slots_bound_their_slots(crawl: Crawler, origin: Callable[..., Origin]) -> None:
    """A delay of one slot, a concurrency of the other: each is obeyed, neither leaks."""
    site = origin(slow, addresses=[HERE, THERE])
    slots = {HERE: {"delay": 0.4}, THERE: {"concurrency": 2}}
    done = crawl(
        UrlsSpider,
        {**EAGER, **READING, "DOWNLOAD_SLOTS": slots},
        arguments={"urls": urls(site, HERE, THERE)},
    )
    assert_apart(hits_at(site, HERE), done, 0.4)
    assert most_in_flight(hits_at(site, THERE)) == 2


def test_a_slot_that_the_user_named_is_bounded_as_download_slots_say(
    crawl: Crawler, origin: Callable[..., Origin]
) -> None:
    """Requests to two hosts share the slot `both` and its delay."""
    site = origin(addresses=[HERE, THERE])
    done = crawl(
        UrlsSpider,
        {**EAGER, **READING, "DOWNLOAD_SLOTS": {"both": {"delay": 0.3}}},
        arguments={"urls": with_meta(urls(site, HERE, THERE, count=4), download_slot="both")},
    )
    assert len(site.hits()) == 8
    assert_apart(site.hits(), done, 0.3)


def test_download_delay_is_a_floor(crawl: Crawler, origin: Callable[..., Origin]) -> None:
    """However quick the site is; and no jitter goes below it."""
    site = origin()
    pages = urls(site, site.addresses[0])
    settings = {**EAGER, **READING, "DOWNLOAD_DELAY": 0.3}
    done = crawl(UrlsSpider, settings, arguments={"urls": pages})
    assert_apart(site.hits(), done, 0.3)


def test_concurrent_requests_per_domain_is_a_cap(
    crawl: Crawler, origin: Callable[..., Origin]
) -> None:
    """It is reached and never passed."""
    site = origin(slow)
    settings = {**EAGER, "CONCURRENT_REQUESTS_PER_DOMAIN": 3}
    crawl(UrlsSpider, settings, arguments={"urls": urls(site, site.addresses[0], count=12)})
    assert most_in_flight(site.hits()) == 3


def test_who_opts_out_waits_for_nothing(crawl: Crawler, origin: Callable[..., Origin]) -> None:
    """Not for the pace, not for a pause of the host, which a hit of its own does not make."""

    def refuse_some(visit: Visit) -> Answer:
        if visit.path == "/paced":
            return refusal(retry_after=6) if visit.count == 1 else Answer()
        return refusal(delay=0.2) if visit.path == "/3" and visit.count == 1 else Answer(delay=0.2)

    site = origin(refuse_some)
    free = with_meta(urls(site, site.addresses[0]), adaptive_dont_throttle=True)
    paced = {"url": f"{site.url}/paced"}
    settings = {"CONCURRENT_REQUESTS_PER_DOMAIN": 2, "CONCURRENT_REQUESTS": 4}
    done = crawl(UrlsSpider, settings, arguments={"urls": [paced, *free]})
    assert len(done.urls) == 9
    assert done.stats["adaptive/permits/granted"] == 2
    assert done.stats["adaptive/trips"] == 1
    assert done.stats["retry/reason_count/429 Unknown Status"] == 1
    paths = [hit.path for hit in site.hits()]
    assert len(paths) == 11
    assert paths.index("/paced") < 4, "it leaves among the first that may be in flight"
    assert paths[-1] == "/paced"


@pytest.mark.parametrize("learns", [True, False])
def test_a_latency_that_is_not_to_be_learned_is_not(
    learns: bool, crawl: Crawler, origin: Callable[..., Origin]
) -> None:
    """`autothrottle_dont_adjust_delay`: the pace stays where it was, all else is as ever."""
    site = origin(lambda visit: Answer(delay=0.6))
    meta = {} if learns else {"autothrottle_dont_adjust_delay": True}
    done = crawl(
        UrlsSpider,
        {"ADAPTIVE_START_DELAY": 0.15, "ADAPTIVE_TARGET_CONCURRENCY": 1},
        arguments={"urls": with_meta(urls(site, site.addresses[0]), **meta)},
    )
    later = site.hits()[5:]
    assert most_in_flight(later) == (1 if learns else 3)
    assert done.stats["adaptive/permits/measured"] == 8


def test_a_refusal_of_a_latency_that_is_not_to_be_learned_is_still_pain(
    crawl: Crawler, origin: Callable[..., Origin]
) -> None:
    """`autothrottle_dont_adjust_delay` is no opt-out.

    A busy machine reads the refusal before the next page is due.
    """
    site = origin(lambda visit: refusal(retry_after=3) if visit.total == 1 else Answer())
    pages = with_meta(urls(site, site.addresses[0], count=3), autothrottle_dont_adjust_delay=True)
    done = crawl(UrlsSpider, {"ADAPTIVE_START_DELAY": 1.0}, arguments={"urls": pages})
    assert len(done.urls) == 3
    assert done.stats["adaptive/trips"] == done.stats["adaptive/requeued"] == 1
    first, second, *_ = site.hits()
    assert second.start - first.end >= 3


def test_a_slot_of_none_is_scrapys_own(origin: Callable[..., Origin], crawl: Crawler) -> None:
    """As Scrapy reads `download_slot = None` in a request's meta."""
    site = origin()
    urls = [{"url": f"{site.url}/{n}", "meta": {"download_slot": None}} for n in range(2)]
    done = crawl(UrlsSpider, {"ADAPTIVE_START_DELAY": 0.1}, arguments={"urls": urls})
    assert len(done.urls) == len(site.hits()) == 2


class SlotSpider(UrlsSpider):
    """Reports the slot of each page."""

    def parse(self, response: Response) -> Iterator[Any]:
        yield {"url": response.url, "status": 200, "slot": response.meta["download_slot"]}


def test_a_slot_that_nobody_chose_does_not_outlive_its_host(
    origin: Callable[..., Origin], crawl: Crawler
) -> None:
    """CONCURRENT_REQUESTS_PER_IP: a host's slot is known once it was looked up."""

    def elsewhere(visit: Visit) -> Answer:
        return Answer() if visit.host.startswith(THERE) else redirect(there + visit.path)

    site = origin(elsewhere, addresses=["127.0.0.1", THERE])
    there = site.url_at(THERE)
    pages = [f"http://localhost:{site.port}/{n}" for n in range(4)]
    settings = {**EAGER, "CONCURRENT_REQUESTS_PER_IP": 2}
    done = crawl(SlotSpider, settings, arguments={"urls": pages})
    assert [item["slot"] for item in done.items] == [THERE] * 4


def test_the_first_refusal_of_a_host_holds_for_its_address(
    origin: Callable[..., Origin], crawl: Crawler
) -> None:
    """CONCURRENT_REQUESTS_PER_IP: until a host was looked up, its slot has its name."""
    seconds = 3
    site = origin(lambda visit: refusal(retry_after=seconds) if visit.total == 1 else Answer())
    pages = [f"http://localhost:{site.port}/{n}" for n in range(3)]
    settings = {**EAGER, "CONCURRENT_REQUESTS_PER_IP": 1}
    done = crawl(UrlsSpider, settings, arguments={"urls": pages})
    assert sorted(done.urls) == pages
    refused, *others = site.hits()
    assert refused.status == 429
    assert min(hit.start for hit in others) >= refused.end + seconds


def number_of_page(request: Request) -> int:
    """As a slot: an account or a proxy may have a number."""
    return 1 + int(request.url[-1]) % 2


def test_a_slot_may_be_a_number(origin: Callable[..., Origin], crawl: Crawler) -> None:
    site = origin()
    settings = {**EAGER, "ADAPTIVE_SLOT": "tests.acceptance.test_slots.number_of_page"}
    pages = urls(site, site.addresses[0])
    done = crawl(UrlsSpider, settings, arguments={"urls": pages})
    assert sorted(done.urls) == sorted(pages)


def slot_of_most(request: Request) -> str:
    """Of a function that expects of each request what not all of them have."""
    return {"0": "even", "2": "even"}[request.url[-1]]


def test_an_error_in_the_function_that_names_slots_loses_no_page(
    origin: Callable[..., Origin], crawl: Crawler
) -> None:
    """Neither that of the request which it raised on, nor those of `start` behind it."""
    site = origin()
    settings = {**EAGER, "ADAPTIVE_SLOT": "tests.acceptance.test_slots.slot_of_most"}
    pages = urls(site, site.addresses[0])
    done = crawl(UrlsSpider, settings, arguments={"urls": pages})
    assert sorted(done.urls) == sorted(pages)
    assert done.log.count("ADAPTIVE_SLOT raised KeyError") == 1


def team_of_most(request: Request) -> dict[str, str]:
    """Of a function that expects of each request what not all of them have."""
    return {"team": slot_of_most(request)}


def test_an_error_in_the_function_that_tells_identities_loses_no_page(
    origin: Callable[..., Origin], crawl: Crawler
) -> None:
    """Neither that of the request which it raised on, nor those of `start` behind it."""
    site = origin()
    settings = {
        **EAGER,
        "ADAPTIVE_IDENTITY": "tests.acceptance.test_slots.team_of_most",
        "ADAPTIVE_RULES": [{"identity": "team=*", "rate": 100}],
    }
    pages = urls(site, site.addresses[0])
    done = crawl(UrlsSpider, settings, arguments={"urls": pages})
    assert sorted(done.urls) == sorted(pages)
    assert done.log.count("ADAPTIVE_IDENTITY raised KeyError") == 1


def slot_of_all(request: Request) -> str:
    """Of a function that knows a slot for each request."""
    return "chosen"


def test_the_function_that_names_slots_counts_before_the_requests_meta(
    origin: Callable[..., Origin], crawl: Crawler
) -> None:
    site = origin()
    settings = {**EAGER, "ADAPTIVE_SLOT": "tests.acceptance.test_slots.slot_of_all"}
    pages = with_meta(urls(site, site.addresses[0], count=2), download_slot="mine")
    done = crawl(SlotSpider, settings, arguments={"urls": pages})
    assert [item["slot"] for item in done.items] == ["chosen", "chosen"]


class EndsOddly(UrlsSpider):
    """Closes with what it has caught."""

    name = "ends"

    def parse(self, response: Response) -> Iterator[Any]:
        raise CloseSpider(ZeroDivisionError("of its own"))  # type: ignore[arg-type]


def test_whatever_a_spider_closes_with_the_journal_has_an_end(
    origin: Callable[..., Origin], crawl: Crawler, tmp_path: Path
) -> None:
    site, journal = origin(), tmp_path / "run.jsonl"
    settings = {**EAGER, "ADAPTIVE_JOURNAL": str(journal)}
    done = crawl(EndsOddly, settings, arguments={"urls": urls(site, site.addresses[0])})
    assert "Traceback" not in done.log
    assert "of its own" in journal.read_text().splitlines()[-1]
