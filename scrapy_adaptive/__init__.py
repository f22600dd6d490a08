"""Adaptive politeness for Scrapy: as fast as each site allows, never faster.

Add one line to `settings.py`:

    ADDONS = {"scrapy_adaptive.Addon": 500}
"""

from .adapters.addon import Addon
from .adapters.errors import SettingsError
from .adapters.extension import AdaptiveThrottle
from .adapters.gate import AdaptiveGate
from .adapters.host_queue import HostQueue
from .adapters.refusals import AdaptiveRefusals
from .core.facts import Outcome

__version__ = "0.1.0"

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
