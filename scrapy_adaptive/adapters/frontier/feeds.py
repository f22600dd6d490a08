"""Item feeds: what a page gave is in its file before its visit is done.

Laws
----
* A feed of lines on a local disk, to which is appended, is flushed and synced before each turn.
* What a full disk does not take, its visits bring again when there is room.
* A last line that a crash has torn is ended, so that the next item has a line of its own.
* Of other feeds a crash may lose items, and one line says so.
"""

from __future__ import annotations

import errno
import logging
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrapy import signals

from scrapy_adaptive.adapters.scrapy_internals import feeds_of
from scrapy_adaptive.frontier.protocol import UnavailableError

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

logger = logging.getLogger("scrapy_adaptive")

_NO_DISK = frozenset({errno.EINVAL, errno.ENOTSUP, errno.EPIPE})
"""A pipe or a terminal: nothing of it can be synced, or nobody reads it any more."""

LINES = frozenset({"jsonlines", "jsonl", "jl"})
"""Formats of which a file may be cut anywhere, and be added to."""


class UnstoredError(UnavailableError):
    """Items could not be stored: whatever was done since they last were is to be done again."""


class Feeds:
    """The item feeds of one crawl."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._has_items = False
        crawler.signals.connect(self._on_item, signal=signals.item_scraped)

    def begin(self) -> None:
        """End torn lines, and tell which feeds may lose items; before the first item."""
        for feed in feeds_of(self._crawler):
            path = getattr(feed.storage, "path", None)
            why = self._trouble(feed, path)
            if why is not None:
                logger.warning(
                    "items of a crawl that is killed may be missing in the feed %s: %s; a local "
                    ".jl that is added to (-o items.jl) loses none",
                    feed.uri,
                    why,
                )
            elif path is not None:
                _end_line(Path(path))

    def _trouble(self, feed: Any, path: Any) -> str | None:
        """Why a crash may cost items of this feed; None where it does not."""
        if path is None:
            return None if feed.uri == "stdout:" else "it is sent when the crawl ends"
        if feed.format not in LINES:
            return f"{feed.format} cannot be cut and added to"
        if feed.feed_options.get("overwrite", False):
            return "it begins anew with each run"
        if "postprocessing" in feed.feed_options:
            return "what is compressed cannot be cut"
        return None

    def _on_item(self) -> None:
        self._has_items = True

    def sync(self) -> None:
        """What the feeds hold goes to the disk; in the courier's thread.

        Raises:
            UnstoredError: the disk does not take it: what gave it is not done.
        """
        if not self._has_items:
            return
        self._has_items = False
        for feed in feeds_of(self._crawler):
            try:
                with suppress(ValueError, AttributeError):  # closed, or not begun
                    feed.file.flush()
                    os.fsync(feed.file.fileno())
            except OSError as error:
                if error.errno not in _NO_DISK:
                    self._has_items = True
                    raise UnstoredError(f"the feed {feed.uri}: {error}") from error


def _end_line(path: Path) -> None:
    """A last line that was torn ends here: what it held is fetched again."""
    with suppress(OSError):
        if path.stat().st_size:
            with path.open("rb+") as file:
                file.seek(-1, os.SEEK_END)
                if file.read(1) != b"\n":
                    file.write(b"\n")
