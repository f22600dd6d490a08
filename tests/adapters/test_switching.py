"""Switched on by one line, by hand, beside AutoThrottle, or off: what Scrapy is left with."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from scrapy.settings import Settings

from scrapy_adaptive import AdaptiveGate, AdaptiveRefusals, AdaptiveThrottle, Addon, HostQueue
from tests.acceptance.project import Project
from tests.crawling import REACTORS, Crawler, Reactor
from tests.servers.origin import Answer, Origin, Visit, refusal
from tests.spiders import UrlsSpider

BY_HAND = {
    "EXTENSIONS": {"scrapy_adaptive.AdaptiveThrottle": 0},
    "DOWNLOADER_MIDDLEWARES": {
        "scrapy_adaptive.AdaptiveGate": 950,
        "scrapy_adaptive.AdaptiveRefusals": 585,
    },
}
QUICK = {"ADAPTIVE_START_DELAY": 0.05}


MISTAKES: dict[str, tuple[dict[str, Any], str]] = {
    "AutoThrottle": (
        {"AUTOTHROTTLE_ENABLED": True},
        "AUTOTHROTTLE_ENABLED = True: allowed is False",
    ),
    "a bad value": (
        {"ADAPTIVE_BURST": 0},
        "ADAPTIVE_BURST = 0: allowed is a whole number, 1 or more",
    ),
    "middlewares alone": (
        {"EXTENSIONS": {}},
        "EXTENSIONS = {}: scrapy_adaptive.AdaptiveThrottle must be one",
    ),
}


def refuse_first(visit: Visit) -> Answer:
    """Every page is refused once."""
    return refusal(retry_after=0) if visit.count == 1 else Answer()


def in_force(mine: dict[str, Any], *, addon: bool = True) -> dict[str, Any]:
    """All settings once the add-on has had its say, but for its own switch."""
    settings = Settings(mine)
    if addon:
        Addon().update_settings(settings)
    return {name: settings[name] for name in settings if name != "ADAPTIVE_ENABLED"}


def test_the_one_line_adds_an_extension_two_middlewares_and_a_queue() -> None:
    """And changes nothing else."""
    stock, ours = in_force({}, addon=False), in_force({})
    changed = {name for name in ours if stock.get(name) != ours[name]}
    queues = {"SCHEDULER_PRIORITY_QUEUE", "ADAPTIVE_FALLBACK_PRIORITY_QUEUE"}
    assert changed == {"DOWNLOADER_MIDDLEWARES", "EXTENSIONS", *queues}
    assert ours["SCHEDULER_PRIORITY_QUEUE"] is HostQueue
    assert ours["ADAPTIVE_FALLBACK_PRIORITY_QUEUE"] == stock["SCHEDULER_PRIORITY_QUEUE"]
    middlewares, extensions = ours["DOWNLOADER_MIDDLEWARES"], ours["EXTENSIONS"]
    assert dict(middlewares) == {AdaptiveGate: 950, AdaptiveRefusals: 585}
    assert dict(extensions) == {AdaptiveThrottle: 0}


def test_a_priority_that_the_user_chose_is_kept() -> None:
    """What is set by hand wins over the add-on."""
    mine = {"DOWNLOADER_MIDDLEWARES": {"scrapy_adaptive.AdaptiveGate": 940}}
    middlewares = in_force(mine)["DOWNLOADER_MIDDLEWARES"]
    gates = {key: value for key, value in middlewares.items() if value in (940, 950)}
    assert gates == {"scrapy_adaptive.AdaptiveGate": 940}


@pytest.mark.parametrize("autothrottle", [False, True])
def test_switched_off_it_changes_nothing(autothrottle: bool) -> None:
    """Not one setting, AutoThrottle included: the middlewares are stock Scrapy's."""
    mine = {"AUTOTHROTTLE_ENABLED": autothrottle}
    assert in_force({**mine, "ADAPTIVE_ENABLED": False}) == in_force(mine, addon=False)


@pytest.mark.parametrize(
    "fallback",
    [{}, {"ADAPTIVE_FALLBACK_PRIORITY_QUEUE": "scrapy.pqueues.ScrapyPriorityQueue"}],
    ids=["the default queue", "another queue"],
)
def test_switched_off_no_part_of_it_is_in_a_crawl(
    fallback: dict[str, Any], crawl: Crawler, origin: Callable[..., Origin]
) -> None:
    """By hand or not: a refusal is stock Scrapy's to retry, and HostQueue is its fallback."""
    site = origin(refuse_first)
    queue = {"SCHEDULER_PRIORITY_QUEUE": "scrapy_adaptive.HostQueue", **fallback}
    off = {**BY_HAND, **queue, "ADAPTIVE_ENABLED": False, "RETRY_TIMES": 0}
    done = crawl(UrlsSpider, off, arguments={"urls": [site.url]})
    assert (done.urls, done.lost, len(site.hits())) == ([], [site.url], 1)
    assert not [name for name in done.stats if name.startswith("adaptive")]


def test_autothrottle_beside_the_add_on_is_switched_off_with_a_warning(
    crawl: Crawler, origin: Callable[..., Origin]
) -> None:
    """Said once; the crawl goes on with one owner of the delay."""
    site = origin(refuse_first)
    done = crawl(
        UrlsSpider,
        {**QUICK, "AUTOTHROTTLE_ENABLED": True, "AUTOTHROTTLE_DEBUG": True},
        arguments={"urls": [f"{site.url}/{n}" for n in range(3)]},
    )
    assert len(done.urls) == 3
    warnings = [line for line in done.log.splitlines() if "WARNING" in line]
    assert [line for line in warnings if "AUTOTHROTTLE_ENABLED" in line] == warnings[:1]
    assert "scrapy.extensions.throttle" not in done.log


def test_by_hand_it_works_without_the_add_on(crawl: Crawler, origin: Callable[..., Origin]) -> None:
    """Three lines do what the one does."""
    site = origin(refuse_first)
    urls = [f"{site.url}/{n}" for n in range(3)]
    done = crawl(UrlsSpider, {**QUICK, **BY_HAND}, adaptive=False, arguments={"urls": urls})
    assert sorted(done.urls) == urls
    assert done.stats["adaptive/requeued"] == 3


@pytest.mark.parametrize("reactor", list(REACTORS))
@pytest.mark.parametrize("mistake", list(MISTAKES))
def test_by_hand_a_mistake_ends_scrapy_crawl_in_one_line(
    mistake: str, reactor: Reactor, tmp_path: Path, origin: Callable[..., Origin]
) -> None:
    """There is no add-on to put it right, and nothing is sent."""
    site = origin()
    settings, told = MISTAKES[mistake]
    lines = [f"{name} = {value!r}" for name, value in {**BY_HAND, **settings}.items()]
    choice = [f"-s{key}={chosen}" for key, chosen in REACTORS[reactor].items()]
    done = Project.make(tmp_path, site.url, *lines).scrapy("crawl", "one", *choice)
    assert done.returncode != 0
    assert sum(told in line for line in done.stdout.splitlines()) == 1, done.stdout
    assert "Traceback" not in done.stdout
    assert site.hits() == []
