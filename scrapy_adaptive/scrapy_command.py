"""`scrapy adaptive`: the same as `python -m scrapy_adaptive`.

Laws
----
* Scrapy finds the command by an entry point; all words after its name are ours to read.
"""

from __future__ import annotations

import argparse

from scrapy.commands import ScrapyCommand

from .__main__ import main


class Command(ScrapyCommand):
    """The `adaptive` command of Scrapy's own command-line tool."""

    requires_crawler_process = False

    def syntax(self) -> str:
        """What follows the name."""
        return "simulate|report|watch|why|rules|frontier [options]"

    def short_desc(self) -> str:
        """Its line in `scrapy -h`."""
        return "See what a crawl did or does, or try its settings (scrapy-adaptive)"

    def long_desc(self) -> str:
        """What `scrapy adaptive -h` says."""
        return (
            f"{self.short_desc()}. 'simulate' crawls a model of a server, 'report' makes a page of "
            "a journal, 'watch' shows a crawl that runs, 'why' says what holds a site back, "
            "'rules' is for known limits, 'frontier' for the database of a crawl's requests. "
            "Each has a -h of its own. 'python -m scrapy_adaptive' is the same command."
        )

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Take the words as they are; Scrapy's global options mean nothing here."""
        parser.add_argument("words", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
        parser.set_defaults(profile=None)

    def process_options(self, args: list[str], opts: argparse.Namespace) -> None:
        """Nothing: `run` reads the words."""

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        """Run the command."""
        self.exitcode = main([*opts.words, *args], prog="scrapy adaptive")
