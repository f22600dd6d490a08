"""A folder of rendered pages: what it holds and how it comes to be.

Laws
----
* The folder appears whole or not at all: it is written beside its place, then renamed.
* `manifest.json` in it says which modules it documents and what it was made from.
* Nothing that is not such a folder is ever replaced.
"""

from __future__ import annotations

import html
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

MANIFEST = "manifest.json"
INDEX = "index.html"


class RenderError(Exception):
    """The pages could not be rendered; the message says why in one line."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a folder of pages holds and what it was made from."""

    key: str
    modules: tuple[str, ...]
    skipped_count: int

    def files(self, folder: Path) -> dict[str, Path]:
        """The file behind every path that a site of these pages serves.

        >>> sorted(Manifest("", ("os", "os.path"), 0).files(Path()))
        ['/', '/os.html', '/os.path.html']
        """
        pages = {f"/{name}.html": folder / f"{name}.html" for name in self.modules}
        return {"/": folder / INDEX} | pages


def read_manifest(folder: Path) -> Manifest | None:
    """What a folder holds; None where it is no folder of pages."""
    try:
        facts = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        return Manifest(facts["key"], tuple(facts["modules"]), facts["skipped_count"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def ensure_replaceable(folder: Path) -> None:
    """Raises RenderError where `folder` holds something else than rendered pages."""
    if read_manifest(folder) is not None or not folder.exists():
        return
    if not folder.is_dir() or any(folder.iterdir()):
        raise RenderError(f"{folder} exists and is no folder of rendered pages")


def publish(folder: Path, pages: Mapping[str, str], manifest: Manifest) -> None:
    """Puts the pages, an index and the manifest in the place of `folder`.

    Two writers of the same pages may race: whoever is second finds the work done.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}.", dir=folder.parent) as beside:
        new, old = Path(beside, "new"), Path(beside, "old")
        new.mkdir()
        for name, page in pages.items():
            (new / f"{name}.html").write_text(page, encoding="utf-8", errors="replace")
        (new / INDEX).write_text(index_page(pages), encoding="utf-8")
        (new / MANIFEST).write_text(json.dumps(asdict(manifest)), encoding="utf-8")
        try:
            if folder.exists():
                folder.rename(old)
            new.rename(folder)
        except OSError:
            if read_manifest(folder) != manifest:
                raise
        finally:
            shutil.rmtree(old, ignore_errors=True)


def index_page(modules: Iterable[str]) -> str:
    """A page that leads to all pages."""
    entries = "\n".join(
        f'<li><a href="{html.escape(name)}.html">{html.escape(name)}</a></li>' for name in modules
    )
    title = "Python documentation"
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f"</head>\n<body><h1>{title}</h1>\n<ul>\n{entries}\n</ul></body></html>\n"
    )


def render_ahead(
    folder: Path, arguments: Sequence[str] = (), *, timeout: float = 300.0
) -> Manifest:
    """Renders in a process of its own, as ``python -m docsite.render`` does, and waits for it.

    `arguments` are that command's options, `timeout` seconds the most it may take.
    Raises RenderError with the command's own words.
    """
    command = [sys.executable, "-m", "docsite.render", str(folder.resolve()), *arguments]
    home = str(Path(__file__).resolve().parents[1])
    paths = [home, *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    try:
        done = subprocess.run(
            command,
            cwd=home,  # the folder of who called may have a calendar.py of its own
            env=environment,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise RenderError(f"rendering took longer than {timeout:g} s") from None
    manifest = read_manifest(folder)
    if done.returncode != 0 or manifest is None:
        raise RenderError(done.stderr.strip() or f"the renderer ended with {done.returncode}")
    return manifest
