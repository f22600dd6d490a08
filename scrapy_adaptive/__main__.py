"""`python -m scrapy_adaptive`, or `scrapy adaptive`: tries settings, and shows crawls."""

from __future__ import annotations

import gzip
import sys
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from scrapy import Request, Spider
from scrapy.crawler import Crawler
from scrapy.settings import Settings
from scrapy.spiderloader import SpiderLoader
from scrapy.utils.misc import build_from_crawler, load_object
from scrapy.utils.project import get_project_settings
from scrapy.utils.sitemap import Sitemap

from scrapy_adaptive.adapters import rules_command as rules
from scrapy_adaptive.adapters.extension import make_governor
from scrapy_adaptive.adapters.frontier.redis_settings import connector
from scrapy_adaptive.adapters.settings import read_settings
from scrapy_adaptive.command_line import run_command
from scrapy_adaptive.core.governor import Governor
from scrapy_adaptive.frontier import commands as frontier
from scrapy_adaptive.report import commands as report
from scrapy_adaptive.report import why_command as why
from scrapy_adaptive.simulation import command as simulation

if TYPE_CHECKING:
    from scrapy_adaptive.command_line import Commands

SCRAPYS = (
    "CONCURRENT_REQUESTS_PER_DOMAIN",
    "CONCURRENT_REQUESTS_PER_IP",
    "DOWNLOAD_DELAY",
)
"""Settings of Scrapy's own that matter in a simulation of one site."""


def main(arguments: Sequence[str] | None = None, *, prog: str = "python -m scrapy_adaptive") -> int:
    """Run the command, called by that name; returns its exit status."""
    return run_command(_add_all, arguments, prog=prog)


def _add_all(commands: Commands) -> None:
    simulation.add(commands, governor_of)
    report.add(commands)
    why.add(commands)
    rules.add(commands)
    frontier.add(commands, project_of)


def governor_of(given: Mapping[str, str], chance: Callable[[], float]) -> Governor:
    """The governor of a crawl with these settings.

    Raises:
        ValueError: a setting is not allowed, or changes nothing here.
    """
    settings = Settings()
    for name, value in given.items():
        if not name.startswith("ADAPTIVE_") and name not in SCRAPYS:
            allowed = ", ".join(("ADAPTIVE_…", *SCRAPYS))
            raise ValueError(f"{name} changes nothing in a simulation; allowed is {allowed}")
        settings.set(name, value, priority="cmdline")
    return make_governor(read_settings(settings), chance)


def project_of() -> frontier.Project:
    """The Scrapy project in whose folder the command runs, as far as there is one."""
    settings = get_project_settings()
    try:
        spiders = sorted(SpiderLoader.from_settings(settings).list())
    except ImportError:
        spiders = []
    crawler = Crawler(Spider, settings)
    made = build_from_crawler(load_object(settings["REQUEST_FINGERPRINTER_CLASS"]), crawler)
    return frontier.Project(
        address=settings.get("ADAPTIVE_FRONTIER"),
        spiders=spiders,
        fingerprint=lambda url: made.fingerprint(Request(url)),
        sitemap=_urls_of_sitemap,
        connect=connector(settings),
    )


def _urls_of_sitemap(where: str) -> Iterator[str]:
    """The URLs of a sitemap, and of those that it points to."""
    if "://" in where:
        with urllib.request.urlopen(where, timeout=60) as answer:
            body = answer.read()
    else:
        body = Path(where).read_bytes()
    sitemap = Sitemap(gzip.decompress(body) if body[:2] == b"\x1f\x8b" else body)
    for entry in sitemap:
        if sitemap.type == "sitemapindex":
            yield from _urls_of_sitemap(entry["loc"])
        else:
            yield entry["loc"]


if __name__ == "__main__":
    sys.exit(main())
