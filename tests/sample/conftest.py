"""A small site's pages, written by hand, for tests that need no pydoc."""

from __future__ import annotations

from pathlib import Path

import pytest

from docsite.pages import Manifest, publish

PAGES = {
    "alpha": '<title>Python: module alpha</title><p>first</p><a href="beta.html">beta</a>',
    "beta": '<title>Python: module beta</title><p>second</p><a href=".">index</a>',
}


@pytest.fixture
def pages(tmp_path: Path) -> Path:
    """A folder with an index and the pages of two modules."""
    folder = tmp_path / "pages"
    publish(folder, PAGES, Manifest(key="by hand", modules=tuple(PAGES), skipped_count=0))
    return folder
