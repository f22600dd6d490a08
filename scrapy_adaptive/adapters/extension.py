"""The extension: composes the parts of one crawl, and follows it from opening to close.

Laws
----
* Composition happens in one place, `AdaptiveThrottle.__init__`; the middlewares join it.
* A bad setting ends the crawl here, before any request is sent.
"""

from __future__ import annotations

import logging
import random
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING
from weakref import WeakSet

from scrapy import signals
from scrapy.exceptions import CloseSpider, DontCloseSpider, NotConfigured
from scrapy.utils.asyncio import create_looping_call

from scrapy_adaptive.core.breaker.global_breaker import GlobalBreaker
from scrapy_adaptive.core.governor import Governor

from .errors import SettingsError
from .queues.routing import Routing
from .refusal_rules import RefusalRules
from .reporting import Parked, Reporting
from .requeue import Requeue
from .robots import CrawlDelays, RefusedRobots
from .scrapy_internals import Engine, is_interactive, quieten, stop_autothrottle
from .set_up import (
    check_middlewares,
    check_switched_off,
    missing_extension,
    take_over_autothrottle,
)
from .settings import AdaptiveSettings, is_enabled, read_settings, unknown_names
from .state_file import StateFile
from .traffic import PARKED, Traffic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from scrapy.crawler import Crawler
    from scrapy.utils.asyncio import AsyncioLoopingCall
    from twisted.internet.task import LoopingCall
    from typing_extensions import Self

logger = logging.getLogger(__name__)

_RUNNING: WeakSet[AdaptiveThrottle] = WeakSet()
"""Extensions of the crawlers that run in this process."""


