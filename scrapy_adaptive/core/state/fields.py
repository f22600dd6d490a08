"""What of an object travels, as its class declares it.

Laws
----
* A class declares what travels by annotations: the fields of a dataclass or of a named tuple, or
  names annotated in the body of another class. What is not annotated stays where it is.
* A field's type is the check of what is read into it; a mark narrows it further.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from types import UnionType
from typing import (
    Annotated,
    Any,
    ClassVar,
    NamedTuple,
    TypeAlias,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)
from zlib import crc32

from scrapy_adaptive.core.headers.values import MAX_WAIT

SLOWEST = 1.0 / 3600.0
"""Least rate a law falls to, 1/s: one request an hour. Less is not believed."""


class Mark(Enum):
    """How a field travels, where its type does not say so."""

    INSTANT = "instant"
    """Monotonic seconds here, an age on the way."""
    DUE = "due"
    """An instant that may be still to come."""
    SPARE = "spare"
    """It is left out where the whole would be too large."""


@dataclass(frozen=True, slots=True)
class Range:
    """The numbers that a field may have; what is not a number never is one of them."""

    least: float
    most: float = math.inf


@dataclass(frozen=True, slots=True)
class Latest:
    """Of a collection so many travel, the last ones."""

    most: int


Instant: TypeAlias = Annotated[float, Mark.INSTANT]
"""Monotonic seconds at which something happened; minus infinity for never."""

Due: TypeAlias = Annotated[Instant, Mark.DUE]
"""Monotonic seconds until which something is waited for."""

LONG_AGO = float("-inf")
"""What has never been; one number for all, as each made anew would take its own place."""

Rate: TypeAlias = Annotated[float, Range(SLOWEST)]
"""Requests a second that a law goes by; infinite where nothing bounds it."""

Refused: TypeAlias = Annotated[float, Range(1e-9)]
"""Requests a second that were too many, as few as the user's own delay lets pass."""

Seconds: TypeAlias = Annotated[float, Range(0.0, MAX_WAIT)]
"""A wait or a delay, no longer than any that a site may ask for."""

Amount: TypeAlias = Annotated[float, Range(0.0)]
"""Any number that is not below 0; infinite where nothing bounds it."""

Count: TypeAlias = Annotated[float, Range(0.0, 1e12)]
"""How many there were; halved from time to time, so that old ones fade."""

Share: TypeAlias = Annotated[float, Range(0.0, 1.0)]
"""A part of a whole."""


class Kind(NamedTuple):
    """The type of what a field holds, and its marks."""

    hint: Any
    marks: tuple[Any, ...] = ()

    @property
    def is_instant(self) -> bool:
        """Whether it holds instants."""
        return Mark.INSTANT in self.marks

    @property
    def most(self) -> int | None:
        """How many of a collection travel; None for all."""
        return next((mark.most for mark in self.marks if isinstance(mark, Latest)), None)

    @property
    def is_union(self) -> bool:
        """Whether it may hold nothing, too."""
        return get_origin(self.hint) in (Union, UnionType)

    @property
    def member(self) -> Kind:
        """What it holds where it does not hold nothing."""
        if not self.is_union:
            return self
        member = next(each for each in self.inner if each.hint is not type(None))
        return Kind(member.hint, self.marks + member.marks)

    @property
    def inner(self) -> list[Kind]:
        """The kinds of what a collection holds, or of a union's members."""
        return [kind_of(arg) for arg in get_args(self.hint)]


def kind_of(hint: Any) -> Kind:
    """The type of a hint apart from its marks."""
    if get_origin(hint) is Annotated:
        inner, *marks = get_args(hint)
        return Kind(inner, tuple(marks))
    return Kind(hint)


def fields_of(cls: type) -> dict[str, Kind]:
    """The declared fields of a class; none where it declares nothing."""
    found = _FIELDS.get(cls)
    if found is None:
        found = _FIELDS[cls] = _declared(cls)
    return found


_FIELDS: dict[type, dict[str, Kind]] = {}


def _declared(cls: type) -> dict[str, Kind]:
    if cls.__module__ == "builtins" or issubclass(cls, Enum):
        return {}
    hints = get_type_hints(cls, include_extras=True)
    kinds = {name: kind_of(hint) for name, hint in hints.items()}
    return {name: kind for name, kind in kinds.items() if get_origin(kind.hint) is not ClassVar}


def is_changed_in_place(cls: type) -> bool:
    """Whether things of this class have declared fields that change."""
    parameters = getattr(cls, "__dataclass_params__", None)
    is_frozen = parameters is not None and parameters.frozen
    return bool(fields_of(cls)) and not (is_frozen or issubclass(cls, tuple))


def new(cls: type) -> Any:
    """A new thing of that class; None where it takes more to make one."""
    try:
        return cls()
    except TypeError:
        return None


def checksum(*classes: type) -> str:
    """Of all that these classes declare: another one means that the fields have changed.

    What a protocol stands for says nothing; give the class that is behind it.
    """
    lines: list[str] = []
    seen: set[type] = set()
    for cls in classes:
        _describe(cls, lines, seen)
    return f"{crc32(' '.join(lines).encode()):08x}"


def _describe(cls: type, lines: list[str], seen: set[type]) -> None:
    if cls in seen:
        return
    seen.add(cls)
    for name, kind in fields_of(cls).items():
        lines.append(f"{cls.__name__}.{name}:{kind}")
        for hint in _hints_in(kind):
            if isinstance(hint, type):
                _describe(hint, lines, seen)


def _hints_in(kind: Kind) -> list[Any]:
    inner = kind.inner
    return [hint for each in inner for hint in _hints_in(each)] if inner else [kind.hint]
