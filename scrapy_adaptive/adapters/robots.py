"""Crawl-delay, as robots.txt files ask for it.

Laws
----
* It is read from the decoded response itself, so that every supported Scrapy serves.
* It holds for the host whose robots.txt said so, in whatever slot its requests are.
* It is obeyed up to a maximum that the user sets; what is not a number is ignored.
"""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING

from protego import Protego
from scrapy.utils.httpobj import urlparse_cached

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.http import Response

logger = logging.getLogger(__name__)


def is_robots_txt(request: Request) -> bool:
    """Whether this is RobotsTxtMiddleware's own request."""
    return "dont_obey_robotstxt" in request.meta and urlparse_cached(request).path == "/robots.txt"


class CrawlDelays:
    """Crawl-delay of each host, in seconds.

    Args:
        user_agent: the name under which robots.txt is read; None where it is not obeyed.
        most: most seconds obeyed.
    """

    def __init__(self, user_agent: str | None, most: float) -> None:
        self._user_agent = user_agent
        self._most = most
        self._delays: dict[str, float] = {}

    def __len__(self) -> int:
        return len(self._delays)

    def of(self, request: Request) -> float:
        """Seconds that the request's host asks for between sends; 0 where it asks for none."""
        return self._delays.get(urlparse_cached(request).netloc, 0.0)

    def on_robots_txt(self, request: Request, response: Response) -> None:
        """Read a robots.txt that was served."""
        if self._user_agent is None or response.status != 200:
            return
        rules = Protego.parse(response.body.decode("utf-8", errors="ignore"))
        asked = rules.crawl_delay(self._user_agent)
        if asked is None or not math.isfinite(asked) or asked <= 0:
            return
        host = urlparse_cached(request).netloc
        self._delays[host] = min(float(asked), self._most)
        logger.info(
            "%s asks for a Crawl-delay of %g s: its requests are %g s apart",
            host,
            asked,
            self._delays[host],
        )
