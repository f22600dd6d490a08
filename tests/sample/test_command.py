"""``python -m docsite`` as a user meets it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from docsite.__main__ import main
from docsite.arms import HOME
from docsite.hits import read_hits

COMMAND = [sys.executable, "-m", "docsite"]
ENVIRONMENT = os.environ | {"PYTHONPATH": str(HOME)}


@contextmanager
def started(*options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The process and its first line."""
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [*COMMAND, *options], env=ENVIRONMENT, stdout=pipe, stderr=pipe, text=True
    ) as process:
        assert process.stdout is not None
        try:
            yield process, process.stdout.readline()
        finally:
            process.kill()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_site_says_its_address_serves_and_stops_quietly(
    pages: Path, tmp_path: Path, number: int
) -> None:
    """One line on standard output, a log of what was asked, exit status 0 on either signal."""
    log = tmp_path / "hits.jsonl"
    with started("--port=0", f"--pages={pages}", f"--log={log}") as (process, line):
        assert line.startswith("docsite: 3 pages at http://127.0.0.1:")
        with urllib.request.urlopen(line.split()[-1]) as response:
            assert response.status == 200
        process.send_signal(number)
        rest = process.communicate(timeout=10)
        assert (process.returncode, rest) == (0, ("", ""))
    assert [hit.path for hit in read_hits(log)] == ["/"]


def test_a_port_that_is_taken_costs_the_site_that_has_it_no_line_of_its_log(
    pages: Path, tmp_path: Path
) -> None:
    log = tmp_path / "hits.jsonl"
    with started("--port=0", f"--pages={pages}", f"--log={log}") as (_, line):
        url = line.split()[-1]
        with urllib.request.urlopen(url) as response:
            assert response.status == 200
        port = url.rstrip("/").rpartition(":")[2]
        with started(f"--port={port}", f"--pages={pages}", f"--log={log}") as (second, _):
            assert second.wait(timeout=10) == 1
        assert [hit.path for hit in read_hits(log)] == ["/"]


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("--speed=0", "must be a number > 0, not '0'"),
        ("--latency=-1", "must be seconds ≥ 0, not '-1'"),
        ("--port=70000", "must be a port from 0 to 65535, not '70000'"),
        ("--pages=/no/such/folder", "must be a folder that exists"),
        ("--max-running=0", "max_running must be a whole number ≥ 1, not 0"),
        ("--crawler-interval=nan", "crawler_interval must be seconds ≥ 0, not nan"),
        ("--stack-hits=many", "invalid int value: 'many'"),
        ("--nonsense", "unrecognized arguments: --nonsense"),
    ],
)
def test_a_bad_argument_is_one_line(
    pages: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str, words: str
) -> None:
    """It names what is wrong; the exit status is 2."""
    with pytest.raises(SystemExit) as ended:
        main([f"--pages={pages}", f"--log={tmp_path / 'log'}", option])
    complaint = capsys.readouterr().err
    assert ended.value.code == 2
    assert words in complaint
    assert complaint.count("\n") == 1


def test_a_folder_without_pages_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The folder exists, but nothing was rendered into it."""
    with pytest.raises(SystemExit):
        main([f"--pages={tmp_path}", f"--log={tmp_path / 'log'}"])
    assert capsys.readouterr().err.startswith(f"docsite: --pages: {tmp_path} was not made by")


def test_a_taken_port_is_one_line(
    pages: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The exit status is 1."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main([f"--port={port}", f"--pages={pages}", f"--log={tmp_path / 'log'}"]) == 1
    complaint = capsys.readouterr().err
    assert complaint.startswith("docsite: ")
    assert complaint.count("\n") == 1
