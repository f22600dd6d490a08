"""A Scrapy project as users have it: made by hand in a folder, run by the `scrapy` command."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.crawling import ROOT

SPIDER = """\
import scrapy


class OneSpider(scrapy.Spider):
    name = "one"
    start_urls = [{url!r}]
    handle_httpstatus_list = [429]

    def parse(self, response):
        yield {{"status": response.status, "body": response.text}}
"""

ADDON = 'ADDONS = {"scrapy_adaptive.Addon": 500}'
"""The one line."""


@dataclass(frozen=True, slots=True)
class Project:
    """A project in `folder` with the spider `one`, which asks for `url`."""

    folder: Path

    @classmethod
    def make(cls, folder: Path, url: str, *settings: str) -> Project:
        """Write its files; `settings` are lines of its settings.py."""
        package = folder / "shop"
        (package / "spiders").mkdir(parents=True)
        (folder / "scrapy.cfg").write_text("[settings]\ndefault = shop.settings\n")
        lines = ['BOT_NAME = "shop"', 'SPIDER_MODULES = ["shop.spiders"]', *settings, ""]
        (package / "settings.py").write_text("\n".join(lines))
        (package / "__init__.py").touch()
        (package / "spiders" / "__init__.py").touch()
        (package / "spiders" / "one.py").write_text(SPIDER.format(url=url))
        return cls(folder)

    def scrapy(self, *arguments: str, timeout: float = 30) -> subprocess.CompletedProcess[str]:
        """Run `scrapy` in it; standard output and error come as one text."""
        return self.python("-m", "scrapy", *arguments, timeout=timeout)

    def python(self, *arguments: str, timeout: float = 30) -> subprocess.CompletedProcess[str]:
        """Run `python` in it; standard output and error come as one text."""
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "BROWSER": "true"}
        environment.pop("SCRAPY_SETTINGS_MODULE", None)
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=self.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout,
        )
