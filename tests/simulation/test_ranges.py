"""Models are refused where they are made, if a number makes no sense."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest

from scrapy_adaptive.models import (
    BanServer,
    BucketServer,
    CapServer,
    CounterServer,
    DeadPagesServer,
    HiddenBackendServer,
    LogServer,
    NestedServer,
    NoisyServer,
    PlacesServer,
    QueueServer,
    SilentServer,
    SlowServer,
    WindowServer,
    WorkersServer,
    constant,
    service,
    stepped,
    vanishing,
    waving,
)
from scrapy_adaptive.simulate import BusyMachine, network, pages

RATE = constant(10.0)
INNER = BucketServer(RATE, 5)
CHANCE = random.Random(1)
FIXED = service("fixed", 0.1, CHANCE)

WRONG: dict[str, Callable[[], object]] = {
    "rate = -1.0": lambda: constant(-1.0),
    "rate = nan": lambda: constant(math.nan),
    "factor = -1.0": lambda: stepped(RATE, -1.0, 10.0),
    "share = 3.0": lambda: waving(RATE, 3.0),
    "period = 0": lambda: waving(RATE, 0.5, 0),
    "start = 5.0, end = 2.0": lambda: vanishing(RATE, 5.0, 2.0),
    "rate = -2": lambda: BucketServer(-2, 5),
    "rate = None": lambda: CapServer(None, 0.1),  # type: ignore[arg-type]
    "rate = '3'": lambda: stepped("3", 0.5, 1.0),  # type: ignore[arg-type]
    "burst = '5'": lambda: BucketServer(RATE, "5"),  # type: ignore[arg-type]
    "period = 0.0": lambda: WindowServer(RATE, 0.0),
    "period = -1.0": lambda: LogServer(RATE, -1.0),
    "period = inf": lambda: CounterServer(RATE, math.inf),
    "seconds = -1.0": lambda: BanServer(INNER, -1.0),
    "service = -0.25": lambda: CapServer(RATE, -0.25),
    "workers = 0: ": lambda: QueueServer(0, 0.1, RATE),
    "places = 0: ": lambda: PlacesServer(0, FIXED),
    "workers = 1.5": lambda: WorkersServer(1.5, FIXED),  # type: ignore[arg-type]
    "refusal = -1.0": lambda: SlowServer(INNER, FIXED, -1.0),
    "limits: allowed is one or more": lambda: NestedServer([]),
    "every = 1": lambda: HiddenBackendServer(INNER, INNER, 1),
    "every = 0": lambda: DeadPagesServer(INNER, 0),
    "share = 2.0": lambda: NoisyServer(INNER, 2.0, CHANCE),
    "seconds = nan": lambda: SilentServer(INNER, 0.5, math.nan, CHANCE),
    "service = 'x': allowed is fixed": lambda: service("x", 1.0, CHANCE),
    "mean = 0.0": lambda: service("fixed", 0.0, CHANCE),
    "no network 'x': allowed is constant": lambda: network("x", CHANCE),
    "mean = 0: ": lambda: network("jittered", CHANCE, 0),
    "kinds = {}": lambda: pages({}, CHANCE),
    "work = inf": lambda: BusyMachine(CHANCE, work=math.inf, stall=0.01, spell=10.0),
    "scatter = -1.0": lambda: BusyMachine(CHANCE, work=1.0, stall=1.0, spell=1.0, scatter=-1.0),
}


@pytest.mark.parametrize(("words", "make"), WRONG.items())
def test_a_number_that_makes_no_sense_is_named(words: str, make: Callable[[], object]) -> None:
    with pytest.raises(ValueError, match="allowed") as caught:
        make()
    assert words in str(caught.value)


def test_whole_numbers_may_be_written_as_floats() -> None:
    assert WorkersServer(2.0, FIXED).capacity(0.0) == pytest.approx(20.0)  # type: ignore[arg-type]


def test_a_number_is_a_rate_that_is_the_same_at_all_times() -> None:
    assert BucketServer(2, 5).capacity(9.0) == 2
    assert LogServer(30.0, 60.0).capacity(9.0) == 0.5
    assert QueueServer(4, 0.1, 0.5).capacity(9.0) == pytest.approx(20.0)
    assert stepped(4, 0.5, 10.0)(10.0) == 2.0
