"""A site's limit falls for a time, and comes back: what is lost, and how soon the rate is back."""

from __future__ import annotations

import math
import random

import pytest

from scrapy_adaptive.core.breaker.global_breaker import GlobalBreaker
from scrapy_adaptive.core.governor import Governor
from scrapy_adaptive.core.slot_config import Limits
from scrapy_adaptive.core.types import Outcome
from scrapy_adaptive.simulation.crawl import Crawl, Timeline
from scrapy_adaptive.simulation.network import network
from scrapy_adaptive.simulation.pages import pages
from scrapy_adaptive.simulation.servers.bans import BANNED
from scrapy_adaptive.simulation.servers.base import Page, Reply, Server
from scrapy_adaptive.simulation.servers.occupancy import CapServer
from scrapy_adaptive.simulation.servers.rates import Rate, constant, stepped
from scrapy_adaptive.simulation.servers.token_bucket import BucketServer

LIMIT = 2.0
"""Pages a second that the site allows."""


def crawl(moves: Rate, burst: int, seconds: float, seed: int) -> Timeline:
    """Crawl a bucket with that rate."""
    return simulate(BucketServer(moves, burst), seconds, seed)


def simulate(server: Server, seconds: float, seed: int) -> Timeline:
    """Crawl that server."""
    limits = Limits(target_concurrency=math.inf, concurrency=32)
    governor = Governor(
        limits,
        global_breaker=GlobalBreaker(slots=5, window=10.0, cooldown=5.0),
        chance=random.Random(f"{seed} governor").random,
    )
    fresh = pages({"/page": 1.0}, random.Random(f"{seed} pages"))
    delay = network("constant", random.Random(f"{seed} network"))
    return Crawl(governor, server, fresh, delay).run(seconds)


def between(instants: list[float], since: float, until: float) -> int:
    """How many of them lie between the two."""
    return sum(since <= each < until for each in instants)


def busy(factor: float, since: float, until: float) -> Rate:
    """The limit, and a share of it between two instants."""
    return stepped(stepped(constant(LIMIT), factor, since), 1.0 / factor, until)


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize(("factor", "lasts"), [(0.1, 120.0), (0.1, 600.0), (0.3, 600.0)])
def test_a_limit_that_was_lower_for_a_time_is_used_again(
    factor: float, lasts: float, seed: int
) -> None:
    """A bucket of 2/s that allows a share of it from the 600th second on. From as long after it is
    back as it was away, the next twenty minutes are used to 85 %; without a look at the rate of
    before, 14 to 30 %."""
    back = 600.0 + lasts
    line = crawl(busy(factor, 600.0, back), 5, back + lasts + 1200.0, seed)
    since, until = back + lasts, back + lasts + 1200.0
    assert between(line.accepted, since, until) >= 0.85 * LIMIT * 1200.0
    assert not line.lost


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_looking_at_it_costs_a_refusal_each_time_half_as_many_pages_have_passed_again(
    seed: int,
) -> None:
    """2/s for ten minutes, then .2/s for three hours: 2,160 pages. The first look comes after some
    6 pages, as log(2 / .2) asks for; each next one takes half as many more: ln(2,160 / 6) / ln 1.5
    are 15 looks at most, beside the refusals with which the fall was found."""
    line = crawl(stepped(constant(LIMIT), 0.1, 600.0), 5, 11_400.0, seed)
    assert between(line.refused, 1200.0, 11_400.0) <= 25
    assert between(line.accepted, 1200.0, 11_400.0) >= 0.9 * 0.2 * 10_200.0


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_no_page_is_called_broken_as_the_limit_fell(seed: int) -> None:
    """A bucket that holds one page allows 9/s, and 2.8/s from the 300th second on. A recheck 1.2
    gaps of 9/s after an accepted page is refused whatever the page: pages were excused one by one,
    the rate never fell, and a quarter of the pages was given up."""
    line = crawl(stepped(constant(9.0), 0.31, 300.0), 1, 1500.0, seed)
    assert not line.lost
    assert between(line.accepted, 600.0, 1500.0) >= 0.9 * 2.79 * 900.0
    assert between(line.refused, 600.0, 1500.0) <= 0.02 * 2.79 * 900.0


@pytest.mark.parametrize("seed", [1, 2])
def test_what_a_burst_saved_up_is_not_taken_for_a_limit_that_is_back(seed: int) -> None:
    """A bucket of 2/s that holds 60 pages, .2/s from the 600th second on. At nine tenths of that it
    saves up some: the first step up passes. It is refused soon after, and that takes all back: two
    refusals, not a new search of five."""
    line = crawl(stepped(constant(LIMIT), 0.1, 600.0), 60, 11_400.0, seed)
    assert between(line.refused, 1200.0, 11_400.0) <= 18


def test_a_long_pause_does_not_keep_the_limit_from_being_searched() -> None:
    """Five refusals within ten minutes are answered by ten minutes of pause. A stage then lasts
    as long as that; if the rate of before were tried after each, no other step would ever be."""
    inner = BucketServer(stepped(constant(LIMIT), 0.3, 1800.0), 5)
    line = simulate(Jail(inner), 6 * 3600.0, 1)
    assert between(line.accepted, 1800.0, 6 * 3600.0) >= 7800


def test_a_cap_that_falls_is_not_found_by_looking_whether_it_is_back() -> None:
    """Eight places of half a second, two from the 600th second to the 1800th. Refusals of the looks
    are no evidence of how many are in flight: the pace is back afterwards."""
    places = stepped(stepped(constant(8.0), 0.25, 600.0), 4.0, 1800.0)
    line = simulate(CapServer(places, 0.5), 3600.0, 1)
    assert between(line.accepted, 1800.0, 3600.0) >= 0.75 * 16.0 * 1800.0


class Jail:
    """Bans for ten minutes after five refusals within ten."""

    def __init__(self, inner: BucketServer) -> None:
        self.inner = inner
        self.refused: list[float] = []
        self.until = 0.0

    def on_arrival(self, now: float, page: Page) -> Reply:
        """What the bucket says, or a refusal while it bans."""
        if now < self.until:
            return BANNED
        reply = self.inner.on_arrival(now, page)
        if reply.outcome is Outcome.REFUSED:
            self.refused = [*(each for each in self.refused if each > now - 600.0), now]
        if len(self.refused) >= 5:
            self.until, self.refused = now + 600.0, []
        return reply

    def capacity(self, now: float) -> float:
        """The bucket's."""
        return self.inner.capacity(now)
