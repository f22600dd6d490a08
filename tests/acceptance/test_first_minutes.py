"""A new user's first minutes: `scrapy startproject`, the README's line, and a first crawl.

Laws
----
* The commands are those that the pages tell people to type, run where they say to run them.
"""

from __future__ import annotations

import re
import shlex
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from docs.examples import by_hand
from tests.acceptance.project import ADDON, SPIDER, Project
from tests.crawling import ROOT
from tests.docs.pages import boxes, read
from tests.servers.origin import Origin

TEMPLATE = ("CONCURRENT_REQUESTS_PER_DOMAIN = 1\n", "DOWNLOAD_DELAY = 1\n")
"""Lines of the template's settings.py that hold the pace."""

IS_ON = re.compile(r"\[scrapy_adaptive\S*\] INFO: (scrapy_adaptive \S+ is on: .*)$", re.MULTILINE)


def start_project(folder: Path, url: str, line: str) -> Project:
    """What `scrapy startproject shop .` makes, its spider, and a line of settings."""
    project = Project(folder)
    made = project.scrapy("startproject", "shop", ".")
    assert made.returncode == 0, made.stdout
    settings = folder / "shop" / "settings.py"
    settings.write_text(f"{settings.read_text()}\n{line}\n")
    (folder / "shop" / "spiders" / "one.py").write_text(SPIDER.format(url=url))
    return project


def ours(log: str) -> list[str]:
    """Lines of our own."""
    return [line for line in log.splitlines() if "[scrapy_adaptive" in line]


def test_the_first_line_names_the_templates_settings_that_hold_the_pace(
    tmp_path: Path, origin: Callable[..., Origin]
) -> None:
    """And says what to do about it; it comes before anything is fetched."""
    project = start_project(tmp_path, origin().url, ADDON)
    done = project.scrapy("crawl", "one")
    assert done.returncode == 0
    assert "'status': 200" in done.stdout
    (told,) = IS_ON.findall(done.stdout)
    assert "DOWNLOAD_DELAY = 1 s and CONCURRENT_REQUESTS_PER_DOMAIN = 1" in told
    assert "one each 1 s" in told
    assert "remove these two settings" in told
    assert told in ours(done.stdout)[0]
    assert done.stdout.index(told) < done.stdout.index("Crawled (200)")


def test_without_these_two_lines_the_first_line_says_that_the_pace_is_found(
    tmp_path: Path, origin: Callable[..., Origin]
) -> None:
    """Nothing of the user's holds it."""
    project = start_project(tmp_path, origin().url, ADDON)
    settings = tmp_path / "shop" / "settings.py"
    text = settings.read_text()
    for line in TEMPLATE:
        assert line in text
        text = text.replace(line, "")
    settings.write_text(text)
    done = project.scrapy("crawl", "one")
    (told,) = IS_ON.findall(done.stdout)
    assert "each site's pace is found from its answers" in told
    assert "remove" not in told


def test_the_settings_by_hand_work_in_a_new_project(
    tmp_path: Path, origin: Callable[..., Origin]
) -> None:
    """As they stand on their page, in the project's settings.py."""
    source = Path(by_hand.__file__).read_text()
    site = origin()
    done = start_project(tmp_path, site.url, source).scrapy("crawl", "one")
    assert done.returncode == 0
    assert len(IS_ON.findall(done.stdout)) == 1
    assert "'adaptive/permits/measured': 2" in done.stdout
    assert [hit.path for hit in site.hits()] == ["/robots.txt", "/"]


def commands(page: str) -> list[list[str]]:
    """What each box of a page tells people to type."""
    texts = (box.text.replace("\\\n", " ") for box in boxes(page, "console"))
    return [[line.partition("$ ")[2] for line in text.splitlines()] for text in texts]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout in which `make demo` has made its virtual environment."""
    source = ROOT / "sample_project"
    ignored = shutil.ignore_patterns("run", "__pycache__")
    shutil.copytree(source, tmp_path / "sample_project", ignore=ignored)
    (tmp_path / ".venv").symlink_to(Path(sys.prefix))
    return tmp_path


def test_the_tutorials_commands_work_where_it_says_to_run_them(checkout: Path) -> None:
    """Both terminals begin in the root of the checkout; only port and number of pages differ."""
    assert read("tutorial").partition("Crawl by hand")[2].count("root of the checkout") == 2
    serve, crawl = (" && ".join(typed) for typed in commands("tutorial")[1:])
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    serve = serve.replace("--limit 100", "--limit 3")
    serving = subprocess.Popen(["bash", "-c", f"{serve} --port {port}"], cwd=checkout)
    try:
        wait_for(port, serving)
        done = subprocess.run(
            ["bash", "-c", f"{crawl} -a url=http://127.0.0.1:{port}/"],
            cwd=checkout,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
        )
    finally:
        serving.terminate()
        serving.wait()
    assert done.returncode == 0, done.stdout
    assert "adaptive: per-site summary" in done.stdout
    hits = (checkout / "sample_project" / "run" / "hits.jsonl").read_text().splitlines()
    assert len(hits) >= 3


def wait_for(port: int, serving: subprocess.Popen[bytes]) -> None:
    """Return when the site answers."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        assert serving.poll() is None, "the site could not be started"
        with socket.socket() as asking:
            if asking.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise AssertionError("the site does not answer")


def test_every_command_of_the_page_on_simulations_runs_in_its_order(tmp_path: Path) -> None:
    """What needs matplotlib comes after its installation; `tests/simulation` runs its program."""
    typed = [line for box in commands("howto/simulate") for line in box]
    installed = next(n for n, line in enumerate(typed) if line.startswith("pip install"))
    assert [n > installed for n, line in enumerate(typed) if "--plot" in line] == [True]
    for line in typed:
        words = shlex.split(re.sub(r"--minutes \d+", "", line))
        if words[0] in ("pip", "python"):
            continue
        assert words[0] == "scrapy"
        done = subprocess.run(
            [sys.executable, "-m", *words, "--minutes", "1"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        assert "of the limit" in done.stdout
    assert (tmp_path / "out.png").exists()
