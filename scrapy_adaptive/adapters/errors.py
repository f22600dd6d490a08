"""The one error a user sees for a bad value, and how it is told in one line.

Laws
----
* It names the setting, its value and what is allowed.
* Under the `scrapy` command nobody catches it: the log shows its one line, no traceback.
"""

from __future__ import annotations

import logging
from typing import Any

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
        _tell_in_one_line()


class _OneLine(logging.Filter):
    """Turns the log record of an uncaught SettingsError into its one line."""

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if isinstance(record.exc_info, tuple) else None
        if isinstance(error, SettingsError):
            record.msg, record.args = "%s", (error,)
            record.exc_info = record.exc_text = None
        return True


_ONE_LINE = _OneLine()


def _tell_in_one_line() -> None:
    for name in ("asyncio", "twisted"):
        logging.getLogger(name).addFilter(_ONE_LINE)
