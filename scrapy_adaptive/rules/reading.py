"""Reads one rule, as it stands in the settings, in a TOML file or in a row of the table.

Laws
----
* The words are the same everywhere; those of Scrapy's draft for throttling scopes are understood.
* A field that is not allowed raises `RuleError`, which names it, its value and what is allowed;
  so does a field that nobody knows. Whatever the value is, nothing else is raised.
"""

from __future__ import annotations

import difflib
import hashlib
import math
import re
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

from scrapy_adaptive.core.limits.rule import ANY, MOST, Identity, Rule, RuleError, normalised_uri

SYNONYMS: Mapping[str, str] = {
    "delay": "interval",
    "interval_seconds": "interval",
    "quota": "max_hits",
    "window_seconds": "window",
}
"""Other words for the same: of Scrapy's draft, and of the table's columns."""

UNITS: Mapping[str, float] = {
    "ms": 0.001,
    "s": 1.0,
    "m": 60.0,
    "min": 60.0,
    "h": 3600.0,
    "d": 86_400.0,
    "w": 604_800.0,
}
"""Of a duration that is written with its unit: `7d`."""

HASH = 12
"""Characters of the hash that stands for a secret."""

LAST_ZONE = timezone(timedelta(hours=-12))
"""Where a date comes last of all."""

_DURATION = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+)\s*")

_SECONDS = "seconds, more than 0, or a duration such as 7d, 90s, 1.5h"
_WHOLE = "a whole number, 1 or more"
_NUMBER = "a number, more than 0"
_SWITCH = "True or False"
_INSTANT = "seconds since the epoch, or a date and time with its zone"


def hashed(secret: str) -> str:
    """What is shown and stored of a secret.

    >>> hashed("key-of-alice")
    'd16a80956c32'
    """
    return hashlib.sha256(secret.encode()).hexdigest()[:HASH]


def is_hash(text: str) -> bool:
    """Whether this looks like what `hashed` makes."""
    return re.fullmatch(rf"[0-9a-f]{{{HASH}}}", text) is not None


def read_rule(
    given: Any,
    *,
    id: str,  # noqa: A002
    is_stored: bool = False,
    sources: Collection[str] | None = None,
    secrets: Collection[str] = (),
) -> Rule:
    """The rule that these words make.

    Args:
        given: words to values; None for no value.
        id: tells it apart from others.
        is_stored: whether it stands in the table.
        sources: identities that requests can have; None where nobody knows.
        secrets: those that are known by their hash only.

    Raises:
        RuleError: a word or a value is not allowed.
    """
    if not isinstance(given, Mapping):
        raise RuleError("rule", given, "a table of words and values, for instance host and rate")
    values: dict[str, Any] = {}
    for word, value in given.items():
        field = SYNONYMS.get(word, word) if isinstance(word, str) else word
        if field not in READERS:
            near = difflib.get_close_matches(str(word), [*READERS, *SYNONYMS], n=1)
            raise RuleError(f"{word!s:.40}", value, _known(near))
        if value is not None and field in values:
            raise RuleError(str(word), value, f"one value: {field} is given twice")
        if value is not None:
            values[field] = _read(str(word), value, *READERS[field])
    identity = values.get("identity")
    if identity is not None:
        values["identity"] = _identity(identity, sources, secrets)
    return Rule(id=id, is_stored=is_stored, **values)


def pausing(
    given: Mapping[str, Any],
    *,
    id: str,  # noqa: A002
    sources: Collection[str] | None = None,
    secrets: Collection[str] = (),
) -> Rule | None:
    """A rule that pauses whatever a bad row may mean; None where its host cannot be read.

    What cannot be read of its scope means everything of the host. A date without a time zone ends
    it when it is past in every zone. A name of its own keeps it from
    taking the place of a good rule, or a good one from taking its.
    """
    values: dict[str, Any] = {}
    for field in ("host", "uri", "identity", "shared", "dry_run", "expires_at"):
        one = {field: given.get(field)}
        try:
            read_rule(one, id=id, sources=sources, secrets=secrets)
        except RuleError:
            if field == "host":
                return None
            if field == "expires_at" and (instant := _latest(given[field])) is not None:
                values[field] = instant
        else:
            values |= one
    values |= {"name": f"bad row {id}", "paused": True}
    return read_rule(values, id=id, is_stored=True, sources=sources, secrets=secrets)


def _known(near: list[str]) -> str:
    meant = f"; is {near[0]} meant?" if near else ""
    return f"one of {', '.join(READERS)}{meant}"


