"""The add-on: one line in settings.py switches everything on.

Laws
----
* It writes at the priority of add-ons, so that what a user has set wins.
* Two laws cannot own one delay: AutoThrottle is switched off, and the log says so.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from .extension import AdaptiveThrottle, one_line_errors
from .gate import AdaptiveGate
from .refusals import AdaptiveRefusals
from .settings import autothrottle_is_on, is_enabled, read_settings

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
            read_settings(settings)
        middlewares = {AdaptiveGate: GATE_PRIORITY, AdaptiveRefusals: REFUSALS_PRIORITY}
        for middleware, priority in middlewares.items():
            settings.setdefault_in_component_priority_dict(
                "DOWNLOADER_MIDDLEWARES", middleware, priority
            )
        settings.setdefault_in_component_priority_dict("EXTENSIONS", AdaptiveThrottle, 0)
        if autothrottle_is_on(settings):
            logger.warning(
                "AUTOTHROTTLE_ENABLED is switched off: scrapy_adaptive owns the delay, and its "
                "latency law is AutoThrottle's (set ADAPTIVE_ENABLED = False to have it back)"
            )
            user_priority = settings.getpriority("AUTOTHROTTLE_ENABLED")
            settings.set("AUTOTHROTTLE_ENABLED", False, user_priority or "addon")
