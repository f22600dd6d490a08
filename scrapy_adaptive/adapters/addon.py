"""The add-on: one line in settings.py switches everything on.

Laws
----
* It writes at the priority of add-ons, so that what a user has set wins.
* Two laws cannot own one delay: AutoThrottle is switched off, and the log says so.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from scrapy.utils.misc import load_object

from .errors import one_line_errors
from .extension import AdaptiveThrottle
from .middlewares import AdaptiveGate, AdaptiveRefusals
from .queues.host_queue import HostQueue, refuse_foreign
from .scrapy_internals import saved_queues
from .settings import autothrottle_is_on, is_enabled, own_priority_queue, read_settings

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

logger = logging.getLogger(__name__)

GATE_PRIORITY = 950
REFUSALS_PRIORITY = 585


class Addon:
    """`ADDONS = {"scrapy_adaptive.Addon": 500}`."""

    def update_settings(self, settings: BaseSettings) -> None:
        """Switch extension and middlewares on.

        Raises:
            SettingsError: a setting is not allowed.
        """
        with one_line_errors():
            if not is_enabled(settings):
                return
            jobdir = read_settings(settings).jobdir
            if jobdir is not None and _uses_host_queue(settings):
                refuse_foreign(saved_queues(jobdir) or {}, jobdir)
        middlewares = {AdaptiveGate: GATE_PRIORITY, AdaptiveRefusals: REFUSALS_PRIORITY}
        for middleware, priority in middlewares.items():
            settings.setdefault_in_component_priority_dict(
                "DOWNLOADER_MIDDLEWARES", middleware, priority
            )
        settings.setdefault_in_component_priority_dict("EXTENSIONS", AdaptiveThrottle, 0)
        self._set_priority_queue(settings)
        if autothrottle_is_on(settings):
            logger.warning(
                "AUTOTHROTTLE_ENABLED is switched off: scrapy_adaptive owns the delay, and its "
                "latency law is AutoThrottle's (set ADAPTIVE_ENABLED = False to have it back)"
            )
            user_priority = settings.getpriority("AUTOTHROTTLE_ENABLED")
            settings.set("AUTOTHROTTLE_ENABLED", False, user_priority or "addon")

    def _set_priority_queue(self, settings: BaseSettings) -> None:
        own = own_priority_queue(settings)
        if own is None:
            former = settings.get("SCHEDULER_PRIORITY_QUEUE")
            settings.set("ADAPTIVE_FALLBACK_PRIORITY_QUEUE", former, "addon")
            settings.set("SCHEDULER_PRIORITY_QUEUE", HostQueue, "addon")
        elif not _uses_host_queue(settings):
            logger.info(
                "SCHEDULER_PRIORITY_QUEUE = %r is kept: its requests wait for their host in the "
                "downloader, where they hold places in CONCURRENT_REQUESTS "
                "(scrapy_adaptive.HostQueue would keep them until their host may send)",
                own,
            )


def _uses_host_queue(settings: BaseSettings) -> bool:
    """Whether the crawl's requests will wait in our queue."""
    own = own_priority_queue(settings)
    return own is None or load_object(own) is HostQueue
