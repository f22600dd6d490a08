"""A user's own SCHEDULER_PRIORITY_QUEUE is kept: slower beside paused hosts, and as polite."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.readings import READING, rude
from tests.crawling import Crawler
from tests.servers.nginx import Nginx, limit_req
from tests.servers.origin import Answer, Origin, Visit, refusal
from tests.spiders import UrlsSpider

QUEUES = ["tests.own_queue.OwnQueue", "scrapy.pqueues.ScrapyPriorityQueue"]
PAGES = 60

pytestmark = pytest.mark.parametrize("queue", QUEUES)


def test_a_queue_of_the_users_own_is_kept_and_a_warning_says_what_it_costs(
    queue: str, crawl: Crawler, nginx: Callable[..., Nginx]
) -> None:
    """And a limited site is crawled whole, in silence after each refusal."""
    site = nginx(limit_req("50r/s", burst=5), pages=PAGES)
    settings = {
        **READING,
        "SCHEDULER_PRIORITY_QUEUE": queue,
        "ADAPTIVE_START_DELAY": 0.01,
        "ADAPTIVE_TARGET_CONCURRENCY": 8,
    }
    done = crawl(UrlsSpider, settings, arguments={"urls": site.page_urls()})
    assert sorted(done.urls) == sorted(site.page_urls())
    assert done.log.count(f"WARNING: SCHEDULER_PRIORITY_QUEUE = '{queue}' is kept") == 1
    assert "adaptive/handed_back" not in done.stats
    assert rude(site.hits(), done) == []


def test_requests_that_wait_before_it_are_saved_with_its_job(
    queue: str, crawl: Crawler, origin: Callable[..., Origin], tmp_path: Path
) -> None:
    """Interrupted in a pause; the next run waits the rest of it and fetches each page once."""

    def refuse_the_third(visit: Visit) -> Answer:
        return refusal(retry_after=4) if visit.total in (3, 4) else Answer()

    site = origin(refuse_the_third)
    urls = [f"{site.url}/{n}" for n in range(8)]
    options: dict[str, Any] = {"arguments": {"urls": urls}, "jobdir": tmp_path / "job"}
    settings = {"SCHEDULER_PRIORITY_QUEUE": queue, "ADAPTIVE_START_DELAY": 0.2}
    first = crawl.start(UrlsSpider, settings, **options)
    first.until(lambda: "paused for" in first.log)
    first.interrupt()
    runs = [first.wait(), crawl(UrlsSpider, settings, **options)]
    assert sorted(runs[0].urls + runs[1].urls) == urls
    served = Counter(hit.path for hit in site.hits() if hit.status == 200)
    assert set(served.values()) == {1}
    refused = [hit for hit in site.hits() if hit.status == 429]
    assert all(
        hit.start >= refused[-1].end + 4 for hit in site.hits() if hit.start > refused[-1].end
    )
