"""A bad setting is refused before anything is sent, in words that name what is allowed."""

from __future__ import annotations

import math
import re
import subprocess
import sys
from collections.abc import Callable
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
from scrapy import Spider
from scrapy.settings import Settings

from scrapy_adaptive import SettingsError
from scrapy_adaptive.adapters.setting_table import SETTINGS, Setting
from scrapy_adaptive.adapters.settings import read_settings, unknown_names
from scrapy_adaptive.core.slot_config import Limits
from tests.acceptance.project import ADDON, Project
from tests.adapters.bad_settings import BAD, BAD_SLOTS, KINDS, SHELL_CASES, kinds_of
from tests.crawling import REACTORS, ROOT, Reactor
from tests.servers.origin import Origin

RUNNERS = {
    "AsyncCrawlerRunner": """\
async def main():
    try:
        await AsyncCrawlerRunner({**settings, "TWISTED_REACTOR_ENABLED": False}).crawl(One)
    except SettingsError as error:
        print("caught", error)
asyncio.run(main())
""",
    "CrawlerRunner": """\
install_reactor("twisted.internet.asyncioreactor.AsyncioSelectorReactor")
def main(reactor):
    crawl = CrawlerRunner(settings).crawl(One)
    return crawl.addErrback(lambda failure: print("caught", failure.trap(SettingsError)))
from twisted.internet.task import react
react(main)
""",
}

RUNNER_SCRIPT = """\
import asyncio
from scrapy import Spider
from scrapy.crawler import AsyncCrawlerRunner, CrawlerRunner
from scrapy.utils.reactor import install_reactor
from scrapy_adaptive import SettingsError
class One(Spider):
    name = "one"
    start_urls = [{url!r}]
settings = {{"ADDONS": {{"scrapy_adaptive.Addon": 500}}, "ADAPTIVE_BURST": "x"}}
{body}
"""


def refused(settings: dict[str, Any], spider: Spider | None = None) -> SettingsError:
    """The error that these settings are refused with."""
    with pytest.raises(SettingsError) as caught:
        read_settings(Settings(settings), spider)
    return caught.value


def case_id(value: object) -> str:
    return value if isinstance(value, str) and value.isupper() else repr(value)


def test_every_setting_has_bad_cases() -> None:
    """A new setting is not done before its bad values are known here."""
    assert {setting.name for setting in SETTINGS} == set(BAD)


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_every_kind_of_mistake_that_a_setting_allows_for_has_a_case(setting: Setting) -> None:
    """By the words that tell what is allowed."""
    cases = BAD[setting.name]
    assert set(cases) == kinds_of(setting)
    assert all(cases.values())


def test_every_kind_of_mistake_is_made_under_the_scrapy_command() -> None:
    """At least once, and every setting has its turn."""
    names, kinds = zip(*SHELL_CASES, strict=True)
    assert set(kinds) >= set(KINDS)
    assert set(names) >= set(BAD)


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_every_default_is_allowed(setting: Setting) -> None:
    """Set by hand, a default is as good as left out."""
    assert read_settings(Settings({setting.name: setting.default})) == read_settings(Settings())


def test_who_sets_n_asks_for_autothrottles_law() -> None:
    """By which only a 200 lowers the delay."""
    limits = read_settings(Settings({"ADAPTIVE_TARGET_CONCURRENCY": 1})).limits
    assert (limits.target_concurrency, limits.only_200_lowers) == (1.0, True)
    assert not read_settings(Settings()).limits.only_200_lowers


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_none_is_as_good_as_left_out(setting: Setting) -> None:
    """As for every setting that Scrapy reads."""
    assert read_settings(Settings({setting.name: None})) == read_settings(Settings())


@pytest.mark.parametrize(
    ("name", "value"),
    [
        pytest.param(name, value, id=f"{name}-{kind}-{value!r}")
        for name, cases in BAD.items()
        for kind, values in cases.items()
        for value in values
    ],
)
def test_a_bad_value_is_refused_by_name_value_and_what_is_allowed(name: str, value: Any) -> None:
    """One typed error whose text is one line."""
    allowed = {setting.name: setting.allowed for setting in SETTINGS}[name]
    error = refused({name: value})
    assert error.name == name
    assert error.value is value or error.value == value
    assert allowed in error.allowed
    assert str(error) == f"{name} = {value!r}: {error.allowed}"
    assert "\n" not in str(error)


