"""What `scrapy adaptive frontier` tells of each engine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scrapy_adaptive.__main__ import main
from scrapy_adaptive.frontier.protocol import Done, Result, Visit
from tests.frontier.conftest import Clock, Opened
from tests.frontier.test_conformance import page


@pytest.fixture
def clock() -> Clock:
    """The present: the commands have the engine's own clock."""
    import time

    return Clock(time.time())


def run(address: str, *arguments: str) -> None:
    assert main(["frontier", *arguments, "--frontier", address, "--spider", "spider"]) == 0


def test_workers_hosts_limits_and_pauses_are_shown(
    opened: Opened, address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    frontier = opened("box:17", ttl=100.0)
    frontier.turn([], [page("a.example", n) for n in range(5)] + [page("b.example", 1)], {})
    (held,) = frontier.lease(1, 2).held
    slot = {"pause": 3600.0, "learned": {"rate": 2.5, "refused_rate": 4.0}}
    frontier.beat({held.lease: {"version": 1, "slots": {"a.example": slot}}})
    run(address, "show")
    told = capsys.readouterr().out
    assert "worker box:17, egress shared: 1 hosts, lives " in told
    row = next(line for line in told.splitlines() if line.startswith(held.lease.host))
    assert "2.5/s" in row
    assert "59 min" in row or "1 h" in row
    assert row.endswith("box:17")


def test_what_has_failed_is_visited_again(
    opened: Opened, address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    frontier = opened(ttl=100.0)
    frontier.turn([], [page("a", 1), page("a", 2)], {})
    (held,) = frontier.lease(1, 2).held
    errors = [Result(503, "refused"), Result(404, "gone")]
    done = [Done(held.lease, v.id, error) for v, error in zip(held.visits, errors, strict=True)]
    frontier.turn(done, [], {})
    run(address, "retry", "--status", "5xx")
    assert "1 visit is due now" in capsys.readouterr().out
    assert frontier.counts().ready == 1


def test_what_waits_is_exported_and_given_another_priority(
    opened: Opened, address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    frontier = opened(ttl=100.0)
    frontier.turn([], [page("a", 1), page("b", 2), Visit("b", "http://b/3", priority=3)], {})
    run(address, "export")
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines() if line]
    assert {row["url"] for row in rows} == {"http://a/1", "http://b/2", "http://b/3"}
    run(address, "swap", "--host", "b", "--priority", "10")
    assert "2 visits of b" in capsys.readouterr().out
    assert frontier.counts().ready == 3
    assert {each.priority for h in frontier.lease(1, 2).held for each in h.visits} == {10.0}


def test_what_is_added_is_found_by_the_name_that_a_crawl_sends_it_to(
    opened: Opened, address: str, tmp_path: Path
) -> None:
    frontier = opened(ttl=100.0)
    (tmp_path / "urls.txt").write_text("http://bücher.example/ä b\n", encoding="utf-8")
    run(address, "add", str(tmp_path / "urls.txt"))
    (held,) = frontier.lease(1, 1).held
    assert held.lease.host == "xn--bcher-kva.example"
    assert held.visits[0].url == "http://xn--bcher-kva.example/%C3%A4%20b"
