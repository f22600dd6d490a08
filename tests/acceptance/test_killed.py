"""A crawl whose requests are in a frontier survives kill -9 at any instant.

Laws
----
* Nothing is missing: no page, no item, neither in a pipeline that commits nor in a feed of lines.
* What is fetched twice is at most what was in flight, plus one turn, a kill.
* `make soak` kills twenty crawls on each database.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.acceptance.surviving import (
    Site,
    SurvivingSpider,
    fed_items,
    has_hits,
    kept_items,
    missing,
    seed_of,
    served,
    settings,
)
from tests.crawling import Crawler
from tests.servers.origin import Answer, Origin, Visit, refusal

KILLS = int(os.environ.get("SOAK_KILLS", "2"))
PAGES = int(os.environ.get("SOAK_PAGES", "400"))
HOSTS = 20
IN_FLIGHT = 32

PAUSE = 7
"""Seconds that a site asks for, longer than a host stays with a worker that was killed."""

A_TURN = 100
"""Pages at most that the last turn had not written down: what the fault model tells users."""


def address_of(engine: str, folder: Path, request: pytest.FixtureRequest) -> str:
    """Where an empty frontier is kept."""
    if engine == "postgresql":
        return str(request.getfixturevalue("postgres").database())
    if engine == "redis":
        return str(request.getfixturevalue("valkey").frontier())
    return f"sqlite:///{folder}/crawl.db"


@pytest.mark.parametrize("engine", ["sqlite", "postgresql", "redis"])
def test_a_crawl_that_is_killed_again_and_again_loses_nothing(
    engine: str,
    origin: Callable[..., Origin],
    crawl: Crawler,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    site = Site(PAGES, HOSTS)
    server = origin(site.answer, addresses=site.addresses)
    given = settings(address_of(engine, tmp_path, request), tmp_path)
    arguments = {"pages": PAGES, "hosts": HOSTS, "port": server.port}
    chance = seed_of(engine)
    for kill in range(KILLS):
        running = crawl.start(SurvivingSpider, given, arguments=arguments)
        least = max(PAGES * (kill + 1) // (KILLS + 1), len(server.hits()) + 20)
        running.until(partial(has_hits, server, least))
        time.sleep(chance.uniform(0.0, 0.3))
        running.kill()
    done = crawl(SurvivingSpider, given, arguments=arguments, timeout=250 + PAGES / 10)
    hits = server.hits()
    pages = served(hits)
    kept, fed = kept_items(tmp_path / "items.db"), fed_items(tmp_path / "items.jl")
    again = sum(pages.values()) - len(pages)
    twice = sum(kept.values()) - len(kept)
    print(
        f"{engine}: {KILLS} kills, {len(pages)} pages, {len(missing(site, kept))} items missing, "
        f"{len(missing(site, fed))} in the feed; {again} pages and {twice} items twice"
    )
    assert done.stats["finish_reason"] == "finished"
    assert missing(site, kept) == set()
    assert missing(site, fed) == set()
    assert len(pages) == PAGES + len(site.details()) + len([n for n in range(PAGES) if n % 20 == 5])
    assert again <= KILLS * (IN_FLIGHT + A_TURN)


@pytest.mark.parametrize("engine", ["sqlite", "redis"])
def test_who_goes_on_after_a_kill_waits_as_long_as_the_site_had_asked_for(
    engine: str,
    origin: Callable[..., Origin],
    crawl: Crawler,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    """It is killed a third of a second after the refusal, before its next heartbeat."""

    def answer(visit: Visit) -> Answer:
        return refusal(retry_after=PAUSE) if visit.total == 30 else Answer(delay=0.005)

    def refusals(server: Origin) -> list[float]:
        return [hit.end for hit in server.hits() if hit.status == 429]

    site = Site(60, hosts=1)
    server = origin(answer, addresses=site.addresses)
    given = settings(address_of(engine, tmp_path, request), tmp_path)
    arguments = {"pages": site.pages, "hosts": 1, "port": server.port}
    running = crawl.start(SurvivingSpider, given, arguments=arguments)
    running.until(partial(refusals, server))
    time.sleep(1 / 3)
    running.kill()
    crawl(SurvivingSpider, given, arguments=arguments)
    (refused_at,) = refusals(server)
    after = [hit.start - refused_at for hit in server.hits() if hit.start > refused_at]
    assert after
    assert min(after) >= PAUSE
