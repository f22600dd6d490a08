"""The comparison of crawls: what it shows while it runs and what it calls broken."""

from __future__ import annotations

from pathlib import Path

import pytest

import demo
from docsite.arms import LIVE_LINE, Arm, Crawl
from docsite.verdict import Verdict

STOCK = Arm("stock Scrapy", "stock", ("ADDONS={}",))
POLITE = Arm(
    "polite Scrapy",
    "polite",
    ("ADDONS={}", "DOWNLOAD_DELAY=0.4", "RANDOMIZE_DOWNLOAD_DELAY=False"),
    is_ours=True,
)
GOOD = Verdict(kept_count=3, lost_count=0, refusal_count=0, hit_count=3, rude_count=0, seconds=1.0)
LOST = Verdict(kept_count=1, lost_count=2, refusal_count=6, hit_count=7, rude_count=6, seconds=1.0)
NONE = Verdict(kept_count=0, lost_count=3, refusal_count=0, hit_count=0, rude_count=0, seconds=0.0)


@pytest.mark.parametrize(
    ("stock", "polite", "broken"),
    [
        ((GOOD, 0), (GOOD, 0), []),
        ((LOST, 0), (GOOD, 0), []),
        ((LOST, None), (GOOD, 0), []),
        ((LOST, 0), (LOST, 0), ["polite Scrapy: lost 2 pages"]),
        ((LOST, 0), (GOOD, None), ["polite Scrapy: did not finish in time"]),
        ((LOST, 1), (GOOD, 0), ["stock Scrapy: exit status 1"]),
        ((NONE, 0), (GOOD, 0), ["stock Scrapy: asked its site for no page"]),
    ],
)
def test_only_our_crawl_may_lose_nothing_but_all_must_run(
    stock: tuple[Verdict, int | None], polite: tuple[Verdict, int | None], broken: list[str]
) -> None:
    """The others may lose pages and be killed for their time: that is what is shown."""
    verdicts = {STOCK: stock[0], POLITE: polite[0]}
    crawls = {STOCK: Crawl(stock[1]), POLITE: Crawl(polite[1])}
    assert demo.complaints(verdicts, crawls) == broken


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        (b"2026-11-21 01:18:59 [scrapy_adaptive] DEBUG: slot a: 200\n", b"slot a: 200"),
        (b"2026-11-21 01:18:59 [scrapy_adaptive.adapters.log] INFO: held\n", b"held"),
        (b"2026-11-21 01:18:59 [scrapy.core.engine] DEBUG: Crawled (200)\n", None),
    ],
)
def test_only_the_lines_of_the_add_on_are_shown(line: bytes, shown: bytes | None) -> None:
    """Without time, logger and level."""
    found = LIVE_LINE.search(line)
    assert (found[1] if found else None) == shown


def test_two_crawls_side_by_side_end_in_a_table_of_the_sites_logs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Stock Scrapy loses both modules; whoever keeps the interval loses none."""
    monkeypatch.setattr(demo, "RUN", tmp_path)
    monkeypatch.setattr(demo, "ARMS", (STOCK, POLITE))
    assert demo.main(["--pages", "2", "--seconds", "60"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines[-3:]] == [
        ["pages", "lost", "refused", "hits/page", "rude", "hits", "time"],
        ["stock", "Scrapy", "1", "2", "6", "7.00", *lines[-2].split()[6:]],
        ["polite", "Scrapy", "3", "0", "0", "1.00", "0", *lines[-1].split()[7:]],
    ]


def test_a_site_that_cannot_be_rendered_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Something else is where the pages should be."""
    (tmp_path / "pages-2").write_text("not a folder")
    monkeypatch.setattr(demo, "RUN", tmp_path)
    assert demo.main(["--pages", "2"]) == 1
    assert capsys.readouterr().err.startswith("demo: docsite.render: ")
