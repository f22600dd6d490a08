"""Command line words shared by the site, the renderer and the demo.

Laws
----
* A bad argument is answered by one line that names it and what is allowed, and exit status 2.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import NoReturn


class OneLineParser(argparse.ArgumentParser):
    """Says what is wrong in one line, without the usage above it."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message} (see --help)\n")


def count(text: str) -> int:
    """A whole number ≥ 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number ≥ 1, not {text!r}")
    return int(text)


def port(text: str) -> int:
    """A TCP port; 0 means any free one."""
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"must be a port from 0 to 65535, not {text!r}")
    return int(text)


def seconds(text: str) -> float:
    """A finite time ≥ 0, in seconds."""
    value = _number(text)
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"must be seconds ≥ 0, not {text!r}")
    return value


def factor(text: str) -> float:
    """A finite number > 0."""
    value = _number(text)
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"must be a number > 0, not {text!r}")
    return value


def folder(text: str) -> Path:
    """A folder that exists."""
    path = Path(text)
    if not path.is_dir():
        raise argparse.ArgumentTypeError(f"must be a folder that exists, not {text!r}")
    return path


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
