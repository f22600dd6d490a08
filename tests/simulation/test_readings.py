"""What is read from a timeline, by numbers worked by hand."""

from __future__ import annotations

import pytest

from scrapy_adaptive.simulation.crawl import Timeline
from scrapy_adaptive.simulation.readings import longest_pause, part, reached_at, read
from tests.simulation.hits import accepts, paced, server_of


def test_goodput_is_what_was_accepted_beside_what_was_allowed() -> None:
    """40 pages in 10 s at 5/s allowed; 10 refused of 50 hits."""
    timeline = Timeline(accepted=paced(4.0, 10.0), refused=paced(1.0, 10.0))
    whole = part(timeline, server_of("bucket:5/1"), 0.0, 10.0)
    assert whole.goodput_ratio == pytest.approx(0.8)
    assert whole.refused_ratio == pytest.approx(0.2)


def test_time_without_a_limit_is_left_out() -> None:
    """10 s with a limit of 5/s and 4/s accepted; then 10 s of 100/s that do not count."""
    timeline = Timeline(accepted=[*paced(4.0, 10.0), *paced(100.0, 10.0, start=10.0)])
    server = server_of("bucket:5/1,vanish=10-20")
    assert part(timeline, server, 0.0, 20.0).goodput_ratio == pytest.approx(0.8)
    assert part(timeline, server, 10.0, 20.0).goodput_ratio is None


def test_the_limit_is_reached_where_a_window_of_five_seconds_is_full() -> None:
    timeline = Timeline(accepted=[*paced(5.0, 30.0), *paced(50.0, 30.0, start=30.0)])
    at = reached_at(timeline, server_of("bucket:50/1"), 60.0)
    assert at == pytest.approx(29.6, abs=0.3)
    assert reached_at(timeline, server_of("bucket:100/1"), 60.0) is None


def test_a_limit_that_was_slow_at_first_is_reached_later() -> None:
    """A page a hundred seconds for a minute, and then five a second."""
    timeline = Timeline(accepted=[1.0, *paced(5.0, 500.0, start=60.0)])
    server = server_of("bucket:0.01/1,step=500@60")
    assert reached_at(timeline, server, 600.0) == pytest.approx(60.0, abs=0.5)


def test_the_longest_pause_reaches_to_the_end() -> None:
    timeline = Timeline(accepted=[5.0, 6.0, 10.0], refused=[8.0])
    assert longest_pause(timeline, 11.0) == 2.0
    assert longest_pause(timeline, 20.0) == 10.0
    assert longest_pause(Timeline(), 20.0) == 0.0


def test_bans_are_counted_through_what_stands_around_the_server() -> None:
    server = server_of("ban:1/1/5,noise=0.000001,retry-after")
    accepts(server, [0.0, 0.0, 1.0, 6.0, 6.0])
    assert read(Timeline(), server, 60.0).ban_count == 2


def test_an_empty_crawl_can_be_read() -> None:
    readings = read(Timeline(), server_of("bucket:1/1"), 60.0)
    assert readings.whole.goodput_ratio == 0.0
    assert readings.whole.refused_ratio == 0.0
    assert readings.median_latency is None
    assert readings.reached_at is None
