"""Refusals on their way back, once the body is decoded.

Laws
----
* Between HttpCompression (590) and Retry (550): the classifier sees the decoded body, and
  RetryMiddleware sees only what is not fetched again.
* A cached response has no permit and passes untouched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .extension import JoinsExtension
from .robots import is_robots_txt

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.http import Response


class AdaptiveRefusals(JoinsExtension):
    """Downloader middleware at 585."""

    def process_response(self, request: Request, response: Response) -> Request | Response:
        """Send a refused request back; let everything else pass."""
        if is_robots_txt(request):
            self._extension.crawl_delays.on_robots_txt(request, response)
        flight = self._throttle.flights.get(request)
        if flight is None:
            return response
        self._throttle.flights.on_decoded(request, response)
        return self._extension.again.after(request, flight) or response

    def process_exception(self, request: Request, exception: Exception) -> Request | None:
        """Send a request back whose failure counted as pain; others have seen the failure."""
        flight = self._throttle.flights.get(request)
        return None if flight is None else self._extension.again.after(request, flight)
