"""What a rule makes of a crawl of a site that allows as much, less, or more than it says.

Laws
----
* The governor of real crawls, a jittered network, virtual time.
"""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from scrapy_adaptive.simulate import governor_of
from scrapy_adaptive.simulation.crawl import Crawl, Timeline
from scrapy_adaptive.simulation.network import network
from scrapy_adaptive.simulation.spec import read_spec


def crawl(server: str, rule: dict[str, Any] | None, seconds: float, seed: int = 1) -> Timeline:
    """What a crawl did in its first seconds; with one rule, or without."""
    site = read_spec(server, seed)
    settings = {"ADAPTIVE_TARGET_CONCURRENCY": "8"}
    if rule is not None:
        settings["ADAPTIVE_RULES"] = json.dumps([rule])
    governor = governor_of(settings, random.Random(f"{seed} governor").random)
    delay = network("jittered", random.Random(f"{seed} network"))
    return Crawl(governor, site.server, site.pages, delay).run(seconds)


KNOWN: dict[str, tuple[str, dict[str, Any], float]] = {
    "a rate": ("bucket:50/20", {"rate": 50}, 50.0),
    "a window": ("log:30/5", {"max_hits": 30, "window": 5}, 6.0),
    "a last hit": ("connotea", {"interval": 2}, 0.5),
    "places": ("cap:4/0.2", {"concurrency": 4}, 4 / 0.25),
}
"""A server, the rule that says what it allows, and the pages a second that a client gets: of the
0.25 s after which a place is free again the network takes 0.05."""


@pytest.mark.parametrize("name", KNOWN)
def test_a_known_limit_is_used_from_the_first_minute_on(name: str) -> None:
    """And nobody is refused."""
    server, rule, rate = KNOWN[name]
    timeline = crawl(server, rule, 60.0)
    assert timeline.refused == []
    assert len(timeline.accepted) >= 0.96 * rate * 60.0


GENEROUS: dict[str, tuple[dict[str, dict[str, Any]], float]] = {
    "a last hit": ({"log:1/30": {"interval": 15}}, 0.75),
    "Connotea's": ({"connotea": {"interval": 1}}, 0.97),
    "windows": (
        {
            f"log:{hits}/{window}": {"max_hits": 2 * hits, "window": window}
            for hits, window in ((10, 15), (8, 12), (10, 20), (9, 14))
        },
        0.97,
    ),
    "a rate": ({"bucket:2/5": {"rate": 4}}, 0.97),
}
"""Servers, rules that allow twice as much, and the least share of what is fetched without them: at
two pages a minute twenty minutes are the search alone, which begins elsewhere. Of windows the
search ends now here, now there, so there are four."""


@pytest.mark.parametrize("name", GENEROUS)
def test_a_rule_twice_too_generous_is_no_worse_than_none(name: str) -> None:
    """The site is not refused to for ever: what a rule lets by is what was refused."""
    servers, share = GENEROUS[name]
    minutes = 20
    generous = [crawl(server, rule, 60.0 * minutes) for server, rule in servers.items()]
    learned = [crawl(server, None, 60.0 * minutes) for server in servers]
    for ours, theirs in zip(generous, learned, strict=True):
        assert len(ours.refused) <= len(theirs.refused) + 3
    fetched = sum(len(each.accepted) for each in generous)
    assert fetched >= share * sum(len(each.accepted) for each in learned)


def test_half_of_what_the_site_allows_is_obeyed() -> None:
    timeline = crawl("bucket:50/20", {"rate": 25}, 60.0)
    assert timeline.refused == []
    assert 0.98 * 25 * 60 <= len(timeline.accepted) <= 25 * 60 + 1
