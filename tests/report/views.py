"""Crawls made by hand, for what is drawn of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from scrapy_adaptive.report.building import Builder
from scrapy_adaptive.report.crawl import Crawl
from scrapy_adaptive.report.live.server import LiveView
from scrapy_adaptive.report.records import CrawlRecord, End, EventRecord, Record, SiteRecord
from tests.report.journals import start

BUSY = 60
"""Sites of a large crawl that have a record each ten seconds."""


def crawl_of(records: Iterable[Record], *, ends: bool = True) -> Crawl:
    """The crawl of these records."""
    builder = Builder()
    builder.add(start())
    last = 0.0
    for record in records:
        builder.add(record)
        last = record.at if not isinstance(record, End) and hasattr(record, "at") else last
    if ends:
        builder.add(End(last, "finished"))
    return builder.crawl()


def sites(names: Sequence[str], seconds: float = 60.0) -> list[Record]:
    """Sites of which each has served its number of pages, and refused a tenth of them."""
    records: list[Record] = []
    for number, name in enumerate(names, start=1):
        records.append(
            SiteRecord(
                seconds,
                name,
                fresh=True,
                sent=number,
                served=number,
                refused=number // 10,
                requeued=number // 10,
                rate=2.0,
                state="crawling",
                by=("limit", "latency", "delay")[number % 3],
                value=2.0,
                limit=2.0 if number % 3 == 0 else 0.0,
                refused_at=2.1 if number % 3 == 0 else 0.0,
                paused=float(number // 10),
            )
        )
        if number % 10 == 0:
            records.append(EventRecord(seconds, "pause", name, 1.0, "site", 429, 2.0))
    count = len(names)
    served = count * (count + 1) // 2
    records.append(CrawlRecord(seconds, served, served, sites=count))
    return records


@contextmanager
def live_view(names: Sequence[str]) -> Iterator[LiveView]:
    """A live view of a crawl of these sites."""
    live = LiveView("127.0.0.1", 0)
    live.start()
    live.put([start(), *sites(names)])
    yield live
    live.stop()


def day(count: int, seconds: int = 86_400) -> list[Record]:
    """A day of so many sites, of which `BUSY` are crawled all the time."""
    records: list[Record] = []
    for at in range(120, seconds + 1, 120):
        for number in range(BUSY):
            served = at * 8 + number
            refused = at // 300
            busy = f"www.site-{number}.example"
            records.append(
                SiteRecord(
                    float(at),
                    busy,
                    sent=served,
                    served=served,
                    refused=refused,
                    rate=8.13,
                    by="limit",
                )
            )
            if at % 1_200 == 0:
                records.append(EventRecord(float(at), "pause", busy, 12.0, "site", 429, 8.4))
                records.append(EventRecord(at + 12.3, "recovery", busy, 12.3, rate=8.13))
        records.append(CrawlRecord(float(at), at * 500, at * 500, at, sites=count))
    others = [f"www.site-{number}.example" for number in range(BUSY, count)]
    return records + sites(others, float(seconds))
