"""The monitors of the guide fail where they should, in a real crawl with Spidermon."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from tests.crawling import Crawler
from tests.docs.pages import boxes
from tests.docs.test_examples import assigned
from tests.servers.origin import Answer, Origin, Visit, refusal
from tests.spiders import UrlsSpider

GOOD, REFUSING, BROKEN, PARKED = (f"127.3.0.{n}" for n in range(1, 5))

RESULT = re.compile(r"\[Spidermon\] (Politeness/[^.]+)\.\.\. (\w+)$", re.MULTILINE)

PAGES = 100


def site(visit: Visit) -> Answer:
    host = visit.host.partition(":")[0]
    if host == REFUSING and visit.path in ("/30", "/60") and visit.count == 1:
        return refusal(retry_after=0)
    if host == BROKEN and visit.path == "/5":
        return refusal(retry_after=0)
    if host == PARKED:
        return refusal(retry_after=7200)
    return Answer()


def results(
    origin: Callable[..., Origin], crawl: Crawler, hosts: list[str], jobdir: Path | None = None
) -> dict[str, str]:
    """What each monitor says of a crawl of these sites."""
    server = origin(site, addresses=hosts)
    (block,) = (box.text for box in boxes("howto/spidermon", "python"))
    settings = {
        **assigned(block),
        "SPIDERMON_ENGINE_STOP_MONITORS": ["docs.examples.monitors.AdaptiveSuite"],
        "ADAPTIVE_START_DELAY": 0.01,
        "ADAPTIVE_TARGET_CONCURRENCY": 8,
        "ADAPTIVE_MAX_REFUSALS": 2,
    }
    urls = [f"{server.url_at(host)}/{n}" for host in hosts for n in range(PAGES)]
    log = crawl(UrlsSpider, settings, arguments={"urls": urls}, jobdir=jobdir).log
    return {name.removeprefix("Politeness/"): result for name, result in RESULT.findall(log)}


REFUSALS = "No site refuses more than 1 % of its answers"
GIVEN_UP = "No page is given up"
NO_PARKED = "No site is parked"


def test_a_crawl_that_goes_well_passes(origin: Callable[..., Origin], crawl: Crawler) -> None:
    found = results(origin, crawl, [GOOD])
    assert found == {REFUSALS: "OK", GIVEN_UP: "OK", NO_PARKED: "OK"}


def test_a_site_that_refuses_too_much_is_named(
    origin: Callable[..., Origin], crawl: Crawler
) -> None:
    found = results(origin, crawl, [GOOD, REFUSING])
    assert found == {REFUSALS: "FAIL", GIVEN_UP: "OK", NO_PARKED: "OK"}


def test_a_parked_site_fails_and_so_does_a_page_that_is_given_up(
    origin: Callable[..., Origin], crawl: Crawler, tmp_path: Path
) -> None:
    """The crawl ends when nothing but the parked site is left."""
    found = results(origin, crawl, [BROKEN, PARKED], tmp_path / "job")
    assert found[NO_PARKED] == found[GIVEN_UP] == "FAIL"
