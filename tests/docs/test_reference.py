"""The documentation's tables say what the code does, all of it and nothing more."""

from __future__ import annotations

import ast
import importlib
import re
from dataclasses import fields
from fractions import Fraction
from functools import cache
from pathlib import Path

import pytest
from scrapy.settings import Settings
from scrapy.statscollectors import MemoryStatsCollector
from scrapy.utils.test import get_crawler

import scrapy_adaptive
from scrapy_adaptive import models, simulate
from scrapy_adaptive.adapters import reporting
from scrapy_adaptive.adapters.extension import make_governor
from scrapy_adaptive.adapters.observing import Observer
from scrapy_adaptive.adapters.setting_table import SETTINGS, Setting
from scrapy_adaptive.adapters.settings import read_settings
from scrapy_adaptive.adapters.summary import Summary
from scrapy_adaptive.core.types import Event, Outcome
from scrapy_adaptive.report.events import EVENTS
from scrapy_adaptive.report.reasons import REASONS, Unit
from scrapy_adaptive.report.records import KINDS, from_line, to_line
from tests.adapters.stand_ins import Nothing
from tests.docs import source
from tests.docs.pages import Box, boxes, literal, page_names, read, rows

SECTION = re.compile(r"^\.\. setting:: (\w+)\n\n\1\n-+\n\n((?::\w+: .*\n)+)\n", re.MULTILINE)
FIELD = re.compile(r":(\w+): (.*)")
WITHOUT_UNIT = {
    "ADAPTIVE_ENABLED",
    "ADAPTIVE_CEILING",
    "ADAPTIVE_ROBOTSTXT_REFUSED",
    "ADAPTIVE_STATE_FILE",
    "ADAPTIVE_JOURNAL",
    "ADAPTIVE_REPORT",
    "ADAPTIVE_WATCH",
    "ADAPTIVE_WATCH_ADDRESS",
    "ADAPTIVE_WATCH_PORT",
    "ADAPTIVE_DEBUG",
    "ADAPTIVE_RULES_URL",
    "ADAPTIVE_RULES_OPTIONAL",
    "ADAPTIVE_IDENTITY",
    "ADAPTIVE_AGENTS",
    "ADAPTIVE_CLASSIFIER",
    "ADAPTIVE_SLOT",
    "ADAPTIVE_FALLBACK_PRIORITY_QUEUE",
    "ADAPTIVE_FRONTIER",
    "ADAPTIVE_FRONTIER_STRATEGY",
    "ADAPTIVE_EGRESS",
    "ADAPTIVE_REVISIT",
}
PLACEHOLDER = re.compile(r"%(?:\(\w+\))?([+]?[\d.]*[sdgfr])")


def setting_sections() -> dict[str, dict[str, str]]:
    """The fields of each setting's section."""
    found = SECTION.findall(read("reference/settings"))
    return {name: dict(FIELD.findall(fields)) for name, fields in found}


@cache
def stat_names() -> set[str]:
    """Every stat: those under a literal name, and those that are written all at once."""
    stats = MemoryStatsCollector(get_crawler())
    governor = make_governor(read_settings(Settings()))
    governor.slot("<host>", 0.0)
    written = Summary(stats, governor, Observer(governor, Nothing()))
    written.write_stats(0)
    written.write_site_stats()
    return set(stats.get_stats()) | source.stat_names()


def log_lines() -> set[tuple[str, str]]:
    """Level and format of every line; those of the events are chosen by a table."""
    found = set(source.log_lines())
    events = {("INFO", line) for line in reporting.LINES.values()}
    return found - {("INFO", "")} | events


# Settings


def test_the_table_of_settings_is_the_codes_table() -> None:
    """Name, default and meaning of each, and no other."""
    told = {(literal(name), literal(default), text) for name, default, text in settings_rows()}
    assert told == {(each.name, repr(each.default), each.meaning) for each in SETTINGS}


def settings_rows() -> list[tuple[str, ...]]:
    return rows("reference/settings", "setting")


def test_each_setting_has_one_section() -> None:
    """The section is what links lead to."""
    assert sorted(setting_sections()) == sorted(each.name for each in SETTINGS)


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda each: each.name)
def test_a_section_tells_default_and_what_is_allowed(setting: Setting) -> None:
    """In the words of the error that refuses a bad value."""
    fields = setting_sections()[setting.name]
    assert literal(fields["default"]) == repr(setting.default)
    assert fields["allowed"] == setting.allowed


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda each: each.name)
def test_a_number_has_a_unit(setting: Setting) -> None:
    assert ("unit" in setting_sections()[setting.name]) is (setting.name not in WITHOUT_UNIT)


@pytest.mark.parametrize("page", page_names())
def test_no_page_names_a_setting_that_is_none(page: str) -> None:
    known = {each.name for each in SETTINGS}
    assert set(re.findall(r"\bADAPTIVE_[A-Z_]*[A-Z]", read(page))) <= known


# Stats


def test_the_tables_of_stats_hold_every_stat_and_no_other() -> None:
    assert {literal(row[0]) for row in rows("reference/stats", "stat")} == stat_names()


@pytest.mark.parametrize("page", page_names())
def test_no_page_names_a_stat_that_is_none(page: str) -> None:
    assert set(re.findall(r"``(adaptive/[\w/]+)``", read(page))) <= stat_names()


# Meta keys


