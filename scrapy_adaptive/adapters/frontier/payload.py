"""A request as JSON, and back.

Laws
----
* Only what differs from a plain GET is written, and only what comes back the same: JSON would turn
  tuples into lists and keys into strings in silence. What it cannot hold is named.
* What comes from a table is not trusted: a class must be one of a request that is imported already,
  a callback a method of the spider's own, every value of the type that is due to it. Nothing is
  imported, and nothing is ever unpickled.
"""

from __future__ import annotations

import json
import math
import sys
from inspect import getattr_static
from types import FunctionType
from typing import TYPE_CHECKING, Any

from scrapy import Request

from scrapy_adaptive.adapters.scrapy_internals import SLOT_META_KEY, WRITTEN_META_KEY

if TYPE_CHECKING:
    from scrapy import Spider

VISIT_META_KEY = "adaptive_visit"
"""Marks a request that belongs to a visit, in memory only."""

PASSES_META_KEY = "adaptive_frontier"
"""False: the request passes by the table."""

OURS = frozenset({VISIT_META_KEY, PASSES_META_KEY, WRITTEN_META_KEY})
"""Keys of meta that are not written; nor is a slot that no user has chosen."""

MOST_DEEP = 50
"""Levels of lists and tables in meta."""

PLAIN: dict[str, Any] = {
    "method": "GET",
    "headers": {},
    "body": b"",
    "cookies": {},
    "meta": {},
    "encoding": "utf-8",
    "priority": 0,
    "dont_filter": False,
    "flags": [],
    "cb_kwargs": {},
}
"""What a request is without its writer's doing."""

MOST_PRIORITY = 2**53


class UnstorableError(ValueError):
    """JSON cannot hold this request; says what of it."""


class UnreadableError(ValueError):
    """What a row holds is no request of this spider; says why."""


class Payloads:
    """The requests of one spider."""

    def __init__(self, spider: Spider) -> None:
        self._spider = spider

    # Writing

    def write(self, request: Request) -> str:
        """What is to be known of a request beside its URL; empty for a plain one.

        Raises:
            UnstorableError: it cannot come back the same.
        """
        found: dict[str, Any] = {}
        for name in request.attributes:
            if name in ("url", "callback", "errback"):
                continue
            value = _plain(name, getattr(request, name))
            if value != PLAIN.get(name):
                found[name] = _written(name, value)
        for name in ("callback", "errback"):
            method = getattr(request, name)
            if method is not None:
                found[name] = self._name_of(name, method)
        if type(request) is not Request:
            found["_class"] = f"{type(request).__module__}.{type(request).__qualname__}"
            _class(found["_class"])
        return json.dumps(found, separators=(",", ":")) if found else ""

    def _name_of(self, role: str, method: Any) -> str:
        method = getattr(method, "errback", method)  # ours, around the user's own
        if method is None:
            return ""
        name = getattr(method, "__name__", "")
        if getattr(method, "__self__", None) is self._spider and self._is_own(name):
            return str(name)
        raise UnstorableError(f"its {role} is {method!r}, not a method of the spider")

    def _is_own(self, name: object) -> bool:
        """Whether this is a method that the spider's class defines, for others to call."""
        if not isinstance(name, str) or name.startswith("__"):
            return False
        return isinstance(getattr_static(type(self._spider), name, None), FunctionType)

    # Reading

    def read(self, url: str, payload: str) -> Request:
        """The request that was written.

        Raises:
            UnreadableError: it was not written by `write`.
        """
        try:
            found = json.loads(payload, parse_constant=_refuse) if payload else {}
            if not isinstance(found, dict):
                raise TypeError("it is no table")
            return self._request(url, found)
        except Exception as error:  # whatever a row holds, the others must still be visited
            raise UnreadableError(str(error)) from None

    def _request(self, url: str, found: dict[str, Any]) -> Request:
        cls = _class(found.pop("_class", "scrapy.http.request.Request"))
        arguments: dict[str, Any] = {}
        for name, value in found.items():
            if name not in cls.attributes or name == "url":
                raise ValueError(f"{name!r} is nothing of a {cls.__name__}")
            if name in ("callback", "errback"):
                arguments[name] = self._method(name, value)
            else:
                arguments[name] = _read(name, value)
        arguments["meta"] = {
            key: value for key, value in arguments.get("meta", {}).items() if key not in OURS
        }
        return cls(url, **arguments)

    def _method(self, role: str, name: Any) -> Any:
        if name == "":
            return None
        if not self._is_own(name):
            raise ValueError(f"its {role} {name!r} is no method of the spider")
        return getattr(self._spider, name)


