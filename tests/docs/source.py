"""The names that users see, as the source of the package writes them.

Laws
----
* The source is read as a syntax tree: what is written anywhere counts, whether a test runs it
  or not.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import scrapy_adaptive

PACKAGE = Path(scrapy_adaptive.__file__).parent
LEVELS = frozenset({"debug", "info", "warning", "error", "exception", "critical"})
STAT_PREFIX = "adaptive/"


def nodes() -> Iterator[ast.AST]:
    """Every node of every module."""
    for path in sorted(PACKAGE.rglob("*.py")):
        yield from ast.walk(ast.parse(path.read_text(encoding="utf-8")))


def stat_names() -> set[str]:
    """Stats that are written under a literal name."""
    return {
        text
        for node in nodes()
        if (text := _text(node)).startswith(STAT_PREFIX) and text != STAT_PREFIX
    }


def meta_keys() -> set[str]:
    """Keys of meta that are read or written."""
    return {key for node in nodes() for key in _keys(node)} - {""}


def log_lines() -> Iterator[tuple[str, str]]:
    """Level and format of each line, "" for a format that is no literal."""
    for node in nodes():
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and isinstance(node.func.value, ast.Name)
            and node.func.value.id == "logger"
            and node.func.attr in LEVELS
        ):
            yield node.func.attr.upper(), _text(node.args[0])


def _keys(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Assign):
        names = [target.id for target in node.targets if isinstance(target, ast.Name)]
        if any(name.endswith("_META_KEY") for name in names):
            yield _text(node.value)
    elif isinstance(node, ast.Subscript) and _is_meta(node.value):
        yield _text(node.slice)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if _is_meta(node.func.value) and node.args:
            yield _text(node.args[0])
    elif isinstance(node, ast.Compare) and any(map(_is_meta, node.comparators)):
        yield _text(node.left)


def _is_meta(node: ast.AST) -> bool:
    name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
    return name == "meta"


def _text(node: ast.AST) -> str:
    is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
    return str(node.value) if is_text else ""  # type: ignore[attr-defined]
