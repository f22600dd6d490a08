"""The user's classifier has the last word on what an answer meant."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from scrapy import Request
from scrapy.crawler import Crawler as ScrapysCrawler
from scrapy.http import Response, TextResponse

from docsite.hits import rude_hits
from scrapy_adaptive import Outcome
from tests.acceptance.test_filters import MetaSpider
from tests.crawling import Crawler, Reactor
from tests.servers.origin import Answer, Origin, Visit, gzipped, refusal
from tests.spiders import UrlsSpider

QUICK = {"ADAPTIVE_START_DELAY": 0.05, "ADAPTIVE_TARGET_CONCURRENCY": 4}
MAXLAG = '{"error": {"code": "maxlag", "info": "Waiting for a database server: 7 s lagged"}}'
SILENCE = 1
"""Seconds that the lagging wiki asks for."""


def captcha_is_a_refusal(response: Response) -> Outcome | None:
    """Reads the text, so it must be decoded."""
    assert isinstance(response, TextResponse)
    return Outcome.REFUSED if "are you a robot" in response.text else None


def maxlag_is_a_refusal(response: Response) -> Outcome | None:
    """As MediaWiki asks for: a 200 whose body is an error."""
    assert isinstance(response, TextResponse)
    error = response.json().get("error", {})
    return Outcome.REFUSED if error.get("code") == "maxlag" else None


def all_is_well(response: Response) -> Outcome:
    """A 503 is how this site says that it has nothing."""
    return Outcome.ACCEPTED


def odd_pages_raise(response: Response) -> Outcome | None:
    """Two kinds of errors."""
    n = int(response.url[-1])
    if n % 2:
        raise {1: KeyError, 3: ValueError}.get(n, ValueError)("classifier\nin trouble")
    return None


def rubbish(response: Response) -> object:
    """Neither an Outcome nor None."""
    return "refused"


def pages(site: Origin, count: int = 6) -> list[str]:
    return [f"{site.url}/{n}" for n in range(count)]


@pytest.mark.parametrize("reactor", ["asyncio", "select", "none"])
def test_a_captcha_is_fetched_again_later(
    reactor: Reactor, crawl: Crawler, origin: Callable[..., Origin]
) -> None:
    """The body is compressed and the status 200: every page comes home, none as a captcha."""

    def captcha_once(visit: Visit) -> Answer:
        if visit.path == "/2" and visit.count == 1:
            return gzipped("<html>are you a robot?</html>")
        return gzipped("<html>a page</html>")

    site = origin(captcha_once)
    settings = {**QUICK, "ADAPTIVE_CLASSIFIER": captcha_is_a_refusal}
    done = crawl(UrlsSpider, settings, reactor=reactor, arguments={"urls": pages(site)})
    assert sorted(done.urls) == pages(site)
    assert {item["body_start"] for item in done.items} == {"<html>a page</html>"}
    assert done.stats["adaptive/refusals"] == done.stats["adaptive/trips"] == 1
    assert len(site.hits()) == 7


def test_a_refusal_may_be_called_a_page(crawl: Crawler, origin: Callable[..., Origin]) -> None:
    """The spider gets the 503 that its classifier accepts, and nothing pauses."""
    site = origin(lambda visit: Answer(503))
    settings = {**QUICK, "ADAPTIVE_CLASSIFIER": all_is_well, "RETRY_ENABLED": False}
    done = crawl(MetaSpider, settings, arguments={"urls": pages(site)})
    assert sorted(item["url"] for item in done.items) == pages(site)
    assert {item["status"] for item in done.items} == {503}
    assert done.stats["adaptive/trips"] == done.stats["adaptive/refusals"] == 0
    assert done.stats["adaptive/time_paused"] == 0
    assert len(site.hits()) == 6


@pytest.mark.parametrize(
    ("classifier", "kinds", "count"),
    [(odd_pages_raise, {"KeyError", "ValueError"}, 4), (rubbish, {"TypeError"}, 8)],
    ids=["raises", "returns rubbish"],
)
def test_a_classifier_in_trouble_leaves_the_word_to_the_status(
    classifier: Callable[[Response], object],
    kinds: set[str],
    count: int,
    crawl: Crawler,
    origin: Callable[..., Origin],
) -> None:
    """Its error is logged once per kind and counted each time; refusals are still refusals."""

    def refuse_two(visit: Visit) -> Answer:
        refused = visit.path in ("/1", "/2") and visit.count == 1
        return refusal(retry_after=0) if refused else Answer()

    site = origin(refuse_two)
    settings = {**QUICK, "ADAPTIVE_CLASSIFIER": classifier}
    done = crawl(UrlsSpider, settings, arguments={"urls": pages(site)})
    assert sorted(done.urls) == pages(site)
    assert {item["status"] for item in done.items} == {200}
    assert done.stats["adaptive/classifier_errors"] == count
    errors = [line for line in done.log.splitlines() if " ERROR: " in line]
    logged = Counter(kind for kind in kinds for line in errors if f"raised {kind} on" in line)
    assert logged == Counter(kinds)
    assert len(errors) == len(kinds)
    assert done.stats["adaptive/refusals"] == 2


def test_a_wiki_that_lags_is_left_alone_for_as_long_as_it_asks(
    crawl: Crawler, origin: Callable[..., Origin]
) -> None:
    """MediaWiki's maxlag: status 200, Retry-After, and an error in the body."""

    def lag(visit: Visit) -> Answer:
        if visit.path == "/2" and visit.count == 1:
            headers = {"Retry-After": str(SILENCE), "X-Database-Lag": "7"}
            return Answer(200, MAXLAG, {**headers, "Content-Type": "application/json"})
        return Answer(200, '{"query": {}}', {"Content-Type": "application/json"})

    site = origin(lag)
    settings = {**QUICK, "ADAPTIVE_CLASSIFIER": maxlag_is_a_refusal, "CONCURRENT_REQUESTS": 1}
    done = crawl(UrlsSpider, settings, arguments={"urls": pages(site)})
    assert sorted(done.urls) == pages(site)
    assert {item["body_start"] for item in done.items} == {'{"query": {}}'}
    hits = site.hits()
    lagged = next(hit for hit in hits if hit.retry_after)
    assert len(hits) == 7
    assert list(rude_hits(hits, refusal_codes=frozenset({200}), silence=0.0)) == []
    assert [b.start - a.end >= SILENCE for a, b in pairwise(hits) if a is lagged] == [True]


