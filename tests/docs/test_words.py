"""The pages use the words of the field, as the page on the vocabulary lists them."""

from __future__ import annotations

import re

import pytest

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
