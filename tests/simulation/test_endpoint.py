"""A site that limits one class of its pages more than the rest."""

from __future__ import annotations

import random

import pytest

from scrapy_adaptive.__main__ import governor_of
from scrapy_adaptive.core.governor import Governor
from scrapy_adaptive.simulation.client import Crawl
from scrapy_adaptive.simulation.network import network
from scrapy_adaptive.simulation.readings import Readings, read
from scrapy_adaptive.simulation.spec import read_spec

HOUR = 3600.0


def crawled(spec: str, seed: int, seconds: float) -> tuple[Governor, Readings]:
    """A crawl by the settings' own governor."""
    site = read_spec(spec, seed)
    chance = random.Random(f"{seed} governor").random
    governor = governor_of({"ADAPTIVE_TARGET_CONCURRENCY": "8"}, chance)
    delay = network("constant", random.Random(f"{seed} network"))
    timeline = Crawl(governor, site.server, site.pages, delay).run(seconds)
    return governor, read(timeline, site.server, seconds)


@pytest.mark.parametrize("seed", [1, 2])
def test_a_limited_class_costs_the_others_little(seed: int) -> None:
    """90 % of what an oracle with a rate for each class gets, under 0.35 % refused."""
    governor, readings = crawled("endpoint:10/1", seed, HOUR)
    assert list(governor.kinds["site"]) == ["search"]
    assert readings.whole.goodput_ratio is not None
    assert readings.whole.goodput_ratio >= 0.9
    assert readings.whole.refused_ratio <= 0.0035


def test_two_classes_under_one_limit_are_not_told_apart() -> None:
    """The searches have a limit of their own that nothing ever reaches."""
    governor, readings = crawled("endpoint:10/100", 1, HOUR)
    assert not governor.kinds
    assert readings.whole.goodput_ratio is not None
    assert readings.whole.goodput_ratio >= 0.99
    assert readings.whole.refused_ratio <= 0.003
