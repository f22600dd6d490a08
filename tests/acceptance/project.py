"""A Scrapy project as users have it: made by hand in a folder, run by the `scrapy` command.

`scrapy` is a fork of a process that has imported Scrapy (see `tests.forking`), and takes a fifth of
the time. What depends on how a process was started asks for one of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.crawling import ROOT, SEARCHED
from tests.forking import COMMAND, forker

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
        """Run `scrapy` in it, in a fork; standard output and error come as one text."""
        asked = {"arguments": arguments, "folder": str(self.folder), "timeout": int(timeout) + 10}
        with tempfile.TemporaryDirectory(prefix="command-") as name:
            folder = Path(name)
            (folder / COMMAND).write_text(json.dumps(asked), encoding="utf-8")
            process = forker(SEARCHED).fork(folder)
            try:
                code = process.wait(timeout)
            finally:
                process.kill()
            said = (folder / "stderr.txt").read_text(encoding="utf-8")
        return subprocess.CompletedProcess(["scrapy", *arguments], code, said)

    def process(self, *arguments: str, timeout: float = 30) -> subprocess.CompletedProcess[str]:
        """Run `scrapy` in it, in a process of its own."""
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
