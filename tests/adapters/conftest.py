"""Rooms: crawls on a virtual clock."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Iterator

import pytest

from tests.adapters.queues.queue_room import Rooms


@pytest.fixture
def rooms() -> Iterator[Rooms]:
    """Opens rooms: `rooms(jobdir, DOWNLOAD_DELAY=2.0)`; the arguments of `Room`."""
    found = Rooms()
    yield found
    found.close()


@pytest.fixture(scope="module")
def no_open_files() -> Iterator[None]:
    """Older Scrapy leaves files of empty queues to the collector: not to another module's tests."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