def ban_by_redirect(response: Response) -> Outcome | None:
    """The site sends those who are blocked elsewhere."""
    location = response.headers.get("Location") or b""
    return Outcome.REFUSED if b"/blocked" in location else None


def test_a_redirect_to_a_ban_is_not_followed_and_the_page_comes_later(
    origin: Callable[..., Origin], crawl: Crawler
) -> None:
    """RedirectMiddleware stands before the decoded body; the classifier is asked first."""

    def handler(visit: Visit) -> Answer:
        banned = visit.path == "/3" and visit.count == 1
        return Answer(302, headers={"Location": "/blocked"}) if banned else Answer()

    site = origin(handler)
    done = crawl(
        UrlsSpider,
        {**QUICK, "ADAPTIVE_CLASSIFIER": ban_by_redirect},
        arguments={"urls": pages(site)},
    )
    assert sorted(done.urls) == pages(site)
    assert not [hit for hit in site.hits() if hit.path == "/blocked"]
    assert done.stats["adaptive/refusals"] == done.stats["adaptive/requeued"] == 1


class SendsBack:
    """A downloader middleware that has pages fetched six times by the same request."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def process_response(self, request: Request, response: Response) -> Request | Response:
        self.counts[request.url] += 1
        if self.counts[request.url] > 6:
            return response
        request.dont_filter = True
        return request


def test_a_request_that_is_sent_back_before_the_classifier_keeps_no_place(
    origin: Callable[..., Origin], crawl: Crawler
) -> None:
    """As a middleware does that changes the proxy of a page which is a ban."""
    site = origin()
    settings = {
        "ADAPTIVE_START_DELAY": 0.05,
        "ADAPTIVE_CLASSIFIER": "tests.acceptance.test_classifier.all_is_well",
        "DOWNLOADER_MIDDLEWARES": {SendsBack: 610},
    }
    done = crawl(UrlsSpider, settings, arguments={"urls": pages(site)})
    assert sorted(done.urls) == pages(site)
    assert len(site.hits()) == 7 * len(pages(site))


class FetchesTokens:
    """A downloader middleware that keeps a page that is not served until it has got a token, which
    a page that asks for one is fetched with."""

    def __init__(self, crawler: ScrapysCrawler) -> None:
        self.crawler = crawler

    @classmethod
    def from_crawler(cls, crawler: ScrapysCrawler) -> FetchesTokens:
        return cls(crawler)

    async def process_response(self, request: Request, response: Response) -> Request | Response:
        if response.status == 200:
            return response
        assert self.crawler.engine is not None
        await self.crawler.engine.download_async(Request(response.urljoin("/token")))
        return request.replace(dont_filter=True) if response.status == 401 else response


class KeepsWhatIsDenied:
    """Keeps a page that asks for a token until another host has given it."""

    def __init__(self, crawler: ScrapysCrawler) -> None:
        self.crawler = crawler

    @classmethod
    def from_crawler(cls, crawler: ScrapysCrawler) -> KeepsWhatIsDenied:
        return cls(crawler)

    async def process_response(self, request: Request, response: Response) -> Request | Response:
        if response.status != 401:
            return response
        assert self.crawler.engine is not None
        token = response.urljoin("/token").replace("127.0.0.1", ELSEWHERE)
        await self.crawler.engine.download_async(Request(token))
        return request.replace(dont_filter=True)


ELSEWHERE = "127.1.1.2"


@pytest.mark.parametrize(
    ("own", "count"),
    [
        pytest.param(
            {"ADAPTIVE_RULES": [{"concurrency": 1, "shared": True}]}, 1, id="the meter of a rule"
        ),
        pytest.param({"ADAPTIVE_GLOBAL_TRIP_SLOTS": 1}, 2, id="the global breaker"),
    ],
)
def test_a_middleware_may_fetch_from_a_host_that_shares_a_limit(
    own: dict[str, Any], count: int, origin: Callable[..., Origin], crawl: Crawler
) -> None:
    """The token waits for what is in flight, the first page, which waits for the token."""

    def answer(visit: Visit) -> Answer:
        if visit.count > 1 or visit.path == "/token":
            return Answer()
        return Answer(401, delay=1.0) if visit.path == "/0" else refusal(delay=0.3)

    site = origin(answer, addresses=["127.0.0.1", ELSEWHERE])
    settings = {
        "ADAPTIVE_CLASSIFIER": captcha_is_a_refusal,
        "ADAPTIVE_START_DELAY": 0.05,
        "ADAPTIVE_GLOBAL_COOLDOWN": 1.0,
        "DOWNLOADER_MIDDLEWARES": {KeepsWhatIsDenied: 650},
        "RETRY_ENABLED": False,
    }
    urls = [f"{site.url_at('127.0.0.1')}/{n}" for n in range(count)]
    done = crawl(MetaSpider, settings | own, arguments={"urls": urls}, timeout=30)
    assert [hit.path for hit in site.hits()].count("/token") == 1
    assert sorted(item["url"] for item in done.items) == urls


@pytest.mark.parametrize(
    ("first", "own", "refusals", "visits"),
    [
        pytest.param(Answer(401), {}, 0, 2, id="401"),
        pytest.param(
            Answer(401),
            {"SCHEDULER_PRIORITY_QUEUE": "scrapy.pqueues.ScrapyPriorityQueue"},
            0,
            2,
            id="401, and a queue of Scrapy's",
        ),
        pytest.param(refusal(), {}, 1, 2, id="429"),
        pytest.param(refusal(503), {}, 1, 2, id="503"),
        pytest.param(Answer(403, "are you a robot?"), {}, 0, 2, id="a refusal by its body alone"),
        pytest.param(
            refusal(503), {"ADAPTIVE_CLASSIFIER": all_is_well}, 1, 1, id="a refusal by status alone"
        ),
    ],
)
def test_a_middleware_may_fetch_from_the_same_site_before_the_classifier_has_spoken(
    first: Answer,
    own: dict[str, Any],
    refusals: int,
    visits: int,
    origin: Callable[..., Origin],
    crawl: Crawler,
) -> None:
    """The status has freed its place; whether the page comes again is the classifier's word."""
    site = origin(lambda visit: first if visit.total == 1 else Answer())
    settings = {
        "ADAPTIVE_CLASSIFIER": captcha_is_a_refusal,
        "CONCURRENT_REQUESTS_PER_DOMAIN": 1,
        "DOWNLOADER_MIDDLEWARES": {FetchesTokens: 650},
        "RETRY_ENABLED": False,
    }
    done = crawl(MetaSpider, settings | own, arguments={"urls": pages(site, 1)}, timeout=30)
    assert [hit.path for hit in site.hits()] == ["/0", "/token", "/0"][: visits + 1]
    assert [item["url"] for item in done.items] == pages(site, 1)
    assert done.stats["adaptive/refusals"] == refusals
