"""The journal of a real crawl says what the site's own log says: at the end, killed, of any name.

Laws
----
* The judge is the site's log. Of a killed crawl, what was answered in the last two seconds may be
  missing; on a busy machine, in twice the longest time between two of the journal's lines.
* `make soak` kills ten crawls.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from scrapy_adaptive.report.crawl import Crawl
from scrapy_adaptive.report.events import EVENTS
from scrapy_adaptive.report.reader import read_crawl
from scrapy_adaptive.report.reasons import REASONS
from tests.crawling import Crawler, Reactor
from tests.servers.origin import Answer, Origin, Visit, refusal
from tests.servers.wire import LOCALHOST
from tests.spiders import UrlsSpider

KILLS = int(os.environ.get("SOAK_KILLS", "2"))

LOST = 2.0
"""Seconds of a journal that a kill may cost."""

SETTINGS = {
    "ADAPTIVE_START_DELAY": 0.05,
    "ADAPTIVE_TARGET_CONCURRENCY": 4,
    "ADAPTIVE_LOG_INTERVAL": 0,
    "LOG_LEVEL": "INFO",
}

SECRETS = ("secret", "token", "user")


def now_and_then(visit: Visit) -> Answer:
    """Refuses every fortieth visit, for a moment."""
    return refusal(retry_after=1) if visit.total % 40 == 0 else Answer(delay=0.01)


def urls(site: Origin, count: int) -> list[str]:
    """Pages whose addresses hold what nobody else should read."""
    return [f"{site.url}/{n}?token=secret{n}" for n in range(count)]


def counts(site: Origin, since: float, until: float) -> tuple[int, int]:
    """Pages that the site's log has as served and as refused, ended between these instants."""
    ended = [hit.status for hit in site.hits() if since <= hit.end <= until]
    return ended.count(200), ended.count(429)


def longest_gap(crawl: Crawl) -> float:
    """Seconds between two lines of the journal: one, where the machine is not busy."""
    return max((after.at - before.at for before, after in pairwise(crawl.points)), default=1.0)


@pytest.mark.parametrize("reactor", ["asyncio", "select", "none"])
def test_the_sums_of_a_journal_are_those_of_the_sites_log(
    reactor: Reactor, origin: Callable[..., Origin], crawl: Crawler, tmp_path: Path
) -> None:
    """Sums, the site's own line, events; and no query of an address, no user, no password."""
    site = origin(now_and_then)
    path = tmp_path / "run.jsonl"
    settings = {**SETTINGS, "ADAPTIVE_JOURNAL": str(path)}
    done = crawl(UrlsSpider, settings, arguments={"urls": urls(site, 60)}, reactor=reactor)
    model = read_crawl([path])
    served, refused = counts(site, 0.0, time.time())
    assert len(done.urls) == served == model.totals.served == model.sites[LOCALHOST].served == 60
    assert refused == model.totals.refused == model.totals.requeued > 0
    assert model.totals.sent == served + refused
    assert model.rest.served == model.totals.in_flight == model.totals.given_up == 0
    assert (model.reason, model.spider) == ("finished", "urls")
    kinds = [event.event for event in model.events]
    assert kinds.count("pause") == kinds.count("recovery") == refused
    assert set(kinds) <= EVENTS.keys()
    assert {event.who for event in model.events if event.event == "pause"} == {"site"}
    assert model.sites[LOCALHOST].by in REASONS
    text = path.read_text()
    assert not [secret for secret in SECRETS if secret in text]


