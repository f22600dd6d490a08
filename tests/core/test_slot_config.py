"""The user's numbers are refused when they are made, by name and value."""

from dataclasses import FrozenInstanceError, fields
from typing import Any

import pytest

from scrapy_adaptive.core.slot_config import Limits


def limits_with(name: str, value: Any) -> Limits:
    """Limits of which one number is not the default."""
    return Limits(**{name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("start_delay", -0.001),
        ("max_delay", 0.0),
        ("max_delay", -1.0),
        ("target_concurrency", 0.0),
        ("target_concurrency", -2.0),
        ("burst", 0.999),
        ("backoff_ratio", 0.0),
        ("backoff_ratio", 1.0),
        ("backoff_ratio", 1.5),
        ("floor", -1.0),
        ("concurrency", 0),
        ("concurrency", -8),
        ("max_pause", -1.0),
    ],
)
def test_a_number_out_of_its_range_is_refused_by_name_and_value(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=rf"^{name} = {value}: out of range$"):
        limits_with(name, value)


FINITE = [field.name for field in fields(Limits) if field.name != "target_concurrency"]


@pytest.mark.parametrize("name", FINITE)
@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_a_number_that_is_not_finite_is_refused(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=rf"^{name} = {value}: not a finite number$"):
        limits_with(name, value)


def test_the_target_concurrency_alone_may_be_infinite() -> None:
    """Latency itself then finds how many may be in flight."""
    assert Limits(target_concurrency=float("inf")).target_concurrency == float("inf")


@pytest.mark.parametrize("value", [float("nan"), float("-inf")])
def test_a_target_concurrency_that_is_no_number_or_negative_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match=rf"^target_concurrency = {value}: "):
        limits_with("target_concurrency", value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("start_delay", 0.0),
        ("max_delay", 0.001),
        ("target_concurrency", 0.01),
        ("burst", 1),
        ("backoff_ratio", 0.999),
        ("floor", 0.0),
        ("concurrency", 1),
        ("max_pause", 0.0),
    ],
)
def test_the_ends_of_the_ranges_are_allowed(name: str, value: float) -> None:
    assert getattr(limits_with(name, value), name) == value


def test_the_defaults_are_those_of_the_settings_page() -> None:
    assert Limits() == Limits(
        start_delay=1.0,
        max_delay=60.0,
        target_concurrency=1.0,
        burst=1.0,
        backoff_ratio=0.5,
        floor=0.0,
        concurrency=8,
    )


def test_limits_do_not_change_once_checked() -> None:
    with pytest.raises(FrozenInstanceError):
        Limits().concurrency = 0  # type: ignore[misc]
