"""A job whose runs have different queues: Scrapy's default one and ours read each other's files.

Laws
----
* Hosts, priorities and start requests are mixed: each makes files of its own.
* A run that is not the last is stopped while the site has pages left.
"""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import scrapy
from scrapy.http import Response

from tests.acceptance.project import ADDON, Project
from tests.crawling import Crawler
from tests.servers.origin import Answer, Origin, Visit, links_page, refusal
from tests.spiders import LinksSpider, UrlsSpider

HOSTS = [f"127.1.5.{n}" for n in range(1, 7)]
REFUSING = HOSTS[:3]
EACH = 12
"""Pages of a host."""

STARTS = 3
"""Of them, start requests."""

QUICK = {"ADAPTIVE_START_DELAY": 0.05, "ADAPTIVE_TARGET_CONCURRENCY": 8, "RETRY_TIMES": 10}

RUNS: Mapping[str, dict[str, Any]] = {
    "default": {"adaptive": False},
    "ours": {"settings": {}},
    "kept": {"settings": {"SCHEDULER_PRIORITY_QUEUE": "tests.own_queue.OwnQueue"}},
}
"""Scrapy alone; the add-on; the add-on with a queue of the user's own kept."""

PLAIN = "scrapy.pqueues.ScrapyPriorityQueue"


class PrioritiesSpider(LinksSpider):
    """Follows links, in three priorities."""

    name = "priorities"

    def parse(self, response: Response) -> Iterator[Any]:
        for each in super().parse(response):
            if isinstance(each, scrapy.Request):
                each = each.replace(priority=len(each.url) % 2 + int(each.url[-1]) % 2)
            yield each


class LambdaSpider(UrlsSpider):
    """Every other request cannot be stored."""

    name = "lambda"

    async def start(self) -> Any:
        async for request in super().start():
            if request.url[-1] in "02468":
                request.callback = lambda response: self.parse(response)
            yield request


class Site:
    """Some hosts refuse each page once; the first start request of a host links to the rest."""

    def __init__(self, *, silence: int) -> None:
        self.served = self.refused = 0
        self.silence = silence
        """Seconds that a refusal asks for."""

    def __call__(self, visit: Visit) -> Answer:
        if visit.host.startswith(tuple(f"{host}:" for host in REFUSING)) and visit.count == 1:
            self.refused += 1
            return refusal(retry_after=self.silence)
        self.served += 1
        links = [f"/{n}" for n in range(STARTS, EACH)] if visit.path == "/0" else []
        return Answer(body=links_page(links).body, delay=0.05)


def assert_all_served_once(site: Origin, urls: list[str]) -> None:
    served = Counter(f"http://{hit.host}{hit.path}" for hit in site.hits() if hit.status == 200)
    assert served == Counter(urls)


@pytest.mark.parametrize("disk_queue", ["Lifo", "Fifo"])
@pytest.mark.parametrize(
    "queues",
    [("default", "ours", "default"), ("ours", "default", "ours"), ("kept", "ours", "kept")],
    ids="-".join,
)
def test_a_job_moves_between_scrapys_queue_and_ours_and_every_page_comes_once(
    queues: tuple[str, ...],
    disk_queue: str,
    origin: Callable[..., Origin],
    crawl: Crawler,
    tmp_path: Path,
) -> None:
    """With refusals before every stop."""
    answers = Site(silence=0)
    site = origin(answers, addresses=HOSTS)
    starts = [
        {"url": f"{site.url_at(host)}/{n}", "priority": n} for n in range(STARTS) for host in HOSTS
    ]
    runs = []
    for n, queue in enumerate(queues):
        options = {"adaptive": True, **RUNS[queue]}
        settings = {
            **QUICK,
            "SCHEDULER_DISK_QUEUE": f"scrapy.squeues.Pickle{disk_queue}DiskQueue",
            "CONCURRENT_REQUESTS": 8,
            **options.pop("settings", {}),
        }
        running = crawl.start(
            PrioritiesSpider,
            settings,
            arguments={"urls": starts},
            jobdir=tmp_path / "job",
            **options,
        )
        mark = answers.served + len(HOSTS) * EACH // 4
        refused = answers.refused
        if n + 1 < len(queues):
            running.until(lambda: answers.served >= mark and answers.refused > refused)  # noqa: B023
            running.process.send_signal(signal.SIGTERM)
        runs.append(running.wait())
    assert [run.stats["finish_reason"] for run in runs] == ["shutdown", "shutdown", "finished"]
    pages = sorted(f"{site.url_at(host)}/{n}" for host in HOSTS for n in range(EACH))
    assert sorted(url for run in runs for url in run.urls) == pages
    assert all(run.urls for run in runs)
    assert_all_served_once(site, pages)


