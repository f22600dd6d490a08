"""The arms: the same crawl, paced in eight ways.

Laws
----
* Spider, concurrency and retry defaults are the same in all; an arm adds its own pacing only.
* The arms that do not feel a refusal send as fast as they can once they are refused. They and
  their sites run at a lower priority, so that on a small machine they do not take the others'
  processor time. On an idle machine that costs them refused hits only; where something else
  wants the processor it costs them pages too, so a run is to be had on an idle machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

COMMON: dict[str, Any] = {
    "BOT_NAME": "pages",
    "SPIDER_MODULES": ["benchmarks.crawls.spider"],
    "CONCURRENT_REQUESTS": 32,
    "CONCURRENT_REQUESTS_PER_DOMAIN": 16,
    "DOWNLOAD_DELAY": 0,
    "TELNETCONSOLE_ENABLED": False,
    "REMOTE_CONTROL_ENABLED": False,
    "LOG_LEVEL": "WARNING",
    "RETRY_GIVE_UP_LOG_LEVEL": "INFO",
}

NICE = 10
"""Priority given up by an arm that does not feel a refusal."""

REFUSAL_CODES = [429, 503]


@dataclass(frozen=True, slots=True)
class Arm:
    """One way to crawl."""

    name: str
    pacing: Mapping[str, Any] = field(default_factory=dict)
    nice: int = 0

    @property
    def settings(self) -> dict[str, Any]:
        """All settings of its crawl."""
        return {**COMMON, **self.pacing}


def autothrottle(target_concurrency: float) -> dict[str, Any]:
    """Scrapy's own extension."""
    return {
        "AUTOTHROTTLE_ENABLED": True,
        "AUTOTHROTTLE_START_DELAY": 1.0,
        "AUTOTHROTTLE_TARGET_CONCURRENCY": target_concurrency,
    }


def adaptive(ceiling: str) -> dict[str, Any]:
    """The add-on, with one of its laws that learn a site's limit."""
    return {
        "ADDONS": {"scrapy_adaptive.Addon": 500},
        "ADAPTIVE_TARGET_CONCURRENCY": 8.0,
        "ADAPTIVE_CEILING": ceiling,
    }


NICER: dict[str, Any] = {
    **autothrottle(8.0),
    "EXTENSIONS": {
        "scrapy.extensions.throttle.AutoThrottle": None,
        "scrapy_extensions.NicerAutoThrottle": 0,
    },
    "AUTOTHROTTLE_HTTP_CODES": REFUSAL_CODES,
    "DOWNLOADER_MIDDLEWARES": {
        "scrapy.downloadermiddlewares.retry.RetryMiddleware": None,
        "scrapy_extensions.DelayedRetryMiddleware": 550,
    },
    "DELAYED_RETRY_HTTP_CODES": REFUSAL_CODES,
    "DELAYED_RETRY_BACKOFF": True,
}
"""scrapy-extensions: both of its parts, for both kinds of refusal; retries without end.

Its documentation names no values: backoff is on as in its author's own crawlers, N as in ours.
"""

ARTICLE: dict[str, Any] = {
    "DOWNLOADER_MIDDLEWARES": {"benchmarks.crawls.article.ArticleMiddleware": 950},
}

BOTOCORE: dict[str, Any] = {
    "DOWNLOADER_MIDDLEWARES": {"benchmarks.crawls.cubic.CubicMiddleware": 950},
}

CANDIDATE = "hold"
"""The arm that the others are held against, and that has bounds to keep."""

ARMS = (
    Arm("stock", nice=NICE),
    Arm("autothrottle-1", autothrottle(1.0), nice=NICE),
    Arm("autothrottle-8", autothrottle(8.0), nice=NICE),
    Arm("nicer", NICER),
    Arm("article", ARTICLE),
    Arm("botocore", BOTOCORE),
    Arm("aimd", adaptive("aimd")),
    Arm(CANDIDATE, adaptive("hold")),
)
