"""A crawler that is late, because its machine has other things to do."""

import random

import pytest

from scrapy_adaptive.simulate import BusyMachine, simulate
from scrapy_adaptive.simulation.spec import read_spec


def machine(seed: int, *, stall: float = 0.003, spell: float = 10.0) -> BusyMachine:
    """Five milliseconds of work, then a stall."""
    return BusyMachine(random.Random(seed), work=0.005, stall=stall, spell=spell)


def test_what_is_due_in_a_stall_is_done_at_its_end() -> None:
    """Whoever asks, in whatever order: what is due later is not done sooner."""
    awake = machine(1, stall=0.1)
    later = [awake(0.001 * instant) for instant in reversed(range(10_000))]
    sooner = [awake(0.001 * instant) for instant in range(10_000)]
    assert sooner == later[::-1] == sorted(sooner)
    assert all(done >= 0.001 * due for due, done in enumerate(sooner))
    assert sum(done > 0.001 * due for due, done in enumerate(sooner)) > 5000


@pytest.mark.parametrize("number", ["work", "stall", "spell"])
def test_a_number_that_is_not_allowed_is_named(number: str) -> None:
    given = {"work": 1.0, "stall": 1.0, "spell": 1.0, number: 0.0}
    with pytest.raises(ValueError, match=f"{number} = 0.0"):
        BusyMachine(random.Random(1), **given)


@pytest.mark.parametrize("seed", [1, 3, 7])
def test_a_limit_is_not_taken_for_noise_because_the_crawler_is_late(seed: int) -> None:
    """A faster rate that was not reached proves nothing: .35 to .57 % were refused once."""
    site = read_spec("bucket:50/20", seed)
    crawl = simulate(
        site.server,
        600.0,
        {"ADAPTIVE_TARGET_CONCURRENCY": "8"},
        machine=machine(seed, spell=3.0),
        seed=seed,
    )
    assert crawl.refused < 0.0018
