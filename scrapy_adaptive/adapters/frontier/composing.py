"""Opens a crawl's frontier, and refuses what cannot be beside it.

Laws
----
* Two truths about one crawl are refused when it starts, in one line that says why.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy_adaptive.adapters.errors import SettingsError
from scrapy_adaptive.frontier.opening import open_frontier
from scrapy_adaptive.frontier.poller import TIE, PollStrategy, Ranking
from scrapy_adaptive.frontier.protocol import FrontierError, UnavailableError

from .crawl import FrontierCrawl
from .redis_settings import connector, follow

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

    from scrapy_adaptive.adapters.scrapy_internals import Engine
    from scrapy_adaptive.adapters.settings import AdaptiveSettings
    from scrapy_adaptive.adapters.traffic import Traffic

OTHERS = ("scrapy_redis", "frontera", "scrapy_frontera")
"""Packages whose schedulers keep a crawl's requests themselves."""


def make_frontier(
    crawler: Crawler, settings: AdaptiveSettings, traffic: Traffic, engine: Engine
) -> FrontierCrawl:
    """The frontier of this crawl.

    Raises:
        SettingsError: it cannot be used, or not beside what else is set.
    """
    assert settings.frontier is not None
    _refuse_two_truths(crawler, settings)
    ranking = Ranking(max(TIE, settings.host_depth_discount), settings.frontier_per_host)
    try:
        spider, given = crawler.spidercls.name, crawler.settings
        frontier = open_frontier(settings.frontier, spider, ranking, connector(given))
        follow(frontier, settings.frontier, spider, given)
        state = frontier.load_spider()
    except (FrontierError, UnavailableError) as error:
        raise SettingsError("ADAPTIVE_FRONTIER", settings.frontier, str(error)) from None
    strategy = (settings.frontier_strategy or PollStrategy)(
        orders=settings.frontier_orders,
        hosts=settings.frontier_hosts,
        interval=settings.frontier_poll_interval,
        min_orders=settings.frontier_min_orders,
        min_hosts=settings.frontier_min_hosts,
    )
    return FrontierCrawl(crawler, settings, traffic, engine, frontier, strategy, state)


def _refuse_two_truths(crawler: Crawler, settings: AdaptiveSettings) -> None:
    """What else would keep the crawl's requests.

    Raises:
        SettingsError: there is something.
    """
    if settings.jobdir is not None:
        raise SettingsError(
            "JOBDIR",
            settings.jobdir,
            "ADAPTIVE_FRONTIER is set too, and both would keep the crawl's requests: with a "
            "frontier no JOBDIR is needed",
        )
    scheduler = crawler.settings.get("SCHEDULER")
    module = scheduler if isinstance(scheduler, str) else getattr(scheduler, "__module__", "")
    if module.partition(".")[0] in OTHERS:
        raise SettingsError(
            "SCHEDULER",
            scheduler,
            "ADAPTIVE_FRONTIER is set too, and both would keep the crawl's requests: allowed "
            "beside it is Scrapy's own scheduler",
        )
