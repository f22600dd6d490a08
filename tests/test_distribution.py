"""What is uploaded: the source distribution holds all that a packager or a reader needs."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from tests.crawling import ROOT

BUILD = "import sys; from setuptools import build_meta as b; b.build_sdist(sys.argv[1])"

LEFT_OUT = ("__pycache__", "_build", "run", ".scrapy", ".hypothesis", ".venv", ".git")
"""Folders of what is made, by tests and builds too."""


@pytest.fixture(scope="module")
def members(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Files of the source distribution, below its folder."""
    folder = tmp_path_factory.mktemp("source") / "copy"
    made = shutil.ignore_patterns(".*", "build", "dist", "*.egg-info")
    shutil.copytree(ROOT, folder, ignore=made)
    built = folder / "dist"
    done = subprocess.run(
        [sys.executable, "-c", BUILD, str(built)],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (archive,) = built.iterdir()
    with tarfile.open(archive) as source:
        return {member.name.partition("/")[2] for member in source if member.isfile()}


@pytest.mark.parametrize(
    "file",
    [
        "CHANGES.rst",
        "LICENSE",
        "Makefile",
        "README.rst",
        "benchmarks/beside_stock.py",
        "docs/conf.py",
        "docs/index.rst",
        "docs/tutorial.rst",
        "sample_project/scrapy.cfg",
        "scrapy_adaptive/py.typed",
        "scrapy_adaptive/report/page/page.css",
        "scrapy_adaptive/report/page/page.html",
        "scrapy_adaptive/report/page/page.js",
        "tests/crawling.py",
        "tests/servers/nginx.py",
    ],
)
def test_the_source_distribution_holds_code_docs_tests_and_sample_project(
    file: str, members: set[str]
) -> None:
    assert file in members


def test_the_source_distribution_holds_every_module_of_the_package_and_of_its_tests(
    members: set[str],
) -> None:
    folders = [ROOT / "scrapy_adaptive", ROOT / "tests", ROOT / "sample_project" / "docsite"]
    modules = {path for folder in folders for path in folder.rglob("*.py")}
    assert {path.relative_to(ROOT).as_posix() for path in modules} <= members


def test_the_source_distribution_holds_nothing_that_was_made(members: set[str]) -> None:
    assert [name for name in members if set(Path(name).parts) & set(LEFT_OUT)] == []
