"""The scripts, each with what all of them share before it."""

from __future__ import annotations

from functools import cache
from hashlib import sha1
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parent

COMMON = "common.lua"


class Script(NamedTuple):
    """A script, and the name under which the server remembers it."""

    text: str
    digest: str


@cache
def script(name: str) -> Script:
    """The script of that name."""
    text = "\n".join(
        (FOLDER / each).read_text(encoding="utf-8") for each in (COMMON, f"{name}.lua")
    )
    return Script(text, sha1(text.encode()).hexdigest())
