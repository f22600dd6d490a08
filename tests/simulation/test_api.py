"""The simulation as who models a site uses it: the example of the how-to, and what is refused."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from scrapy_adaptive.simulate import ACCEPTED, Page, Reply, simulate

EXAMPLE = Path(__file__).parents[2] / "docs/examples/simulated_site.py"


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


def test_a_site_without_a_limit_has_no_share_of_it_and_a_user_may_set_the_pace() -> None:
    """One page each half second, as DOWNLOAD_DELAY says."""
    crawl = simulate(Steady(), 60.0, {"DOWNLOAD_DELAY": "0.5"})
    assert crawl.goodput is None
    assert crawl.refused == 0.0
    assert 110 <= crawl.readings.whole.accepted_count <= 120


def test_the_same_seed_is_the_same_crawl() -> None:
    """Another seed is another one."""
    crawls = [simulate(Steady(), 60.0, round_trip="jittered", seed=seed) for seed in (1, 1, 2)]
    assert crawls[0].timeline == crawls[1].timeline
    assert crawls[0].timeline != crawls[2].timeline


@pytest.mark.parametrize(
    ("name", "given", "words"),
    [
        ("seconds", {"seconds": 0.0}, "seconds = 0.0"),
        ("a setting that changes nothing", {"settings": {"RETRY_TIMES": 3}}, "RETRY_TIMES"),
        ("a network", {"round_trip": "slow"}, "constant, jittered, heavy-tailed"),
    ],
)
def test_what_is_not_allowed_is_named(name: str, given: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        simulate(Steady(), **{"seconds": 10.0, **given})  # type: ignore[arg-type]
