"""A plugin of pytest: every crawler of Scrapy's tests has the add-on, in its defaults."""

from __future__ import annotations

from typing import Any

from scrapy.crawler import Crawler


def init(self: Crawler, *args: Any, **options: Any) -> None:
    """Switch it on, unless the test is about add-ons."""
    crawler_init(self, *args, **options)
    if not self.settings["ADDONS"]:
        self.settings.set("ADDONS", {"scrapy_adaptive.Addon": 500})


crawler_init = Crawler.__init__
Crawler.__init__ = init  # type: ignore[method-assign]
