"""What becomes of a visit, without a crawl."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest
from scrapy import Request
from scrapy.http import Response
from scrapy.utils.request import RequestFingerprinter

from scrapy_adaptive.adapters.frontier.outbox import Outbox
from scrapy_adaptive.adapters.frontier.payload import PASSES_META_KEY
from scrapy_adaptive.adapters.frontier.tracking import Tracking
from scrapy_adaptive.adapters.frontier.visits import OpenVisit
from scrapy_adaptive.frontier.protocol import Given, Lease, Result

LEASE = Lease("a", 1)


class Visits:
    """The visits of a crawl that sends nothing."""

    def __init__(self) -> None:
        self.sent: list[Request] = []
        crawler: Any = SimpleNamespace(
            stats=SimpleNamespace(inc_value=lambda name: None),
            request_fingerprinter=RequestFingerprinter(),
            engine=SimpleNamespace(crawl=self.sent.append),
        )
        links: Any = SimpleNamespace(
            payloads=SimpleNamespace(read=lambda url, payload: Request(url)),
            is_wanted=lambda request: True,
        )
        self.tracking = Tracking(crawler, Outbox(), links, None, lambda visit: None)

    def visit(self, url: str) -> OpenVisit:
        """A page that was given; its callback asks for one that passes by the table."""
        visit, request = self.tracking.open(LEASE, Given(1, url, "", 0.0, Result()))
        assert request is not None

        async def callback() -> AsyncIterator[Any]:
            yield Request("http://a/detail", meta={PASSES_META_KEY: False})

        async def exhaust() -> None:
            async for _ in self.tracking.on_output(Response(url, request=request), callback()):
                pass

        asyncio.run(exhaust())
        return visit


@pytest.fixture
def visits() -> Visits:
    """None yet."""
    return Visits()


@pytest.mark.parametrize("is_taken_back", [True, False])
def test_what_a_visit_that_was_taken_back_had_asked_for_comes_again(
    visits: Visits, is_taken_back: bool
) -> None:
    """Though another page that is under way has asked for it too, and was told that it comes."""
    first = visits.visit("http://a/1")
    visits.visit("http://a/2")
    assert len(visits.sent) == 1
    first.is_taken_back = is_taken_back
    first.end()
    assert first.is_over
    visits.visit("http://a/1")
    visits.visit("http://a/3")
    assert len(visits.sent) == 2