class AdaptiveThrottle:
    """Scrapy extension: paces all requests of one crawler."""

    def __init__(self, crawler: Crawler) -> None:
        if not is_enabled(crawler.settings):
            check_switched_off(crawler.settings)
            raise NotConfigured
        self._is_beside_autothrottle = take_over_autothrottle(crawler.settings)
        settings = read_settings(crawler.settings, crawler.spider)
        check_middlewares(crawler.settings)
        stats = crawler.stats
        fingerprinter = crawler.request_fingerprinter
        assert stats is not None
        assert fingerprinter is not None
        self._crawler = crawler
        self._settings = settings
        self._summary: LoopingCall | AsyncioLoopingCall | None = None
        self.engine = Engine(crawler)
        self.crawl_delays = CrawlDelays(settings.robots_user_agent, settings.max_crawl_delay)
        self.refused_robots = RefusedRobots(settings.robotstxt_refused)
        self._reporting = Reporting(stats, own_slots=settings.slot_limits, debug=settings.debug)
        self.traffic = Traffic(
            make_governor(settings),
            self.engine,
            RefusalRules(settings.refusal_codes, settings.classifier, stats),
            self._reporting,
            self.crawl_delays,
            page_of=fingerprinter.fingerprint,
            may_end_parked=settings.jobdir is not None,
        )
        self.hosts = Routing(
            self.traffic,
            self.engine,
            stats,
            discount=settings.host_depth_discount,
            most=settings.max_slots,
        )
        self._state_file = StateFile(settings.state_path)
        self._state_file.recall(self.traffic.governor, time.monotonic())
        self.requeue = Requeue(
            self.traffic,
            stats,
            fingerprint=fingerprinter.fingerprint,
            max_refusals=settings.max_refusals,
            is_interactive=is_interactive(),
        )

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Compose the parts and follow the crawl.

        Raises:
            SettingsError: a setting is not allowed.
            NotConfigured: ADAPTIVE_ENABLED is False.
        """
        with one_line_errors():
            extension = cls(crawler)
        connect = crawler.signals.connect
        connect(extension._on_opened, signal=signals.spider_opened)
        connect(extension._on_idle, signal=signals.spider_idle)
        connect(extension._on_closed, signal=signals.spider_closed)
        connect(extension.traffic.in_flight.on_wire, signal=signals.request_reached_downloader)
        connect(extension.traffic.in_flight.on_response, signal=signals.response_downloaded)
        return extension

    @classmethod
    def of(cls, crawler: Crawler, part: str = "another part of it") -> AdaptiveThrottle:
        """The extension of this crawler, for the part of this name.

        Raises:
            NotConfigured: ADAPTIVE_ENABLED is False.
            SettingsError: the part is switched on without the extension.
        """
        extension = crawler.get_extension(AdaptiveThrottle)
        if extension is not None:
            return extension
        with one_line_errors():
            if not is_enabled(crawler.settings):
                raise NotConfigured
            raise missing_extension(crawler.settings, part)

    def attach(self) -> None:
        """Follow the engine's requests, from the first one on."""
        if not self.engine.is_attached:
            self.engine.attach(
                on_left=self.traffic.on_left,
                on_close=self._on_asked_to_close,
                wrap_scheduler=self.traffic.returns.wrap,
            )

    # Signals

    def _on_opened(self) -> None:
        self.attach()
        if self._is_beside_autothrottle:
            stop_autothrottle(self._crawler)
        self._reporting.log_start(self._settings, unknown_names(self._crawler.settings))
        self._reporting.know_neighbours(other.traffic.governor for other in _RUNNING)
        _RUNNING.add(self)
        if self._settings.log_interval:
            self._summary = create_looping_call(self._on_interval)
            self._summary.start(self._settings.log_interval, now=False)

    def _on_idle(self) -> None:
        if self.traffic.is_holding:
            raise DontCloseSpider
        if self.traffic.may_end_parked:
            raise CloseSpider(PARKED)

    def _on_asked_to_close(self) -> None:
        self._reporting.log_parked(self._parked(time.monotonic()))
        self.traffic.on_close()

    def _on_closed(self) -> None:
        _RUNNING.discard(self)
        if self._summary is not None and self._summary.running:
            self._summary.stop()
        now = time.monotonic()
        self._state_file.save(self.traffic.governor, now)
        self._reporting.write_stats(self.traffic.governor, now)
        self._reporting.log_table(self.traffic.governor, now)

    def _on_interval(self) -> None:
        now = time.monotonic()
        self._reporting.write_stats(self.traffic.governor, now)
        self._reporting.log_summary(self.traffic.governor, self.traffic.waiting_count, now)
        self._reporting.log_parked(self._parked(now))

    def _parked(self, now: float) -> list[Parked]:
        """Parked slots, for how many seconds yet, and how many requests wait for them."""
        traffic = self.traffic
        return [
            Parked(slot.key, slot.silent_until - now, traffic.waiting(slot.key))
            for slot in traffic.governor.parked(now)
        ]


class JoinsExtension:
    """A downloader middleware that works for the extension of its crawl."""

    def __init__(self, extension: AdaptiveThrottle) -> None:
        self._extension = extension
        self._traffic = extension.traffic

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Join the extension of this crawl."""
        return cls(AdaptiveThrottle.of(crawler, cls.__name__))


@contextmanager
def one_line_errors() -> Iterator[None]:
    """A bad setting is told in one line of our log, and raised."""
    try:
        yield
    except SettingsError as error:
        if not error.is_told:
            error.is_told = True
            logger.error("%s", error)
            quieten(error)
        raise


def make_governor(
    settings: AdaptiveSettings, chance: Callable[[], float] | None = None
) -> Governor:
    """The governor that these settings ask for; `chance` returns a number in [0, 1)."""
    return Governor(
        settings.limits,
        slot_limits=settings.slot_limits,
        global_breaker=GlobalBreaker(
            slots=settings.global_trip_slots,
            window=settings.global_window,
            cooldown=settings.global_cooldown,
        ),
        global_rate=settings.global_rate,
        max_slots=settings.max_slots,
        chance=chance or random.random,
        ceiling=settings.ceiling,
    )
