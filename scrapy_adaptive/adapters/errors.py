"""The one error that a user sees for a bad value.

Laws
----
* It names the setting, its value and what is allowed, in one line.
"""

from __future__ import annotations

from typing import Any

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
        shown = repr(value)
        if len(shown) > MOST_SHOWN:
            shown = shown[:MOST_SHOWN] + "…"
        super().__init__(f"{name} = {shown}: {allowed}")
        self.name = name
        self.value = value
        self.allowed = allowed
        self.is_told = False
