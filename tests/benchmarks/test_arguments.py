"""Whoever asks a benchmark for what it cannot do is told so in one line, before it begins."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from benchmarks.arguments import new_folder
from tests.crawling import ROOT

BAD = (
    ("known_limits", "--only", "bucket:7"),
    ("known_limits", "--seeds", "0"),
    ("known_limits_crawls", "--servers", "queue"),
    ("known_limits_crawls", "--servers", "counter,x"),
    ("simulation", "--only", "nothing"),
    ("simulation", "--seeds", "1-3"),
    ("worst_seed", "--only", "nothing"),
    ("worst_seed", "--seeds", "501"),
    ("worst_seed", "--seeds", "520-501"),
    ("sweep", "--only", "nothing"),
    ("ablation", "--only", "nothing"),
    ("journal_size", "--hours", "0"),
    ("random_servers", "--group", "x"),
    ("random_servers", "--laws", "x"),
    ("random_servers", "--count", "0"),
    ("queueing", "--seeds", "x"),
    ("memory", "--slots", "0"),
    ("step", "--pages", "5"),
    ("simulated_workers", "--minutes", "0"),
    ("handing_over", "--minutes", "0"),
    ("sizing", "--pushes", "0"),
    ("meters", "--takes", "0"),
    ("frontier_workers", "--minutes", "0.33"),
    ("frontier_workers", "--minutes", "nan"),
    ("frontier", "--hosts", "0"),
    ("frontier", "--rows", "0"),
    ("frontier_cost", "--pages", "0"),
    ("frontier_cost", "--rounds", "0"),
    ("beside_stock", "--out", "/dev/null/none"),
)

SCRIPTS = (
    ("redis_frontier", "--rounds", "0"),
    ("redis_frontier", "--urls", "0"),
    ("pictures", "--pages", "0"),
    ("pictures", "--out", "/dev/null/none"),
    ("shared_limit", "--out", "/dev/null/none"),
    ("shared_limit", "--drawn", "-1"),
    ("rules_cost", "--rounds", "0"),
    ("rules_cost", "--pages", "0"),
)
"""Those that set up their process, or need more than tests need, are run as a user runs them."""

NEEDED = {"redis_frontier": "scrapy_redis", "pictures": "PIL", "redis_trips": "redis"}
"""What must be installed."""


@pytest.mark.parametrize(("name", "option", "value"), BAD)
def test_a_bad_argument_is_named_with_its_value_and_what_is_allowed(
    name: str,
    option: str,
    value: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    benchmark = import_module(f"benchmarks.{name}")
    monkeypatch.setattr(sys, "argv", [f"{name}.py", option, value])
    with pytest.raises(SystemExit) as ended:
        benchmark.main()
    assert ended.value.code == 2
    told = capsys.readouterr().err.splitlines()[-1]
    bad = value.rpartition(",")[2]
    assert f"argument {option}: {bad!r}: allowed is " in told


def run(name: str, *words: str) -> subprocess.CompletedProcess[str]:
    """A benchmark in a process of its own."""
    pytest.importorskip(NEEDED.get(name, "scrapy"))
    command = [sys.executable, str(ROOT / "benchmarks" / f"{name}.py"), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize(("name", "option", "value"), SCRIPTS)
def test_a_script_names_a_bad_argument_too(name: str, option: str, value: str) -> None:
    done = run(name, option, value)
    assert done.returncode == 2
    assert f"argument {option}: {value!r}: allowed is " in done.stderr.splitlines()[-1]


@pytest.mark.parametrize("name", ["journal_cost", "redis_trips"])
def test_who_asks_for_help_gets_it_and_no_measurement(name: str) -> None:
    done = run(name, "--help")
    assert done.returncode == 0
    assert done.stdout.startswith(f"usage: {name}.py")


def test_where_a_file_is_no_folder_can_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(Exception, match="allowed is a folder"):
        new_folder(str(tmp_path / "file"))


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="it is Linux's")
def test_a_folder_that_nobody_can_write_to_is_refused() -> None:
    with pytest.raises(Exception, match="can be written to"):
        new_folder("/proc")
