"""Rules that are wrong: the log names one that the site contradicts, a command one too strict."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scrapy_adaptive.__main__ import main
from tests.acceptance.test_rules import SETTINGS, Windows, address, insert, made, requests
from tests.crawling import Crawler
from tests.servers.origin import Origin
from tests.spiders import UrlsSpider


def test_a_rule_that_the_site_contradicts_is_named_with_both_numbers(crawl: Crawler) -> None:
    """Once; the learned limit holds from there on."""
    windows = Windows(5, 0.5)
    rules = [{"name": "fast", "uri": "/api/*", "rate": 20.0}]
    with Origin(windows) as site:
        settings = SETTINGS | {"ADAPTIVE_RULES": rules}
        urls = requests(site, {"alice": 1000})
        running = crawl.start(UrlsSpider, settings, arguments={"urls": urls})
        running.until(lambda: "the learned limit holds" in running.log)
        running.interrupt()
        done = running.wait(check=False)
    told = re.findall(r"rule \S+ \(fast\) allows 20/s, the site refuses from ([\d.]+)/s", done.log)
    assert len(told) == 1
    assert float(told[0]) < 20.0
    assert done.stats["adaptive/rules/too_generous"] == 1


def test_a_rule_that_is_too_strict_is_obeyed_and_shown(
    crawl: Crawler, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    windows = Windows(1000, 1.0)
    table = made(f"sqlite:///{tmp_path}/rules.db")
    insert(table, id=1, uri="/api/*", rate=10.0)
    with Origin(windows) as site:
        settings = SETTINGS | {"ADAPTIVE_RULES_URL": address(table)}
        crawl(UrlsSpider, settings, arguments={"urls": requests(site, {"alice": 30})})
    table.engine.dispose()
    times = [at for at, _ in windows.hits]
    assert len(times) == 30
    assert times[-1] - times[0] >= 29 / 10.0 - 0.1
    assert main(["rules", "show", "--url", address(table)]) == 0
    assert "the site never refused under it" in capsys.readouterr().out
