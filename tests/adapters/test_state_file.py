"""What a job remembers of its slots from one run to the next."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from scrapy_adaptive.adapters.settings import STATE_FILE as FILE
from scrapy_adaptive.adapters.state_file import STALE_AFTER, StateFile
from scrapy_adaptive.core.headers.parse import Quota
from scrapy_adaptive.core.types import Learned, Reason
from tests.core.virtual import Virtual

MIDNIGHT = 1_700_000_000.0
"""Wall-clock seconds at which the first run closes."""

LEARNED = (
    b'{"version": 2, "paused_until": {}, "learned": {"a": {"at": 1700000000.0, "rate": 5.0, '
    b'"refused_rate": 5.1, "concurrency": null, "price": 8.0, "silence": 12.0}}}'
)
"""What a crawl leaves behind that has held 5/s."""

DAMAGED = {
    "empty": b"",
    "cut off": b'{"version": 1, "paused_until": {"a": 17000',
    "no text": b"\xff\xfe\x00\x80",
    "a list": b"[]",
    "null": b"null",
    "no version": b'{"paused_until": {}}',
    "a later version": b'{"version": 3, "paused_until": {}, "learned": {}}',
    "a version of one and a half": b'{"version": 1.5, "paused_until": {}, "learned": {}}',
    "a version that is no whole number": b'{"version": 2.0, "paused_until": {}, "learned": {}}',
    "a switch for a version": b'{"version": true, "paused_until": {}, "learned": {}}',
    "nothing learned": b'{"version": 2, "paused_until": {}}',
    "a list of what was learned": b'{"version": 2, "paused_until": {}, "learned": []}',
    "a rate alone": b'{"version": 2, "paused_until": {}, "learned": {"a": 5}}',
    "no instant": LEARNED.replace(b'"at": 1700000000.0, ', b""),
    "a rate of nothing": LEARNED.replace(b'"rate": 5.0', b'"rate": 0'),
    "a negative silence": LEARNED.replace(b'"silence": 12.0', b'"silence": -1'),
    "a price that is no number": LEARNED.replace(b'"price": 8.0', b'"price": "8"'),
    "a price of null": LEARNED.replace(b'"price": 8.0', b'"price": null'),
    "a number too few": LEARNED.replace(b', "silence": 12.0', b""),
    "no pauses": b'{"version": 1}',
    "a list of pauses": b'{"version": 1, "paused_until": []}',
    "words": b'{"version": 1, "paused_until": {"a": "tomorrow"}}',
    "nothing": b'{"version": 1, "paused_until": {"a": null}}',
    "a switch": b'{"version": 1, "paused_until": {"a": true}}',
    "no number": b'{"version": 1, "paused_until": {"a": NaN}}',
    "infinity": b'{"version": 1, "paused_until": {"a": Infinity}}',
    "milliseconds": b'{"version": 1, "paused_until": {"a": 1700000000000}}',
    "more than a float holds": b'{"version": 1, "paused_until": {"a": 1' + 400 * b"0" + b"}}",
    "less than a float holds": b'{"version": 1, "paused_until": {"a": -1' + 400 * b"0" + b"}}",
    "one bad pause of two": b'{"version": 1, "paused_until": {"a": 1700000060, "b": {}}}',
    "too deep": 100_000 * b"[",
}


def memory(folder: Path | None, wall: float = MIDNIGHT) -> StateFile:
    """The file in that folder, at that time."""
    return StateFile(folder / FILE if folder else None, wall_clock=lambda: wall)


def paused(**seconds: float) -> Virtual:
    """A crawl whose slots were asked by their sites for so many seconds of silence."""
    crawl = Virtual()
    for key, wait in seconds.items():
        crawl.refuse(crawl.send(key), told=wait)
    return crawl


def recalled(folder: Path, wall: float) -> Virtual:
    """The next crawl of the job, begun at that time; its own clock has just started too."""
    crawl = Virtual()
    memory(folder, wall).recall(crawl.governor, crawl.now)
    return crawl


def test_a_pause_runs_on_in_the_next_run(tmp_path: Path) -> None:
    """Less the time that went by between the runs, on whatever clock each has."""
    crawl = paused(a=100.0, b=30.0)
    crawl.wait(10)
    memory(tmp_path).save(crawl.governor, crawl.now)
    after = recalled(tmp_path, MIDNIGHT + 15)
    assert after.held_until(Reason.PAUSED, "a") == pytest.approx(75.0, abs=0.001)
    assert after.held_until(Reason.PAUSED, "b") == pytest.approx(5.0, abs=0.001)
    assert after.why_held("c") is None


def test_a_pause_that_ended_between_the_runs_is_none(tmp_path: Path) -> None:
    """Its slot is not even made."""
    crawl = paused(a=100.0, b=30.0)
    memory(tmp_path).save(crawl.governor, crawl.now)
    after = recalled(tmp_path, MIDNIGHT + 30.5)
    assert "b" not in after.governor
    assert after.why_held("a") is Reason.PAUSED


def test_a_long_pause_is_parked_again(tmp_path: Path) -> None:
    """As it was the site that asked for it; the rest of it counts."""
    crawl = paused(a=7200.0)
    memory(tmp_path).save(crawl.governor, crawl.now)
    assert recalled(tmp_path, MIDNIGHT + 3000).why_held("a") is Reason.PARKED
    assert recalled(tmp_path, MIDNIGHT + 4000).why_held("a") is Reason.PAUSED


def test_a_spent_quota_is_waited_for_by_the_next_run(tmp_path: Path) -> None:
    """Nothing was refused, and nothing is."""
    crawl = Virtual()
    crawl.accept(crawl.send("a"), quotas=(Quota(0, 7200.0),))
    memory(tmp_path).save(crawl.governor, crawl.now)
    assert recalled(tmp_path, MIDNIGHT + 3000).held_until(Reason.PARKED, "a") == pytest.approx(
        4200.0, abs=0.001
    )


def test_a_pause_is_saved_again_by_a_run_that_did_not_see_its_end(tmp_path: Path) -> None:
    """At the same wall-clock instant."""
    crawl = paused(a=100.0)
    memory(tmp_path).save(crawl.governor, crawl.now)
    before = json.loads((tmp_path / FILE).read_text())
    after = Virtual()
    again = memory(tmp_path, MIDNIGHT + 15)
    again.recall(after.governor, after.now)
    again.save(after.governor, after.now)
    assert json.loads((tmp_path / FILE).read_text()) == before


def test_only_pauses_that_still_run_are_saved(tmp_path: Path) -> None:
    """What an earlier run has saved is gone."""
    crawl = paused(a=5.0, b=10.0)
    crawl.wait(6)
    crawl.fetch(key="c")
    memory(tmp_path).save(crawl.governor, crawl.now)
    assert list(saved(tmp_path)) == ["b"]
    crawl.wait(60)
    memory(tmp_path).save(crawl.governor, crawl.now)
    assert saved(tmp_path) == {}


def saved(folder: Path) -> dict[str, Any]:
    """What the file holds."""
    found: dict[str, Any] = json.loads((folder / FILE).read_text())["paused_until"]
    return found


def test_nothing_is_left_beside_the_file(tmp_path: Path) -> None:
    """It is written aside and moved into its place."""
    crawl = paused(a=100.0)
    memory(tmp_path).save(crawl.governor, crawl.now)
    assert [file.name for file in tmp_path.iterdir()] == [FILE]


@pytest.mark.parametrize("text", DAMAGED.values(), ids=list(DAMAGED))
def test_a_damaged_file_is_ignored_with_one_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, text: bytes
) -> None:
    """Naming it; the crawl begins as if there were none."""
    (tmp_path / FILE).write_bytes(text)
    with caplog.at_level(logging.INFO, "scrapy_adaptive"):
        after = recalled(tmp_path, MIDNIGHT)
    assert len(after.governor) == 0
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert str(tmp_path / FILE) in caplog.text


def test_a_file_that_cannot_be_read_is_ignored_with_one_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A folder stands in its place."""
    (tmp_path / FILE).mkdir()
    assert len(recalled(tmp_path, MIDNIGHT).governor) == 0
    assert [record.levelname for record in caplog.records] == ["WARNING"]