def test_the_tables_of_meta_keys_hold_every_key_and_no_other() -> None:
    assert {literal(row[0]) for row in rows("reference/meta", "key")} == source.meta_keys()


# Log lines


def test_every_log_line_is_shown_with_its_level_and_no_other_is() -> None:
    shown = {(box.caption, box.text.split("\n\n")[0]) for box in captioned()}
    assert shown == log_lines()


@pytest.mark.parametrize("box", [box.text for box in boxes("reference/log", "text")])
def test_an_example_is_what_its_format_makes(box: str) -> None:
    """A line without placeholders is its own example."""
    line, _, example = box.partition("\n\n")
    if not example:
        assert not PLACEHOLDER.search(line)
        return
    parts = PLACEHOLDER.split(line)
    texts = [re.escape(text) for text in parts[::2]]
    values = [".+" if kind[-1] in "sr" else r" *[-+]?[\d.]+" for kind in parts[1::2]] + [""]
    pattern = "".join(text + value for text, value in zip(texts, values, strict=True))
    assert re.fullmatch(pattern, example, re.DOTALL)


def captioned() -> list[Box]:
    return [box for box in boxes("reference/log", "text") if box.caption]


def test_the_table_of_events_holds_every_event_and_no_other() -> None:
    told = {literal(row[0]) for row in rows("reference/log", "event")}
    assert told == set(reporting.EVENTS.values())
    assert set(reporting.EVENTS) == set(Event)


# The journal


@pytest.mark.parametrize("kind", KINDS)
def test_the_table_of_each_kind_of_line_has_its_fields_and_no_other(kind: str) -> None:
    told = [literal(row[0]) for row in rows("reference/journal", kind)]
    assert told == [field.name for field in fields(KINDS[kind])]


def test_the_example_of_a_journal_is_one() -> None:
    (example,) = (box.text for box in boxes("reference/journal", "json"))
    records = [from_line(line) for line in example.splitlines()]
    assert {type(record) for record in records} == set(KINDS.values())
    written = [to_line(record) for record in records if record is not None]
    assert "".join(written).splitlines() == example.splitlines()


def test_every_event_and_reason_is_on_the_page_of_the_journal_and_no_other_is() -> None:
    told = {literal(key): text for key, text in rows("reference/journal", "key")}
    assert told == {each.key: each.meaning for each in EVENTS.values()}
    words = {Unit.NONE: "–", Unit.SECONDS: "seconds", Unit.RATE: "requests a second"}
    assert [(literal(row[0]), *row[1:]) for row in rows("reference/journal", "reason")] == [
        (each.key, each.title, each.whose.value, words.get(each.unit, each.unit.value))
        for each in REASONS.values()
    ]


# The rest


def test_every_public_name_is_on_the_page_of_the_api_and_no_other_is() -> None:
    told = re.findall(r"^\.\. \w+:: scrapy_adaptive\.([\w.]+)", read("reference/api"), re.MULTILINE)
    simulated = {name.removeprefix("simulate.") for name in told if name.startswith("simulate.")}
    modelled = [name.removeprefix("models.") for name in told if name.startswith("models.")]
    assert sorted(each for each in told if "." not in each) == sorted(scrapy_adaptive.__all__)
    assert simulated | {"ACCEPTED", "REFUSED", "Outcome"} == set(simulate.__all__)
    assert sorted(modelled) == sorted(models.__all__)


def test_every_outcome_is_on_the_page_of_the_api_and_no_other_is() -> None:
    told = re.findall(r"\.\. attribute:: (\w+)", read("reference/api"))
    assert sorted(told) == sorted(Outcome.__members__)


CORE = Path(scrapy_adaptive.core.__file__).parent
CONSTANTS = [
    row for page in ("law", "hold", "known-limits") for row in rows(f"explanation/{page}", "name")
]
ORIGINS = {"theory", "goal", "people", "risk", "machine", "sweep", "taste"}


@pytest.mark.parametrize("row", CONSTANTS, ids=lambda row: row[0])
def test_a_constant_of_the_law_has_the_value_that_is_told(row: tuple[str, ...]) -> None:
    """And one of the origins that are explained."""
    module, _, name = literal(row[0]).partition(".")
    (path,) = CORE.rglob(f"{module}.py")
    parts = path.relative_to(CORE).with_suffix("").parts
    found = getattr(importlib.import_module(".".join(("scrapy_adaptive.core", *parts))), name)
    text = literal(row[1])
    told = ast.literal_eval(text) if text[0] == "(" else float(Fraction(text.replace(" ", "")))
    assert told == found
    assert row[2] in ORIGINS


def test_every_number_of_the_law_is_told() -> None:
    """Those that a module of the core gives a name to, but for reading headers and for the rota."""
    told = {literal(row[0]) for row in CONSTANTS}
    assert len(told) == len(CONSTANTS)
    for path in CORE.rglob("*.py"):
        if path.stem in ("parse", "values", "turns", "slot_registry"):
            continue
        for name in re.findall(r"(?m)^([A-Z][A-Z_]+) = [\d(-]", path.read_text(encoding="utf-8")):
            assert f"{path.stem}.{name}" in told


@pytest.mark.parametrize("page", page_names())
def test_every_page_says_what_the_reader_can_do_after_it(page: str) -> None:
    assert re.search(
        r"[Aa]fter (?:this (?:page|tutorial)|these pages|it) you (?:can|know)", read(page)
    )
