"""Reads into a new object what was written of another.

Laws
----
* Nothing is believed before it is checked: its type, that it is a number, its range.
* A thing that has to look after itself once it was read does so in `after_reading(names)`.
* A wait that no site may ask for is bounded, and named in `Clock.doubts`. So is what has happened
  in the future, and no rate is believed that is less than any law goes by.

>>> from scrapy_adaptive.core.pacing.quota import Quotas
>>> quotas = Quotas()
>>> read_into(quotas, {"until": -50.0, "wait": 60.0}, Clock(now=5.0, at=5.0))
>>> quotas.until, quotas.wait
(55.0, 60.0)
>>> read_into(quotas, {"wait": -1.0}, Clock(now=5.0, at=5.0))
Traceback (most recent call last):
ValueError: Quotas.wait is -1.0: out of range
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from copy import copy
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeAlias, get_origin

from scrapy_adaptive.core.headers.values import MAX_WAIT

from .fields import Kind, Mark, Range, fields_of, is_changed_in_place, new

MOST = 1e12
"""No number that a slot counts with is larger."""

AFTER_DAMAGE = 86_400.0
"""Seconds that are left of a wait which no site can have asked for: a day, the longest time in
which people write limits."""


@dataclass(slots=True)
class Clock:
    """The instants by which ages are read."""

    now: float
    """Monotonic seconds here."""
    at: float
    """The instant here at which it was written: `now`, or before."""
    doubts: list[str] = field(default_factory=list)
    """What was implausible, and is bounded now."""


def read_into(thing: object, data: object, clock: Clock) -> None:
    """Give a new thing what was written of another.

    Raises:
        ValueError: it is not what `written` makes; the thing is of no use any more.
    """
    cls = type(thing)
    if not isinstance(data, dict):
        raise ValueError(f"{cls.__name__} is {data!r}, not a table")
    kinds = fields_of(cls)
    for name, value in data.items():
        where = f"{cls.__name__}.{name}"
        if name not in kinds:
            raise ValueError(f"there is no {where}")
        was = getattr(thing, name, None)
        if is_changed_in_place(type(was)) and value is not None:
            made = copy(was)
            read_into(made, value, clock)
        else:
            made = _read(value, kinds[name], clock, where)
        setattr(thing, name, made)
    after_reading = getattr(thing, "after_reading", None)
    if after_reading is not None:
        after_reading(data.keys())


def _read(data: Any, kind: Kind, clock: Clock, where: str) -> Any:
    origin = get_origin(kind.hint)
    if kind.is_union:
        return _union(data, kind, clock, where)
    if origin is not None:
        return _collection(data, kind, clock, where)
    read = _READERS.get(kind.hint)
    if read is not None:
        return read(data, kind, clock, where)
    if issubclass(kind.hint, Enum):
        return _member(data, kind.hint, where)
    return _whole(data, kind.hint, clock, where)


def _union(data: Any, kind: Kind, clock: Clock, where: str) -> Any:
    if data is None and type(None) in [each.hint for each in kind.inner]:
        return None
    return _read(data, kind.member, clock, where)


def _collection(data: Any, kind: Kind, clock: Clock, where: str) -> Any:
    origin, inner = get_origin(kind.hint), kind.inner
    if not isinstance(data, list) or (kind.most is not None and len(data) > kind.most):
        raise ValueError(f"{where} is {data!r}, not such a list")
    if origin is dict:
        key, value = inner
        pairs = [_pair(each, where) for each in data]
        return {
            _read(each, key, clock, where): _read(it, value, clock, where) for each, it in pairs
        }
    if origin is tuple and inner[-1].hint is not Ellipsis:
        if len(inner) != len(data):
            raise ValueError(f"{where} has {len(data)} parts, not {len(inner)}")
        return tuple(_read(each, it, clock, where) for each, it in zip(data, inner, strict=True))
    return origin([_read(each, inner[0], clock, where) for each in data])


def _pair(data: Any, where: str) -> tuple[Any, Any]:
    if not isinstance(data, list) or len(data) != 2:
        raise ValueError(f"{where} has {data!r}, not a pair")
    return data[0], data[1]


def _whole(data: Any, cls: type, clock: Clock, where: str) -> Any:
    """A thing that a new one does not have."""
    kinds = fields_of(cls)
    if issubclass(cls, tuple):
        if not isinstance(data, list) or len(data) != len(kinds):
            raise ValueError(f"{where} is {data!r}")
        pairs = zip(data, kinds.values(), strict=True)
        return cls(*(_read(each, kind, clock, where) for each, kind in pairs))
    made = new(cls)
    if made is not None:
        read_into(made, data, clock)
        return made
    if not isinstance(data, dict) or set(data) != set(kinds):
        raise ValueError(f"{where} is {data!r}, not all of {cls.__name__}")
    made = cls.__new__(cls)
    for name, kind in kinds.items():
        value = _read(data[name], kind, clock, f"{cls.__name__}.{name}")
        object.__setattr__(made, name, value)  # it may be one that never changes
    return made


def _member(data: Any, cls: type[Enum], where: str) -> Enum:
    try:
        return cls(data)
    except ValueError:
        raise ValueError(f"{where} is {data!r}") from None


def _float(data: Any, kind: Kind, clock: Clock, where: str) -> float:
    number = _number(data, where)
    if kind.is_instant:
        return _instant(number, kind, clock, where)
    _check_range(number, kind, where)
    return number


def _check_range(number: float, kind: Kind, where: str) -> None:
    ranges = [mark for mark in kind.marks if isinstance(mark, Range)]
    if any(not each.least <= number <= each.most for each in ranges):
        raise ValueError(f"{where} is {number!r}: out of range")


def _number(data: Any, where: str) -> float:
    if isinstance(data, str) and data in ("inf", "-inf"):
        return float(data)
    if isinstance(data, bool) or not isinstance(data, (int, float)) or not abs(data) < MOST:
        raise ValueError(f"{where} is {data!r}, not a number")
    return float(data)


def _instant(age: float, kind: Kind, clock: Clock, where: str) -> float:
    instant, is_due = clock.at - age, Mark.DUE in kind.marks
    if instant > clock.now + (MAX_WAIT if is_due else 0.0):
        clock.doubts.append(f"{where} is {instant - clock.now:.3g} s off")
        return clock.now + (AFTER_DAMAGE if is_due else 0.0)
    return instant


def _int(data: Any, kind: Kind, clock: Clock, where: str) -> int:
    if isinstance(data, bool) or not isinstance(data, int) or not 0 <= data < MOST:
        raise ValueError(f"{where} is {data!r}, not a count")
    _check_range(data, kind, where)
    return data


def _bool(data: Any, kind: Kind, clock: Clock, where: str) -> bool:
    if not isinstance(data, bool):
        raise ValueError(f"{where} is {data!r}, not true or false")
    return data


def _str(data: Any, kind: Kind, clock: Clock, where: str) -> str:
    if not isinstance(data, str):
        raise ValueError(f"{where} is {data!r}, not a name")
    return data


def _page(data: Any, kind: Kind, clock: Clock, where: str) -> Hashable:
    if isinstance(data, dict) and isinstance(data.get("hex"), str):
        return bytes.fromhex(data["hex"])
    if isinstance(data, bool) or not isinstance(data, (int, str)):
        raise ValueError(f"{where} is {data!r}, not a page")
    return data


def _null(data: Any, kind: Kind, clock: Clock, where: str) -> None:
    if data is not None:
        raise ValueError(f"{where} is {data!r}, not null")


_Reader: TypeAlias = Callable[[Any, Kind, Clock, str], Any]

_READERS: dict[Any, _Reader] = {
    float: _float,
    int: _int,
    bool: _bool,
    str: _str,
    Hashable: _page,
    type(None): _null,
}
