"""What a job remembers of its slots from one run to the next."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from scrapy_adaptive.adapters.settings import STATE_FILE as FILE
from scrapy_adaptive.adapters.state_file import StateFile
from scrapy_adaptive.core.headers.parse import Quota
from scrapy_adaptive.core.slot_state import STALE_AFTER
from scrapy_adaptive.core.state.reading import AFTER_DAMAGE
from scrapy_adaptive.core.types import Reason
from tests.core.virtual import Virtual

MIDNIGHT = 1_700_000_000.0
"""Wall-clock seconds at which the first run closes."""

LEARNED = (
    b'{"version": 2, "paused_until": {}, "learned": {"a": {"at": 1700000000.0, "rate": 5.0, '
    b'"refused_rate": 5.1, "concurrency": null, "price": 8.0, "silence": 12.0}}}'
)
"""What a crawl of the version before leaves behind that has held 5/s."""

DAMAGED = {
    "empty": b"",
    "cut off": b'{"version": 1, "paused_until": {"a": 17000',
    "no text": b"\xff\xfe\x00\x80",
    "a list": b"[]",
    "null": b"null",
    "no version": b'{"paused_until": {}}',
    "a later version": b'{"version": 4, "at": 1700000000.0, "slots": {}}',
    "no slots": b'{"version": 3, "at": 1700000000.0}',
    "no instant of its own": b'{"version": 3, "slots": {}}',
    "a slot that is a number": b'{"version": 3, "at": 1700000000.0, "slots": {"a": 5}}',
    "a pause below nothing": b'{"version": 3, "at": 1700000000.0, "slots": {"a": {"pause": -1}}}',
    "numbers that are a list": b'{"version": 3, "at": 1.7e9, "slots": {"a": {"learned": []}}}',
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
        crawl.refuse(crawl.send(key), announced=wait)
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


def test_a_long_pause_is_saved_when_it_begins(tmp_path: Path) -> None:
    """The next one within five seconds is saved after them; a short one at the end alone."""
    file, crawl = memory(tmp_path), paused(a=60.0)
    file.on_paused(crawl.governor, crawl.now, 1.0)
    assert not (tmp_path / FILE).exists()
    file.on_paused(crawl.governor, crawl.now, 60.0)
    assert saved(tmp_path).keys() == {"a"}
    crawl.refuse(crawl.send("b"), announced=60.0)
    file.on_paused(crawl.governor, crawl.now, 60.0)
    file.tick(crawl.governor, crawl.now + 4.9)
    assert saved(tmp_path).keys() == {"a"}
    file.tick(crawl.governor, crawl.now + 5.1)
    assert saved(tmp_path).keys() == {"a", "b"}


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
    after = Virtual()
    again = memory(tmp_path, MIDNIGHT + 15)
    again.recall(after.governor, after.now)
    again.save(after.governor, after.now)
    assert recalled(tmp_path, MIDNIGHT + 20).held_until(Reason.PAUSED) == pytest.approx(80.0)


def test_only_pauses_that_still_run_are_saved(tmp_path: Path) -> None:
    """What an earlier run has saved is gone."""
    crawl = paused(a=5.0, b=10.0)
    crawl.wait(6)
    crawl.fetch(key="c")
    memory(tmp_path).save(crawl.governor, crawl.now)
    assert [key for key, state in saved(tmp_path).items() if "pause" in state] == ["b"]
    crawl.wait(60)
    memory(tmp_path).save(crawl.governor, crawl.now)
    assert not any("pause" in state for state in saved(tmp_path).values())


def saved(folder: Path) -> dict[str, Any]:
    """What the file holds."""
    found: dict[str, Any] = json.loads((folder / FILE).read_text())["slots"]
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


def rate(crawl: Virtual, key: str = "a") -> float:
    """What the slot begins with."""
    return crawl.slot(key).ceiling.rate


def test_what_the_version_before_had_learned_is_the_next_crawls_first_guess(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The rate, not the second that the slot would begin with; the log tells its age."""
    (tmp_path / FILE).write_bytes(LEARNED)
    with caplog.at_level(logging.INFO, "scrapy_adaptive"):
        after = recalled(tmp_path, MIDNIGHT + 7200)
    assert rate(after) == 5.0
    assert rate(after, "b") != 5.0
    assert [record.getMessage() for record in caplog.records] == [
        f"1 slots begin with what was learned up to 2 h ago ({tmp_path / FILE})"
    ]


