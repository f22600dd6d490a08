"""Rules in a TOML file: `[[rules]]`, one table for each.

Laws
----
* A file is taken whole or not at all; each bad rule in it is named.
"""

from __future__ import annotations

import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any

from scrapy_adaptive.core.limits.rule import Rule, RuleError

from .reading import read_rule

if sys.version_info >= (3, 11):
    import tomllib
else:  # pragma: no cover
    import tomli as tomllib


def read_toml(
    path: Path, *, sources: Collection[str] | None = None, secrets: Collection[str] = ()
) -> list[Rule]:
    """The rules of a file.

    Raises:
        ValueError: it cannot be read, is no TOML, or rules in it are bad: each is named.
    """
    try:
        content: Any = tomllib.loads(path.read_bytes().decode("utf-8"))
    except OSError as error:
        raise ValueError(f"{path}: it cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: it is no TOML: {error}") from None
    listed = content.get("rules")
    others = sorted(set(content) - {"rules"})
    if not isinstance(listed, list) or others:
        what = f"{others[0]} is not known" if others else "there are none"
        raise ValueError(f"{path}: {what}; allowed is a list of tables, [[rules]]")
    found, bad = [], []
    for number, words in enumerate(listed, 1):
        try:
            found.append(read_rule(words, id=str(number), sources=sources, secrets=secrets))
        except RuleError as error:
            bad.append(f"{path}: rule {number}: {error}")
    if bad:
        raise ValueError("\n".join(bad))
    return found
