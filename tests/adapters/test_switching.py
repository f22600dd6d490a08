"""Switched on by one line, by hand, beside AutoThrottle, or off: what Scrapy is left with."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from scrapy.pqueues import DownloaderAwarePriorityQueue
from scrapy.settings import Settings

from scrapy_adaptive import AdaptiveGate, AdaptiveRefusals, AdaptiveThrottle, Addon, HostQueue
from scrapy_adaptive.adapters.set_up import (
    tell_of_misplaced_refusals,
    tell_of_revisits,
    tell_of_scrapys_queue,
)
from scrapy_adaptive.adapters.settings import read_settings
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
QUEUE = {"SCHEDULER_PRIORITY_QUEUE": "scrapy_adaptive.HostQueue"}
QUICK = {"ADAPTIVE_START_DELAY": 0.05}


GATE_OFF = {"scrapy_adaptive.AdaptiveGate": None, "scrapy_adaptive.AdaptiveRefusals": 585}

MISTAKES: dict[str, tuple[dict[str, Any], str]] = {
    "a bad value": (
        {"ADAPTIVE_BURST": 0},
        "ADAPTIVE_BURST = 0: allowed is a whole number, 1 or more",
    ),
    "middlewares alone": (
        {"EXTENSIONS": {}},
        "EXTENSIONS = {}: 'scrapy_adaptive.AdaptiveThrottle': 0 must be in it, as Adaptive",
    ),
    "no middleware": (
        {"DOWNLOADER_MIDDLEWARES": {}},
        "DOWNLOADER_MIDDLEWARES = {}: 'scrapy_adaptive.AdaptiveGate': 950 must be in it",
    ),
    "the gate switched off": (
        {"DOWNLOADER_MIDDLEWARES": {**GATE_OFF}},
        "'scrapy_adaptive.AdaptiveGate': 950 must be in it",
    ),
    "the gate alone": (
        {"DOWNLOADER_MIDDLEWARES": {"scrapy_adaptive.AdaptiveGate": 950}},
        "'scrapy_adaptive.AdaptiveRefusals': 585 must be in it",
    ),
    "the queue alone": (
        {
            "EXTENSIONS": {},
            "DOWNLOADER_MIDDLEWARES": {},
            "SCHEDULER_PRIORITY_QUEUE": "scrapy_adaptive.HostQueue",
        },
        "EXTENSIONS = {}: 'scrapy_adaptive.AdaptiveThrottle': 0 must be in it, as HostQueue is",
    ),
    "a queue that stands for itself": (
        {
            "ADAPTIVE_ENABLED": False,
            "SCHEDULER_PRIORITY_QUEUE": "scrapy_adaptive.HostQueue",
            "ADAPTIVE_FALLBACK_PRIORITY_QUEUE": "scrapy_adaptive.HostQueue",
        },
        "ADAPTIVE_FALLBACK_PRIORITY_QUEUE = 'scrapy_adaptive.HostQueue': allowed is another queue",
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


def taken(mine: dict[str, Any]) -> tuple[Any, ...]:
    """Start delay, most delay, N and debug, once the add-on has had its say."""
    settings = Settings(mine)
    Addon().update_settings(settings)
    assert settings["AUTOTHROTTLE_ENABLED"] is False
    read = read_settings(settings)
    return read.start_delay, read.max_delay, read.target_concurrency, read.debug


def test_what_a_project_set_for_autothrottle_counts_where_it_set_nothing_of_ours() -> None:
    """AUTOTHROTTLE_ENABLED alone chooses one request in flight, and no other number."""
    on = {"AUTOTHROTTLE_ENABLED": True}
    ours = read_settings(Settings())
    assert taken(on) == (ours.start_delay, ours.max_delay, 1.0, False)
    theirs = {
        "AUTOTHROTTLE_START_DELAY": 0.5,
        "AUTOTHROTTLE_MAX_DELAY": 20,
        "AUTOTHROTTLE_TARGET_CONCURRENCY": 4,
        "AUTOTHROTTLE_DEBUG": True,
    }
    assert taken({**on, **theirs}) == (0.5, 20.0, 4.0, True)
    mine = {"ADAPTIVE_TARGET_CONCURRENCY": 2, "ADAPTIVE_START_DELAY": 0.25}
    assert taken({**on, **theirs, **mine}) == (0.25, 20.0, 2.0, True)


def test_autothrottle_switched_off_changes_nothing() -> None:
    """Its numbers are no choice of anybody's then."""
    ours = read_settings(Settings())
    settings = Settings({"AUTOTHROTTLE_TARGET_CONCURRENCY": 4})
    Addon().update_settings(settings)
    assert read_settings(settings).target_concurrency == ours.target_concurrency


