"""What all tests of the core must leave as it is."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest

from scrapy_adaptive.core.breaker.backoff import NO_BACKOFF
from scrapy_adaptive.core.breaker.failures import UNHURT, UNTRIED
from scrapy_adaptive.core.breaker.pause import NO_PAUSE
from scrapy_adaptive.core.ceiling.hold.concurrency_cap import NO_CAP
from scrapy_adaptive.core.ceiling.hold.epoch import NO_CONGESTION
from scrapy_adaptive.core.ceiling.hold.noise import NO_NOISE
from scrapy_adaptive.core.diagnosis.broken_pages import NONE_SUSPECTED
from scrapy_adaptive.core.pacing.quota import NO_QUOTAS

SHARED = (
    NO_BACKOFF,
    NO_CAP,
    NO_CONGESTION,
    NO_NOISE,
    NO_PAUSE,
    NO_QUOTAS,
    NONE_SUSPECTED,
    UNHURT,
    UNTRIED,
)
"""What slots share until they need one of their own."""


def parts(thing: Any) -> dict[str, Any]:
    """All that it holds."""
    return {name: deepcopy(getattr(thing, name)) for name in type(thing).__slots__}


BEFORE = [parts(each) for each in SHARED]


@pytest.fixture(autouse=True)
def _nothing_shared_changes() -> Iterator[None]:
    """A slot that changed one of these would have changed it for all other slots."""
    yield
    assert [parts(each) for each in SHARED] == BEFORE
