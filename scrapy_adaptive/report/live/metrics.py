"""The crawl in OpenMetrics, for Prometheus and its like.

Laws
----
* The busiest `MOST_SITES` sites have lines of their own; the sums are those of all.
* What is not known of a site yet, its latency, has no line: 0 would be a number.
* prometheus_client writes them; its global registry is left alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from scrapy_adaptive.report.page.sites import state_of

if TYPE_CHECKING:
    from prometheus_client.core import Metric

    from scrapy_adaptive.report.crawl import Crawl, Site

MOST_SITES = 100

COUNTERS = {
    "sent": "Requests sent",
    "served": "Requests served: pages",
    "refused": "Requests refused",
    "failed": "Downloads that failed",
    "requeued": "Refused requests that went back to their queue",
}
GAUGES = {"in_flight": "Requests under way", "waiting": "Requests that wait"}


class Collector:
    """What a registry asks; answers with one crawl.

    Args:
        crawl: as it is now.
    """

    def __init__(self, crawl: Crawl) -> None:
        self._crawl = crawl

    def collect(self) -> Iterator[Metric]:
        """All families."""
        yield from self._sums()
        yield from self._sites([*self._crawl.sites.values()][:MOST_SITES])

    def _sums(self) -> Iterator[Metric]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        totals = self._crawl.totals
        for name, words in {**COUNTERS, "given_up": "Requests given up"}.items():
            value = getattr(totals, name)
            yield CounterMetricFamily(f"scrapy_adaptive_{name}", f"{words}.", value=value)
        for name, words in GAUGES.items():
            value = getattr(totals, name)
            yield GaugeMetricFamily(f"scrapy_adaptive_{name}", f"{words}.", value=value)
        states = GaugeMetricFamily("scrapy_adaptive_sites", "Sites by state.", labels=["state"])
        for state, count in Counter(
            state_of(site, self._crawl) for site in self._crawl.sites.values()
        ).items():
            states.add_metric([state], count)
        yield states

    def _sites(self, sites: list[Site]) -> Iterator[Metric]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        for name, words in COUNTERS.items():
            counter = CounterMetricFamily(
                f"scrapy_adaptive_site_{name}", f"{words}, of a site.", labels=["site"]
            )
            for site in sites:
                counter.add_metric([site.name], getattr(site, name))
            yield counter
        values: dict[str, tuple[str, Callable[[Site], float | None]]] = {
            "allowed_rate": ("Allowed rate, requests a second.", lambda site: site.rate),
            "limit": ("Limit found, requests a second; 0 for none.", lambda site: site.limit),
            "latency_seconds": ("Median latency of late.", lambda site: site.latency or None),
            "paused_seconds": ("Time paused so far.", lambda site: site.paused),
        }
        for name, (words, value_of) in values.items():
            gauge = GaugeMetricFamily(f"scrapy_adaptive_site_{name}", words, labels=["site"])
            for site in sites:
                value = value_of(site)
                if value is not None:
                    gauge.add_metric([site.name], value)
            yield gauge
        held = GaugeMetricFamily(
            "scrapy_adaptive_site_held_back",
            "1 for the reason that holds a site back now.",
            labels=["site", "reason"],
        )
        for site in sites:
            held.add_metric([site.name, site.by], 1)
        yield held


def openmetrics(crawl: Crawl) -> tuple[bytes, str]:
    """The text of a crawl as it is now, and its content type."""
    from prometheus_client import CollectorRegistry
    from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST, generate_latest

    registry = CollectorRegistry(auto_describe=False)
    registry.register(Collector(crawl))
    return generate_latest(registry), CONTENT_TYPE_LATEST
