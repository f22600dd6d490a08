"""Writes the page of a crawl to a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from . import page
from .viewing import view_of

if TYPE_CHECKING:
    from scrapy_adaptive.report.crawl import Crawl


def write_page(crawl: Crawl, path: Path) -> None:
    """Write the page of a crawl.

    Raises:
        ValueError: Bokeh is not installed.
        OSError: it cannot be written.
    """
    path.write_text(page(view_of(crawl)), encoding="utf-8")
