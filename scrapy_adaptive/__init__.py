"""Adaptive politeness for Scrapy: as fast as each site allows, never faster.

Add one line to `settings.py`:

    ADDONS = {"scrapy_adaptive.Addon": 500}
"""

from .adapters.addon import Addon
from .adapters.errors import SettingsError
from .adapters.extension import AdaptiveThrottle
from .adapters.middlewares import AdaptiveGate, AdaptiveRefusals
from .adapters.queues.host_queue import HostQueue
from .core.types import Outcome
from .version import VERSION

__version__ = VERSION

__all__ = [
    "AdaptiveGate",
    "AdaptiveRefusals",
    "AdaptiveThrottle",
    "Addon",
    "HostQueue",
    "Outcome",
    "SettingsError",
    "__version__",
]
