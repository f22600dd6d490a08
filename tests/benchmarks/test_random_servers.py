"""The servers that the benchmark draws, and what it makes of a crawl."""

from __future__ import annotations

import math

import pytest

from benchmarks.drawn_servers import ASKED, GROUPS, PACED, Site, drawn
from benchmarks.random_servers import crawl, ended, oracle_time, read
from scrapy_adaptive.simulation.crawl import Timeline
from scrapy_adaptive.simulation.servers.base import Page
from scrapy_adaptive.simulation.servers.faults import DeadPagesServer
from scrapy_adaptive.simulation.servers.rates import constant
from scrapy_adaptive.simulation.servers.token_bucket import BucketServer


def bucket() -> BucketServer:
    """Ten pages a second, one at a time."""
    return BucketServer(constant(10.0), 1)


@pytest.mark.parametrize("group", sorted(GROUPS))
def test_the_same_seed_draws_the_same_servers_and_another_seed_others(group: str) -> None:
    first, again = (drawn(group, 1, 0) for _ in range(2))
    assert (first.text, first.own_rate, first.share) == (again.text, again.own_rate, again.share)
    assert 0.0 < first.oracle(0.0) < math.inf


@pytest.mark.parametrize("law", ["hold", "aimd", "cubic"])
def test_a_crawl_gets_no_more_than_the_oracle_and_no_less_than_a_tenth(law: str) -> None:
    """The first server of that seed is a token bucket."""
    found = crawl((law, "mixed", 2, 0), pages=500)
    assert 10.0 < found.goodput <= 100.0
    assert 0.0 <= found.refused <= 100.0


@pytest.mark.parametrize(
    ("number", "kind"), [(258, "nested"), (207, "moving"), (90, "noisy"), (66, "ban")]
)
def test_the_oracle_of_a_small_burst_paces_for_a_network_that_jitters(
    number: int, kind: str
) -> None:
    site = drawn("mixed", 712, number)
    assert site.kind == kind
    assert site.share < 0.95


def test_where_a_rate_moves_jitter_leaves_less_of_it_while_it_is_fast() -> None:
    """Nearly six times as fast from 280 s on."""
    site = drawn("mixed", 712, 207)
    site.own_rate = math.inf
    slow, fast = (site.oracle(at) / site.server.capacity(at) for at in (100.0, 300.0))
    assert fast < 0.8 * slow


def test_an_oracle_that_has_to_be_slower_than_a_tenth_is() -> None:
    """A burst of one at 200 a second, where messages take .4 s with heavy tails."""
    site = Site("bucket", "", BucketServer(constant(200.0), 1), "heavy-tailed", one_way=0.4)
    site.paced = lambda: BucketServer(constant(200.0), 1)
    site.know("slow")
    server, delay = site.paced(), site.delay("slow jitter")
    arrivals = sorted(number / 200.0 / site.share + delay() for number in range(PACED))
    served = sum(server.on_arrival(at, Page(1, "/")).outcome.value == "accepted" for at in arrivals)
    assert 0.0 < site.share < 0.1
    assert served >= 0.998 * PACED


def test_the_oracle_pays_its_limit_for_each_fetch_of_a_broken_page() -> None:
    """One page in 50, asked for three times: 49 served for 52 hits. Of N it pays nothing more."""
    site = Site("broken", "", DeadPagesServer(bucket(), 50), one_way=0.0, broken=50, wait=0.0)
    assert site.oracle(0.0) == pytest.approx(10.0 * 49.0 / (49.0 + ASKED))
    site.own_rate = 5.0
    assert site.oracle(0.0) == 5.0


def test_a_short_crawl_is_told_by_the_time_it_took() -> None:
    """Twice the oracle's 20 s; what came after its last page is not counted."""
    site = Site("bucket", "", bucket(), most_pages=200)
    assert oracle_time(site) == pytest.approx(20.0)
    line = Timeline([0.2 * (page + 1) for page in range(300)], [1.0, 30.0, 50.0])
    found = read(("hold", "short", 1, 0), site, *ended(line, 200, 7200.0))
    assert found.goodput == pytest.approx(50.0)
    assert (found.pages, found.refusals, found.is_late) == (200, 2, True)


def test_a_short_crawl_ends_with_its_last_page() -> None:
    found = crawl(("hold", "short", 2, 0), pages=500)
    assert found.pages == 200
    assert 10.0 < found.goodput <= 100.0
