"""Runs Scrapy's own tests of its engine, downloader, queues and pipelines with the add-on.

They come from the source distribution of the installed version, which is fetched once and kept in
`build/`. A test that fails and is not named in `groups.py` is an error; a named one that holds
after all is only said, since some of them are about milliseconds.

    python -m tests.scrapys_own.run [--jobs 2]
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from xml.etree import ElementTree

import scrapy

from tests.scrapys_own.groups import GROUPS, Group

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).parent
TEST_TIMEOUT = 120
"""Seconds that a test may take."""

IN_PLACE = """
from scrapy_adaptive import HostQueue as DownloaderAwarePriorityQueue
from scrapy_adaptive import HostQueue as ScrapyPriorityQueue
"""
"""Ends the modules of the tests: what they import by these names is HostQueue."""


def fetch_source(folder: Path) -> Path:
    """The source distribution of the installed Scrapy, from the package index that pip uses."""
    name = f"scrapy-{scrapy.__version__}.tar.gz"
    if not (folder / name).exists():
        download = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-binary", "scrapy"]
        options = ["--quiet", "--disable-pip-version-check", "--dest", str(folder)]
        subprocess.run([*download, *options, f"scrapy=={scrapy.__version__}"], check=True)
    return folder / name


def unpack_tests(source: Path, folder: Path) -> None:
    """Its tests and nothing else of it: they import the installed Scrapy."""
    shutil.rmtree(folder, ignore_errors=True)
    with tarfile.open(source) as archive:
        members = []
        for member in archive:
            member.name = member.name.partition("/")[2]
            if member.name.startswith(("tests/", "conftest.py", "pyproject.toml")):
                members.append(member)
        archive.extractall(folder, members, filter="data")


def put_in_place(folder: Path, modules: tuple[str, ...]) -> None:
    """Have the tests mean HostQueue where they name a priority queue."""
    for module in modules:
        path = folder / "tests" / f"{module}.py"
        text = path.read_text(encoding="utf-8")
        for name in ("DownloaderAwarePriorityQueue", "ScrapyPriorityQueue"):
            text = text.replace(f'"scrapy.pqueues.{name}"', '"scrapy_adaptive.HostQueue"')
        path.write_text(text + IN_PLACE, encoding="utf-8")


def run_tests(folder: Path, group: Group, jobs: int) -> tuple[set[str], set[str]]:
    """Names of the tests that ran, and of those that failed."""
    report = folder / "report.xml"
    shutil.copy(HERE / f"{group.plugin}.py", folder)
    modules = [f"tests/{name}.py" for name in group.modules]
    options = ["-q", "-p", group.plugin, "-p", "no:cacheprovider", "--tb=short", "-n", str(jobs)]
    options += [f"--timeout={TEST_TIMEOUT}", f"--junitxml={report}"]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    environment["PYTHONPATH"] = f"{folder}{os.pathsep}{ROOT}"
    present = [module for module in modules if (folder / module).exists()]
    subprocess.run(
        [sys.executable, "-m", "pytest", *options, *present],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    ran, failed = set(), set()
    for case in ElementTree.parse(report).iter("testcase"):
        where = case.attrib["classname"].split(".")[1:]  # module, class
        name = "::".join([*where, case.attrib["name"]])
        if case.find("skipped") is None:
            ran.add(name)
        if case.find("failure") is not None or case.find("error") is not None:
            failed.add(name)
    return ran, failed


def is_as_named(group: Group, ran: set[str], failed: set[str]) -> bool:
    """Print what came of a group; returns whether no other test failed than those named."""
    version = scrapy.version_info[:2]
    named = {name for name, test in group.different.items() if version >= test.since}
    print(f"{group.name}: {len(ran - failed)} of {len(ran)} tests of Scrapy hold")
    for name in sorted(named & failed):
        print(f"  differs: {name}: {group.different[name].reason}")
    for name in sorted(named - failed):
        print(f"  named, and holds: {name}")
    for name in sorted(failed - named):
        print(f"  FAILED: {name}")
    if len(ran - failed) < group.least:
        print(f"  FAILED: at least {group.least} should hold")
    return failed <= named and len(ran - failed) >= group.least


def main() -> int:
    """Fetch, run, compare; returns the exit status."""
    parser = argparse.ArgumentParser(description="Scrapy's own tests, with the add-on")
    parser.add_argument("--jobs", type=int, default=2, help="tests at a time")
    jobs = parser.parse_args().jobs
    build = ROOT / "build" / "scrapys_own"
    build.mkdir(parents=True, exist_ok=True)
    source = fetch_source(build)
    verdicts = []
    for group in GROUPS:
        folder = build / group.plugin
        unpack_tests(source, folder)
        if group.in_place:
            put_in_place(folder, group.modules)
        verdicts.append(is_as_named(group, *run_tests(folder, group, jobs)))
    return int(not all(verdicts))


if __name__ == "__main__":
    sys.exit(main())
