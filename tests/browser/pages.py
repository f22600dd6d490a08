"""Pages as a reader's browser shows them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrapy_adaptive.report.page import page
from scrapy_adaptive.report.page.viewing import view_of

if TYPE_CHECKING:
    from scrapy_adaptive.report.crawl import Crawl

PATIENCE = 60_000
"""Milliseconds that a page may take on a busy machine."""


class Opened:
    """A page that is open and has drawn itself.

    Args:
        browser: Playwright's.
        options: width and height in pixels; more are those of a browser's context.
    """

    def __init__(
        self, browser: Any, url: str, width: int = 1280, height: int = 900, **options: Any
    ) -> None:
        self.errors: list[str] = []
        self.requests: list[str] = []
        size = {"width": width, "height": height}
        self._context = browser.new_context(viewport=size, **options)
        self.tab: Any = self._context.new_page()
        self.tab.set_default_timeout(PATIENCE)
        self.tab.on("console", self._on_message)
        self.tab.on("pageerror", lambda error: self.errors.append(str(error)))
        self.tab.on("request", lambda request: self.requests.append(request.url))
        self.tab.goto(url)
        self.tab.wait_for_selector("html[data-ready]")

    def _on_message(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.errors.append(message.text)

    def close(self) -> None:
        """Close it. Raises AssertionError if its console had an error."""
        self._context.close()
        assert self.errors == []

    # What a reader sees

    def text(self, selector: str) -> str:
        """The text of an element."""
        return str(self.tab.inner_text(selector)).strip()

    def tile(self, key: str) -> int:
        """The number of a tile."""
        return int(self.text(f"[data-key={key}] b").replace(",", ""))

    def column(self, name: str) -> list[str]:
        """The cells of a column that are shown."""
        found = self.tab.locator(f"#sites td[data-name='{name}']").all_inner_texts()
        return [str(text).strip() for text in found]


Opener = Callable[..., Opened]
"""Opens the page at an address."""


def saved(crawl: Crawl, folder: Path) -> str:
    """The address of the page of this crawl, in a file."""
    path = folder / "page.html"
    path.write_text(page(view_of(crawl)), encoding="utf-8")
    return path.as_uri()
