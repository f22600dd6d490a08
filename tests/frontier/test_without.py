"""Without ADAPTIVE_FRONTIER nothing of it is imported, and no page meets it."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys
import scrapy
from scrapy.crawler import AsyncCrawlerProcess


class OneSpider(scrapy.Spider):
    name = "one"
    start_urls = ["data:,page"]

    def parse(self, response):
        yield {"url": response.url}


process = AsyncCrawlerProcess({"ADDONS": {"scrapy_adaptive.Addon": 500}, "LOG_LEVEL": "ERROR"})
process.crawl(OneSpider)
process.start()
found = [name for name in sys.modules if "frontier" in name or name.startswith("sqlalchemy")]
assert found == [], found
"""


def test_a_crawl_without_a_frontier_imports_nothing_of_it() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
