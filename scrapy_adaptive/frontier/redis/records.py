"""A visit as Redis keeps it, and back.

Laws
----
* A plain visit is its URL. Behind it, each on a line: what its last visit left, its fingerprint
  where that will matter, and its payload, which may hold anything.
* What is read is not trusted: what cannot be read of a last visit is as if there had been none.
  Nothing is unpickled.

>>> record("http://example.com/", "")
b'http://example.com/'
>>> read(record("http://example.com/", '{"priority":1}', Result(status=200)))[:2]
('http://example.com/', '{"priority":1}')
"""

from __future__ import annotations

import json
import math
from hashlib import blake2b
from typing import Any

from scrapy_adaptive.frontier.protocol import Result

FIELDS: dict[str, tuple[type, ...]] = {
    "status": (int,),
    "error": (str,),
    "etag": (str,),
    "last_modified": (str,),
    "item_count": (int,),
    "period": (int, float),
}
"""What is kept of a result, beside its digest."""

NOTHING = Result()

MOST = 2**63 - 1


def number_of(fingerprint: bytes) -> str:
    """A fingerprint as a whole number of 63 bits: of 100 million, chance makes about 0.0005 equal.

    >>> number_of(b"a") == number_of(b"a") != number_of(b"b")
    True
    """
    return str(int.from_bytes(blake2b(fingerprint, digest_size=8).digest(), "big") >> 1)


def priority_of(priority: float) -> str:
    """A priority as text, the same for the same number.

    >>> priority_of(3.0), priority_of(-0.0), priority_of(0.5)
    ('3', '0', '0.5')
    """
    if not math.isfinite(priority):
        return "0"
    return str(int(priority)) if priority == int(priority) else repr(float(priority))


def record(url: str, payload: str, last: Result = NOTHING, number: str = "") -> bytes:
    """A visit as it waits."""
    head = url.replace("\n", "%0A")
    kept = _result(last)
    if kept or number or payload:
        head = f"{head}\n{kept}\n{number}\n{payload}"
    return head.encode("utf-8", "surrogatepass")


def read(found: bytes) -> tuple[str, str, Result, str]:
    """URL, payload, what its last visit left, and its number."""
    parts = found.decode("utf-8", "backslashreplace").split("\n", 3)
    url, kept, number, payload = (*parts, "", "", "")[:4]
    return url, payload, _read_result(kept), number if number.isdecimal() else ""


def _result(result: Result) -> str:
    if result is NOTHING:
        return ""
    kept: dict[str, Any] = {
        name: getattr(result, name)
        for name in FIELDS
        if getattr(result, name) != getattr(NOTHING, name)
    }
    if result.digest is not None:
        kept["digest"] = result.digest.hex()
    return json.dumps(kept, separators=(",", ":")) if kept else ""


def _read_result(kept: str) -> Result:
    if not kept:
        return NOTHING
    try:
        found = json.loads(kept)
        values = {name: found[name] for name in FIELDS if _is_good(found.get(name), FIELDS[name])}
        digest = bytes.fromhex(found["digest"]) if "digest" in found else None
    except (AttributeError, LookupError, RecursionError, TypeError, ValueError):
        return NOTHING
    return Result(**values, digest=digest)


def _is_good(value: Any, kinds: tuple[type, ...]) -> bool:
    if isinstance(value, bool) or not isinstance(value, kinds):
        return False
    if isinstance(value, (int, float)):
        return math.isfinite(value) and abs(value) <= MOST
    return True
