"""What the benchmarks of known limits write, and how they judge the sample site."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks import known_limits, known_limits_crawls
from docsite.hits import Hit


def written(name: str, out: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The lines of the table, which begin with the command, and end as what was printed does."""
    lines = (out / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    assert lines[0] == f"python benchmarks/{name}.py {' '.join(sys.argv[1:])}"
    assert lines[2:] == capsys.readouterr().out.splitlines()
    return lines


def test_the_table_is_kept_in_a_new_folder_with_its_command_and_its_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "not" / "there"
    options = ["--only", "connotea,agent", "--minutes", "2", "--seeds", "1", "--out", str(out)]
    monkeypatch.setattr(sys, "argv", ["known_limits.py", *options])
    missed = known_limits.main()
    verdict = written("known_limits", out, capsys)[-1]
    assert verdict.startswith("connotea,agent: ") if missed else verdict == "every bound is met"


def test_that_of_real_crawls_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "not" / "there"
    options = ["--servers", known_limits_crawls.SAMPLE, "--out", str(out)]
    monkeypatch.setattr(sys, "argv", ["known_limits_crawls.py", *options])
    monkeypatch.setattr(known_limits_crawls, "sample_site", lambda *_: (97.0, 388, 2))
    assert known_limits_crawls.main()
    verdict = written("known_limits_crawls", out, capsys)[-1]
    assert verdict == "sample site: 97.0 % of the limit, 2 refused"


def test_of_the_sample_site_each_page_counts_once_and_no_failure_does() -> None:
    """A page twice, one that is not there, one that fails, one refused; and one after the end."""
    hits = [
        Hit(float(at), float(at), status, path)
        for at, (path, status) in enumerate(
            (("/a", 200), ("/a", 200), ("/b", 404), ("/c", 500), ("/d", 429), ("/e", 200))
        )
    ]
    assert known_limits_crawls.judged([*hits, Hit(30.0, 30.0, 200, "/f")], 30.0) == (10.0, 2, 1)


def test_no_more_than_the_limit_is_told() -> None:
    hits = [Hit(0.1 * page, 0.1 * page, 200, f"/{page}") for page in range(30)]
    assert known_limits_crawls.judged(hits, 30.0) == (100.0, 30, 0)
