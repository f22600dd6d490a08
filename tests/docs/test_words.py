"""The pages, and the core, use the words of the field, as the page on the vocabulary lists them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import scrapy_adaptive
from tests.docs.pages import page_names, read

PRIVATE = re.compile(
    r"\b(?:pain|silences?|told|lids?|pardon\w*|acquit\w*|ledger|rota|hurr(?:y|ies))\b", re.I
)
"""Words of an older private language that mean nothing else in these pages."""

LITERAL = re.compile(r"``.+?``", re.DOTALL)

LISTS_THEM = "contributing/vocabulary"


@pytest.mark.parametrize("page", sorted({*page_names()} - {LISTS_THEM}))
def test_a_page_has_no_private_word(page: str) -> None:
    """Names of constants and settings, which are literals, change with the code."""
    assert PRIVATE.findall(LITERAL.sub("", read(page))) == []


PACKAGE = Path(scrapy_adaptive.__file__).parent

OF_THE_LAW = sorted(
    path for room in ("core", "simulation") for path in (PACKAGE / room).rglob("*.py")
)

KEPT = re.compile(r"learned\.silence|silence=|silence: float|\"silence\"")
"""A number of `Learned` is called so in the files of jobs: it keeps its name."""


@pytest.mark.parametrize("path", OF_THE_LAW, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_file_of_the_law_has_no_private_word(path: Path) -> None:
    """Neither a name nor a docstring."""
    assert PRIVATE.findall(KEPT.sub("", path.read_text()).replace("_", " ")) == []
