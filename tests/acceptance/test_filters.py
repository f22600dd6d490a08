"""A refusal changes nothing of a request that filters, spiders and slots look at."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
from scrapy import Request
from scrapy.http import Response

from tests.crawling import Crawl, Crawler, Reactor
from tests.servers.origin import Answer, Handler, Origin, Visit, redirect, refusal
from tests.spiders import UrlsSpider

HERE, THERE = "127.1.0.1", "127.1.0.2"
QUICK = {"ADAPTIVE_START_DELAY": 0.05, "ADAPTIVE_TARGET_CONCURRENCY": 4}


class MetaSpider(UrlsSpider):
    """Reports what the spider sees of a request, and follows `next` with a copy of its meta."""

    handle_httpstatus_list = (429, 503)

    def parse(self, response: Response) -> Iterator[Any]:
        request = response.request
        assert request is not None
        meta = dict(response.meta)
        yield {
            "url": response.url,
            "status": response.status,
            "dont_filter": request.dont_filter,
            "priority": request.priority,
            "slot": meta.get("download_slot"),
            "retry_times": meta.get("retry_times"),
            "ours": sorted(key for key in meta if key.startswith("adaptive_")),
        }
        for url in meta.pop("next", ()):
            yield Request(url, meta=meta, callback=self.parse, errback=self.lose)


class ChainSpider(UrlsSpider):
    """Asks for one page after the other, so that the first is seen before the next."""

    async def start(self) -> AsyncIterator[Any]:
        first, *rest = self.urls
        meta = {"rest": rest}
        yield Request(str(first), callback=self.parse, errback=self.lose, meta=meta)

    def parse(self, response: Response) -> Iterator[Any]:
        yield from super().parse(response)
        for url in response.meta.get("rest", ()):
            yield Request(url, callback=self.parse, errback=self.lose)


def refusing_first(handler: Handler, refusals: int = 1) -> Handler:
    """Every page is refused `refusals` times before it is served as `handler` would."""

    def refuse_first(visit: Visit) -> Any:
        return refusal(retry_after=0) if visit.count <= refusals else handler(visit)

    return refuse_first


def to_elsewhere(visit: Visit) -> Answer:
    """/go leads to another host; all else is there."""
    host = visit.host.replace(HERE, THERE)
    return redirect(f"http://{host}/elsewhere") if visit.path == "/go" else Answer()


def to_seen_page(visit: Visit) -> Answer:
    """/go leads to a page that the crawl has been to."""
    return redirect("/seen") if visit.path == "/go" else Answer()


def found(done: Crawl, site: Origin) -> set[tuple[str, str]]:
    """What reached the spider, without the port."""
    return {
        (item["url"].replace(str(site.port), "PORT"), item.get("error", "page").split(":")[0])
        for item in done.items
    }


@pytest.mark.parametrize(
    ("handler", "reactor"),
    [
        (to_elsewhere, "asyncio"),
        (to_seen_page, "asyncio"),
        (to_elsewhere, "select"),
        (to_elsewhere, "none"),
    ],
)
def test_a_redirect_after_a_refusal_is_filtered_as_by_stock_scrapy(
    handler: Handler, reactor: Reactor, crawl: Crawler, origin: Callable[..., Origin]
) -> None:
    """Offsite or seen before: the offsite filter and the duplicate filter stop it as ever."""
    outcomes, asked = [], []
    for adaptive in (False, True):
        site = origin(refusing_first(handler) if adaptive else handler, addresses=[HERE, THERE])
        done = crawl(
            ChainSpider,
            QUICK if adaptive else {},
            adaptive=adaptive,
            reactor=reactor,
            arguments={
                "urls": [f"{site.url_at(HERE)}{path}" for path in ("/seen", "/go", "/after")],
                "allowed_domains": [HERE],
            },
        )
        outcomes.append(found(done, site))
        asked.append(sorted(hit.path for hit in site.hits() if hit.status != 429))
    assert outcomes[1] == outcomes[0]
    assert asked[1] == asked[0] == ["/after", "/go", "/seen"]


@pytest.mark.parametrize("dont_filter", [False, True])
def test_the_spider_sees_dont_filter_and_priority_as_it_set_them(
    dont_filter: bool, crawl: Crawler, origin: Callable[..., Origin]
) -> None:
    """After two refusals the request is what it was, and no retry was spent on it."""
    site = origin(refusing_first(lambda visit: Answer(), refusals=2))
    request = {"url": f"{site.url}/1", "dont_filter": dont_filter, "priority": 7}
    done = crawl(MetaSpider, QUICK, arguments={"urls": [request]})
    (item,) = done.items
    assert (item["status"], item["dont_filter"], item["priority"]) == (200, dont_filter, 7)
    assert item["retry_times"] is None
    assert "retry/count" not in done.stats


def test_an_accepted_page_carries_no_counter_of_refusals(
    crawl: Crawler, origin: Callable[..., Origin]
) -> None:
    """Of our own marks the spider sees only the name of the slot."""
    site = origin(refusing_first(lambda visit: Answer(), refusals=2))
    done = crawl(MetaSpider, QUICK, arguments={"urls": [f"{site.url}/1"]})
    assert [item["ours"] for item in done.items] == [["adaptive_slot"]]


def test_a_copied_meta_copies_no_refusals(crawl: Crawler, origin: Callable[..., Origin]) -> None:
    """A page that the spider got as a refusal passes its meta on; the next page starts from 0."""

    def always_then_twice(visit: Visit) -> Answer:
        if visit.path == "/1" or visit.count <= 2:
            return refusal(retry_after=0)
        return Answer()

    site = origin(always_then_twice)
    first = {"url": f"{site.url}/1", "meta": {"next": [f"{site.url}/2"], "max_retry_times": 0}}
    done = crawl(MetaSpider, {**QUICK, "ADAPTIVE_MAX_REFUSALS": 2}, arguments={"urls": [first]})
    statuses = {item["url"][-2:]: item["status"] for item in done.items}
    assert statuses == {"/1": 429, "/2": 200}
    carried = {item["url"][-2:]: "adaptive_refusals" in item["ours"] for item in done.items}
    assert carried == {"/1": True, "/2": False}
    assert done.stats["adaptive/handed_over"] == 1
    assert [hit.path for hit in site.hits()] == ["/1"] * 3 + ["/2"] * 3


@pytest.mark.parametrize("refusals", [0, 1])
def test_a_redirect_to_another_host_is_paced_as_that_host(
    refusals: int, crawl: Crawler, origin: Callable[..., Origin]
) -> None:
    """Scrapy's redirects copy `download_slot`; the name it wrote itself is not followed."""
    site = origin(refusing_first(to_elsewhere, refusals), addresses=[HERE, THERE])
    done = crawl(MetaSpider, QUICK, arguments={"urls": [f"{site.url_at(HERE)}/go"]})
    assert [item["slot"] for item in done.items] == [THERE]
    assert done.stats["adaptive/slots"] == 2


