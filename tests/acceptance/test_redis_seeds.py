"""Spiders of scrapy-redis on a frontier: their seeds, and their settings."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import redis
from scrapy.http import Response

from tests.acceptance.surviving import has_hits
from tests.crawling import Crawler
from tests.servers.origin import Answer, Origin
from tests.servers.valkey import Valkey

scrapy_redis = pytest.importorskip("scrapy_redis.spiders")

PAGES = 60
KEY = "seeded:start_urls"


class SeededSpider(scrapy_redis.RedisSpider):  # type: ignore[misc, name-defined, unused-ignore]
    """Takes its seeds from Redis."""

    name = "seeded"
    max_idle_time = 1

    def parse(self, response: Response) -> Any:
        yield {"url": response.url}


def settings(valkey: Valkey, **more: Any) -> dict[str, Any]:
    return {
        "ADAPTIVE_FRONTIER": "redis://",
        "REDIS_URL": valkey.url(),
        "ADAPTIVE_FRONTIER_LEASE": 2,
        "ADAPTIVE_FRONTIER_POLL_INTERVAL": 0.2,
        "ADAPTIVE_START_DELAY": 0.02,
        "ADAPTIVE_LOG_INTERVAL": 0,
        **more,
    }


@pytest.fixture
def client(valkey: Valkey) -> Any:
    client: Any = redis.Redis.from_url(valkey.url())
    client.flushall()
    return client


def push(client: Any, kind: str, urls: list[str]) -> None:
    """Seeds as the users of scrapy-redis push them."""
    seeds = [json.dumps({"url": url}) for url in urls]
    if kind == "list":
        client.rpush(KEY, *seeds)
    elif kind == "set":
        client.sadd(KEY, *seeds)
    else:
        client.zadd(KEY, {seed: n for n, seed in enumerate(seeds)})


@pytest.mark.parametrize("kind", ["list", "set", "zset"])
def test_a_kill_loses_no_seed(
    kind: str, valkey: Valkey, client: Any, origin: Callable[..., Origin], crawl: Crawler
) -> None:
    """Not one of those that were taken, and are no rows yet."""
    site = origin(lambda visit: Answer(delay=0.01), addresses=["127.0.4.1", "127.0.4.2"])
    urls = [f"{site.url_at(f'127.0.4.{n % 2 + 1}')}/{n}" for n in range(PAGES)]
    push(client, kind, urls)
    client.rpush(f"{KEY}:other", "untouched")
    kinds = {"set": "REDIS_START_URLS_AS_SET", "zset": "REDIS_START_URLS_AS_ZSET"}
    given = settings(valkey, **{name: kind == each for each, name in kinds.items()})
    running = crawl.start(SeededSpider, given)
    running.until(partial(has_hits, site, 5))
    running.kill()
    done = crawl(SeededSpider, given)
    found = Counter(f"http://{hit.host}{hit.path}" for hit in site.hits())
    assert set(found) == set(urls)
    assert client.exists(KEY) == 0
    assert client.llen(f"{KEY}:other") == 1
    assert "Traceback" not in done.log


def test_seeds_that_nobody_can_read_are_named_skipped_and_counted(
    valkey: Valkey, client: Any, origin: Callable[..., Origin], crawl: Crawler
) -> None:
    site = origin(lambda visit: Answer())
    client.rpush(KEY, '{"url": "no url at all"}', b"\xff\xfe", '{"url": 3}')
    client.rpush(KEY, "{" * 2000, json.dumps({"url": f"{site.url}/1"}), "x" * 2_000_000)
    done = crawl(SeededSpider, settings(valkey))
    assert [hit.path for hit in site.hits()] == ["/1"]
    assert done.stats["adaptive/frontier/unreadable"] >= 4
    assert "a seed of 2000000 bytes" in done.log
    assert "Traceback" not in done.log


def test_nothing_is_flushed_while_another_worker_crawls(
    valkey: Valkey, client: Any, origin: Callable[..., Origin], crawl: Crawler
) -> None:
    site = origin(lambda visit: Answer(delay=0.2))
    push(client, "list", [f"{site.url}/{n}" for n in range(PAGES)])
    first = crawl.start(SeededSpider, settings(valkey))
    first.until(partial(has_hits, site, 5))
    second = crawl.start(SeededSpider, settings(valkey, SCHEDULER_FLUSH_ON_START=True))
    second.until(lambda: "nothing is flushed" in second.log)
    second.interrupt()
    second.wait()
    first.until(partial(has_hits, site, PAGES))
    first.wait()
    assert len({hit.path for hit in site.hits()}) == PAGES


def test_a_crawl_that_is_flushed_begins_anew(
    valkey: Valkey, client: Any, origin: Callable[..., Origin], crawl: Crawler
) -> None:
    """With SCHEDULER_PERSIST = False a finished crawl leaves nothing behind."""
    site = origin(lambda visit: Answer())
    given = settings(valkey, SCHEDULER_PERSIST=False)
    push(client, "list", [f"{site.url}/1"])
    crawl(SeededSpider, given)
    left = [key for key in client.keys("{adaptive}:*") if b":u" in key or b":q:" in key]
    assert left == []


def test_an_old_queue_is_named(
    valkey: Valkey, client: Any, origin: Callable[..., Origin], crawl: Crawler
) -> None:
    """What is in it is not read: it may be a pickle of anybody's."""
    client.zadd("seeded:requests", {b"cos\nsystem\n(S'false'\ntR.": 0})
    done = crawl(SeededSpider, settings(valkey))
    assert "1 requests of scrapy-redis wait in seeded:requests" in done.log
    assert client.zcard("seeded:requests") == 1


def test_beside_scrapy_redis_own_scheduler_it_says_what_is_not_shared(
    valkey: Valkey, client: Any, origin: Callable[..., Origin], crawl: Crawler
) -> None:
    """And works as it does alone."""
    site = origin(lambda visit: Answer())
    given = settings(
        valkey,
        ADAPTIVE_FRONTIER=None,
        SCHEDULER="scrapy_redis.scheduler.Scheduler",
        DUPEFILTER_CLASS="scrapy_redis.dupefilter.RFPDupeFilter",
    )
    push(client, "list", [f"{site.url}/{n}" for n in range(3)])
    done = crawl(SeededSpider, given)
    assert len({hit.path for hit in site.hits()}) == 3
    assert done.log.count("scrapy-redis shares the requests, not the pace") == 1
