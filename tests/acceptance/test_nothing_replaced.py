"""Scrapy's objects keep their own methods, and its private parts are named in one file only."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from scrapy import signals
from scrapy.crawler import Crawler as ScrapyCrawler
from typing_extensions import Self

import scrapy_adaptive
from tests.crawling import Crawler, Reactor
from tests.servers.origin import Answer, Origin, Visit, refusal
from tests.spiders import UrlsSpider

PACKAGE = Path(scrapy_adaptive.__file__).parent
INTERNALS = "scrapy_internals.py"

REPLACED = "replaced"

NAMED_TUPLES = ("_asdict", "_fields", "_make", "_replace")
"""Public names of Python's, underscore or not."""


class LooksForReplaced:
    """Scrapy extension: notes each function of ours that stands in an object or class of Scrapy."""

    def __init__(self, crawler: ScrapyCrawler) -> None:
        self.crawler = crawler
        self.found: set[str] = set()

    @classmethod
    def from_crawler(cls, crawler: ScrapyCrawler) -> Self:
        extension = cls(crawler)
        assert crawler.stats is not None
        crawler.stats.set_value(REPLACED, extension.found)
        for signal in (signals.spider_opened, signals.response_received, signals.spider_closed):
            crawler.signals.connect(extension.look, signal)
        return extension

    def look(self) -> None:
        engine = self.crawler.engine
        assert engine is not None
        slot = engine._slot
        scheduler = None if slot is None else slot.scheduler
        parts = (engine, engine.downloader, scheduler, engine.scraper, engine.scraper.slot, slot)
        for part in filter(None, parts):
            for holder in (part, *type(part).__mro__):
                self.found.update(ours_in(holder))


def ours_in(holder: object) -> Iterator[str]:
    """Functions of the add-on among the attributes of an object itself, or of a class."""
    for name, value in getattr(holder, "__dict__", {}).items():
        function = getattr(value, "func", value)  # a partial
        module = getattr(function, "__module__", None) or ""
        if inspect.isroutine(function) and module.startswith("scrapy_adaptive"):
            yield f"{holder!r}.{name}"


def refuse_some(visit: Visit) -> Answer:
    return refusal(retry_after=1) if visit.total == 5 else Answer()


@pytest.mark.parametrize("reactor", ["asyncio", "none"])
def test_no_method_of_scrapys_objects_is_replaced_at_any_time_of_a_crawl(
    reactor: Reactor, origin: Callable[..., Origin], crawl: Crawler
) -> None:
    """From its opening, through a pause, to its end."""
    site = origin(refuse_some)
    done = crawl(
        UrlsSpider,
        {"EXTENSIONS": {LooksForReplaced: 1000}, "ADAPTIVE_START_DELAY": 0.05, "STATS_DUMP": False},
        arguments={"urls": [f"{site.url}/{n}" for n in range(12)]},
        reactor=reactor,
    )
    assert len(done.urls) == 12
    assert done.stats[REPLACED] in ([], "set()"), done.stats[REPLACED]


def test_only_one_file_names_private_parts_of_scrapy() -> None:
    """What begins with an underscore in any other was defined in that file."""
    paths = [
        path for path in sorted((PACKAGE / "adapters").rglob("*.py")) if path.name != INTERNALS
    ]
    assert len(paths) > 10
    assert {path.name: foreign_names(path) for path in paths if foreign_names(path)} == {}


def foreign_names(path: Path) -> set[str]:
    """Private names that a file imports, or asks other objects for, and does not define."""
    named: set[str] = set()
    own = set(NAMED_TUPLES)
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            own.add(node.name)
        elif isinstance(node, ast.ImportFrom):
            named.update(alias.name for alias in node.names)
        elif isinstance(node, ast.Attribute):
            is_own = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
            (own if is_own else named).add(node.attr)
    return {name for name in named - own if name.startswith("_") and not name.startswith("__")}
