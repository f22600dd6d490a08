"""Reads one value of a setting, from Python or from the command line.

Laws
----
* What is not allowed raises; `checked` names the setting, the value and what is allowed, and why an
  import path cannot be imported.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrapy.utils.misc import load_object

from .errors import SettingsError
from .identities import is_spec

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.http import Response

    from scrapy_adaptive.core.types import Outcome

Classifier = Callable[["Response"], "Outcome | None"]
SlotRule = Callable[["Request"], "str | None"]

SECONDS = "a number of seconds, 0 or more"
SOME_SECONDS = "a number of seconds, more than 0"
COUNT = "a whole number, 1 or more"
SWITCH = "True or False"
RATIO = "a share, more than 0 and at most 1"
SHARE = "a share of the delay, 0 or more"


class CannotImportError(ValueError):
    """An import path leads nowhere; says why."""


def loaded(value: Any) -> Any:
    """Scrapy's `load_object`; the reason why a path cannot be imported is not lost.

    Raises:
        CannotImportError: a path leads nowhere, or its module raises whatever it does.
    """
    try:
        return load_object(value)
    except Exception as error:
        if not isinstance(value, str):
            raise
        why = " ".join(f"{type(error).__name__}: {error}".split())
        raise CannotImportError(f"it cannot be imported ({why})") from error


def boolean(value: Any) -> bool:
    """What Scrapy's own `getbool` takes, and nothing else."""
    known = {"true": True, "1": True, "false": False, "0": False, "none": False}
    return known[str(value).lower()]


def number(least: float, *, above: bool = False, below: float = math.inf) -> Callable[[Any], float]:
    """Reads a finite number, `least` or more (`above`: more than it), and less than `below`."""

    def parse(value: Any) -> float:
        if isinstance(value, bool):
            raise TypeError(value)
        found = float(value)
        if not (found > least or (found == least and not above)) or not found < below:
            raise ValueError(value)
        return found

    return parse


def whole(least: int) -> Callable[[Any], int]:
    """Reads a whole number, `least` or more."""

    def parse(value: Any) -> int:
        found = number(least)(value)
        if found != int(found):
            raise ValueError(value)
        return int(found)

    return parse


def port(value: Any) -> int:
    """Reads the number of a port."""
    return int(number(0, below=65_536)(whole(0)(value)))


def address(value: Any) -> str:
    """Reads an address, or the name of one."""
    if not isinstance(value, str) or not re.fullmatch(r"[\w.:%-]+", value):
        raise ValueError(value)
    return value


def concurrency(value: Any) -> float:
    """Reads a number more than 0, or "auto", which is infinity: latency sets the bound."""
    if isinstance(value, str) and value.strip().lower() == "auto":
        return math.inf
    return number(0, above=True)(value)


def one_of(names: Collection[str]) -> Callable[[Any], str]:
    """Reads one of these names."""

    def parse(value: Any) -> str:
        if value not in names:
            raise ValueError(value)
        return str(value)

    return parse


def mapping(value: Any) -> dict[Any, Any]:
    """Reads a dict, or one written as JSON, as Scrapy's own `getdict` does."""
    return dict(json.loads(value) if isinstance(value, str) else value or {})


def statuses(value: Any) -> frozenset[int]:
    """Reads HTTP statuses from 400 to 999, from a list or separated by commas."""
    codes = value.split(",") if isinstance(value, str) else value
    found = frozenset(whole(400)(code) for code in codes)
    if any(status > 999 for status in found):
        raise ValueError(value)
    return found


def function(value: Any) -> Callable[[Any], Any] | None:
    """Reads a callable, or the import path of one."""
    if value is None or value == "":
        return None
    found = loaded(value)
    if not callable(found):
        raise TypeError(value)
    call: Callable[[Any], Any] = found
    return call


def rules(value: Any) -> list[Any]:
    """Reads a list of rules, or a dict of them by host; written as JSON too."""
    found = json.loads(value) if isinstance(value, str) else value or []
    if isinstance(found, Mapping):
        return [{"host": host, **words} for host, words in found.items()]
    if not isinstance(found, Sequence) or isinstance(found, (str, bytes)):
        raise TypeError(value)
    return list(found)


def database(value: Any) -> str | None:
    """Reads the address of a database; whether it is one, its driver says."""
    if value is None or value == "":
        return None
    if not isinstance(value, str) or "://" not in value:
        raise ValueError(value)
    return value


def identity(value: Any) -> Mapping[str, str] | Callable[[Any], Any]:
    """Reads where identities are found: a dict, or a callable, or the import path of one."""
    if callable(value):
        call: Callable[[Any], Any] = value
        return call
    if isinstance(value, str) and value and not value.lstrip().startswith("{"):
        return function(value) or {}
    found = mapping(value)
    if not all(isinstance(name, str) and name.isidentifier() for name in found):
        raise ValueError(value)
    if not all(map(is_spec, found.values())):
        raise ValueError(value)
    return found


def agents(value: Any) -> dict[str, list[str]]:
    """Reads classes of User-Agents: a dict of names to lists of patterns."""
    found = {
        name: [each] if isinstance(each, str) else list(each)
        for name, each in mapping(value).items()
    }
    if not all(isinstance(each, str) for patterns in found.values() for each in patterns):
        raise ValueError(value)
    if not all(isinstance(name, str) and name.isprintable() and name for name in found):
        raise ValueError(value)
    return found


def queue_class(value: Any) -> type:
    """Reads a class that can be pushed to and popped from, or the import path of one."""
    found = loaded(value)
    if not isinstance(found, type) or not (hasattr(found, "push") and hasattr(found, "pop")):
        raise TypeError(value)
    return found


def output_file(value: Any) -> Path | None:
    """Reads the path of a file that can be made: its folder exists, and it is no folder."""
    if value is None or value == "":
        return None
    path = Path(value)
    if path.is_dir() or not path.parent.is_dir():
        raise ValueError(value)
    return path


def state_file(value: Any) -> Path | None:
    """Reads the path of a file that can be read and replaced: what is there is no device."""
    path = output_file(value)
    if path is not None and path.exists() and not path.is_file():
        raise ValueError(value)
    return path


def frontier_address(value: Any) -> str | None:
    """Reads the address of a frontier."""
    if value is None or value == "":
        return None
    from scrapy_adaptive.frontier.opening import scheme_of

    scheme_of(value)
    return str(value)


def strategy_class(value: Any) -> Any:
    """Reads a strategy that polls a frontier, or its import path."""
    if value is None or value == "":
        return None
    from scrapy_adaptive.frontier.poller import PollStrategy

    found = loaded(value)
    if not (isinstance(found, type) and issubclass(found, PollStrategy)):
        raise TypeError(value)
    return found


def egress_name(value: Any) -> str:
    """Reads the name of an egress."""
    if not isinstance(value, str) or not re.fullmatch(r"[\w.:-]+", value):
        raise ValueError(value)
    return value


def revisits(value: Any) -> Any:
    """Reads when pages are visited again: never, "new", or between two times."""
    if value is None or value == "":
        return None
    if value == "new":
        return value
    from scrapy_adaptive.frontier.revisits import read_revisits

    return read_revisits(mapping(value))


def checked(name: str, value: Any, parse: Callable[[Any], Any], allowed: str) -> Any:
    """A value that passes its check.

    Raises:
        SettingsError: it does not; `allowed` says what would.
    """
    try:
        return parse(value)
    except CannotImportError as error:
        raise SettingsError(name, value, f"allowed is {allowed}; {error}") from None
    except Exception:
        raise SettingsError(name, value, f"allowed is {allowed}") from None
