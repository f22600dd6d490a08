"""What came of a visit, and when the page is to be visited again.

Laws
----
* Unchanged is a 304, or the same items as at the last visit: what a page gave counts, not its
  bytes.
* The digest of items does not depend on their order.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from itemadapter import ItemAdapter

from scrapy_adaptive.frontier.protocol import Again, Done, Result
from scrapy_adaptive.frontier.revisits import GONE, Revisits, duration, read_revisits

if TYPE_CHECKING:
    from .visits import OpenVisit

NOT_MODIFIED = 304

NEW = "new"
"""ADAPTIVE_REVISIT of who visits again what gave no items."""

REVISIT_META_KEY = "adaptive_revisit"
"""The periods of one request's page: as ADAPTIVE_REVISIT, or a time, or False for never."""

NEXT_META_KEY = "adaptive_next_visit"
"""In a response's meta: when its page is to be visited again; False for never."""

SIZE = 16
"""Bytes of a digest."""


def digest_of(item: Any) -> int:
    """A number that equal items share."""
    content = ItemAdapter(item).asdict() if ItemAdapter.is_item(item) else item
    text = json.dumps(content, sort_keys=True, default=str, ensure_ascii=False)
    return int.from_bytes(
        hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=SIZE).digest(), "big"
    )


def digest_bytes(visit: OpenVisit) -> bytes:
    """The digest of all items of a visit."""
    return (visit.digest % (1 << 8 * SIZE)).to_bytes(SIZE, "big")


def is_unchanged(visit: OpenVisit) -> bool:
    """Whether the page gave what it gave at its last visit."""
    last = None if visit.given is None else visit.given.last
    if visit.response is not None and visit.response[0] == NOT_MODIFIED:
        return True
    return last is not None and last.digest is not None and last.digest == digest_bytes(visit)


def again_rule(policy: Revisits | str | None, *, is_seed: bool) -> Again:
    """Whether a link that is known is to be visited again in a new run."""
    if isinstance(policy, Revisits):
        return Again.NEVER
    if is_seed:
        return Again.ALWAYS
    return Again.UNLESS_IT_GAVE if policy == NEW else Again.NEVER


def outcome_of(visit: OpenVisit, policy: Revisits | str | None, own: Any) -> Done:
    """What the table is told of a visit that has ended.

    Args:
        own: the periods of this request's page, if it has any.
    """
    assert visit.lease is not None
    assert visit.given is not None
    last = visit.given.last
    status, etag, modified = visit.response or (None, None, None)
    has_failed = visit.error is not None
    unchanged = not has_failed and is_unchanged(visit)
    again_in, period = _again(visit, policy, own, has_failed=has_failed, unchanged=unchanged)
    is_new = not has_failed and status != NOT_MODIFIED
    result = Result(
        status,
        visit.error,
        etag,
        modified,
        digest_bytes(visit),
        visit.item_count or (last.item_count if unchanged else 0),
        period,
        is_new=is_new or (has_failed and last.digest is None),
    )
    return Done(visit.lease, visit.given.id, result, again_in)


def _again(
    visit: OpenVisit,
    policy: Revisits | str | None,
    own: Any,
    *,
    has_failed: bool,
    unchanged: bool,
) -> tuple[float | None, float | None]:
    """Seconds until the page is visited again, and its period."""
    assert visit.given is not None
    period = visit.given.last.period
    if visit.override is False or own is False:
        return None, period
    if visit.override is not None:
        return duration(visit.override), period
    if isinstance(own, dict):
        policy = read_revisits(own)
    elif own is not None:
        fixed = duration(own)
        return fixed, fixed
    if not isinstance(policy, Revisits):
        return None, period
    if visit.response is not None and visit.response[0] in GONE:
        return None, period
    if has_failed:
        return period or policy.first, period
    found = policy.next_period(period, changed=not unchanged)
    return found, found
