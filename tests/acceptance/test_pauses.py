"""What a pause stops, and for how long: one host, or with the global breaker all of them.

Requests leave a tenth of a second or more apart, and none when a refusal arrives, so that the
order of events in the site's log does not hang on a machine's hiccups.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from docsite.hits import Hit
from tests.acceptance.readings import LATEST, READING, when_left, when_read
from tests.crawling import Crawler, Reactor
from tests.servers.origin import Answer, Origin, Visit, refusal
from tests.spiders import UrlsSpider

IN_FLIGHT = 5

SLOW = 3.0
"""Seconds of a slow answer: more than the silence after the refusal."""

REFUSING, HEALTHY = "127.1.0.1", "127.1.0.2"

START_DELAY = 0.2

COOLDOWN = 1.0

TOLD = 2
"""Seconds of silence that the refusing host asks for."""


def slow_pages(visit: Visit) -> Answer:
    """The slow pages hold on while another is refused, once."""
    if visit.path == "/refused" and visit.count == 1:
        return refusal()
    return Answer(delay=SLOW if "slow" in visit.path else 0.0)


@pytest.mark.parametrize("reactor", ["asyncio", "select", "none"])
def test_no_request_starts_until_the_last_of_those_in_flight_at_a_trip_has_ended(
    reactor: Reactor, origin: Callable[..., Origin], crawl: Crawler
) -> None:
    site = origin(slow_pages)
    paths = [*(f"/slow/{n}" for n in range(IN_FLIGHT)), "/refused", "/last"]
    done = crawl(
        UrlsSpider,
        {"ADAPTIVE_START_DELAY": 0.1, "ADAPTIVE_TARGET_CONCURRENCY": 8},
        reactor=reactor,
        arguments={"urls": [site.url + path for path in paths]},
    )
    hits = site.hits()
    (refused,) = (hit for hit in hits if hit.status == 429)
    before, after = hits[: IN_FLIGHT + 1], hits[IN_FLIGHT + 1 :]
    assert [hit.path for hit in before] == paths[: IN_FLIGHT + 1]
    assert all(hit.start < refused.end < hit.end for hit in before[:IN_FLIGHT])
    assert sorted(hit.path for hit in after) == ["/last", "/refused"]
    assert after[0].start >= max(hit.end for hit in before)
    assert len(done.urls) == len(paths)


def two_hosts(visit: Visit) -> Answer:
    """One host refuses its third page, once; the other serves all, each in 0.3 s.

    Both hosts' requests leave together; the refusal arrives half a gap later.
    """
    refuses = visit.host.startswith(REFUSING) and visit.path == "/3"
    if refuses and visit.count == 1:
        return refusal(retry_after=TOLD, delay=START_DELAY / 2)
    return Answer(delay=0.3)


def crawl_two_hosts(
    origin: Callable[..., Origin], crawl: Crawler, reactor: Reactor = "asyncio", **settings: Any
) -> tuple[dict[Hit, float], Hit]:
    """When the request of each hit left, in a crawl that got all pages, and the refusal.

    The refusal ends when the crawler has read it, which a busy machine does late. Another hit
    ends no later than that: a busy site notes late that it has answered.
    """
    site = origin(two_hosts, addresses=(REFUSING, HEALTHY))
    refusing = [f"{site.url_at(REFUSING)}/{n}" for n in range(6)]
    healthy = [f"{site.url_at(HEALTHY)}/{n}" for n in range(16)]
    done = crawl(
        UrlsSpider,
        {**READING, "ADAPTIVE_START_DELAY": START_DELAY, **settings},
        reactor=reactor,
        arguments={"urls": refusing + healthy},
    )
    assert sorted(done.urls) == sorted(refusing + healthy)
    hits = site.hits()
    left, read = when_left(hits, done), when_read(hits, done)
    (refused,) = (hit for hit in hits if hit.status == 429)
    assert read[refused] <= refused.end + LATEST
    ended = {replace(hit, end=min(hit.end, read[hit])): left[hit] for hit in hits}
    return ended, replace(refused, end=max(refused.end, read[refused]))


@pytest.mark.parametrize("reactor", ["asyncio", "select", "none"])
def test_with_one_slot_to_trip_it_the_global_breaker_stops_the_healthy_host_too(
    reactor: Reactor, origin: Callable[..., Origin], crawl: Crawler
) -> None:
    settings = {"ADAPTIVE_GLOBAL_TRIP_SLOTS": 1, "ADAPTIVE_GLOBAL_COOLDOWN": COOLDOWN}
    hits, refused = crawl_two_hosts(origin, crawl, reactor, **settings)
    clear_at = max(hit.end for hit, left_at in hits.items() if left_at <= refused.end)
    after = [hit for hit, left_at in hits.items() if left_at > refused.end]
    assert any(hit.host.startswith(HEALTHY) for hit in after)
    assert [hit for hit in after if hit.start < clear_at + COOLDOWN] == []


@pytest.mark.parametrize("reactor", ["asyncio", "select", "none"])
def test_by_default_only_the_refusing_host_pauses(
    reactor: Reactor, origin: Callable[..., Origin], crawl: Crawler
) -> None:
    hits, refused = crawl_two_hosts(origin, crawl, reactor)
    meanwhile = [hit for hit in hits if refused.end < hit.start < refused.end + TOLD]
    assert {hit.host for hit in meanwhile} == {refused.host.replace(REFUSING, HEALTHY)}
    assert len(meanwhile) >= 3
