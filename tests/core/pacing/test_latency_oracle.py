"""The latency law and Scrapy's own AutoThrottle give the same delays on the same responses.

The oracle is real throughout: a crawler, its settings, its engine, its downloader, the slot the
downloader makes, and the extension, which hears of responses by Scrapy's own signals.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scrapy import Request, Spider, signals
from scrapy.core.engine import ExecutionEngine
from scrapy.extensions.throttle import AutoThrottle
from scrapy.http import Response
from scrapy.utils.test import get_crawler

from scrapy_adaptive.core.permit import Permit
from scrapy_adaptive.core.slot import Slot
from scrapy_adaptive.core.slot_config import Limits
from scrapy_adaptive.core.types import Answer, Outcome
from tests.core.virtual import STEADY, Virtual

if TYPE_CHECKING:
    from scrapy.core.downloader import Slot as ScrapySlot

SEQUENCES = 200
SEQUENCE_MOST = 40

REFUSALS = frozenset({429, 503})


@dataclass(frozen=True)
class Served:
    """One response: its status, its latency in seconds if measured, and the opt-out in its meta."""

    status: int
    latency: float | None
    dont_adjust: object = None

    @property
    def outcome(self) -> Outcome:
        """What it means for politeness."""
        if self.status in REFUSALS:
            return Outcome.REFUSED
        return Outcome.FAILED if self.status >= 500 else Outcome.ACCEPTED


class Quiet(Spider):
    """A spider that only gives its name."""

    name = "quiet"


class Oracle:
    """Scrapy's AutoThrottle on one slot of Scrapy's downloader.

    Args:
        limits: what both laws are given; the rest of it does not matter here.
    """

    def __init__(self, limits: Limits) -> None:
        self._crawler = crawler = get_crawler(
            Quiet,
            {
                "AUTOTHROTTLE_ENABLED": True,
                "AUTOTHROTTLE_START_DELAY": limits.start_delay,
                "AUTOTHROTTLE_MAX_DELAY": limits.max_delay,
                "AUTOTHROTTLE_TARGET_CONCURRENCY": limits.target_concurrency,
                "DOWNLOAD_DELAY": limits.floor,
                "DOWNLOAD_HANDLERS": dict.fromkeys(("data", "file", "ftp", "http", "https", "s3")),
                "DOWNLOADER_MIDDLEWARES_BASE": {},
                "EXTENSIONS_BASE": {AutoThrottle: 0},
                "SPIDER_MIDDLEWARES_BASE": {},
            },
        )
        crawler.spider = Quiet.from_crawler(crawler)
        crawler.engine = ExecutionEngine(crawler, lambda _: None)
        assert isinstance(crawler.get_extension(AutoThrottle), AutoThrottle)
        self._signal(signals.spider_opened)
        self._key, self.slot = self._made_by_downloader()

    def _made_by_downloader(self) -> tuple[str, ScrapySlot]:
        assert self._crawler.engine is not None
        return self._crawler.engine.downloader._get_slot(Request("http://site.test/"))

    def hear(self, served: Served) -> None:
        """The downloader has downloaded one more response."""
        meta: dict[str, object] = {"download_slot": self._key}
        if served.latency is not None:
            meta["download_latency"] = served.latency
        if served.dont_adjust is not None:
            meta["autothrottle_dont_adjust_delay"] = served.dont_adjust
        request = Request("http://site.test/", meta=meta)
        response = Response(request.url, status=served.status, request=request)
        self._signal(signals.response_downloaded, response=response, request=request)

    def close(self) -> None:
        """Stop the downloader's timer."""
        assert self._crawler.engine is not None
        self._crawler.engine.downloader.close()

    def _signal(self, signal: object, **facts: Any) -> None:
        heard = self._crawler.signals.send_catch_log(signal, spider=self._crawler.spider, **facts)
        assert [answer for _, answer in heard] == [None], "an error is an answer too"


