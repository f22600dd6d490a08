"""Whoever asks a benchmark for what it cannot do is told so in one line, before it begins."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

import pytest

from benchmarks.arguments import new_folder

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
)


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


def test_where_a_file_is_no_folder_can_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(Exception, match="allowed is a folder"):
        new_folder(str(tmp_path / "file"))
