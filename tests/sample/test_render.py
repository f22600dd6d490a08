"""Rendering with the real pydoc, on a handful of modules, in the process it is meant for."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from docsite.pages import Manifest, RenderError, read_manifest, render_ahead
from docsite.render import LEFT_OUT, PACKAGES, Choice, unlink_strangers

LOUD = "import sys\nprint('NOISE')\nprint('NOISE', file=sys.stderr)\n"
MODULES = ("json", "json.decoder", "queue", "os", "loud", "quitter", "no_such_module")


@pytest.fixture(scope="module")
def rendered(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Manifest]:
    """Five good modules, one that exits on import and one that does not exist."""
    folder = tmp_path_factory.mktemp("render")
    (folder / "loud.py").write_text(LOUD)
    (folder / "quitter.py").write_text("raise SystemExit(7)\n")
    options = [f"--module={name}" for name in MODULES]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(folder))
        patch.setenv("A_SECRET", "swordfish")
        return folder / "pages", render_ahead(folder / "pages", options)


def test_a_module_that_fails_to_import_is_skipped_and_counted(
    rendered: tuple[Path, Manifest],
) -> None:
    """The one that exits and the one that is not there."""
    _, manifest = rendered
    assert manifest.modules == ("json", "json.decoder", "queue", "os", "loud")
    assert manifest.skipped_count == 2


def test_the_index_leads_to_every_page(rendered: tuple[Path, Manifest]) -> None:
    """Submodules included."""
    folder, manifest = rendered
    index = (folder / "index.html").read_text(encoding="utf-8")
    assert re.findall(r'href="(.+?)"', index) == [f"{name}.html" for name in manifest.modules]


def test_links_inside_lead_to_pages_that_exist(rendered: tuple[Path, Manifest]) -> None:
    """And no page links to a file of this machine."""
    folder, _ = rendered
    for page in folder.glob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert 'href="file:' not in text
        for name in re.findall(r'<a href="([\w.]+\.html)', text):
            assert (folder / name).is_file()


def test_links_to_other_sites_are_kept(rendered: tuple[Path, Manifest]) -> None:
    """The spider's offsite filter has something to do."""
    folder, _ = rendered
    assert 'href="https://docs.python.org/' in (folder / "json.html").read_text(encoding="utf-8")


def test_no_variable_of_the_environment_is_on_a_page(rendered: tuple[Path, Manifest]) -> None:
    """pydoc prints os.environ."""
    folder, _ = rendered
    assert "swordfish" not in (folder / "os.html").read_text(encoding="utf-8")


def test_the_same_choice_is_not_rendered_twice(tmp_path: Path) -> None:
    """The folder of the first time is still there; another choice replaces it."""
    folder = tmp_path / "pages"
    first = render_ahead(folder, ["--module=queue"])
    made_at = (folder / "queue.html").stat().st_mtime_ns
    assert render_ahead(folder, ["--module=queue"]) == first
    assert (folder / "queue.html").stat().st_mtime_ns == made_at
    assert render_ahead(folder, ["--module=sched"]).modules == ("sched",)


def test_a_limit_bounds_the_pages(tmp_path: Path) -> None:
    """The first three of the standard library."""
    assert len(render_ahead(tmp_path / "pages", ["--limit=3"]).modules) == 3


def test_what_cannot_be_rendered_is_said_in_one_line(tmp_path: Path) -> None:
    """No traceback, and no folder."""
    with pytest.raises(RenderError, match=r"^docsite.render: none of 1 modules [^\n]*$"):
        render_ahead(tmp_path / "pages", ["--module=no_such_module"])
    assert read_manifest(tmp_path / "pages") is None


def test_modules_that_act_on_import_are_not_even_tried() -> None:
    """None of the names offered has a part that is left out; packages' modules are offered."""
    names = list(Choice().names())
    parts = {part for name in names for part in name.split(".")}
    assert not parts & {"antigravity", "this", "idlelib", "turtledemo", "__main__", "test", "tests"}
    assert not any(part.startswith(("_", "test")) for part in parts)
    assert {"os", "json.decoder", "scrapy.http.request", "twisted.web.client"} <= set(names)
    assert len(names) == len(set(names))
    assert not set(PACKAGES) & set(LEFT_OUT)


def test_a_link_keeps_its_text_when_its_page_is_missing() -> None:
    """With its anchor and class or without."""
    page = '<a href="nt.html#stat" class="white">nt</a> <a href="http://x.org/nt.html">x</a>'
    assert unlink_strangers(page, set()) == 'nt <a href="http://x.org/nt.html">x</a>'