@pytest.mark.parametrize("obstacle", ["no folder", "a file", "a folder in its place"])
def test_a_file_that_cannot_be_written_is_one_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, obstacle: str
) -> None:
    """The crawl closes all the same, and leaves nothing."""
    folder = tmp_path / "job"
    if obstacle == "a file":
        folder.touch()
    elif obstacle == "a folder in its place":
        (folder / FILE).mkdir(parents=True)
    crawl = paused(a=100.0)
    memory(folder).save(crawl.governor, crawl.now)
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert str(folder / FILE) in caplog.text
    assert list(tmp_path.rglob("*.tmp")) == []


def test_a_job_without_a_file_says_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It is the first run."""
    assert len(recalled(tmp_path, MIDNIGHT).governor) == 0
    assert not caplog.records


def test_without_a_job_nothing_is_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Nor written, nor read where the process happens to be."""
    monkeypatch.chdir(tmp_path)
    crawl = paused(a=100.0)
    memory(None).save(crawl.governor, crawl.now)
    assert not list(tmp_path.iterdir())
    memory(tmp_path).save(crawl.governor, crawl.now)
    after = Virtual()
    memory(None).recall(after.governor, after.now)
    assert len(after.governor) == 0
    assert not caplog.records


FIVE = Learned(rate=5.0, refused_rate=5.1, price=8.0, silence=12.0)


