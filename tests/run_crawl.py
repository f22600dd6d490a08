"""The process of one test crawl: `python -m tests.run_crawl FOLDER` runs FOLDER/job.pickle."""

from __future__ import annotations

import json
import pickle
import pkgutil
import signal
import sys
import time
from pathlib import Path
from typing import Any

from itemadapter import ItemAdapter
from scrapy import signals
from scrapy.crawler import AsyncCrawlerProcess, CrawlerProcess
from scrapy.settings import Settings

SPARE_SECONDS = 10
"""How long after the test's own timeout the process ends itself."""


def main(folder: Path) -> int:
    """Run the crawl and leave items.jsonl (as they come) and outcome.json (at the end)."""
    job: dict[str, Any] = pickle.loads((folder / "job.pickle").read_bytes())
    signal.alarm(int(job["timeout"]) + SPARE_SECONDS)
    spider = job["spider"]
    spider = pkgutil.resolve_name(spider) if isinstance(spider, str) else spider
    settings = Settings(job["settings"])
    process = process_class(settings)(settings)
    crawler = process.create_crawler(spider)
    with (folder / "items.jsonl").open("w", buffering=1, encoding="utf-8") as items:

        def write_item(item: Any) -> None:
            items.write(json.dumps(ItemAdapter(item).asdict(), default=str) + "\n")

        crawler.signals.connect(write_item, signals.item_scraped)
        started_at = time.time()
        process.crawl(crawler, **job["arguments"])
        process.start()
    outcome = {
        "stats": crawler.stats.get_stats() if crawler.stats else {},
        "started_at": started_at,
        "ended_at": time.time(),
    }
    (folder / "outcome.json").write_text(json.dumps(outcome, default=str), encoding="utf-8")
    return int(process.bootstrap_failed)


def process_class(settings: Settings) -> type[AsyncCrawlerProcess] | type[CrawlerProcess]:
    """The class `scrapy crawl` would take."""
    with_reactor = settings.getbool("TWISTED_REACTOR_ENABLED")
    if with_reactor and not settings["TWISTED_REACTOR"].endswith("AsyncioSelectorReactor"):
        return CrawlerProcess
    return AsyncCrawlerProcess


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
