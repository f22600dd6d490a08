"""The laws that learn a slot's limit, by the name that `ADAPTIVE_CEILING` gives.

Another law is one file beside these, with a class that keeps to `base.Ceiling`, and one line here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from scrapy_adaptive.core.state.fields import SLOWEST

from .aimd import Aimd
from .hold.ceiling import Hold

if TYPE_CHECKING:
    from scrapy_adaptive.core.slot_config import Limits

    from .base import Ceiling

CEILINGS: Mapping[str, Callable[[Limits], Ceiling]] = {
    "hold": lambda limits: Hold(max(SLOWEST, limits.start_rate)),
    "aimd": lambda limits: Aimd(limits.backoff_ratio),
}
"""What makes a slot's ceiling of the user's bounds, by name."""