def test_a_copied_meta_does_not_pace_another_host(
    crawl: Crawler, origin: Callable[..., Origin]
) -> None:
    """Nor does a spider that passes a whole meta on."""
    site = origin(addresses=[HERE, THERE])
    first = {"url": f"{site.url_at(HERE)}/1", "meta": {"next": [f"{site.url_at(THERE)}/2"]}}
    done = crawl(MetaSpider, QUICK, arguments={"urls": [first]})
    assert [item["slot"] for item in done.items] == [HERE, THERE]


@pytest.mark.parametrize("path", ["/page", "/go"])
def test_a_slot_that_the_user_chose_is_kept(
    path: str, crawl: Crawler, origin: Callable[..., Origin]
) -> None:
    """Through refusals, through a redirect to another host, and in a copied meta."""
    site = origin(refusing_first(to_elsewhere), addresses=[HERE, THERE])
    urls = [f"{site.url_at(HERE)}{path}", f"{site.url_at(THERE)}/last"]
    first = {"url": urls[0], "meta": {"download_slot": "mine", "next": urls[1:]}}
    done = crawl(MetaSpider, QUICK, arguments={"urls": [first]})
    assert [(item["status"], item["slot"]) for item in done.items] == [(200, "mine")] * 2
    assert done.stats["adaptive/slots"] == 1
