"""Writes what an object has learned as JSON.

Laws
----
* What is as in a new object is not written.
* An instant is written as its age: seconds ago, below 0 where it is still to come. The clock of one
  process means nothing to another.
* JSON knows no infinity: it is written as a word.

>>> from scrapy_adaptive.core.headers.parse import Quota
>>> from scrapy_adaptive.core.pacing.quota import Quotas
>>> quotas = Quotas()
>>> quotas.on_announced(100.0, [Quota(remaining=0, reset=60.0)], sent_since=0)
>>> written(quotas, Quotas(), now=110.0)
{'until': -50.0, 'wait': 60.0, 'delay': 59.0}
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from enum import Enum
from typing import Any

from .fields import Kind, Mark, fields_of, is_changed_in_place, new

DIGITS = 9
"""Significant digits of a number that is written."""

MICROSECONDS = 1e6
"""In a second: an age is written in whole ones, as one more or less decides nothing."""

ANY = Kind(None)


def written(
    thing: object, fresh: object | None, now: float, *, with_spare: bool = True
) -> dict[str, Any]:
    """What a thing has that a new one has not.

    Args:
        fresh: a new one; None to write all of it.
        now: monotonic seconds.
        with_spare: write what may be left out too.
    """
    found: dict[str, Any] = {}
    for name, kind in fields_of(type(thing)).items():
        if Mark.SPARE in kind.marks and not with_spare:
            continue
        kind = kind.member
        value, was = getattr(thing, name), getattr(fresh, name, _MISSING)
        if type(value) is type(was) and is_changed_in_place(type(value)):
            inner = written(value, was, now, with_spare=with_spare)
            if inner:
                found[name] = inner
        elif was is _MISSING or value != was or _is_in_time(value, kind):
            found[name] = _json(value, kind, now)
    return found


_MISSING = object()


def _is_in_time(value: Any, kind: Kind) -> bool:
    """Whether a new thing has the same instant by chance, and would have another one later."""
    return kind.is_instant and value is not None and math.isfinite(value)


def _json(value: Any, kind: Kind, now: float) -> Any:
    kind = kind.member
    if kind.hint is Hashable:
        return _page(value)
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return _age(now - value) if kind.is_instant else _number(value)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, (dict, list, tuple)):
        return _collection(value, kind, now)
    return written(value, new(type(value)), now)


def _collection(value: Any, kind: Kind, now: float) -> list[Any]:
    if hasattr(value, "_fields"):
        kinds = list(fields_of(type(value)).values())
        return [_json(each, inner, now) for each, inner in zip(value, kinds, strict=True)]
    kinds = kind.inner
    if isinstance(value, dict):
        key, inner = kinds
        pairs = list(value.items())[_begin(kind) :]
        return [[_json(each, key, now), _json(it, inner, now)] for each, it in pairs]
    if isinstance(value, tuple) and kinds[-1].hint is not Ellipsis:
        return [_json(each, inner, now) for each, inner in zip(value, kinds, strict=True)]
    return [_json(each, kinds[0], now) for each in value[_begin(kind) :]]


def _begin(kind: Kind) -> int:
    return 0 if kind.most is None else -kind.most


def _page(page: Any) -> Any:
    """A fingerprint, or what else names a page; nothing else is known again."""
    if isinstance(page, bytes):
        return {"hex": page.hex()}
    return page if page is None or type(page) in (int, str) else repr(page)


def _age(seconds: float) -> float | str:
    """Rounded so that the instant is no earlier: nothing that waits for it goes too soon."""
    if not math.isfinite(seconds):
        return str(seconds)
    return math.floor(seconds * MICROSECONDS) / MICROSECONDS


def _number(value: float) -> float | str:
    return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else str(value)
