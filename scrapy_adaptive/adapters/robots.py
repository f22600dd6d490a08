"""Crawl-delay, as robots.txt files ask for it.

Laws
----
* It is read from the decoded response itself, so that every supported Scrapy serves.
* It holds for the host whose robots.txt said so, in whatever slot its requests are, and wherever
  that robots.txt was redirected to.
* It is obeyed up to a maximum that the user sets; what is not a number is ignored.
* A robots.txt that is refused to the end is read as the user says, and one line tells how.
"""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING
from urllib.parse import ParseResult, urlparse

from protego import Protego
from scrapy.http.request import NO_CALLBACK
from scrapy.utils.httpobj import urlparse_cached

from scrapy_adaptive.report import units

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.http import Response

logger = logging.getLogger(__name__)

CRAWL, DISALLOW = READINGS = ("crawl", "disallow")
"""What a robots.txt that is never served may mean: Scrapy's reading, and RFC 9309's."""

NOTHING_ALLOWED = b"User-agent: *\nDisallow: /\n"

MOST_TOLD = 10
"""Hosts of which each may bring a line; in a broad crawl many have a Crawl-delay."""


def is_robots_txt(request: Request) -> bool:
    """Whether this is RobotsTxtMiddleware's own request."""
    return (
        request.callback is NO_CALLBACK
        and "dont_obey_robotstxt" in request.meta
        and _asked_for(request).path == "/robots.txt"
    )


def _asked_for(request: Request) -> ParseResult:
    """The URL before any redirect."""
    urls = request.meta.get("redirect_urls")
    return urlparse(urls[0]) if urls else urlparse_cached(request)


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
        host = _asked_for(request).netloc
        self._delays[host] = min(float(asked), self._most)
        if len(self._delays) <= MOST_TOLD:
            logger.info(
                "%s asks for a Crawl-delay of %s: its requests are %s apart",
                host,
                units.duration(asked),
                units.duration(self._delays[host]),
            )


class RefusedRobots:
    """What is done where a host refuses its robots.txt to the end.

    **Source**: RFC 9309 section 2.3.1.4: a crawler must assume complete disallow while robots.txt
    cannot be reached because of a server error.
    **Departs**: a 429 counts as a 503 does; and by default Scrapy's own reading stays.

    Args:
        reading: one of `READINGS`.
    """

    def __init__(self, reading: str) -> None:
        self._reading = reading
        self._told: set[str] = set()

    def answer(self, request: Request, response: Response) -> Response:
        """What RobotsTxtMiddleware is given in place of the refusal."""
        host = _asked_for(request).netloc
        if host not in self._told and len(self._told) < MOST_TOLD:
            self._told.add(host)
            logger.warning(
                "%s refuses its robots.txt (%d): %s (ADAPTIVE_ROBOTSTXT_REFUSED = %r)",
                host,
                response.status,
                "its pages are crawled" if self._reading == CRAWL else "its pages are not crawled",
                self._reading,
            )
        return response if self._reading == CRAWL else response.replace(body=NOTHING_ALLOWED)
