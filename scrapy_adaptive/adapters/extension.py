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
from typing import TYPE_CHECKING
from weakref import WeakSet

from scrapy import signals
from scrapy.exceptions import NotConfigured
from scrapy.utils.asyncio import create_looping_call

from scrapy_adaptive.core.breaker.global_breaker import GlobalBreaker
from scrapy_adaptive.core.governor import Governor
from scrapy_adaptive.core.limits.book import Book
from scrapy_adaptive.core.limits.known import KnownLimits
from scrapy_adaptive.report.writer import Writer

from .errors import SettingsError, one_line_errors
from .known_limits import RulesKeeper
from .observing import TICK, Around, Observer
from .queues.routing import Routing
from .queues.waiting_room import provide
from .recorder import Recorder
from .refusal_rules import RefusalRules
from .reporting import Reporting
from .requeue import Requeue
from .robots import CrawlDelays, RefusedRobots
from .scrapy_internals import Engine, is_checking, is_interactive, stop_autothrottle
from .set_up import (
    check_middlewares,
    check_switched_off,
    refuse_half_a_set_up,
    take_over_autothrottle,
    tell_of_later_middlewares,
    tell_of_misplaced_refusals,
    tell_of_own_filter,
    tell_of_revisits,
    tell_of_scrapys_queue,
    tell_of_shared_queues,
)
from .settings import AdaptiveSettings, is_enabled, read_settings, unknown_names
from .showing import Showing
from .state_file import StateFile
from .summary import Summary
from .traffic import Traffic

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.utils.asyncio import AsyncioLoopingCall
    from twisted.internet.task import LoopingCall
    from typing_extensions import Self

    from .frontier.crawl import FrontierCrawl

logger = logging.getLogger(__name__)