def _read(word: str, value: Any, read: Callable[[Any], Any], allowed: str) -> Any:
    try:
        return read(value)
    except RuleError:
        raise
    except Exception:  # whatever it is: a value may be of any type, and a row holds anything
        raise RuleError(word, value, allowed) from None


def _identity(
    identity: Identity, sources: Collection[str] | None, secrets: Collection[str]
) -> Identity:
    if sources is not None and identity.source not in sources:
        words = f"one that ADAPTIVE_IDENTITY tells: {', '.join(sorted(sources))}"
        raise RuleError("identity", str(identity), words)
    is_known = identity.is_glob or is_hash(identity.pattern)
    if identity.source in secrets and not is_known:
        return identity._replace(pattern=hashed(identity.pattern))
    return identity


def duration(value: Any) -> float:
    """Seconds of a duration.

    >>> duration("7d"), duration("1.5h"), duration(30)
    (604800.0, 5400.0, 30.0)

    Raises:
        ValueError: it is none, or not more than 0.
    """
    found = _DURATION.fullmatch(value) if isinstance(value, str) else None
    seconds = float(found[1]) * UNITS[found[2]] if found else _number(value)
    if not 0.0 < seconds < math.inf:
        raise ValueError(value)
    return seconds


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, str, Decimal)):
        raise TypeError(value)
    found = float(value)
    if not 0.0 < found < math.inf:
        raise ValueError(value)
    return found


def _whole(value: Any) -> int:
    found = _number(value)
    if found != int(found) or found > MOST:
        raise ValueError(value)
    return int(found)


def _switch(value: Any) -> bool:
    known = {"true": True, "1": True, "false": False, "0": False}
    return known[str(value).strip().lower()]


def _text(value: Any) -> str:
    if not isinstance(value, str) or (value and not value.isprintable()) or len(value) > 500:
        raise ValueError(value)
    return value.strip()


def _note(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value


def _host(value: Any) -> str:
    """A host as it stands in a URL that Scrapy has quoted.

    >>> _host("*.Bücher.example."), _host("")
    ('*.xn--bcher-kva.example', '*')
    """
    text = _text(value) or ANY
    host = text.removeprefix("*.")
    sign = text.removesuffix(host)
    with suppress(UnicodeError):
        host = host.encode("idna").decode()
    return sign + host.lower().removesuffix(".")


def _uri(value: Any) -> str:
    text = _text(value) or ANY
    if text == ANY or not text.startswith("/"):
        return text
    if text.endswith("*"):
        path = text.removesuffix("*").rstrip("/")
        if not text.endswith("/*") or "*" in path:
            raise ValueError(value)
        return f"{normalised_uri(path) if path else ''}/*"
    return normalised_uri(text)


def _identity_text(value: Any) -> Identity | None:
    source, sign, pattern = _text(value).partition("=")
    if not source and not sign:
        return None
    if not sign:
        raise ValueError(value)
    return Identity(source.strip(), pattern.strip())


def _latest(value: Any) -> float | None:
    """The latest instant that a date without a time zone may mean; None of anything else."""
    with suppress(ValueError, OverflowError):
        value = _date(value) if isinstance(value, str) else value
        if isinstance(value, datetime) and value.tzinfo is None:
            return max(1.0, value.replace(tzinfo=LAST_ZONE).timestamp())
    return None


def _date(value: str) -> datetime:
    return datetime.fromisoformat(value.strip().replace("Z", "+00:00"))


def _instant(value: Any) -> float:
    if isinstance(value, str):
        try:
            value = _date(value)
        except ValueError:
            value = float(value)
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise ValueError(value)
        return float(value.timestamp())
    return _number(value)


READERS: Mapping[str, tuple[Callable[[Any], Any], str]] = {
    "name": (_text, "a name of up to 500 characters"),
    "host": (_host, "a host without a port, *.suffix for all under it, or *"),
    "uri": (_uri, "a path that begins with /, a prefix such as /search/*, or *"),
    "identity": (_identity_text, "source=value, for instance account=alice or account=*"),
    "shared": (_switch, _SWITCH),
    "interval": (duration, _SECONDS),
    "max_hits": (_whole, _WHOLE),
    "window": (duration, _SECONDS),
    "rate": (_number, _NUMBER),
    "burst": (_number, "a number, 1 or more"),
    "concurrency": (_whole, _WHOLE),
    "paused": (_switch, _SWITCH),
    "dry_run": (_switch, _SWITCH),
    "expires_at": (_instant, _INSTANT),
    "note": (_note, "a text"),
}
"""Words of a rule: how each is read, and what is allowed."""
