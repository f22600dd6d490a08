"""`python -m scrapy_adaptive simulate`, as users type it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from scrapy_adaptive.__main__ import main

SHORT = ["simulate", "--server", "bucket:10/5", "--minutes", "1"]


def test_a_crawl_is_told_in_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(SHORT) == 0
    out = capsys.readouterr().out
    assert out.startswith("bucket:10/5, constant network, seed 1\n")
    assert "of the limit" in out
    assert "refused, hits" in out


def test_a_file_of_html_is_the_page_that_shows_real_crawls(tmp_path: Path) -> None:
    assert main([*SHORT, "--plot", str(tmp_path / "crawl.html")]) == 0
    html = (tmp_path / "crawl.html").read_text()
    assert "limit of the model (dashed)" in html
    assert "bucket:10/5: 9" in html


@pytest.mark.parametrize("network", ["constant", "jittered", "heavy-tailed"])
def test_the_same_seed_tells_the_same(network: str, capsys: pytest.CaptureFixture[str]) -> None:
    told = []
    for _ in range(2):
        main([*SHORT, "--network", network, "--seed", "7"])
        told.append(capsys.readouterr().out)
    assert told[0] == told[1]


def test_settings_change_the_crawl(capsys: pytest.CaptureFixture[str]) -> None:
    """A floor of 2 s leaves at most 30 pages of a minute."""
    main([*SHORT, "-s", "DOWNLOAD_DELAY=2"])
    accepted = next(
        line for line in capsys.readouterr().out.splitlines() if line.startswith("accepted")
    )
    assert int(accepted.split()[2]) <= 30


def test_the_last_value_of_a_setting_counts(capsys: pytest.CaptureFixture[str]) -> None:
    main([*SHORT, "--target-concurrency", "8"])
    wanted = capsys.readouterr().out
    main([*SHORT, "-s", "ADAPTIVE_TARGET_CONCURRENCY=1", "--target-concurrency", "8"])
    assert capsys.readouterr().out == wanted


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "COMMAND"),
        (["simulate"], "--server"),
        (["crawl"], "crawl"),
        (["simulate", "--server", "bucket:x/1"], "'x': allowed is a number"),
        (["simulate", "--server", "connotea,step=1e308@0"], "FACTOR, and all steps"),
        (["simulate", "--server", "bucket:1/1,step=1e-4@0,step=1e-4@0"], "FACTOR, and all steps"),
        ([*SHORT, "--minutes", "0"], "more than 0"),
        ([*SHORT, "--minutes", "nan"], "more than 0"),
        ([*SHORT, "--network", "slow"], "slow"),
        ([*SHORT, "--seed", "x"], "'x'"),
        ([*SHORT, "-s", "DELAY"], "NAME=VALUE"),
        ([*SHORT, "-s", "ADAPTIVE_BURTS=2"], "ADAPTIVE_BURST"),
        ([*SHORT, "-s", "ADAPTIVE_BURST=0"], "ADAPTIVE_BURST = '0'"),
        ([*SHORT, "-s", "HTTPCACHE_ENABLED=1"], "changes nothing in a simulation"),
        ([*SHORT, "--target-concurrency", "0"], "ADAPTIVE_TARGET_CONCURRENCY"),
        ([*SHORT, "--plot", "crawl.txt"], ".png"),
        ([*SHORT, "--plot", "nowhere/crawl.png"], "no such folder"),
    ],
)
def test_a_bad_argument_gets_one_line_and_status_2(
    words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(words)
    assert caught.value.code == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert told in err
    assert err.count("\n") == 1


def test_the_help_lists_the_models(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["simulate", "--help"])
    assert caught.value.code == 0
    assert "bucket:RATE/BURST" in capsys.readouterr().out


@pytest.mark.parametrize("spec", ["bucket:10/5,noise=0.1", "free:0.05", "ban:20/20/5,restarted"])
def test_the_drawing_is_a_picture(spec: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / "crawl.png"
    assert main(["simulate", "--server", spec, "--minutes", "2", "--plot", str(path)]) == 0
    assert path.read_bytes().startswith(b"\x89PNG\r\n")
    assert path.stat().st_size > 10_000


def test_without_matplotlib_one_line_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(SystemExit) as caught:
        main([*SHORT, "--plot", str(tmp_path / "crawl.png")])
    assert caught.value.code == 2
    err = capsys.readouterr().err
    assert "pip install scrapy-adaptive[plot]" in err
    assert err.count("\n") == 1


def run(*words: str, stdout: int) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, stdout=stdout, stderr=subprocess.PIPE, text=True, timeout=60)


@pytest.mark.parametrize("program", [["scrapy", "adaptive"], ["scrapy_adaptive"]])
def test_a_reader_that_has_gone_is_no_error(program: list[str]) -> None:
    """As `| head` does it: no message, and the status of a program that was told to stop."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = run(sys.executable, "-m", *program, *SHORT, stdout=writing)
    finally:
        os.close(writing)
    assert done.stderr == ""
    assert done.returncode == 141


def test_scrapy_adaptive_is_the_same_command(capsys: pytest.CaptureFixture[str]) -> None:
    """Word for word, options that Scrapy itself has too included."""
    words = [*SHORT, "-s", "DOWNLOAD_DELAY=2", "--seed", "3"]
    main(words)
    done = run(sys.executable, "-m", "scrapy", "adaptive", *words, stdout=subprocess.PIPE)
    assert (done.stdout, done.stderr, done.returncode) == (capsys.readouterr().out, "", 0)


def test_scrapy_adaptive_tells_a_mistake_as_it_was_typed() -> None:
    words = ["scrapy", "adaptive", "simulate", "--server", "buckt:1/1"]
    done = run(sys.executable, "-m", *words, stdout=subprocess.PIPE)
    assert done.returncode == 2
    assert done.stderr.startswith("scrapy adaptive simulate: 'buckt:1/1'")
    assert done.stderr.count("\n") == 1


def test_scrapy_lists_the_command() -> None:
    """Outside of a project too."""
    done = run(sys.executable, "-m", "scrapy", "-h", stdout=subprocess.PIPE)
    assert re.search(r"^  adaptive +See what a crawl did", done.stdout, re.MULTILINE)