@pytest.mark.parametrize("disk_queue", ["Lifo", "Fifo"])
@pytest.mark.parametrize("then", ["default", "kept", "ours"])
def test_refused_requests_that_were_saved_are_fetched_by_whichever_queue_comes_next(
    then: str, disk_queue: str, origin: Callable[..., Origin], crawl: Crawler, tmp_path: Path
) -> None:
    """They lie in the job's files with a mark of ours."""
    answers = Site(silence=2)
    site = origin(answers, addresses=HOSTS)
    urls = [f"{site.url_at(host)}/{n}" for n in range(1, STARTS) for host in HOSTS]
    settings = {**QUICK, "SCHEDULER_DISK_QUEUE": f"scrapy.squeues.Pickle{disk_queue}DiskQueue"}
    arguments, job = {"urls": urls}, tmp_path / "job"
    running = crawl.start(UrlsSpider, settings, arguments=arguments, jobdir=job)
    running.until(lambda: answers.refused == len(REFUSING))
    running.process.send_signal(signal.SIGTERM)
    first = running.wait()
    saved = [path for path in job.rglob("*") if path.is_file()]
    assert any(b"adaptive_requeued" in path.read_bytes() for path in saved)
    options = {"adaptive": True, **RUNS[then]}
    settings.update(options.pop("settings", {}))
    second = crawl(UrlsSpider, settings, arguments=arguments, jobdir=job, **options)
    assert sorted(first.urls + second.urls) == sorted(urls)
    assert_all_served_once(site, urls)


def test_requests_that_cannot_be_stored_wait_in_memory_and_all_counts_agree(
    origin: Callable[..., Origin], crawl: Crawler, tmp_path: Path
) -> None:
    """Whatever was refused went in and came out twice, by the same door."""
    answers = Site(silence=0)
    site = origin(answers, addresses=HOSTS)
    urls = [f"{site.url_at(host)}/{n}" for n in range(1, EACH) for host in HOSTS]
    settings = {**QUICK, "ADAPTIVE_GLOBAL_TRIP_SLOTS": 100}
    arguments = {"urls": urls}
    done = crawl(LambdaSpider, settings, arguments=arguments, jobdir=tmp_path / "job")
    assert sorted(done.urls) == sorted(urls)
    unstorable = [url for url in urls if url[-1] in "02468"]
    assert done.stats["scheduler/unserializable"] == len(unstorable)
    assert done.stats["scheduler/enqueued"] == len(urls) + answers.refused
    assert done.stats["scheduler/enqueued/memory"] >= len(unstorable)
    for where in ("", "/memory", "/disk"):
        enqueued = done.stats[f"scheduler/enqueued{where}"]
        assert done.stats[f"scheduler/dequeued{where}"] == enqueued
    assert_all_served_once(site, urls)


def test_a_job_begun_with_a_queue_that_knows_no_hosts_is_refused_in_one_line(
    origin: Callable[..., Origin], crawl: Crawler, tmp_path: Path
) -> None:
    """No request is sent; with the queue it was begun with the job goes on."""
    site = origin(lambda visit: Answer(delay=0.2))
    urls = [f"{site.url}/{n}" for n in range(40)]
    plain = {"SCHEDULER_PRIORITY_QUEUE": PLAIN, "CONCURRENT_REQUESTS": 2}
    options: dict[str, Any] = {"arguments": {"urls": urls}, "jobdir": tmp_path / "job"}
    running = crawl.start(UrlsSpider, plain, adaptive=False, **options)
    running.until(lambda: len(site.hits()) >= 4)
    running.process.send_signal(signal.SIGTERM)
    first = running.wait()
    hits = len(site.hits())

    project = Project.make(tmp_path / "project", site.url, ADDON)
    done = project.scrapy("crawl", "one", "-s", f"JOBDIR={tmp_path / 'job'}")
    errors = [line for line in done.stdout.splitlines() if "priority queue" in line]
    assert len(errors) == 1, done.stdout
    assert f"JOBDIR = '{tmp_path / 'job'}'" in errors[0]
    assert "Traceback" not in done.stdout
    assert done.returncode != 0
    assert len(site.hits()) == hits

    second = crawl(UrlsSpider, plain, adaptive=False, **options)
    assert sorted(first.urls + second.urls) == sorted(urls)
