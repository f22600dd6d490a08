"""The command `rules`: which known limits a crawl of this project has, and how they are written.

Laws
----
* It reads the project's settings, as a crawl would; `-s` and `--url` come before them.
* It says what a crawl would do, by the code that would do it.
* A secret that it is told, an API key for instance, is not shown: its hash is.
"""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from scrapy import Request
from scrapy.utils.project import get_project_settings

from scrapy_adaptive.command_line import OneLineParser, add_command
from scrapy_adaptive.core.limits.book import Book
from scrapy_adaptive.core.limits.hit_stack import aged
from scrapy_adaptive.core.limits.leaf import meter_key
from scrapy_adaptive.core.limits.meter_table import SEPARATOR
from scrapy_adaptive.core.limits.rule import Rule
from scrapy_adaptive.core.limits.uses import Use
from scrapy_adaptive.rules import describing

from .known_limits import open_table
from .saved_rules import hits_of, read, uses_of
from .scrapy_internals import kind_of
from .settings import AdaptiveSettings, read_settings
from .slot_names import ruled_host

if TYPE_CHECKING:
    from scrapy_adaptive.command_line import Commands
    from scrapy_adaptive.rules.table import Problem, RuleTable

RULES = "Known limits: show them, check them, fill their table."
SHOW = "Show all rules, or those that a URL comes under, and what is left of each."
CHECK = "Check all rules, and say where each is counted."
LOAD = "Replace the rules of the table by those of a TOML file."
CREATE = "Make the tables."

SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*://")


def add(commands: Commands) -> None:
    """Add the command."""
    parser = commands.add_parser("rules", help=RULES, description=RULES)
    parts = parser.add_subparsers(metavar="COMMAND", required=True, parser_class=OneLineParser)
    show = add_command(parts, "show", SHOW, _show)
    show.add_argument("page", metavar="URL", nargs="?", help="https://api.example.com/search")
    show.add_argument(
        "--identity",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        type=_pair,
        help="whom it is requested as, for instance account=alice; as often as needed",
    )
    load = add_command(parts, "load", LOAD, _load)
    load.add_argument("file", metavar="FILE", type=Path, help="rules.toml")
    check = add_command(parts, "check", CHECK, _check)
    create = add_command(parts, "create", CREATE, _create)
    for each in (show, load, check, create):
        each.add_argument("--url", help="address of the database (default: ADAPTIVE_RULES_URL)")
        each.add_argument(
            "-s",
            metavar="NAME=VALUE",
            dest="settings",
            action="append",
            default=[],
            type=_pair,
            help="a setting, as for scrapy crawl",
        )


