"""What benchmarks may be told: types for argparse, each of which names what it allows.

Laws
----
* What is not allowed is refused in one line: the argument, the value, and what is allowed.
"""

from __future__ import annotations

import math
from argparse import ArgumentTypeError
from collections.abc import Callable, Iterable
from pathlib import Path
from tempfile import TemporaryFile
from typing import NoReturn

MOST_NAMES = 16
"""Names that a refusal tells; of more it tells the first ones."""


def refuse(given: str, allowed: str) -> NoReturn:
    """Say what is allowed in place of that."""
    raise ArgumentTypeError(f"{given!r}: allowed is {allowed}")


def whole(least: int = 1) -> Callable[[str], int]:
    """A whole number, of at least so much."""

    def read(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = least - 1
        return number if number >= least else refuse(text, f"a whole number, {least} or more")

    return read


def amount(least: float = 0.0) -> Callable[[str], float]:
    """A finite number, of at least so much; more than 0 without one."""

    def read(text: str) -> float:
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        if math.isfinite(number) and number >= least and number > 0.0:
            return number
        refuse(text, f"a number, {f'{least:g} or more' if least else 'more than 0'}")

    return read


def numbers(text: str) -> tuple[int, ...]:
    """Whole numbers with commas between them."""
    try:
        return tuple(int(number) for number in text.split(","))
    except ValueError:
        refuse(text, "whole numbers with commas between them, as 101,102")


def span(text: str) -> range:
    """All numbers from a first to a last one."""
    first, _, last = text.partition("-")
    if not (first.isdecimal() and last.isdecimal() and int(first) <= int(last)):
        refuse(text, "a first and a last whole number, as 501-520")
    return range(int(first), int(last) + 1)


def among(known: Iterable[str]) -> Callable[[str], tuple[str, ...]]:
    """Some of these names, with commas between them."""
    names = tuple(known)

    def read(text: str) -> tuple[str, ...]:
        given = tuple(name.strip() for name in text.split(","))
        for name in given:
            if name not in names:
                refuse(name, f"any of {_told(names)}, with commas between them")
        return given

    return read


def part_of(known: Iterable[str]) -> Callable[[str], str]:
    """Text that any of these names has in it."""
    return _found(known, str.__contains__, "a part of")


def beginning_of(known: Iterable[str]) -> Callable[[str], str]:
    """Text that any of these names begins with."""
    return _found(known, str.startswith, "the beginning of")


def new_folder(text: str) -> Path:
    """A folder, made and tried at once: what a long run comes to is not lost for want of it."""
    path = Path(text)
    try:
        path.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=path):
            pass
    except OSError as error:
        allowed = "a folder that is there or can be made, and can be written to"
        refuse(text, f"{allowed} ({error.strerror})")
    return path


def _found(
    known: Iterable[str], fits: Callable[[str, str], bool], what: str
) -> Callable[[str], str]:
    names = tuple(dict.fromkeys(known))

    def read(text: str) -> str:
        if not any(fits(name, text) for name in names):
            refuse(text, f"{what} any of {_told(names)}")
        return text

    return read


def _told(names: tuple[str, ...]) -> str:
    rest = len(names) - MOST_NAMES
    return ", ".join(names[:MOST_NAMES]) + (f" and {rest} more" if rest > 0 else "")
