"""A job of which one file was damaged while nothing ran: a full disk, a power cut."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.crawling import Crawler
from tests.servers.origin import Answer, Origin
from tests.spiders import UrlsSpider

HOSTS = [f"127.1.8.{n}" for n in range(1, 4)]
TORN = HOSTS[0]
EACH = 6
"""Pages of a host."""

SLOW = {"ADAPTIVE_START_DELAY": 0.3, "DOWNLOAD_DELAY": 0.3}

QUEUES = {
    "last in, first out": {},
    "first in, first out": {"SCHEDULER_DISK_QUEUE": "scrapy.squeues.PickleFifoDiskQueue"},
}


def files_of(job: Path, host: str) -> list[Path]:
    """What the queue of a host keeps its requests in."""
    (folder,) = (job / "requests.queue").glob(f"{host}-*")
    return [path for path in folder.rglob("*") if path.is_file()]


@pytest.mark.parametrize("queue", QUEUES)
def test_an_empty_queue_file_of_one_host_costs_its_requests_and_not_the_job(
    queue: str, crawl: Crawler, origin: Callable[..., Origin], tmp_path: Path
) -> None:
    """One line names the file and what is lost; the other hosts' pages are all fetched."""
    site = origin(lambda visit: Answer(), addresses=HOSTS)
    urls = [f"{site.url_at(host)}/{n}" for n in range(EACH) for host in HOSTS]
    job = tmp_path / "job"
    settings = {**SLOW, **QUEUES[queue]}
    options: dict[str, Any] = {"arguments": {"urls": urls}, "jobdir": job}
    first = crawl.start(UrlsSpider, settings, **options)
    first.until(lambda: len(site.hits()) >= 2 * len(HOSTS))
    first.interrupt()
    before = first.wait()
    torn = files_of(job, TORN)
    assert torn
    for path in torn:
        path.write_bytes(b"")
    after = crawl(UrlsSpider, settings, **options)
    assert after.stats["finish_reason"] == "finished"
    got = before.urls + after.urls
    others = [url for url in urls if urlsplit(url).hostname != TORN]
    assert sorted(set(got) & set(others)) == sorted(others)
    assert len(got) == len(set(got))
    assert "Traceback" not in after.log
    (told,) = [line for line in after.log.splitlines() if " ERROR: " in line]
    assert f"slot {TORN}: requests of the job are lost" in told
    kept = list((job / "requests.queue").rglob("*.damaged"))
    assert [str(path) for path in kept if str(path) in told] == [str(path) for path in kept]
    assert kept
