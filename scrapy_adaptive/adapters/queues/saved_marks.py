"""Marks of ours on requests that wait to be fetched again.

Laws
----
* A mark is set when a refused request sets out for its queue, and taken off when it gets there
  or at the gate: no spider sees it.
* What a mark holds is what the request was before: its own `dont_filter`, without which a later
  redirect would pass the duplicate filter.
* A `dont_cache` of ours is known by its value, on copies of the request too; one of the user's own
  that is true is never touched. It is taken off at the gate, which the HTTP cache comes before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scrapy import Request

CACHE_META_KEY = "dont_cache"

OURS = "adaptive"
"""What we set it to; Scrapy takes it for true."""

OURS_FOR_FALSE = "adaptive, for False"
"""The same, where the user says that the cache may have it."""

REQUEUED_META_KEY = "adaptive_requeued"
"""Marks a request that goes back, on its way and while it is saved with the job."""


def keep_out(request: Request) -> None:
    """The HTTP cache must neither store nor serve this request's answer."""
    if not request.meta.get(CACHE_META_KEY):
        is_said = CACHE_META_KEY in request.meta
        request.meta[CACHE_META_KEY] = OURS_FOR_FALSE if is_said else OURS


def let_in(request: Request) -> None:
    """Take our own mark off again."""
    found = request.meta.get(CACHE_META_KEY)
    if found == OURS:
        del request.meta[CACHE_META_KEY]
    elif found == OURS_FOR_FALSE:
        request.meta[CACHE_META_KEY] = False


def mark(request: Request, *, back_at: int = 0, past_filter: bool = True) -> None:
    """The request goes back, or is saved with the job where it waits.

    Args:
        back_at: when it came back, in nanoseconds of the wall clock, if it is saved.
        past_filter: it has to pass the duplicate filter once more.
    """
    kept: dict[str, int] = {"back_at": back_at}
    if past_filter:
        kept["dont_filter"] = request.dont_filter
        request.dont_filter = True
    request.meta[REQUEUED_META_KEY] = kept


def restore(request: Request) -> int | None:
    """Take the mark off; returns when it came back (wall clock, ns), None if it had none."""
    if REQUEUED_META_KEY not in request.meta:
        return None
    kept = request.meta.pop(REQUEUED_META_KEY)
    request.dont_filter = bool(kept.get("dont_filter", request.dont_filter))
    return int(kept["back_at"])
