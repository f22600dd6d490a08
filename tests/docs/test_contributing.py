"""The pages for contributors name the files that there are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import scrapy_adaptive
from tests.docs.pages import literal, page_names, read, rows

PACKAGE = Path(scrapy_adaptive.__file__).parent
ROOTS = (PACKAGE, PACKAGE.parent)
"""What paths in these pages are relative to."""

PAGES = [page for page in page_names() if page.startswith("contributing/")]


def test_the_map_has_every_file_of_the_adapters_and_no_other() -> None:
    files = {
        path.relative_to(PACKAGE).as_posix()
        for path in (PACKAGE / "adapters").rglob("*.py")
        if path.name != "__init__.py"
    }
    listed = {literal(row[0]) for row in rows("contributing/map", "file")}
    assert {each for each in listed if each.startswith("adapters/")} == files


@pytest.mark.parametrize("page", PAGES)
def test_a_file_that_is_named_exists(page: str) -> None:
    named = re.findall(r"``([\w/]+/[\w/]+(?:\.py)?)``", read(page))
    missing = [path for path in named if not any((root / path).exists() for root in ROOTS)]
    assert missing == []