class Ours:
    """One slot of a governor, where each request is answered before the next one goes."""

    def __init__(self, limits: Limits) -> None:
        self._virtual = Virtual(limits)

    @property
    def slot(self) -> Slot:
        """What the law has learned is its `latency_delay`."""
        return self._virtual.slot()

    def hear(self, served: Served) -> None:
        """Wait until a request may go, send it, and let this be its response."""
        virtual = self._virtual
        virtual.wait_out()
        permit = virtual.governor.take("a", virtual.now)
        assert isinstance(permit, Permit)
        answer = Answer(
            served.outcome,
            latency=None if served.dont_adjust is True else served.latency,
            may_lower=served.status == 200,
        )
        virtual.governor.on_answer(permit, answer, virtual.now)


def compare(limits: Limits, sequence: list[Served]) -> list[float]:
    """Both laws hear the same responses and must agree after each; returns the delays."""
    oracle, ours = Oracle(limits), Ours(limits)
    try:
        delays = [ours.slot.pace.latency_delay]
        assert delays[0] == pytest.approx(oracle.slot.delay, rel=0.0, abs=1e-9)
        for served in sequence:
            oracle.hear(served)
            ours.hear(served)
            delays.append(ours.slot.pace.latency_delay)
            assert delays[-1] == pytest.approx(oracle.slot.delay, rel=0.0, abs=1e-9)
        return delays
    finally:
        oracle.close()


def in_event_loop(work: Callable[[], None]) -> None:
    """Run it where Scrapy's downloader finds the event loop that its timer wants."""

    async def run() -> None:
        work()

    asyncio.run(run())


SECONDS = st.sampled_from([0.0, 0.25, 1.0, 5.0]) | st.floats(0.0, 200.0)

LIMITS = st.builds(
    Limits,
    start_delay=SECONDS,
    max_delay=st.sampled_from([60.0, 5.0]) | st.floats(0.01, 300.0),
    target_concurrency=st.sampled_from([1.0, 2.0, 8.0]) | st.floats(0.05, 100.0),
    floor=SECONDS,
)

RESPONSES = st.builds(
    Served,
    status=st.sampled_from([200, 200, 200, 201, 301, 304, 404, 429, 500, 503]),
    latency=st.none() | st.sampled_from([0.0, 0.1, 1.0]) | st.floats(0.0, 300.0),
    dont_adjust=st.sampled_from([None, None, None, False, True, 1]),
)


def test_generated_sequences_give_the_same_delays() -> None:
    """After the start and after each response, to 1e-9 s, whatever the status and the settings."""
    compared = 0

    @settings(STEADY, max_examples=SEQUENCES)
    @given(LIMITS, st.lists(RESPONSES, min_size=1, max_size=SEQUENCE_MOST))
    def agree(limits: Limits, sequence: list[Served]) -> None:
        nonlocal compared
        compare(limits, sequence)
        compared += 1

    in_event_loop(agree)
    assert compared >= SEQUENCES


@pytest.mark.parametrize(
    ("limits", "sequence", "delays"),
    [
        pytest.param(
            Limits(start_delay=4.0, target_concurrency=2.0),
            [Served(200, 2.0), Served(200, 1.0), Served(200, 8.0), Served(404, 0.1)],
            [4.0, 2.5, 1.5, 4.0, 4.0],
            id="mean of old and target, slower at once, an error page lowers nothing",
        ),
        pytest.param(
            Limits(start_delay=1.0, floor=3.0, max_delay=10.0),
            [Served(200, 0.0), Served(503, 50.0), Served(200, None), Served(200, 0.0, True)],
            [3.0, 3.0, 10.0, 10.0, 10.0],
            id="between floor and maximum, nothing learned without a latency",
        ),
        pytest.param(
            Limits(start_delay=1.0, floor=100.0, max_delay=60.0),
            [Served(200, 1.0)],
            [100.0, 60.0],
            id="a floor above the maximum gives way to it",
        ),
        pytest.param(
            Limits(start_delay=2.0),
            [Served(200, 1.0, False), Served(200, 0.5, 1), Served(200, 0.0, True)],
            [2.0, 1.5, 1.0, 1.0],
            id="only True itself opts out",
        ),
    ],
)
def test_a_sequence_worked_by_hand(
    limits: Limits, sequence: list[Served], delays: list[float]
) -> None:
    found: list[float] = []
    in_event_loop(lambda: found.extend(compare(limits, sequence)))
    assert found == pytest.approx(delays)
