"""Journals made by hand."""

from __future__ import annotations

from pathlib import Path

from scrapy_adaptive.report.records import (
    VERSION,
    CrawlRecord,
    End,
    EventRecord,
    Record,
    SiteRecord,
    Start,
    to_line,
)

NOON = 1_900_000_000.0

SITE = "site.example"


def start(at: float = NOON, *, run: str = "a") -> Start:
    return Start(VERSION, at, "pages", run, "0.1.0")


def run_of(served: int, *, at: float = NOON, run: str = "a", ends: bool = True) -> list[Record]:
    """One site, served a page a second, refused once in the middle."""
    records: list[Record] = [start(at, run=run)]
    for second in range(1, served + 1):
        refused = int(second > served // 2)
        if second == 1:
            records.append(
                SiteRecord(1.0, SITE, fresh=True, sent=1, served=1, rate=1.0, by="delay")
            )
        else:
            records.append(SiteRecord(second, SITE, sent=second, served=second, refused=refused))
        records.append(CrawlRecord(second, second, second, refused, waiting=9, sites=1))
    records.insert(-2, EventRecord(served / 2, "pause", SITE, 1.0, "site", 429))
    if ends:
        records.append(End(float(served), "finished"))
    return records


def write(path: Path, records: list[Record]) -> Path:
    path.write_text("".join(map(to_line, records)), encoding="ascii")
    return path
