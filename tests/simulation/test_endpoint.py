"""A site that limits one class of its pages more than the rest."""

from __future__ import annotations

import random
from statistics import mean

import pytest

from scrapy_adaptive.simulate import governor_of
from scrapy_adaptive.simulation.crawl import Crawl, Timeline
from scrapy_adaptive.simulation.network import network
from scrapy_adaptive.simulation.pages import pages
from scrapy_adaptive.simulation.servers.combined import ClassesServer
from scrapy_adaptive.simulation.servers.rates import constant
from scrapy_adaptive.simulation.servers.token_bucket import BucketServer

from .crawled import HOUR, crawled


@pytest.mark.parametrize("seed", [1, 2])
def test_a_limited_class_costs_the_others_little(seed: int) -> None:
    """90 % of what an oracle with a rate for each class gets, under 0.35 % refused."""
    governor, _, readings = crawled("endpoint:10/1", seed, HOUR / 2)
    assert list(governor.kinds["site"]) == ["search"]
    assert readings.whole.goodput_ratio is not None
    assert readings.whole.goodput_ratio >= 0.9
    assert readings.whole.refused_ratio <= 0.0035


def test_two_classes_under_one_limit_are_not_told_apart() -> None:
    """The searches have a limit of their own that nothing ever reaches."""
    governor, _, readings = crawled("endpoint:10/100", 1, HOUR / 3)
    assert not governor.kinds
    assert readings.whole.goodput_ratio is not None
    assert readings.whole.goodput_ratio >= 0.99
    assert readings.whole.refused_ratio <= 0.003


def test_ten_limited_classes_are_told_apart() -> None:
    """80 % of what an oracle with a rate for each class gets in half an hour. Chance decides when
    each is told: from seed to seed .5 to .8 % are refused, .7 % on average at most."""
    lines = [ten_classes(seed) for seed in ("a", "b", "c")]
    shares = [len(each.refused) / (len(each.accepted) + len(each.refused)) for each in lines]
    assert min(len(each.accepted) for each in lines) >= 0.8 * 10.0 * HOUR / 2
    assert mean(shares) <= 0.007
    assert max(shares) <= 0.01


def ten_classes(seed: str) -> Timeline:
    """Half an hour of a site of ten classes with a limit each; none of its pages is lost."""
    classes = ClassesServer({f"/class{n}": BucketServer(constant(1.0), 2) for n in range(10)})
    governor = governor_of({"ADAPTIVE_TARGET_CONCURRENCY": "8"}, random.Random(seed).random)
    fresh = pages({f"/class{n}": 1.0 for n in range(10)}, random.Random(f"{seed} pages"))
    line = Crawl(governor, classes, fresh, network("constant", random.Random("network"))).run(
        HOUR / 2
    )
    assert len(governor.kinds["site"]) == 10
    assert line.lost_count == 0
    return line
