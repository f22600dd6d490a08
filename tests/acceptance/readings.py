"""Judging a crawl by the site's log, on a machine that may be slow to read its sockets.

Laws
----
* The site's log is the judge. What the crawler says never accuses; it excuses a hit only if
  that very request had left before the crawler had read the refusal, so was in flight, and
  only while the refusal was read within `LATEST`.
* A refusal is read when Scrapy has the whole response; a request has left when it reached the
  downloader. Both are instants of the wall clock, which the site's log uses too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import product
from time import time
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from scrapy import Request, signals

from docsite.hits import REFUSAL_CODES, Hit, rude_hits

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from typing_extensions import Self

    from tests.crawling import Crawl

READ, LEFT = "readings/read", "readings/left"

LATEST = 0.25
"""Seconds after a refusal within which a busy machine reads it."""


class Readings:
    """Scrapy extension: notes when each answer was read and when each request left."""

    def __init__(self) -> None:
        self.read: list[tuple[str, float]] = []
        self.left: list[tuple[str, float]] = []

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Keep the notes in the crawl's stats."""
        notes = cls()
        assert crawler.stats is not None
        crawler.stats.set_value(READ, notes.read)
        crawler.stats.set_value(LEFT, notes.left)
        crawler.signals.connect(notes.on_read, signals.response_downloaded)
        crawler.signals.connect(notes.on_left, signals.request_reached_downloader)
        return notes

    def on_read(self, request: Request, response: Response) -> None:
        self.read.append((request.url, time()))

    def on_left(self, request: Request) -> None:
        self.left.append((request.url, time()))


READING: dict[str, Any] = {"EXTENSIONS": {Readings: -1}, "STATS_DUMP": False}
"""Settings of a crawl that takes these notes, before anything else hears of an answer."""


def rude(hits: Sequence[Hit], done: Crawl) -> list[str]:
    """What the site's log holds against the crawl, each with how late the refusal was read.

    The judge is `rude_hits`, asked about every refusal on its own.
    """
    left, read = _notes(hits, done)
    charges = []
    for refusal, hit in product(_refusals(hits), hits):
        late, after = read[refusal] - refusal.end, left[hit] - read[refusal]
        is_rude = any(rude_hits([refusal, replace(hit, status=200)]))
        if is_rude and (after >= 0 or late > LATEST):
            charges.append(
                f"{hit.path} began {_ms(hit.start - refusal.end)} after a refusal that was read "
                f"after {_ms(late)}; it left {_ms(after)} after that"
            )
    return charges


def left_after_reading(hits: Sequence[Hit], done: Crawl, *, silence: float) -> list[str]:
    """Requests that left within `silence` seconds after a refusal had been read.

    Stricter than `rude`: the judge's grace hides what leaves at once.
    """
    left, read = _notes(hits, done)
    return [
        f"{hit.path} left {_ms(left_at - read[refusal])} after a refusal was read"
        for refusal in _refusals(hits)
        for hit, left_at in left.items()
        if 0 <= left_at - read[refusal] < silence
    ]


def when_left(hits: Sequence[Hit], done: Crawl) -> dict[Hit, float]:
    """The instant at which the request of each hit left the crawler."""
    return _instants(hits, done.stats[LEFT])


def when_read(hits: Sequence[Hit], done: Crawl) -> dict[Hit, float]:
    """The instant at which the answer of each answered hit was read."""
    return _instants([hit for hit in hits if hit.status], done.stats[READ])


def _refusals(hits: Sequence[Hit]) -> list[Hit]:
    return [hit for hit in hits if hit.status in REFUSAL_CODES]


def _notes(hits: Sequence[Hit], done: Crawl) -> tuple[dict[Hit, float], dict[Hit, float]]:
    return when_left(hits, done), when_read(hits, done)


def _instants(hits: Iterable[Hit], notes: Iterable[tuple[str, float]]) -> dict[Hit, float]:
    """The crawler's note for each hit: the nth of a page belongs to its nth hit."""
    noted: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    for url, instant in notes:
        parts = urlsplit(url)
        noted[parts.netloc, parts.path].append(instant)
    in_order = sorted(hits, key=lambda hit: hit.start)
    return {hit: noted[hit.host, hit.path].pop(0) for hit in in_order}


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms"