def _class(name: Any) -> type[Request]:
    """The class of requests of that name, if it is imported already."""
    module, _, own = str(name).rpartition(".")
    found = getattr(sys.modules.get(module), own, None) if isinstance(name, str) else None
    if isinstance(found, type) and issubclass(found, Request):
        return found
    raise UnstorableError(f"its class {name!r} is no class of requests that is imported")


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def _plain(name: str, value: Any) -> Any:
    """A value of a request, as it counts."""
    if name == "meta":
        is_ours = value.get(SLOT_META_KEY) == value.get(WRITTEN_META_KEY)
        left_out = OURS | {SLOT_META_KEY} if is_ours else OURS
        return {key: each for key, each in value.items() if key not in left_out}
    if name == "cookies":
        return value or {}
    if name == "headers":
        return dict(value)
    if name == "dont_filter":
        return bool(value)
    if name == "priority" and abs(value) > MOST_PRIORITY:
        raise UnstorableError(f"its priority is {value}")
    return int(value) if name == "priority" else value


def _written(name: str, value: Any) -> Any:
    """A value of a request as JSON that comes back the same."""
    if name == "headers":
        return {
            key.decode("latin-1"): [each.decode("latin-1") for each in values]
            for key, values in value.items()
        }
    if name == "body":
        try:
            return {"text": value.decode("utf-8")}
        except UnicodeDecodeError:
            return {"latin1": value.decode("latin-1")}
    _check(value, name)
    return value


def _check(value: Any, where: str, depth: int = 0) -> None:
    kind = type(value)
    if value is None or kind in (bool, int, str):
        return
    if kind is float and math.isfinite(value):
        return
    if depth > MOST_DEEP:
        raise UnstorableError(f"{where} is too deep")
    if kind is list:
        for number, each in enumerate(value):
            _check(each, f"{where}[{number}]", depth + 1)
        return
    if kind is dict:
        for key, each in value.items():
            if type(key) is not str:
                raise UnstorableError(f"{where} has the key {key!r}, which is no text")
            _check(each, f"{where}[{key!r}]", depth + 1)
        return
    shown = "infinite or no number" if kind is float else f"a {kind.__name__}"
    raise UnstorableError(f"{where} is {shown}")


def _read(name: str, value: Any) -> Any:
    """A value of a request from JSON, of the type that it must have."""
    if name == "headers":
        _must(name, value, dict)
        return {
            key.encode("latin-1"): [str(each).encode("latin-1") for each in value[key]]
            for key in value
        }
    if name == "body":
        _must(name, value, dict)
        if "text" in value:
            return str(value["text"]).encode("utf-8")
        return str(value.get("latin1", "")).encode("latin-1")
    if name == "priority":
        _must(name, value, int)
        if abs(value) > MOST_PRIORITY:
            raise ValueError("its priority is too large")
        return value
    kinds: dict[str, Any] = {
        "method": str,
        "encoding": str,
        "meta": dict,
        "cb_kwargs": dict,
        "flags": list,
        "dont_filter": bool,
        "cookies": (dict, list),
    }
    if name in kinds:
        _must(name, value, kinds[name])
    return value


def _must(name: str, value: Any, kind: Any) -> None:
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise TypeError(f"its {name} is a {type(value).__name__}")