def test_a_guess_that_nobody_used_is_saved_again_and_gets_no_younger(tmp_path: Path) -> None:
    """Six days later it is used; eight days later it is not, whoever has saved it meanwhile."""
    (tmp_path / FILE).write_bytes(LEARNED)
    day = 86_400.0
    again, between = memory(tmp_path, MIDNIGHT + 5 * day), Virtual()
    again.recall(between.governor, between.now)
    again.save(between.governor, between.now)
    assert rate(recalled(tmp_path, MIDNIGHT + 6 * day)) == 5.0
    assert rate(recalled(tmp_path, MIDNIGHT + 8 * day)) != 5.0


def test_a_stale_guess_is_forgotten(tmp_path: Path) -> None:
    """After a week."""
    (tmp_path / FILE).write_bytes(LEARNED)
    assert rate(recalled(tmp_path, MIDNIGHT + STALE_AFTER - 1)) == 5.0
    assert rate(recalled(tmp_path, MIDNIGHT + STALE_AFTER + 1)) != 5.0


@pytest.mark.parametrize(
    "text",
    [
        f'{{"version": 1, "paused_until": {{"a": {MIDNIGHT + 9e8}}}}}',
        f'{{"version": 3, "at": {MIDNIGHT}, "slots": {{"a": {{"pause": 9e8, "asked": true}}}}}}',
    ],
    ids=["the first version", "this version"],
)
def test_a_pause_of_thirty_years_does_not_park_every_later_run(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, text: str
) -> None:
    """No site may ask for so long: a day is left of it, and one warning says so."""
    (tmp_path / FILE).write_text(text)
    after = recalled(tmp_path, MIDNIGHT)
    assert after.held_until(Reason.PARKED) == AFTER_DAMAGE
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    memory(tmp_path).save(after.governor, after.now)
    assert recalled(tmp_path, MIDNIGHT + AFTER_DAMAGE + 1).blocked() is None


def test_what_is_wrong_with_one_slot_is_one_warning_and_the_others_are_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It names the first."""
    slots = {"a": {"pause": "soon"}, "b": {"pause": 60.0}, "c": {"learned": 5}}
    content = {"version": 3, "at": MIDNIGHT, "slots": slots}
    (tmp_path / FILE).write_text(json.dumps(content))
    after = recalled(tmp_path, MIDNIGHT)
    assert after.held_until(Reason.PAUSED, "b") == 60.0
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "2 slots" in caplog.text
    assert "a: its pause is 'soon'" in caplog.text


def test_a_wall_clock_that_was_set_back_adds_nothing_to_a_pause(tmp_path: Path) -> None:
    """As long as it was when the crawl closed, and no longer."""
    crawl = paused(a=100.0)
    memory(tmp_path).save(crawl.governor, crawl.now)
    after = recalled(tmp_path, MIDNIGHT - 365 * 86_400.0)
    assert after.held_until(Reason.PAUSED) == pytest.approx(100.0)


def test_a_file_of_the_first_version_has_its_pauses(tmp_path: Path) -> None:
    """It knew nothing of rates."""
    (tmp_path / FILE).write_text(f'{{"version": 1, "paused_until": {{"a": {MIDNIGHT + 60}}}}}')
    assert recalled(tmp_path, MIDNIGHT).why_held("a") is Reason.PAUSED


def test_a_site_that_was_never_refused_is_remembered_too(tmp_path: Path) -> None:
    """By the rate that was reached, which another law begins with."""
    crawl = Virtual(ceiling="hold")
    for _ in range(200):
        crawl.wait_out("a")
        crawl.accept(crawl.send("a"), latency=0.01)
    memory(tmp_path).save(crawl.governor, crawl.now)
    assert 1.0 < rate(recalled(tmp_path, MIDNIGHT + 1)) <= rate(crawl)


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
    assert json.loads(path.read_text())["version"] == 3
    assert path.stat().st_mode & 0o777 == 0o640