TYPOS = {
    "ADAPTIVE_BRUST": "ADAPTIVE_BURST",
    "ADAPTIVE_MAXDELAY": "ADAPTIVE_MAX_DELAY",
    "ADAPTIVE_REFUSAL_CODE": "ADAPTIVE_REFUSAL_CODES",
    "ADAPTIVE_TARGET_CONCURENCY": "ADAPTIVE_TARGET_CONCURRENCY",
    "ADAPTIVE_GLOBAL_TRIP_SLOT": "ADAPTIVE_GLOBAL_TRIP_SLOTS",
}


@pytest.mark.parametrize(("typo", "meant"), TYPOS.items())
def test_a_name_that_is_nearly_ours_is_refused_with_the_one_that_was_meant(
    typo: str, meant: str
) -> None:
    """A typo must not leave a crawl without what the user asked for."""
    error = refused({typo: 3})
    assert (error.name, error.value) == (typo, 3)
    assert meant in error.allowed


def test_a_name_that_is_like_none_of_ours_belongs_to_another_package() -> None:
    """Its prefix is a common word."""
    settings = Settings({"ADAPTIVE_PARSER_MODEL": "x", "ADAPTIVE_FEEDS": 1, "ADAPTIVE_BURST": 2})
    assert read_settings(settings).limits.burst == 2
    assert unknown_names(settings) == ["ADAPTIVE_PARSER_MODEL", "ADAPTIVE_FEEDS"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("DOWNLOAD_DELAY", value) for value in ("soon", [1], -1, math.nan, math.inf)),
        *(("CONCURRENT_REQUESTS_PER_DOMAIN", value) for value in ("many", 0, -1, 1.5, [1])),
    ],
    ids=case_id,
)
def test_bad_settings_of_scrapy_are_refused_too(name: str, value: Any) -> None:
    """Where they bound the pace: Scrapy itself would crawl on, or hang."""
    error = refused({name: value})
    assert (error.name, repr(error.value)) == (name, repr(value))


@pytest.mark.parametrize("slots", BAD_SLOTS.values(), ids=BAD_SLOTS.keys())
def test_bad_download_slots_are_refused(slots: Any) -> None:
    """Naming the slot. What is no dict at all Scrapy refuses by itself, before any add-on."""
    error = refused({"DOWNLOAD_SLOTS": slots})
    assert error.name.startswith("DOWNLOAD_SLOTS['a']")


@pytest.mark.parametrize(
    ("name", "value", "reactor"),
    [
        pytest.param(name, value, reactor, id=f"{name}-{kind}-{value}")
        for ((name, kind), value), reactor in zip(
            SHELL_CASES.items(), cycle(REACTORS), strict=False
        )
    ],
)
def test_scrapy_crawl_ends_in_one_line_and_sends_nothing(
    name: str, value: str, reactor: Reactor, tmp_path: Path, origin: Callable[..., Origin]
) -> None:
    """No traceback, a failing exit code, no hit; the reactors take turns over the settings."""
    site = origin()
    project = Project.make(tmp_path, site.url, ADDON)
    choice = [f"-s{key}={chosen}" for key, chosen in REACTORS[reactor].items()]
    done = project.scrapy("crawl", "one", f"-s{name}={value}", *choice)
    assert done.returncode != 0
    assert "Traceback" not in done.stdout
    assert_told_once(done.stdout, name)
    assert site.hits() == []


def assert_told_once(log: str, name: str) -> None:
    """One line, of our own logger."""
    lines = [line for line in log.splitlines() if name in line]
    assert len(lines) == 1, log
    assert "[scrapy_adaptive" in lines[0]


CUSTOM = """\
    custom_settings = {"ADAPTIVE_BURST": 0}
"""

EXECUTE = "from scrapy.cmdline import execute; execute({arguments!r})"


@pytest.mark.parametrize("reactor", REACTORS)
@pytest.mark.parametrize("started", ["crawl", "runspider", "execute"])
def test_a_bad_setting_of_the_spider_is_told_as_any_other(
    started: str, reactor: Reactor, tmp_path: Path, origin: Callable[..., Origin]
) -> None:
    """However the command is started: one line of ours, no traceback, no hit, no success."""
    site = origin()
    project = Project.make(tmp_path, site.url, ADDON)
    spider = tmp_path / "shop" / "spiders" / "one.py"
    spider.write_text(
        spider.read_text().replace('    name = "one"\n', '    name = "one"\n' + CUSTOM)
    )
    choice = [f"-s{key}={chosen}" for key, chosen in REACTORS[reactor].items()]
    what = ["runspider", str(spider)] if started == "runspider" else ["crawl", "one"]
    if started == "execute":
        program = EXECUTE.format(arguments=["scrapy", *what, *choice])
        done = project.python("-c", program)
    else:
        done = project.process(*what, *choice)
    assert done.returncode != 0
    assert "Traceback" not in done.stdout
    assert_told_once(done.stdout, "ADAPTIVE_BURST = 0")
    assert site.hits() == []


