"""Servers with several limits, with a time for each page, and with troubles, by hand."""

from __future__ import annotations

import random

import pytest

from scrapy_adaptive.core.types import Outcome
from scrapy_adaptive.simulate import simulate
from scrapy_adaptive.simulation.servers.base import Page
from scrapy_adaptive.simulation.servers.combined import (
    ClassesServer,
    FailingServer,
    FirstVisitServer,
    HiddenBackendServer,
    NestedServer,
)
from scrapy_adaptive.simulation.servers.faults import SilentServer
from scrapy_adaptive.simulation.servers.occupancy import FreeServer
from scrapy_adaptive.simulation.servers.rates import constant
from scrapy_adaptive.simulation.servers.service import (
    SERVICES,
    PlacesServer,
    SlowServer,
    WorkersServer,
    service,
)
from scrapy_adaptive.simulation.servers.token_bucket import BucketServer
from scrapy_adaptive.simulation.servers.windows import WindowServer
from tests.simulation.hits import PAGE, accepts

YES, NO = True, False
FIXED = service("fixed", 0.25, random.Random(0))


@pytest.mark.parametrize("name", SERVICES)
def test_service_times_have_the_mean_that_was_asked_for(name: str) -> None:
    drawn = service(name, 0.25, random.Random(1))
    assert sum(drawn.draw() for _ in range(20_000)) / 20_000 == pytest.approx(0.25, rel=0.03)


def test_a_page_refused_by_one_of_two_limits_costs_the_other_nothing() -> None:
    """Two a second, three in ten: at .1 s the bucket has no token, and the window loses none."""
    server = NestedServer([BucketServer(constant(2.0), 1), WindowServer(constant(3.0), 10.0)])
    assert accepts(server, [0.0, 0.1, 0.5, 1.0, 1.5, 10.0]) == [YES, NO, YES, YES, NO, YES]
    assert server.capacity(0.0) == pytest.approx(0.3)


def test_a_place_is_free_once_its_own_page_is_served() -> None:
    server = PlacesServer(2, FIXED)
    assert accepts(server, [0.0, 0.1, 0.2, 0.25, 0.3, 0.35]) == [YES, YES, NO, YES, NO, YES]
    assert server.capacity(0.0) == 8.0


def test_the_third_page_waits_for_one_of_two_workers() -> None:
    server = WorkersServer(2, FIXED)
    assert [server.on_arrival(0.0, PAGE).service for _ in range(3)] == [0.25, 0.25, 0.5]


def test_refusals_take_as_long_as_they_were_told_to() -> None:
    server = SlowServer(BucketServer(constant(1.0), 1), FIXED, refusal=3.0)
    assert [server.on_arrival(0.0, PAGE).service for _ in range(2)] == [0.25, 3.0]


def test_each_class_of_pages_has_a_limit_of_its_own() -> None:
    limits = {f"/{name}": BucketServer(constant(1.0), 1) for name in "ab"}
    server = ClassesServer(limits)
    kinds = ["/a", "/a", "/b", "/c", "/c"]
    served = [server.on_arrival(0.0, Page(1, kind)).outcome for kind in kinds]
    assert [each is Outcome.ACCEPTED for each in served] == [YES, NO, YES, YES, YES]
    assert server.capacity(0.0) == 2.0


def test_a_pages_first_visit_is_refused_and_its_second_served() -> None:
    server = FirstVisitServer(FreeServer(0.1))
    assert accepts(server, [0.0, 1.0, 2.0]) == [NO, YES, YES]


def test_a_hidden_backend_refuses_its_own_pages_alone() -> None:
    """Every third page, one a second: three a second in all; the others alone have no limit."""
    server = HiddenBackendServer(FreeServer(0.1), BucketServer(constant(1.0), 1), 3)
    served = [server.on_arrival(0.0, Page(n, "/")).outcome for n in (1, 2, 3, 4, 5, 6)]
    assert [each is Outcome.ACCEPTED for each in served] == [YES, YES, YES, YES, YES, NO]
    assert server.capacity(0.0) == 3.0


def test_a_failing_server_fails_between_two_instants_only() -> None:
    server = FailingServer(FreeServer(0.1), [(10.0, 20.0)])
    found = [server.on_arrival(now, PAGE).outcome for now in (9.9, 10.0, 19.9, 20.0)]
    accepted, failed = Outcome.ACCEPTED, Outcome.FAILED
    assert found == [accepted, failed, failed, accepted]
    assert server.capacity(15.0) == 0.0


def test_a_silent_server_serves_what_it_answers() -> None:
    server = SilentServer(FreeServer(0.1), 0.25, 30.0, random.Random(1))
    replies = [server.on_arrival(float(number), PAGE) for number in range(1000)]
    silent = [reply for reply in replies if reply.silent]
    assert 200 < len(silent) < 300  # a quarter, and three and a half standard deviations
    assert {(reply.outcome, reply.service) for reply in silent} == {(Outcome.FAILED, 30.0)}
    assert all(reply.outcome is Outcome.ACCEPTED for reply in replies if not reply.silent)


def test_a_crawl_gives_a_silent_request_up_and_fetches_its_page_again() -> None:
    site = BucketServer(constant(10.0), 5)
    crawl = simulate(SilentServer(site, 0.005, 30.0, random.Random(1)), 600.0)
    assert crawl.timeline.lost_count == 0  # one page in eight million is silent three times
    assert crawl.goodput is not None
    assert crawl.goodput > 0.9
