"""The add-on: one line in settings.py switches everything on.

Laws
----
* It writes at the priority of add-ons, so that what a user has set wins.
* Two laws cannot own one delay: AutoThrottle is taken over, and the log says so.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from scrapy.settings import SETTINGS_PRIORITIES
from scrapy.utils.misc import load_object

from .errors import one_line_errors
from .extension import AdaptiveThrottle
from .queues.host_queue import HostQueue, refuse_foreign
from .scrapy_internals import saved_queues
from .set_up import (
    MIDDLEWARES,
    check_switched_off,
    own_queue,
    take_over_autothrottle,
    uses_host_queue,
)
from .settings import is_enabled, read_settings

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

FRONTIER_MIDDLEWARE = "scrapy_adaptive.adapters.frontier.middleware.FrontierMiddleware"

NEAREST = 10
"""Its place: nearer the engine than any of Scrapy's, so that what it sees is final."""

logger = logging.getLogger(__name__)


class Addon:
    """`ADDONS = {"scrapy_adaptive.Addon": 500}`."""

    def update_settings(self, settings: BaseSettings) -> None:
        """Switch extension and middlewares on.

        Raises:
            SettingsError: a setting is not allowed.
        """
        with one_line_errors():
            if not is_enabled(settings):
                check_switched_off(settings)
                return
            take_over_autothrottle(settings)
            found = read_settings(settings)
            jobdir = found.jobdir
            if jobdir is not None and uses_host_queue(settings):
                refuse_foreign(saved_queues(jobdir) or {}, jobdir)
        for middleware, place in MIDDLEWARES.items():
            settings.setdefault_in_component_priority_dict(
                "DOWNLOADER_MIDDLEWARES", load_object(middleware), place
            )
        settings.setdefault_in_component_priority_dict("EXTENSIONS", AdaptiveThrottle, 0)
        if found.frontier is not None:
            settings.setdefault_in_component_priority_dict(
                "SPIDER_MIDDLEWARES", load_object(FRONTIER_MIDDLEWARE), NEAREST
            )
        self._set_priority_queue(settings)

    def _set_priority_queue(self, settings: BaseSettings) -> None:
        own = own_queue(settings)
        if own is None:
            name = "SCHEDULER_PRIORITY_QUEUE"
            former, priority = settings.get(name), settings.getpriority(name) or 0
            settings.set("ADAPTIVE_FALLBACK_PRIORITY_QUEUE", former, "addon")
            settings.set(name, HostQueue, max(priority, SETTINGS_PRIORITIES["addon"]))
        elif not uses_host_queue(settings):
            logger.warning(
                "SCHEDULER_PRIORITY_QUEUE = %r is kept: requests of a slow or paused site hold "
                "places in CONCURRENT_REQUESTS, so that other sites wait for it too; without "
                "this setting scrapy_adaptive.HostQueue lets each site wait by itself",
                own,
            )