def _pair(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not name or not sign:
        raise argparse.ArgumentTypeError(f"must be NAME=VALUE, not {text!r}")
    return name, value


def _settings(given: argparse.Namespace) -> AdaptiveSettings:
    settings = get_project_settings()
    for name, value in given.settings:
        settings.set(name, value, priority="cmdline")
    if given.url:
        settings.set("ADAPTIVE_RULES_URL", given.url, priority="cmdline")
    return read_settings(settings)


def _needed_table(settings: AdaptiveSettings) -> RuleTable:
    table = open_table(settings)
    if table is None:
        raise ValueError("there is no table: set ADAPTIVE_RULES_URL, or give --url")
    return table


def _create(given: argparse.Namespace) -> str:
    table = _needed_table(_settings(given))
    table.create()
    return f"adaptive_rules, adaptive_hits and adaptive_uses are in {table.address}"


def _load(given: argparse.Namespace) -> str:
    from scrapy_adaptive.rules.toml_file import read_toml  # Python 3.10 needs tomli for it

    settings = _settings(given)
    identities = settings.identities
    rules = read_toml(given.file, sources=identities.sources, secrets=identities.secrets)
    table = _needed_table(settings)
    return f"{table.load(rules)} rules are in {table.address}"


class _Found:
    """All rules of a project."""

    def __init__(self, settings: AdaptiveSettings) -> None:
        self.table = open_table(settings)
        reading = None if self.table is None else self.table.read()
        self.problems: tuple[Problem, ...] = () if reading is None else reading.problems
        self.all = (*settings.rules, *(() if reading is None else reading.rules))
        self.now = time.time()
        self.book = Book(rule for rule in self.all if self.now < rule.expires_at)
        self.uses: Mapping[str, Use] = {}
        self._hits: list[tuple[str, str, list[tuple[float, int]]]] = []
        if self.table is not None:
            with suppress(OSError):  # who may only read has no table of it
                self.uses = self.table.uses()
            return
        saved = None if settings.state_path is None else read(settings.state_path)
        self.uses = uses_of(saved)
        self._hits = list(hits_of(saved))

    def state(self, rule: Rule) -> str:
        """Whether it holds, in words; empty if it does."""
        if rule.expires_at <= self.now:
            return "; expired"
        return "" if rule.id in self.book.rules else "; idle beside another"

    def left(self, rule: Rule, only: str | None = None) -> list[str]:
        """What is left of a quota, for each of its counts; or for one of them."""
        if not rule.is_quota:
            return []
        if self.table is not None:
            counts = {each.key: each.left for each in self.table.quotas.left(rule)}
        else:
            since = self.now - aged(rule.window)
            counts = {
                key: max(0, rule.max_hits - sum(count for at, count in times if at > since))
                for lasting_id, key, times in self._hits
                if lasting_id == rule.lasting_id
            }
        return [
            f"{key or 'all'}: {left:,} left of {rule.max_hits:,}"
            for key, left in counts.items()
            if only is None or key == only
        ]


def _check(given: argparse.Namespace) -> str:
    settings = _settings(given)
    found = _Found(settings)
    lines = [each.why for each in found.problems]
    lines += [
        f"{tie.counts.label} and {tie.idle.label} match the same; the first one counts"
        for tie in found.book.ties
    ]
    if found.problems:
        raise ValueError("\n".join(lines))
    has_table = found.table is not None
    for rule in found.all:
        where = describing.counted(rule, has_table=has_table)
        lines.append(f"{rule.label}: {describing.limits(rule)}; {where}{found.state(rule)}")
    return "\n".join([*lines, f"{len(found.all)} rules, none is bad"])


def _show(given: argparse.Namespace) -> str:
    settings = _settings(given)
    found = _Found(settings)
    lines = [each.why for each in found.problems]
    if given.page is None:
        return "\n".join([*lines, *_all(found)])
    try:
        page = given.page.removeprefix("//")
        request = Request(page if SCHEME.match(page) else f"https://{page}")
        host, kind = ruled_host(request), kind_of(request)
    except ValueError as error:
        raise ValueError(f"{given.page!r} is no URL: {error}") from None
    if not host:
        raise ValueError(f"{given.page!r} has no host; allowed is a URL")
    sources = settings.identities.sources
    for source, value in given.identity:
        if sources is not None and source not in sources:
            known = ", ".join(sorted(sources))
            told = f"--identity {source}={value}: {source} is told by nobody"
            raise ValueError(f"{told}; allowed is one that ADAPTIVE_IDENTITY tells: {known}")
    identities = {
        source: settings.identities.known_as(source, value) for source, value in given.identity
    }
    return "\n".join([*lines, *_matching(found, host, kind, identities)])


def _all(found: _Found) -> list[str]:
    rows = [
        (
            rule.label,
            describing.scope(rule),
            describing.limits(rule) + found.state(rule),
            _use(found, rule),
        )
        for rule in found.all
    ]
    if not rows:
        return ["there are no rules"]
    lines = [describing.table(("rule", "requests", "limit", "what came of it"), rows)]
    return lines + [f"{rule.label}, {each}" for rule in found.all for each in found.left(rule)]


def _matching(found: _Found, host: str, kind: str, identities: dict[str, str]) -> list[str]:
    rules = found.book.match(host, kind, identities)
    others = [each for each in found.book.candidates(host, kind, identities) if each not in rules]
    told = "".join(f" {source}={value}" for source, value in identities.items())
    lines = [f"{host} {kind}{told}"]
    if not rules:
        return [*lines, "no rule matches: what the site allows is learned"]
    for rule in rules:
        lines.append(f"{rule.label}: {describing.limits(rule)}")
        lines.append(f"  matches {describing.scope(rule)}; {_use(found, rule)}")
        counted = meter_key(rule, host, identities).partition(SEPARATOR)[2]
        lines += [f"  {each}" for each in found.left(rule, counted)]
        lines += [
            f"  counts in place of {other.label} ({describing.scope(other)}), which is "
            f"{'of the settings' if rule.is_stored and not other.is_stored else 'less specific'}"
            for other in others
            if other.layer == rule.layer
        ]
    if len(rules) > 1:
        lines.append("all of these apply together")
    return lines


def _use(found: _Found, rule: Rule) -> str:
    return describing.use(found.uses.get(rule.lasting_id))
