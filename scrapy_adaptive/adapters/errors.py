"""The one error that a user sees for a bad value, and how it is told in one line.

Laws
----
* It names the setting, its value and what is allowed, in one line.
* An address is shown without its password, under whatever setting.
* Our own log tells it, once; who crawls from a script gets it as an exception too.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .scrapy_internals import quieten

logger = logging.getLogger("scrapy_adaptive")

MOST_SHOWN = 200
"""Characters of a bad value that are shown."""


class SettingsError(ValueError):
    """A setting is not allowed.

    Attributes:
        name: the setting.
        value: what it was set to.
        allowed: what it may be, in words.
        is_told: whether the log has said it.
    """

    def __init__(self, name: str, value: Any, allowed: str) -> None:
        shown = repr(without_password(value) if isinstance(value, str) else value)
        if len(shown) > MOST_SHOWN:
            shown = shown[:MOST_SHOWN] + "…"
        super().__init__(f"{name} = {shown}: {allowed}")
        self.name = name
        self.value = value
        self.allowed = allowed
        self.is_told = False


class KindsSeen:
    """Kinds of errors of a function that the user gave: the log shows one of each."""

    def __init__(self) -> None:
        self._seen: set[str] = set()

    def is_new(self, error: Exception) -> bool:
        """Whether this is the first of its kind."""
        kind = type(error).__qualname__
        is_new = kind not in self._seen
        self._seen.add(kind)
        return is_new


@contextmanager
def one_line_errors() -> Iterator[None]:
    """A bad setting is told in one line of our log, and raised."""
    try:
        yield
    except SettingsError as error:
        if not error.is_told:
            error.is_told = True
            logger.error("%s", error)
            quieten(error)
        raise


def without_password(address: str) -> str:
    """The address, to be shown.

    >>> without_password("postgres://u:secret@127.0.0.1:1/y")
    'postgres://u@127.0.0.1:1/y'
    >>> without_password("u:secret@db/y?sslmode=require&password=secret")
    'u@db/y?sslmode=require&password='
    """
    address = re.sub(r"^([\w+.-]+:/+)?([^:@]*):.*@", r"\1\2@", address, flags=re.DOTALL)
    return re.sub(r"([?&]\w*password=)[^&]*", r"\1", address)