@pytest.mark.parametrize("runner", RUNNERS)
def test_a_runner_of_scripts_gets_the_typed_error(
    runner: str, origin: Callable[..., Origin]
) -> None:
    """`crawl()` raises it, or fails with it."""
    site = origin()
    script = RUNNER_SCRIPT.format(url=site.url, body=RUNNERS[runner])
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=30
    )
    assert "caught" in done.stdout, done.stderr
    assert "Traceback" not in done.stderr
    assert site.hits() == []


JITTERS: dict[str, tuple[dict[str, Any], float]] = {
    "nobody set it": ({}, Limits().jitter),
    "jitter": ({"DOWNLOAD_DELAY_JITTER": 0.25}, 0.25),
    "no jitter": ({"DOWNLOAD_DELAY_JITTER": 0}, 0.0),
    "randomized": ({"RANDOMIZE_DOWNLOAD_DELAY": True}, 0.5),
    "not randomized": ({"RANDOMIZE_DOWNLOAD_DELAY": "False"}, 0.0),
    "both": ({"DOWNLOAD_DELAY_JITTER": 0.25, "RANDOMIZE_DOWNLOAD_DELAY": True}, 0.25),
}


@pytest.mark.parametrize(("given", "jitter"), JITTERS.values(), ids=JITTERS)
def test_the_jitter_is_what_somebody_set(given: dict[str, Any], jitter: float) -> None:
    """Scrapy's own default is nobody's wish."""
    assert read_settings(Settings(given)).limits.jitter == jitter


def test_the_jitter_of_higher_priority_counts() -> None:
    """As in Scrapy."""
    settings = Settings({"DOWNLOAD_DELAY_JITTER": 0.25})
    settings.set("RANDOMIZE_DOWNLOAD_DELAY", "0", "cmdline")
    assert read_settings(settings).limits.jitter == 0.0


def test_a_slot_has_a_jitter_of_its_own() -> None:
    """Under its new name or its old one."""
    slots = {"a": {"jitter": 0.1}, "b": {"randomize_delay": True}, "c": {"delay": 1}}
    read = read_settings(Settings({"DOWNLOAD_SLOTS": slots, "DOWNLOAD_DELAY_JITTER": 0.2}))
    assert {key: limits.jitter for key, limits in read.slot_limits.items()} == {
        "a": 0.1,
        "b": 0.5,
        "c": 0.2,
    }


@pytest.mark.parametrize("value", ["some", -0.1, math.nan, True])
def test_a_bad_jitter_is_refused(value: Any) -> None:
    assert refused({"DOWNLOAD_DELAY_JITTER": value}).name == "DOWNLOAD_DELAY_JITTER"
    slots = {"a": {"jitter": value}}
    assert refused({"DOWNLOAD_SLOTS": slots}).name == "DOWNLOAD_SLOTS['a']['jitter']"


def test_what_holds_every_sites_pace_is_what_somebody_set() -> None:
    """A delay, or fewer requests at a time than Scrapy's default; nothing that is its default."""
    held = {"DOWNLOAD_DELAY": 1, "CONCURRENT_REQUESTS_PER_DOMAIN": 1}
    assert read_settings(Settings(held)).binding == tuple(held)
    free = {"DOWNLOAD_DELAY": 0, "CONCURRENT_REQUESTS_PER_DOMAIN": 32}
    assert read_settings(Settings(free)).binding == ()
    assert read_settings(Settings()).binding == ()


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("import no_such_driver", "ModuleNotFoundError: No module named 'no_such_driver'"),
        ("def rule(request)", "SyntaxError: expected ':'"),
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("", "has no|doesn't define any object named 'rule'"),
    ],
    ids=["another module", "syntax", "its own error", "no such name"],
)
@pytest.mark.parametrize(
    "name",
    [
        "ADAPTIVE_CLASSIFIER",
        "ADAPTIVE_SLOT",
        "ADAPTIVE_IDENTITY",
        "ADAPTIVE_FALLBACK_PRIORITY_QUEUE",
        "ADAPTIVE_FRONTIER_STRATEGY",
    ],
)
def test_what_is_wrong_in_the_module_of_an_import_path_is_told(
    name: str, source: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    module = f"users_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{module}.py").write_text(source, encoding="utf-8")
    error = refused({name: f"{module}.rule"})
    found = re.search(r"; it cannot be imported \((.*)\)$", str(error))
    assert found is not None, error
    assert re.search(why, found[1])
    assert "\n" not in str(error)
