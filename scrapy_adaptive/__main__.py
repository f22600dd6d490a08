"""`python -m scrapy_adaptive`, or `scrapy adaptive`: tries settings, and shows crawls."""

from __future__ import annotations

import gzip
import sys
import urllib.request
from collections.abc import Iterator, Sequence
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING

from scrapy import Request, Spider
from scrapy.crawler import Crawler
from scrapy.spiderloader import SpiderLoader
from scrapy.utils.misc import build_from_crawler, load_object
from scrapy.utils.project import get_project_settings
from scrapy.utils.sitemap import Sitemap

from scrapy_adaptive.adapters import rules_command as rules
from scrapy_adaptive.adapters.frontier.redis_settings import connector
from scrapy_adaptive.adapters.frontier.rights import NO_NAME, Rights, host_of
from scrapy_adaptive.command_line import run_command
from scrapy_adaptive.frontier import commands as frontier
from scrapy_adaptive.report import commands as report
from scrapy_adaptive.report import why_command as why
from scrapy_adaptive.simulate import governor_of
from scrapy_adaptive.simulation import cli as simulation

if TYPE_CHECKING:
    from scrapy_adaptive.command_line import Commands

DEEPEST = 2
"""Sitemaps that point to sitemaps, one behind the other."""


def main(arguments: Sequence[str] | None = None, *, prog: str = "python -m scrapy_adaptive") -> int:
    """Run the command, called by that name; returns its exit status."""
    return run_command(_add_all, arguments, prog=prog)


def _add_all(commands: Commands) -> None:
    simulation.add(commands, governor_of)
    report.add(commands)
    why.add(commands)
    rules.add(commands)
    frontier.add(commands, project_of)


def project_of() -> frontier.Project:
    """The Scrapy project in whose folder the command runs, as far as there is one."""
    settings = get_project_settings()
    try:
        spiders = sorted(SpiderLoader.from_settings(settings).list())
    except ImportError:
        spiders = []
    crawler = Crawler(Spider, settings)
    made = build_from_crawler(load_object(settings["REQUEST_FINGERPRINTER_CLASS"]), crawler)

    def page(url: str) -> tuple[str, str, bytes]:
        request = Request(url)
        if not Rights.are_needed_for(request):
            raise ValueError(NO_NAME)
        return host_of(request), request.url, made.fingerprint(request)

    return frontier.Project(
        address=settings.get("ADAPTIVE_FRONTIER"),
        spiders=spiders,
        page=page,
        sitemap=_urls_of_sitemap,
        connect=connector(settings),
    )


def _urls_of_sitemap(where: str, deep: int = 0) -> Iterator[str]:
    """The URLs of a sitemap, and of those that it points to.

    Raises:
        ValueError: it is none, or cannot be had, or one that it points to is such.
    """
    if "://" in where:
        try:
            with urllib.request.urlopen(where, timeout=60) as answer:
                body = answer.read()
        except (OSError, HTTPException, ValueError) as error:
            raise ValueError(f"{where}: {error}") from None
    else:
        body = Path(where).read_bytes()
    kind, urls = _read_sitemap(where, body)
    for url in urls:
        if kind != "sitemapindex":
            yield url
        elif deep < DEEPEST and url.startswith(("http://", "https://")):
            yield from _urls_of_sitemap(url, deep + 1)
        else:
            raise ValueError(f"{where} points to {url[:200]}: allowed is a sitemap's URL")


def _read_sitemap(where: str, body: bytes) -> tuple[str, list[str]]:
    """What kind of sitemap it is, and the addresses in it."""
    try:
        sitemap = Sitemap(gzip.decompress(body) if body[:2] == b"\x1f\x8b" else body)
        urls = [entry["loc"] for entry in sitemap if "loc" in entry]
    except Exception:  # whatever somebody has put there
        raise ValueError(f"{where} is no sitemap") from None
    if sitemap.type not in ("urlset", "sitemapindex"):
        raise ValueError(f"{where} is no sitemap")
    return sitemap.type, urls


if __name__ == "__main__":
    sys.exit(main())
