"""The numbers of the load control."""

from __future__ import annotations

from typing import Any

import pytest

from docsite.load_rules import LoadRules, LoadRulesError


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("crawler_interval", -1.0),
        ("any_crawler_interval", float("nan")),
        ("stack_window", float("inf")),
        ("sleep", "15"),
        ("stack_hits", 0),
        ("max_running", 1.5),
        ("max_running", True),
        ("max_clients", 0),
        ("max_sleepers", -1),
        ("service_paused", "no"),
        ("known_crawlers", "Scrapy"),
        ("known_crawlers", ("Scrapy", "")),
    ],
)
def test_a_number_that_makes_no_sense_is_refused_by_name(name: str, value: Any) -> None:
    """The message names the rule, what is allowed and the value."""
    with pytest.raises(LoadRulesError, match=rf"^{name} must be .*, not "):
        LoadRules(**{name: value})


def test_a_hundredfold_speed_makes_thirty_seconds_three_tenths() -> None:
    """Every time is divided, no count is."""
    rules = LoadRules().sped_up(100)
    assert rules.crawler_interval == pytest.approx(0.3)
    assert rules.any_crawler_interval == pytest.approx(0.02)
    assert rules.stack_window == pytest.approx(0.15)
    assert rules.sleep == pytest.approx(0.15)
    assert (rules.stack_hits, rules.max_running, rules.max_sleepers) == (10, 15, 10)


@pytest.mark.parametrize("speed", [0, -1, float("nan"), float("inf"), 1e-320])
def test_a_speed_that_gives_no_times_is_refused(speed: float) -> None:
    """Also one so small that the times would be infinite."""
    with pytest.raises(LoadRulesError):
        LoadRules().sped_up(speed)
