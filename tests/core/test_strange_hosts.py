"""A host of which nobody knows the pace: it answers, but has served nothing yet."""

from __future__ import annotations

import math

from scrapy_adaptive.core.slot_config import Limits
from scrapy_adaptive.core.types import Answer, Outcome
from tests.core.virtual import Virtual

QUICK = Answer(Outcome.FAILED, latency=0.1, may_lower=False)
"""A 500 after a tenth of a second."""


def delay_after(count: int, **limits: object) -> float:
    """Seconds between requests once so many were answered with an error."""
    virtual = Virtual(Limits(start_delay=1.0, **limits))  # type: ignore[arg-type]
    for _ in range(count):
        virtual.wait_out()
        virtual.governor.on_answer(virtual.send(), QUICK, virtual.now)
    return virtual.slot().delay


def test_a_host_of_errors_alone_is_asked_for_one_page_after_the_other() -> None:
    """(1 + .1) / 2 = .55, (.55 + .1) / 2 = .325; in the end its latency, whatever N is."""
    for wanted in (1.0, 8.0, math.inf):
        limits = {"target_concurrency": wanted, "only_200_lowers": False}
        assert abs(delay_after(2, **limits) - 0.325) < 1e-9
        assert abs(delay_after(40, **limits) - 0.1) < 1e-9


def test_who_asks_for_autothrottles_law_gets_its_fourth_rule() -> None:
    """An error lowers nothing."""
    assert delay_after(40, target_concurrency=8.0) == 1.0
