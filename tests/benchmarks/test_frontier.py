"""What the benchmarks of frontiers make of what they measured."""

from __future__ import annotations

import math
import time

from benchmarks.frontier_cost import STEP, Gauge
from benchmarks.frontier_workers import longest_gap
from docsite.hits import Hit


def test_a_long_stall_of_the_loop_counts_in_full() -> None:
    gauge = Gauge(None)
    gauge.last = time.monotonic() - 10.0 - STEP
    gauge.tick()
    assert gauge.lags[0] >= 10.0


def test_where_nobody_goes_on_after_a_kill_the_gap_has_no_end() -> None:
    hits = [Hit(at, at, 200, "/") for at in (1.0, 2.0, 9.0)]
    assert longest_gap(hits, 5.0, 10.0) == 7.0
    assert longest_gap(hits, 9.5, 10.0) == math.inf
