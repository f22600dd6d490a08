"""The folder of pages: written whole, replaced only if it is one."""

from __future__ import annotations

from pathlib import Path

import pytest

from docsite.pages import Manifest, RenderError, ensure_replaceable, publish, read_manifest

ONE = Manifest(key="one", modules=("a",), skipped_count=0)
TWO = Manifest(key="two", modules=("b",), skipped_count=3)


def test_a_new_folder_takes_the_place_of_the_old_and_leaves_nothing_beside(tmp_path: Path) -> None:
    """Pages of the old one are gone, and so are the folders used on the way."""
    publish(tmp_path / "pages", {"a": "A"}, ONE)
    publish(tmp_path / "pages", {"b": "B"}, TWO)
    assert [path.name for path in tmp_path.iterdir()] == ["pages"]
    names = {path.name for path in (tmp_path / "pages").iterdir()}
    assert names == {"b.html", "index.html", "manifest.json"}
    assert read_manifest(tmp_path / "pages") == TWO


def test_a_folder_of_something_else_is_not_replaced(tmp_path: Path) -> None:
    """A user's thesis is no folder of rendered pages."""
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(RenderError, match="no folder of rendered pages"):
        ensure_replaceable(tmp_path)


def test_an_empty_or_absent_folder_may_be_filled(tmp_path: Path) -> None:
    """Nothing is lost there."""
    ensure_replaceable(tmp_path)
    ensure_replaceable(tmp_path / "absent")


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"key": "k", "modules": 5}'])
def test_a_broken_manifest_is_none(tmp_path: Path, text: str) -> None:
    """Whatever its text is, it is not believed."""
    (tmp_path / "manifest.json").write_text(text)
    assert read_manifest(tmp_path) is None