def test_what_was_learned_is_the_next_crawls_first_guess(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The rate, not the second that the slot would begin with; the log tells its age."""
    (tmp_path / FILE).write_bytes(LEARNED)
    with caplog.at_level(logging.INFO, "scrapy_adaptive"):
        after = recalled(tmp_path, MIDNIGHT + 7200)
    assert after.governor.learned == {"a": FIVE}
    assert after.slot("a").ceiling.rate == 5.0
    assert after.slot("b").ceiling.rate != 5.0
    assert [record.getMessage() for record in caplog.records] == [
        f"1 slots begin with what was learned up to 2 h ago ({tmp_path / FILE})"
    ]


def test_a_guess_that_nobody_used_is_saved_again_and_gets_no_younger(tmp_path: Path) -> None:
    """Its instant stays; one that was learned anew has the new one."""
    (tmp_path / FILE).write_bytes(LEARNED)
    after = Virtual(ceiling="hold")
    again = memory(tmp_path, MIDNIGHT + 100)
    again.recall(after.governor, after.now)
    again.save(after.governor, after.now)
    assert json.loads((tmp_path / FILE).read_bytes()) == json.loads(LEARNED)


def test_a_stale_guess_is_forgotten(tmp_path: Path) -> None:
    """After a week; a clock that went back by more is no better."""
    (tmp_path / FILE).write_bytes(LEARNED)
    assert recalled(tmp_path, MIDNIGHT + STALE_AFTER - 1).governor.learned
    assert not recalled(tmp_path, MIDNIGHT + STALE_AFTER + 1).governor.learned
    assert not recalled(tmp_path, MIDNIGHT - STALE_AFTER - 1).governor.learned


def test_a_file_of_the_first_version_has_its_pauses(tmp_path: Path) -> None:
    """It knew nothing of rates."""
    (tmp_path / FILE).write_text(f'{{"version": 1, "paused_until": {{"a": {MIDNIGHT + 60}}}}}')
    assert recalled(tmp_path, MIDNIGHT).why_held("a") is Reason.PAUSED


def test_a_site_that_was_never_refused_is_remembered_too(tmp_path: Path) -> None:
    """By the rate that was reached: the next crawl need not begin with one a second."""
    crawl = Virtual(ceiling="hold")
    for _ in range(200):
        crawl.wait_out("a")
        crawl.accept(crawl.send("a"), latency=0.01)
    rate = crawl.slot("a").ceiling.rate
    memory(tmp_path).save(crawl.governor, crawl.now)
    learned = recalled(tmp_path, MIDNIGHT + 1).governor.learned["a"]
    assert learned.refused_rate == float("inf")
    assert 1.0 < learned.rate <= rate


@pytest.mark.parametrize("neighbour", ["crawl.tmp", "crawl.json.tmp", ".crawl.json.tmp"])
def test_what_lies_beside_the_file_is_left_alone(tmp_path: Path, neighbour: str) -> None:
    """Also under the name that another program would take for a file not yet whole."""
    (tmp_path / neighbour).write_text("mine")
    crawl = Virtual()
    path = tmp_path / "crawl.json"
    path.write_text("{}")
    path.chmod(0o640)
    for _ in range(2):
        StateFile(path).save(crawl.governor, crawl.now)
    assert (tmp_path / neighbour).read_text() == "mine"
    assert sorted(each.name for each in tmp_path.iterdir()) == sorted(["crawl.json", neighbour])
    assert json.loads(path.read_text())["version"] == 2
    assert path.stat().st_mode & 0o777 == 0o640
