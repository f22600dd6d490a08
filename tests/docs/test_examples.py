"""What the guides tell users to write does what they say."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

import pytest
from scrapy import Request
from scrapy.http import HtmlResponse, Response
from scrapy.settings import Settings

from docs.examples import by_hand
from docs.examples.classifiers import classify
from docs.examples.proxies import RotatingProxies, proxy_or_site, sticky_slot
from scrapy_adaptive import Outcome
from scrapy_adaptive.adapters.settings import read_settings
from tests.crawling import Crawler
from tests.docs.pages import boxes, page_names
from tests.servers.origin import Answer, Origin, Visit, redirect, refusal
from tests.spiders import UrlsSpider

URL = "http://site.example/"
CAPTCHA = "<form id=captcha>Who are you?</form>"
QUICK = {"ADAPTIVE_START_DELAY": 0.05}

BLOCKS = [
    pytest.param(box.text, id=f"{page}-{number}")
    for page in page_names()
    for number, box in enumerate(boxes(page, "python"))
]


def assigned(block: str) -> dict[str, Any]:
    """The settings that a block sets; nothing if it does anything else."""
    tree = ast.parse(block)
    if not all(isinstance(node, ast.Assign) for node in tree.body):
        return {}
    values: dict[str, Any] = {}
    exec(compile(tree, "<docs>", "exec"), values)
    return {name: value for name, value in values.items() if name.isupper()}


def in_examples(path: Any) -> Any:
    """`myproject` of the guides is the folder of their examples."""
    return path.replace("myproject.", "docs.examples.") if isinstance(path, str) else path


@pytest.mark.parametrize("block", BLOCKS)
def test_code_in_the_pages_is_python_and_settings_are_allowed(block: str) -> None:
    values = {name: in_examples(value) for name, value in assigned(block).items()}
    read_settings(Settings(values))


@pytest.mark.parametrize(
    ("response", "outcome"),
    [
        (HtmlResponse(URL, body=CAPTCHA.encode()), Outcome.REFUSED),
        (HtmlResponse(URL, body=b"<title>page</title>"), None),
        (Response(URL, status=302, headers={"Location": "/blocked?by=1"}), Outcome.REFUSED),
        (Response(URL, status=302, headers={"Location": "/elsewhere"}), None),
        (Response(URL, headers={"X-Database-Lag": "7"}), Outcome.REFUSED),
        (Response(URL, status=503), None),
    ],
)
def test_the_classifier_knows_captcha_soft_ban_and_maxlag(
    response: Response, outcome: Outcome | None
) -> None:
    """Everything else is left to the status."""
    assert classify(response) is outcome


def test_a_crawl_with_the_classifier_gets_every_page(
    origin: Callable[..., Origin], crawl: Crawler
) -> None:
    """Three refusals that no status tells, each met once; none of them costs a retry."""

    def handler(visit: Visit) -> Answer:
        if visit.count > 1:
            return Answer()
        refusals = {
            "/captcha": Answer(body=CAPTCHA),
            "/ban": redirect("/blocked"),
            "/lag": Answer(body="{}", headers={"X-Database-Lag": "7", "Retry-After": "1"}),
        }
        return refusals.get(visit.path, Answer())

    site = origin(handler)
    urls = [site.url + path for path in ("/captcha", "/ban", "/lag", "/page")]
    requests = [{"url": url, "meta": {"dont_redirect": True}} for url in urls]
    settings = {**QUICK, "ADAPTIVE_CLASSIFIER": "docs.examples.classifiers.classify"}
    ended = crawl(UrlsSpider, settings, arguments={"urls": requests})
    assert sorted(ended.urls) == sorted(urls)
    assert ended.stats["adaptive/refusals"] == 3
    assert "retry/count" not in ended.stats


TWO_PROXIES = ["http://user:secret@one.example:80", "http://two.example:81"]


def test_rotating_proxies_take_turns_each_with_a_slot_for_each_host() -> None:
    """A redirect to another host, and a refused page, get another proxy and its slot."""
    rotating = RotatingProxies(TWO_PROXIES)
    first = Request(URL)
    rotating.process_request(first)
    slots = [first.meta["download_slot"]]
    for request in (Request("http://other.example/", meta=first.meta), first):
        rotating.process_request(request)
        slots.append(request.meta["download_slot"])
    assert slots == [
        "site.example via one.example:80",
        "other.example via two.example:81",
        "site.example via one.example:80",
    ]


def test_a_session_keeps_its_proxy_and_its_slot_is_known_when_it_is_queued(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A request without a session uses the first proxy; no slot has a password in its name."""
    monkeypatch.setattr("docs.examples.proxies.PROXIES", TWO_PROXIES)
    metas: list[dict[str, Any]] = [{}, {"cookiejar": 0}, {"cookiejar": 1}, {"cookiejar": 2}]
    assert [sticky_slot(Request(URL, meta=meta)) for meta in metas] == [
        "site.example via one.example:80",
        "site.example via one.example:80",
        "site.example via two.example:81",
        "site.example via one.example:80",
    ]


@pytest.mark.parametrize(
    ("response", "outcome"),
    [
        (Response(URL, status=407), Outcome.FAILED),
        (Response(URL, status=503, headers={"X-Proxy-Error": "busy"}), Outcome.FAILED),
        (Response(URL, status=503), None),
        (Response(URL), None),
    ],
)
def test_the_proxys_own_answers_are_failures(response: Response, outcome: Outcome | None) -> None:
    """The site's 503 stays a refusal."""
    assert proxy_or_site(response) is outcome


def test_a_crawl_through_proxies_does_not_blame_the_site(
    origin: Callable[..., Origin], crawl: Crawler
) -> None:
    """One proxy wants a password once, the other is overloaded once: no slot is paused."""

    def forgetful(visit: Visit) -> Answer:
        return Answer(407, "password?") if visit.total == 1 else Answer()

    def overloaded(visit: Visit) -> Answer:
        own = {"X-Proxy-Error": "busy"}
        return Answer(503, "busy", own) if visit.total == 1 else Answer()

    proxies = [origin(handler).url for handler in (forgetful, overloaded)]
    urls = [f"http://site.example/{number}" for number in range(4)]
    settings = {
        **QUICK,
        "PROXIES": proxies,
        "DOWNLOADER_MIDDLEWARES": {"docs.examples.proxies.RotatingProxies": 740},
        "ADAPTIVE_CLASSIFIER": "docs.examples.proxies.proxy_or_site",
        "RETRY_HTTP_CODES": [407, 503],
    }
    ended = crawl(UrlsSpider, settings, arguments={"urls": urls})
    assert sorted(ended.urls) == urls
    told = {name: ended.stats[f"adaptive/{name}"] for name in ("refusals", "failures", "trips")}
    assert told == {"refusals": 0, "failures": 2, "trips": 0}
    assert ended.stats["adaptive/slots"] == 2


def test_the_settings_of_the_guide_do_what_the_add_on_does(
    origin: Callable[..., Origin], crawl: Crawler
) -> None:
    """A refusal pauses the slot, and the page is got without a retry."""
    site = origin(lambda visit: refusal() if visit.total == 1 else Answer())
    settings = {name: getattr(by_hand, name) for name in dir(by_hand) if name.isupper()}
    urls = [site.url + path for path in ("/a", "/b")]
    ended = crawl(UrlsSpider, {**QUICK, **settings}, arguments={"urls": urls}, adaptive=False)
    assert sorted(ended.urls) == urls
    assert ended.stats["adaptive/trips"] == 1
    assert "retry/count" not in ended.stats
