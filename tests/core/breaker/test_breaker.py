"""The breaker's table says something for everything, and only a probe closes it."""

from itertools import product

import pytest

from scrapy_adaptive.core.breaker.breaker import TABLE, Phase, Signal


def test_the_table_is_total_over_phase_and_signal() -> None:
    assert set(TABLE) == set(product(Phase, Signal))


def test_the_probes_acceptance_closes_the_breaker_or_that_nobody_is_there() -> None:
    closing = {move for move, after in TABLE.items() if after is Phase.CLOSED is not move[0]}
    gone = {(phase, Signal.GONE) for phase in (Phase.OPEN, Phase.HALF_OPEN)}
    assert closing == {(Phase.HALF_OPEN, Signal.PROBE_ACCEPTED)} | gone


@pytest.mark.parametrize("phase", Phase)
def test_a_refusal_opens_it_from_every_phase(phase: Phase) -> None:
    assert TABLE[phase, Signal.REFUSAL] is Phase.OPEN


def test_a_closed_breaker_only_minds_refusals() -> None:
    moving = {signal for signal in Signal if TABLE[Phase.CLOSED, signal] is not Phase.CLOSED}
    assert moving == {Signal.REFUSAL}


def test_an_open_breaker_is_left_when_all_is_clear_or_nobody_is_there() -> None:
    moving = {signal for signal in Signal if TABLE[Phase.OPEN, signal] is not Phase.OPEN}
    assert moving == {Signal.CLEAR, Signal.GONE}
    assert TABLE[Phase.OPEN, Signal.CLEAR] is Phase.HALF_OPEN


def test_an_open_breaker_is_never_closed_without_a_probe() -> None:
    """An acceptance that was in flight when the pause began is no answer to the pause."""
    assert TABLE[Phase.OPEN, Signal.PROBE_ACCEPTED] is Phase.OPEN


def test_every_phase_is_reached_from_closed() -> None:
    reached = {Phase.CLOSED}
    for _ in Phase:
        reached |= {after for (before, _), after in TABLE.items() if before in reached}
    assert reached == set(Phase)
