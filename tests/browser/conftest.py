"""A headless Chromium for the tests of pages; without one they are skipped, and say why."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from tests.browser.pages import Opened, Opener

if TYPE_CHECKING:
    from playwright.sync_api import Browser

NAMES = ("chromium", "chromium-browser", "google-chrome")
REQUIRED = "BROWSER_TESTS_REQUIRED"
"""Set where a missing browser is a failure."""


def give_up(reason: str) -> NoReturn:
    """Skip, or fail where the browser is required."""
    if os.environ.get(REQUIRED):
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """The browser of this machine: nothing is downloaded.

    It is closed with its module: as long as Playwright runs, asyncio's loop counts as running in
    this thread, and a crawl that another test runs in this process would wait for it for ever.
    """
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        give_up("no Playwright: pip install scrapy-adaptive[test-browser]")
    path = next((found for name in NAMES if (found := shutil.which(name))), None)
    if path is None:
        give_up(f"no browser: install one of {', '.join(NAMES)}")
    # Chromium's own sandbox does not work for root, as in containers.
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=arguments)
        yield browser
        browser.close()


@pytest.fixture
def opened(browser: Browser) -> Iterator[Opener]:
    """Opens a page: `opened(url, width=400)`; an error in its console fails the test."""
    with ExitStack() as stack:

        def open_page(url: str, **options: Any) -> Opened:
            page = Opened(browser, url, **options)
            stack.callback(page.close)
            return page

        yield open_page