@pytest.mark.parametrize("adaptive", [True, False], ids=["by the add-on", "by hand"])
def test_autothrottle_beside_it_is_taken_over_and_the_log_says_so_once(
    adaptive: bool, crawl: Crawler, origin: Callable[..., Origin]
) -> None:
    """The crawl goes on with one owner of the delay, and with AutoThrottle's numbers."""
    site = origin(refuse_first)
    theirs = {
        "AUTOTHROTTLE_ENABLED": True,
        "AUTOTHROTTLE_DEBUG": True,
        "AUTOTHROTTLE_START_DELAY": 0.05,
    }
    done = crawl(
        UrlsSpider,
        {**({} if adaptive else {**BY_HAND, **QUEUE}), **theirs},
        adaptive=adaptive,
        arguments={"urls": [f"{site.url}/{n}" for n in range(3)]},
    )
    assert len(done.urls) == 3
    said = [line for line in done.log.splitlines() if "does AutoThrottle's work" in line]
    assert len(said) == 1
    assert "AUTOTHROTTLE_START_DELAY = 0.05 as ADAPTIVE_START_DELAY" in said[0]
    assert "WARNING" not in done.log
    assert "INFO: slot: 127.0.0.1 | in flight:" in done.log
    assert "scrapy.extensions.throttle]" not in done.log


@pytest.mark.parametrize("name", ["scrapy.pqueues.DownloaderAwarePriorityQueue", None])
@pytest.mark.parametrize("priority", ["project", "spider", "cmdline"])
def test_who_names_scrapys_own_queue_gets_ours_as_who_names_none(
    name: str | None, priority: str
) -> None:
    """Scrapy's page on broad crawls told people to; None is the class itself."""
    chosen = name or DownloaderAwarePriorityQueue
    settings = Settings()
    settings.set("SCHEDULER_PRIORITY_QUEUE", chosen, priority)
    Addon().update_settings(settings)
    assert settings["SCHEDULER_PRIORITY_QUEUE"] is HostQueue
    assert settings["ADAPTIVE_FALLBACK_PRIORITY_QUEUE"] == chosen


def test_a_queue_of_the_users_own_is_kept_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    """It says what it costs, and what to do."""
    own = "scrapy.pqueues.ScrapyPriorityQueue"
    assert in_force({"SCHEDULER_PRIORITY_QUEUE": own})["SCHEDULER_PRIORITY_QUEUE"] == own
    (warning,) = [record for record in caplog.records if record.levelname == "WARNING"]
    assert "other sites wait for it too" in warning.getMessage()
    assert "scrapy_adaptive.HostQueue" in warning.getMessage()


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
    lines = [line for line in done.stdout.splitlines() if told in line]
    assert len(lines) == 1, done.stdout
    assert "[scrapy_adaptive" in lines[0]
    assert "Traceback" not in done.stdout
    assert site.hits() == []


@pytest.mark.parametrize(
    ("mine", "told"),
    [
        ({}, 0),
        ({"ADAPTIVE_REVISIT": "new"}, 1),
        ({"ADAPTIVE_REVISIT": {"first": "1d", "min": "1h", "max": "30d"}}, 1),
        ({"ADAPTIVE_REVISIT": "new", "ADAPTIVE_FRONTIER": "sqlite:///frontier.db"}, 0),
    ],
)
def test_revisits_without_a_frontier_are_warned_of(
    mine: dict[str, Any], told: int, caplog: pytest.LogCaptureFixture
) -> None:
    tell_of_revisits(read_settings(Settings(mine)))
    assert caplog.messages == told * [
        "ADAPTIVE_REVISIT does nothing without ADAPTIVE_FRONTIER: each page is visited once"
    ]


@pytest.mark.parametrize(
    ("queue", "told"),
    [
        (None, 1),
        ("scrapy.pqueues.DownloaderAwarePriorityQueue", 1),
        ("scrapy_adaptive.HostQueue", 0),
        ("tests.own_queue.OwnQueue", 0),
    ],
)
def test_by_hand_without_the_queue_is_warned_of(
    queue: str | None, told: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever chose a queue of their own knows; the add-on never forgets it."""
    chosen = {} if queue is None else {"SCHEDULER_PRIORITY_QUEUE": queue}
    tell_of_scrapys_queue(Settings({**BY_HAND, **chosen}))
    assert [each.split(":")[0] for each in caplog.messages] == told * [
        "SCHEDULER_PRIORITY_QUEUE is Scrapy's own"
    ]
    caplog.clear()
    settings = Settings(chosen)
    Addon().update_settings(settings)
    caplog.clear()
    tell_of_scrapys_queue(settings)
    assert caplog.messages == []


@pytest.mark.parametrize(
    ("place", "more", "told"),
    [
        (585, {}, []),
        (500, {}, ["RetryMiddleware at 550"]),
        (550, {}, ["RetryMiddleware at 550"]),
        (595, {}, ["HttpCompressionMiddleware at 590"]),
        (500, {"scrapy.downloadermiddlewares.retry.RetryMiddleware": None}, []),
    ],
)
def test_refusals_at_another_place_are_warned_of(
    place: int, more: dict[str, Any], told: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    middlewares = {**BY_HAND["DOWNLOADER_MIDDLEWARES"], "scrapy_adaptive.AdaptiveRefusals": place}
    tell_of_misplaced_refusals(Settings({"DOWNLOADER_MIDDLEWARES": {**middlewares, **more}}))
    assert len(caplog.messages) == len(told)
    for line, name in zip(caplog.messages, told, strict=True):
        assert line.startswith(f"AdaptiveRefusals stands at {place} in DOWNLOADER_MIDDLEWARES, and")
        assert name in line
