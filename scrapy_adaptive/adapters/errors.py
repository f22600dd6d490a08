"""The one error a user sees for a bad value, and how it is told in one line.

Laws
----
* It names the setting, its value and what is allowed.
* Under the `scrapy` command nobody catches it: the log shows its one line, no traceback.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from twisted.logger import globalLogBeginner

from .scrapy_internals import running_command

MOST_SHOWN = 200
"""Characters of a bad value that are shown."""


class SettingsError(ValueError):
    """A setting is not allowed.

    Attributes:
        name: the setting.
        value: what it was set to.
        allowed: what it may be, in words.
    """

    def __init__(self, name: str, value: Any, allowed: str) -> None:
        shown = repr(value)
        if len(shown) > MOST_SHOWN:
            shown = shown[:MOST_SHOWN] + "…"
        super().__init__(f"{name} = {shown}: {allowed}")
        self.name = name
        self.value = value
        self.allowed = allowed


class _OneLine(logging.Filter):
    """Turns the log record of an uncaught SettingsError into its one line."""

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if isinstance(record.exc_info, tuple) else None
        if isinstance(error, SettingsError):
            record.msg, record.args = "%s", (error,)
            record.exc_info = record.exc_text = None
        return str(record.msg) != TWISTED_HEADLINE


TWISTED_HEADLINE = "Unhandled error in Deferred:"
"""What Twisted logs ahead of the error itself."""


@contextmanager
def told_in_one_line(*, nobody_catches: bool) -> Iterator[None]:
    """Let a SettingsError pass so that, where nobody catches it, it is told in one line.

    Args:
        nobody_catches: the `scrapy` command is running, which logs errors with a traceback.
    """
    try:
        yield
    except SettingsError:
        if nobody_catches:
            for name in ("asyncio", "twisted"):
                logging.getLogger(name).addFilter(_OneLine())
            # Until logging begins for good, Twisted itself writes errors to stderr, in full.
            globalLogBeginner.beginLoggingTo([], discardBuffer=True, redirectStandardIO=False)
        raise


def one_line_errors() -> AbstractContextManager[None]:
    """A bad setting is told in one line under the `scrapy` command, raised in a script."""
    return told_in_one_line(nobody_catches=running_command() is not None)
