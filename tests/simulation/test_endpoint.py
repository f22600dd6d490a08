"""A site that limits one class of its pages more than the rest."""

from __future__ import annotations

import random

import pytest

from scrapy_adaptive.simulate import governor_of
from scrapy_adaptive.simulation.crawl import Crawl
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


@pytest.mark.parametrize("seed", ["a", "b", "c"])
def test_ten_limited_classes_are_told_apart(seed: str) -> None:
    """80 % of what an oracle with a rate for each class gets in half an hour, at 0.7 % refused."""
    classes = ClassesServer({f"/class{n}": BucketServer(constant(1.0), 2) for n in range(10)})
    governor = governor_of({"ADAPTIVE_TARGET_CONCURRENCY": "8"}, random.Random(seed).random)
    fresh = pages({f"/class{n}": 1.0 for n in range(10)}, random.Random(f"{seed} pages"))
    delay = network("constant", random.Random("network"))
    line = Crawl(governor, classes, fresh, delay).run(HOUR / 2)
    served, refused = len(line.accepted), len(line.refused)
    assert len(governor.kinds["site"]) == 10
    assert served >= 0.8 * 10.0 * HOUR / 2
    assert refused <= 0.007 * (served + refused)
    assert line.lost_count == 0
