"""Sites that answer 500 and never 429: by chance, beyond a limit, or beyond one that falls."""

from __future__ import annotations

import math
import random

import pytest

from scrapy_adaptive.models import (
    BucketServer,
    ErrorServer,
    FreeServer,
    NoisyServer,
    SlowServer,
    constant,
    service,
    stepped,
)
from scrapy_adaptive.simulate import ACCEPTED, Outcome, Page, Reply, Server, simulate
from scrapy_adaptive.simulation.crawl import Timeline
from scrapy_adaptive.simulation.servers.rates import Rate


def crawled(server: Server, seed: int, seconds: float = 300.0) -> Timeline:
    """A crawl of that server, which answers 500 where it would refuse."""
    settings = {"ADAPTIVE_TARGET_CONCURRENCY": "8", "ADAPTIVE_CEILING": "hold"}
    return simulate(ErrorServer(server), seconds=seconds, settings=settings, seed=seed).timeline


def slow(moves: Rate, burst: float) -> Server:
    """A bucket whose pages take 50 ms."""
    return SlowServer(BucketServer(moves, burst), service("fixed", 0.05, random.Random(1)))


def test_where_a_server_refuses_it_answers_500() -> None:
    server = ErrorServer(BucketServer(constant(1.0), 1))
    page = Page(1, "/")
    assert server.on_arrival(0.0, page) is ACCEPTED
    assert server.on_arrival(0.5, page).outcome.value == "failed"
    assert server.capacity(0.0) == 1.0


@pytest.mark.parametrize(("share", "left"), [(0.1, 0.8), (0.2, 0.6), (0.3, 0.5)])
def test_failures_by_chance_leave_a_crawl_most_of_its_pace(share: float, left: float) -> None:
    """For five minutes; nothing would leave it 90, 80 and 70 % of the pages."""
    without = crawled(FreeServer(0.05), 1)
    lines = [
        crawled(NoisyServer(FreeServer(0.05), share, random.Random(seed)), seed)
        for seed in range(4)
    ]
    assert sum(len(line.accepted) for line in lines) >= left * 4 * len(without.accepted)


class Section:
    """A site some of whose pages from 300 to 600 are broken.

    Args:
        share: of these pages.
    """

    def __init__(self, share: float) -> None:
        self._share = share

    def on_arrival(self, now: float, page: Page) -> Reply:
        """An answer after 50 ms."""
        is_broken = 300 <= page.number < 600 and random.Random(page.number).random() < self._share
        return Reply(Outcome.FAILED if is_broken else Outcome.ACCEPTED, 0.05)

    def capacity(self, now: float) -> float:
        """Nothing bounds it."""
        return math.inf


def test_a_broken_section_of_a_site_is_no_host_in_trouble_for_long() -> None:
    """One in two pages; without one in trouble its first 2,000 pages take half a minute."""
    lines = [crawled(Section(0.5), seed, 120.0) for seed in range(4)]
    assert min(len(line.accepted) for line in lines) >= 2000


def test_a_host_that_was_away_and_comes_back_weaker_is_asked_for_what_is_left() -> None:
    """Nothing is served for six seconds, all test requests fail, and the host is called gone; then
    a quarter is left. What failed meanwhile says nothing of its pages."""
    moves = stepped(stepped(constant(24.0), 1e-3, 40.0), 250.0, 46.0)
    lines = [crawled(slow(moves, 5), seed, 246.0) for seed in range(4)]
    served = sum(each >= 46.0 for line in lines for each in line.accepted)
    failed = sum(each >= 46.0 for line in lines for each in line.failed)
    assert served >= 0.8 * 4 * 6.0 * 200.0
    assert failed <= 1.5 * served


@pytest.mark.parametrize(("rate", "burst", "factor"), [(23.0, 22, 0.2), (11.6, 23, 0.22)])
def test_a_host_of_which_a_fifth_is_left_is_not_asked_at_full_speed(
    rate: float, burst: int, factor: float
) -> None:
    """It seems at first to fail as much at half of the pace, which is too fast as well. Where that
    is believed to the end, up to two pages are lost for each that is served."""
    moves = stepped(constant(rate), factor, 40.0)
    lines = [crawled(slow(moves, burst), seed, 160.0) for seed in range(4)]
    served = sum(each >= 40.0 for line in lines for each in line.accepted)
    failed = sum(each >= 40.0 for line in lines for each in line.failed)
    assert served >= 0.8 * 4 * rate * factor * 120.0
    assert failed <= 1.5 * served
    assert sum(line.lost_count for line in lines) <= 0.3 * served
