"""Numbers as people say them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime, tzinfo

import pytest

from scrapy_adaptive.report import units

DAY = 86_400.0


@pytest.fixture
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Clocks that are set back by an hour at the end of October."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
        time.tzset()
        yield
    time.tzset()


def test_a_wait_over_a_change_of_clocks_ends_when_clocks_will_say_so(
    berlin: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From noon of 24 October 2026, summer time, 24 hours are up at eleven of the next day."""

    class Noon(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Noon:
            return cls(2026, 10, 24, 12)

    monkeypatch.setattr(units, "datetime", Noon)
    assert units.clock_time(0.0) == "2026-10-24 12:00:00"
    assert units.clock_time(DAY) == "2026-10-25 11:00:00"
