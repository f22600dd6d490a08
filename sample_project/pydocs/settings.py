"""Settings of the sample project: a usual Scrapy project and one line more."""

from pathlib import Path

import scrapy

BOT_NAME = "pydocs"
SPIDER_MODULES = ["pydocs.spiders"]
NEWSPIDER_MODULE = "pydocs.spiders"

# The one line. With it the crawl finds each site's pace by itself, stops at once when a site
# refuses (429, 503), asks again later for what was refused, and loses no page. Nothing else
# has to be set; take the line away and this is plain Scrapy again.
ADDONS = {"scrapy_adaptive.Addon": 500}
# One log line per response tells what it learned: scrapy crawl pages -s ADAPTIVE_DEBUG=True

# Scrapy's own settings keep their meaning beside it. DOWNLOAD_DELAY would be a floor and
# CONCURRENT_REQUESTS_PER_DOMAIN a cap; both are left at Scrapy's defaults (0 s and 8), so
# that the pace is the site's to say.

ROBOTSTXT_OBEY = True
# Who we are and what we run, so that a site can tell us apart and hold us to its rules.
USER_AGENT = f"pydocs/1.0 (sample project of scrapy-adaptive; Scrapy/{scrapy.__version__}; +https://scrapy.org)"

ITEM_PIPELINES = {"pydocs.pipelines.CleanPage": 300}

RUN = Path(__file__).resolve().parents[1] / "run"
FEEDS = {
    RUN / "%(name)s.jsonl": {"format": "jsonlines", "encoding": "utf8", "overwrite": True},
}

# The site is on this machine: no proxy of the environment leads there.
HTTPPROXY_ENABLED = False

TELNETCONSOLE_ENABLED = False