@pytest.mark.parametrize("seed", range(KILLS))
def test_a_crawl_that_is_killed_leaves_its_journal_up_to_two_seconds_before(
    seed: int, origin: Callable[..., Origin], crawl: Crawler, tmp_path: Path
) -> None:
    """At a random instant. A job that goes on adds to the same file."""
    site = origin(now_and_then)
    path = tmp_path / "run.jsonl"
    settings = {**SETTINGS, "ADAPTIVE_JOURNAL": str(path)}
    running = crawl.start(UrlsSpider, settings, arguments={"urls": urls(site, 4000)})
    running.until(lambda: path.exists() and '"crawl"' in path.read_text())
    time.sleep(random.Random(f"kill {seed}").uniform(0.5, 5.0))
    killed_at = time.time()
    running.kill()
    model = read_crawl([path])
    assert not model.has_ended
    told_at = model.started_at + model.seconds
    slack = max(LOST, 2.0 * longest_gap(model))
    assert told_at >= killed_at - slack
    least, refused_least = counts(site, 0.0, killed_at - slack)
    most, refused_most = counts(site, 0.0, told_at + 0.05)
    found = model.sites[LOCALHOST]
    print(
        f"kill {seed}: the journal ends {killed_at - told_at:.2f} s before, {found.served} served "
        f"({least} to {most} in the site's log), {model.totals.refused} refused "
        f"({refused_least} to {refused_most})"
    )
    assert least <= model.totals.served <= most
    assert least <= found.served <= most
    assert refused_least <= model.totals.refused <= refused_most


def test_a_run_that_goes_on_and_one_beside_it_add_up(
    origin: Callable[..., Origin], crawl: Crawler, tmp_path: Path
) -> None:
    """The one that goes on appends; the one beside it finds the file taken, and has its own."""
    site = origin(now_and_then)
    path = tmp_path / "run.jsonl"
    settings = {**SETTINGS, "ADAPTIVE_JOURNAL": str(path)}
    crawl(UrlsSpider, settings, arguments={"urls": urls(site, 5)})
    first = crawl.start(UrlsSpider, settings, arguments={"urls": urls(site, 60)})
    first.until(lambda: path.read_text().count('"start"') == 2)
    crawl(UrlsSpider, settings, arguments={"urls": urls(site, 10)})
    first.wait()
    beside = tmp_path / "run-2.jsonl"
    model = read_crawl([path, beside])
    assert (model.run_count, read_crawl([beside]).totals.served) == (3, 10)
    assert model.totals.served == model.sites[LOCALHOST].served == 75
    assert model.has_ended


NAMES: dict[str, Any] = {
    "<script>alert(1)</script>": "<script>alert(1)</script>",
    'quotes " \\ and\nlines': 'quotes " \\ and\nlines',
    "half a pair \ud800": "half a pair \ud800",
    "via http://user:secret@proxy.example:80/": "via http://proxy.example:80/",
    "site?token=secret": "site",
    "n" * 1000: "n" * 200,
}
"""Names that ADAPTIVE_SLOT may give, and what of them is in the journal."""


def strange_slot(request: Any) -> str:
    """Each page has a slot of its own."""
    return list(NAMES)[int(request.url.rpartition("/")[2])]


def test_slots_of_hostile_names_are_text(
    origin: Callable[..., Origin], crawl: Crawler, tmp_path: Path
) -> None:
    """In the journal, in the log's tables and in the stats."""
    site = origin()
    path = tmp_path / "run.jsonl"
    settings = {
        **SETTINGS,
        "ADAPTIVE_JOURNAL": str(path),
        "ADAPTIVE_SLOT": "tests.acceptance.test_journal.strange_slot",
    }
    pages = [f"{site.url}/{n}" for n in range(len(NAMES))]
    done = crawl(UrlsSpider, settings, arguments={"urls": pages})
    assert len(done.urls) == len(NAMES)
    assert set(read_crawl([path]).sites) == set(NAMES.values())
    table = done.log.partition("adaptive: per-site summary\n")[2].partition("\n2")[0].splitlines()
    assert len(table) == 1 + len(NAMES), "a row each"
    assert not [line for line in table if "secret" in line]
    names = [name for name in done.stats if name.startswith("adaptive/site/")]
    assert names
    assert not [name for name in names if "secret" in name]