NOTICE = 0.5
"""Seconds between two looks at what nobody tells of: that the spider closes, that a middleware has
replaced a request."""

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
        self._loops: list[LoopingCall | AsyncioLoopingCall] = []
        interactive = is_interactive()
        self.engine = Engine(crawler)
        self.crawl_delays = CrawlDelays(settings.robots_user_agent, settings.max_crawl_delay)
        self.refused_robots = RefusedRobots(settings.robotstxt_refused)
        self.rules = RulesKeeper(settings, stats)
        governor = make_governor(settings, book=self.rules.book if self.rules.is_needed else None)
        around = Around(self.engine)
        self._observer = Observer(
            governor,
            around,
            concurrent_requests=settings.concurrent_requests,
            global_rate=settings.global_rate,
        )
        self._summary = Summary(stats, governor, self._observer)
        self._showing = Showing(settings)
        self.recorder = self._make_recorder(governor, around)
        self._reporting = Reporting(
            stats,
            own_slots=settings.slot_limits,
            debug=settings.debug,
            observer=self._observer,
            recorder=self.recorder,
        )
        self._reporting.know(governor.known)
        if governor.known is not None:
            self.rules.know(governor.known)
        self.traffic = Traffic(
            governor,
            self.engine,
            RefusalRules(settings.refusal_codes, settings.classifier, stats),
            self._reporting,
            self.crawl_delays,
            page_of=fingerprinter.fingerprint,
            slot_rule=settings.slot,
            identify=settings.identities.of,
            most_hosts=settings.max_slots,
            may_end_parked=settings.jobdir is not None,
            is_interactive=interactive,
        )
        self.routing = Routing(
            self.traffic,
            self.engine,
            cached=self.engine.cached if settings.has_http_cache else None,
            discount=settings.host_depth_discount,
            most=settings.max_slots,
            places=settings.concurrent_requests,
        )
        provide(crawler, self.routing)
        self._state_file = StateFile(settings.state_path)
        self._state_file.recall(self.traffic.governor, time.monotonic())
        self.frontier = self._make_frontier()
        if self.frontier is None:
            self.traffic.on_paused = self._on_paused
        around.begin(self.traffic, self.frontier)
        self.requeue = Requeue(
            self.traffic,
            stats,
            self._reporting,
            fingerprint=fingerprinter.fingerprint,
            max_refusals=settings.max_refusals,
            is_interactive=interactive,
        )

    def _make_frontier(self) -> FrontierCrawl | None:
        """What brings the crawl's requests from a frontier; None where there is none, at a prompt,
        whose user asks for one page, and where contracts are checked, which have their own."""
        settings = self._settings
        if settings.frontier is None or is_interactive() or is_checking():
            return None
        from .frontier.composing import make_frontier

        return make_frontier(self._crawler, settings, self.traffic, self.engine)

    def _make_recorder(self, governor: Governor, around: Around) -> Recorder | None:
        """What records the crawl; None where nobody wants to see it.

        Raises:
            SettingsError: the journal cannot be opened.
        """
        settings = self._settings
        if settings.journal is None and not self._showing.is_wanted:
            return None
        try:
            writer = None if settings.journal is None else Writer(settings.journal)
        except OSError as error:
            allowed = f"it cannot be written: {error}"
            raise SettingsError("ADAPTIVE_JOURNAL", str(settings.journal), allowed) from None
        return Recorder(
            governor,
            self._observer,
            around,
            spider=self._crawler.spidercls.name,
            writer=writer,
            own_slots=settings.slot_limits,
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
        connect(extension._on_closed, signal=signals.spider_closed)
        connect(extension.traffic.on_wire, signal=signals.request_reached_downloader)
        connect(extension.traffic.in_flight.on_response, signal=signals.response_downloaded)
        if extension._settings.robots_user_agent is not None:
            connect(extension.traffic.on_received, signal=signals.response_received)
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
            refuse_half_a_set_up(crawler.settings, part)
        raise NotConfigured

    # Signals

    def _on_opened(self) -> None:
        if self._is_beside_autothrottle:
            stop_autothrottle(self._crawler)
        self._reporting.log_start(self._settings, unknown_names(self._crawler.settings))
        tell_of_shared_queues(self._crawler.settings)
        tell_of_scrapys_queue(self._crawler.settings)
        tell_of_later_middlewares(self._crawler.settings)
        if self.frontier is not None:
            tell_of_own_filter(self._crawler.settings)
        tell_of_misplaced_refusals(self._crawler.settings)
        tell_of_revisits(self._settings)
        self.rules.log_start()
        self.rules.begin(self.traffic)
        if self.recorder is not None:
            self.recorder.log_start()
        self._reporting.know_neighbours(other.traffic.governor for other in _RUNNING)
        _RUNNING.add(self)
        self._observer.begin()
        if self.recorder is not None:
            self._showing.begin(self.recorder)
        self._repeat(self.traffic.tick, NOTICE)
        self._repeat(self.rules.tick, NOTICE)
        self._repeat(self._on_tick, TICK)
        if self._settings.log_interval:
            self._repeat(self._on_interval, self._settings.log_interval)

    def _repeat(self, call: Callable[[], None], seconds: float) -> None:
        loop = create_looping_call(call)
        loop.start(seconds, now=False)
        self._loops.append(loop)

    def _on_paused(self, request: Request, seconds: float) -> None:
        self._state_file.on_paused(self.traffic.governor, time.monotonic(), seconds)

    def _on_tick(self) -> None:
        self._state_file.tick(self.traffic.governor, time.monotonic())
        self._observer.tick()
        if self.recorder is not None:
            self.recorder.tick()

    def _on_closed(self, reason: str) -> None:
        _RUNNING.discard(self)
        for loop in self._loops:
            if loop.running:
                loop.stop()
        now = time.monotonic()
        self.rules.end()
        self.traffic.on_closed(has_frontier=self.frontier is not None)
        self._state_file.save(self.traffic.governor, now)
        parked = self.traffic.parked()
        self._summary.write_stats(len(parked))
        self._summary.write_site_stats()
        self._reporting.log_parked(parked)
        self._summary.log_end()
        if self.recorder is not None:
            self.recorder.close(reason)
            self._showing.end()

    def _on_interval(self) -> None:
        parked = self.traffic.parked()
        self._summary.write_stats(len(parked))
        self._summary.log_interval(self.traffic.queued_count, self._reporting.take_untold())
        self._reporting.log_parked(parked)


class JoinsExtension:
    """A downloader middleware that works for the extension of its crawl."""

    def __init__(self, extension: AdaptiveThrottle) -> None:
        self._extension = extension
        self._traffic = extension.traffic

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Join the extension of this crawl."""
        return cls(AdaptiveThrottle.of(crawler, cls.__name__))


def make_governor(
    settings: AdaptiveSettings,
    chance: Callable[[], float] | None = None,
    *,
    book: Book | None = None,
) -> Governor:
    """The governor that these settings ask for; `chance` returns a number in [0, 1).

    Args:
        book: the known limits; None: those of the settings, if there are any.
    """
    governor = Governor(
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
    if book is not None or settings.rules:
        governor.known = KnownLimits(
            Book(settings.rules) if book is None else book,
            burst=settings.burst,
            most=settings.max_meters,
            delay_of=lambda slot: governor.limits_of(slot).floor,
        )
    return governor
