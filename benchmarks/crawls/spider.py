"""The crawl that every arm makes: pages without end, from one site.

It says that it is ready, waits for the start that all arms wait for, and at the end of its time
writes down how many pages it has finished and how many it gave up: those whose last answer was
not 200, or that failed. A page that was still to come is neither. Its process ends when its
standard input does, so that it never outlives who started it.
"""

from __future__ import annotations

import asyncio
import json
import os
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from scrapy import Request, Spider
from scrapy.http import Response

from benchmarks.crawls.sites import FILES

OPEN = 200
"""Pages asked for and not yet finished: enough for any arm to choose from."""

LOOK = 0.02
"""Seconds between two looks at whether more are wanted."""


def end_with_input() -> None:
    """End the process when its standard input ends."""
    while os.read(0, 1):
        pass
    os._exit(1)


class PagesSpider(Spider):
    """Asks for page after page."""

    name = "pages"
    base: str
    folder: str
    seconds: str

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.asked = self.fetched = self.lost = 0
        threading.Thread(target=end_with_input, daemon=True).start()

    async def start(self) -> AsyncIterator[Request]:
        """Pages, a few ahead of the crawl, until the time is over."""
        began_at = await self._starting_shot()
        ends_at = began_at + float(self.seconds)
        await asyncio.sleep(began_at - time.time())
        ending = asyncio.ensure_future(self._end(ends_at))
        while time.time() < ends_at:
            if self.asked - self.fetched - self.lost < OPEN:
                yield self._page()
            else:
                await asyncio.sleep(LOOK)
        await ending

    def _page(self) -> Request:
        self.asked += 1
        url = f"{self.base}/page/{self.asked % FILES}.html?n={self.asked}"
        return Request(url, callback=self.parse, errback=self.on_lost)

    async def _starting_shot(self) -> float:
        folder = Path(self.folder)
        (folder / "ready").touch()
        shot = folder.parent / "go"
        while not shot.exists():
            await asyncio.sleep(LOOK)
        return float(shot.read_text())

    async def _end(self, ends_at: float) -> None:
        await asyncio.sleep(max(0.0, ends_at - time.time()))
        report = {
            "fetched": self.fetched,
            "lost": self.lost,
            "cpu": round(time.process_time(), 2),
        }
        draft = Path(self.folder) / "report.draft"
        draft.write_text(json.dumps(report))
        draft.rename(draft.with_name("report.json"))

    def parse(self, response: Response) -> None:
        """A page was fetched."""
        self.fetched += 1

    def on_lost(self, failure: Any) -> None:
        """A page was given up."""
        self.lost += 1
