"""The simulation as who models a site uses it: the example of the how-to, and what is refused."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

from scrapy_adaptive.core.headers.parse import Quota
from scrapy_adaptive.simulate import (
    ACCEPTED,
    REFUSED,
    Hints,
    Outcome,
    Page,
    Reply,
    read_spec,
    simulate,
)

EXAMPLES = Path(__file__).parents[2] / "docs/examples"
EXAMPLE = EXAMPLES / "simulated_site.py"


class Steady:
    """A site without a limit, that takes a tenth of a second."""

    def on_arrival(self, now: float, page: Page) -> Reply:
        """Serve it."""
        return Reply(ACCEPTED.outcome, service=0.1)

    def capacity(self, now: float) -> float:
        """As much as anybody asks for."""
        return float("inf")


def test_the_example_of_the_how_to_finds_the_limit_by_night_and_by_day(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It prints three numbers, and draws a picture."""
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    served, refused, pause = capsys.readouterr().out.splitlines()
    assert float(served.split()[1].rstrip("%")) > 90.0
    assert float(refused.split()[1].rstrip("%")) < 1.0
    assert float(pause.split()[2]) < 120.0
    assert (tmp_path / "office-hours.png").stat().st_size > 10_000


def test_a_crawl_from_its_parts_stands_still_and_goes_on(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It prints two numbers; the window allows half of what the bucket does."""
    runpy.run_path(str(EXAMPLES / "simulated_parts.py"), run_name="__main__")
    served, refused = capsys.readouterr().out.splitlines()
    assert 90.0 < float(served.split()[1].rstrip("%")) <= 100.0
    assert float(refused.split()[1].rstrip("%")) < 1.0


def test_a_site_without_a_limit_has_no_share_of_it_and_a_user_may_set_the_pace() -> None:
    """One page each half second, as DOWNLOAD_DELAY says."""
    crawl = simulate(Steady(), 60.0, {"DOWNLOAD_DELAY": "0.5"})
    assert crawl.goodput is None
    assert crawl.refused == 0.0
    assert 110 <= crawl.readings.whole.accepted_count <= 120


class Answering:
    """A site that answers each request with what it was given."""

    def __init__(self, reply: object) -> None:
        self._reply = reply

    def on_arrival(self, now: float, page: Page) -> Any:
        """Whatever that is."""
        return self._reply

    def capacity(self, now: float) -> float:
        """Ten a second."""
        return 10.0


class Closed:
    """A site that serves ten a second in every fourth half minute, and refuses all else."""

    def on_arrival(self, now: float, page: Page) -> Reply:
        """Serve, where it is open."""
        return ACCEPTED if self.capacity(now) else REFUSED

    def capacity(self, now: float) -> float:
        """Nothing most of the time."""
        return 10.0 if now % 120.0 < 30.0 else 0.0


@pytest.mark.parametrize(
    "reply",
    [
        None,
        True,
        Outcome.ACCEPTED,
        Reply("accepted"),  # type: ignore[arg-type]
        Reply(Outcome.ACCEPTED, service=-1.0),
        Reply(Outcome.ACCEPTED, service=float("nan")),
        Reply(Outcome.ACCEPTED, service=None),  # type: ignore[arg-type]
        Reply(Outcome.REFUSED, hints={"retry_after": 5.0}),  # type: ignore[arg-type]
        Reply(Outcome.REFUSED, hints=Hints(retry_after="5")),  # type: ignore[arg-type]
        Reply(Outcome.REFUSED, hints=Hints(retry_after=-5.0)),
        Reply(Outcome.REFUSED, hints=Hints(retry_after=float("nan"))),
        Reply(Outcome.REFUSED, hints=Hints(quotas=None)),  # type: ignore[arg-type]
        Reply(Outcome.REFUSED, hints=Hints(quotas=(5,))),  # type: ignore[arg-type]
        Reply(Outcome.REFUSED, hints=Hints(quotas=(Quota(0, float("inf")),))),
    ],
)
def test_a_reply_that_is_none_is_named_with_the_class_that_gave_it(reply: object) -> None:
    with pytest.raises(ValueError, match=r"Answering\.on_arrival has returned"):
        simulate(Answering(reply), 60.0)


@pytest.mark.parametrize("limit", [None, "10", -1.0, float("nan")])
def test_a_capacity_that_is_none_is_named_with_the_class_that_gave_it(
    limit: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Steady, "capacity", lambda *_: limit)
    with pytest.raises(ValueError, match=rf"Steady\.capacity has returned {limit!r}"):
        simulate(Steady(), 60.0)


@pytest.mark.parametrize(
    ("server", "words"),
    [
        (None, "server = None"),
        (Steady, "an object with methods on_arrival and capacity"),
        (read_spec("bucket:50/20", 1), "returned a Site: give its server"),
    ],
)
def test_what_is_no_site_is_named(server: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        simulate(server, 60.0)


def test_what_is_never_answered_is_no_refusal() -> None:
    crawl = simulate(Answering(Reply(Outcome.FAILED, service=3.0, silent=True)), 60.0)
    assert crawl.refused == 0.0
    assert crawl.readings.whole.failed_count > 0


def test_a_site_may_be_closed_for_most_of_the_time(tmp_path: Path) -> None:
    """And a crawl that ends where a step of the drawing does can be drawn."""
    pytest.importorskip("matplotlib")
    crawl = simulate(Closed(), 38 * 60.0)
    assert crawl.goodput
    for name in ("crawl.png", "crawl.html"):
        crawl.draw(tmp_path / name)
        assert (tmp_path / name).stat().st_size > 10_000


def test_headers_of_a_model_can_be_told() -> None:
    """As the how-to has it."""
    told = Reply(Outcome.REFUSED, hints=Hints(retry_after=600.0))
    assert simulate(Answering(told), 300.0).readings.whole.refused_count == 1


def test_the_same_seed_is_the_same_crawl() -> None:
    """Another seed is another one."""
    crawls = [simulate(Steady(), 60.0, round_trip="jittered", seed=seed) for seed in (1, 1, 2)]
    assert crawls[0].timeline == crawls[1].timeline
    assert crawls[0].timeline != crawls[2].timeline


@pytest.mark.parametrize(
    ("name", "given", "words"),
    [
        ("seconds", {"seconds": 0.0}, "seconds = 0.0"),
        ("seconds in words", {"seconds": "60"}, "seconds = '60'"),
        ("a machine", {"machine": 3}, "machine = 3"),
        ("no settings", {"settings": ["DOWNLOAD_DELAY"]}, "settings = "),
        ("a setting that changes nothing", {"settings": {"RETRY_TIMES": 3}}, "RETRY_TIMES"),
        ("one of ours", {"settings": {"ADAPTIVE_RULES_URL": "sqlite:///x"}}, "ADAPTIVE_RULES_URL"),
        ("whom requests are sent as", {"settings": {"ADAPTIVE_AGENTS": {}}}, "ADAPTIVE_AGENTS"),
        ("how often one is refused", {"settings": {"ADAPTIVE_MAX_REFUSALS": 1}}, "MAX_REFUSALS"),
        ("hosts in a time", {"settings": {"ADAPTIVE_GLOBAL_WINDOW": 1}}, "GLOBAL_WINDOW"),
        (
            "a rule for one of them",
            {"settings": {"ADAPTIVE_RULES": {"site": {"rate": 1, "identity": "agent=*"}}}},
            r"the identity agent=\* changes nothing",
        ),
        (
            "a rule for another host",
            {"settings": {"ADAPTIVE_RULES": {"site": {"rate": 1}, "a.org": {"rate": 1}}}},
            "a rule for a.org changes nothing .* its host is 'site', its pages are page",
        ),
        (
            "a rule for other pages",
            {
                "settings": {"ADAPTIVE_RULES": {"*": {"rate": 1, "uri": "/search"}}},
                "kinds": {"/item": 1.0, "/": 2.0},
            },
            "a rule for any host /search changes nothing .* its pages are /item, /$",
        ),
        ("no kinds", {"kinds": {}}, "each with its share"),
        ("kinds without shares", {"kinds": ["page"]}, "each with its share"),
        ("kinds of no page", {"kinds": {"page": 0.0}}, "each with its share"),
        ("a share in words", {"kinds": {"page": "1"}}, "share of page = '1'"),
        ("a share below 0", {"kinds": {"page": -1.0, "search": 2.0}}, "share of page = -1.0"),
        ("a network", {"round_trip": "slow"}, "constant, jittered, heavy-tailed"),
    ],
)
def test_what_is_not_allowed_is_named(name: str, given: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        simulate(Steady(), **{"seconds": 10.0, **given})  # type: ignore[arg-type]
