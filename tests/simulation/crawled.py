"""A crawl in virtual time by the governor that settings ask for."""

from __future__ import annotations

import random
from collections.abc import Mapping

from scrapy_adaptive.core.governor import Governor
from scrapy_adaptive.core.slot_state import State
from scrapy_adaptive.simulate import governor_of
from scrapy_adaptive.simulation.crawl import Crawl, Timeline
from scrapy_adaptive.simulation.network import network
from scrapy_adaptive.simulation.readings import Readings, read
from scrapy_adaptive.simulation.spec import read_spec

HOUR = 3600.0


def crawled(
    spec: str, seed: int, seconds: float, *, states: Mapping[str, State] | None = None
) -> tuple[Governor, Timeline, Readings]:
    """A crawl of that server.

    Args:
        states: what an earlier crawl of it remembers.
    """
    site = read_spec(spec, seed)
    chance = random.Random(f"{seed} governor").random
    governor = governor_of({"ADAPTIVE_TARGET_CONCURRENCY": "8"}, chance)
    for key, state in (states or {}).items():
        governor.begin(key, state, 0.0, 0.0)
    delay = network("constant", random.Random(f"{seed} network"))
    timeline = Crawl(governor, site.server, site.pages, delay).run(seconds)
    return governor, timeline, read(timeline, site.server, seconds)
