"""`python -m scrapy_adaptive`, or `scrapy adaptive`: tries settings, and shows crawls."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from scrapy.settings import Settings

from scrapy_adaptive.adapters import rules_command as rules
from scrapy_adaptive.adapters.extension import make_governor
from scrapy_adaptive.adapters.settings import read_settings
from scrapy_adaptive.command_line import run_command
from scrapy_adaptive.core.governor import Governor
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


if __name__ == "__main__":
    sys.exit(main())
