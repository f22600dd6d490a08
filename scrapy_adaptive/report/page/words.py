"""What the page's columns, tiles and lines are called, and what each word means.

Laws
----
* Every word that a reader meets has its meaning here, once; the page, the table in the terminal
  and the CSV file share it.
"""

from __future__ import annotations

from typing import NamedTuple


class Column(NamedTuple):
    """A column of the table of sites."""

    key: str
    name: str
    title: str
    """What it means, in a sentence."""
    kind: str
    """How its values are written: text, state, rate, count, seconds or pause."""
    wraps: bool = False


COLUMNS = (
    Column(
        "site",
        "site",
        "What is throttled by itself: a host, or the name of a slot that the project gave",
        "text",
    ),
    Column(
        "state",
        "state",
        "crawling; paused: nothing is sent; testing: one test request is out after a pause; "
        "parked: the site asked for a pause longer than ADAPTIVE_MAX_PAUSE; idle: nothing waits",
        "state",
    ),
    Column("rate", "rate now", "Pages served of late, on average", "rate"),
    Column("mean", "mean rate", "Pages served from the site's first request to its last", "rate"),
    Column(
        "limit",
        "limit found",
        "The fastest the site allows, as learned from its refusals or told by itself; "
        "no number while nothing has shown a limit",
        "rate",
    ),
    Column(
        "sure",
        "how sure",
        "What the limit rests on, and since when it is kept: well known, if a rate just above it "
        "was refused; roughly, if a much faster one was; not tested, if none was",
        "text",
        True,
    ),
    Column("held_by", "held back by", "What keeps the crawl from going faster", "text", True),
    Column("pages", "pages", "Requests that the site served", "count"),
    Column(
        "refused",
        "refused",
        "Requests that the site turned down: a 429, a 503, or what your classifier calls a refusal",
        "count",
    ),
    Column(
        "requeued",
        "requeued",
        "Refused requests that went back to their queue, to be sent again later",
        "count",
    ),
    Column("paused", "paused", "Time in all in which nothing was sent after a refusal", "seconds"),
    Column("last_pause", "last pause", "How long, from when, and who asked for it", "pause", True),
)

LEGEND = {
    "served": ("pages served", "Mean of a few seconds"),
    "limit": ("pace limit (dashed)", "The fastest the crawl allowed itself"),
    "refused": ("refused (ticks at the bottom)", "When requests were turned down"),
    "pause": ("paused (hatched)", "Nothing was sent; the pointer tells who asked for it"),
}

WORDS = (
    (
        "test request",
        "After a pause one request is sent alone; if it is served, the crawl goes on",
    ),
    ("refusal", "An answer by which a site says that requests come too fast"),
    ("given up", "Pages that were refused so often that they were handed to RetryMiddleware"),
)
