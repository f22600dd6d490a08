"""What the observer finds around the core: places, scraper, process, queue; and what it keeps."""

from __future__ import annotations

from typing import Any

import pytest
from scrapy.settings import Settings

from scrapy_adaptive.adapters import observing
from scrapy_adaptive.adapters.extension import make_governor
from scrapy_adaptive.adapters.observing import Observer
from scrapy_adaptive.adapters.settings import read_settings
from scrapy_adaptive.core.permit import Permit
from scrapy_adaptive.core.types import Answer, Blocked, Outcome
from tests.adapters.stand_ins import Nothing

FREE = {"ADAPTIVE_START_DELAY": 0, "ADAPTIVE_TARGET_CONCURRENCY": 8}


class Observed:
    """A crawl on a virtual clock."""

    def __init__(self, **settings: Any) -> None:
        self.now = self.cpu = 0.0
        chosen = {**FREE, **settings}
        self.governor = make_governor(read_settings(Settings(chosen)), lambda: 0.0)
        self.around = Nothing()
        self.observer = Observer(
            self.governor,
            self.around,
            concurrent_requests=16,
            global_rate=chosen.get("ADAPTIVE_GLOBAL_RATE", 0.0),
            clock=lambda: self.now,
            cpu=lambda: self.cpu,
        )
        self.observer.begin()

    def send(self, key: str = "a") -> Permit:
        while isinstance(permit := self.governor.take(key, self.now), Blocked):
            self.now = permit.until
        return permit

    def answer(self, permit: Permit, outcome: Outcome = Outcome.ACCEPTED, **fields: Any) -> None:
        self.governor.on_answer(permit, Answer(outcome, **fields), self.now)

    def serve(self, count: int = 1, key: str = "a") -> None:
        for _ in range(count):
            self.answer(self.send(key), latency=0.01)

    def tick(self, count: int = 1, *, busy: float = 0.0, late: float = 0.0) -> None:
        """So many seconds pass."""
        for _ in range(count):
            self.now = float(int(self.now)) + 1.0 + late
            self.cpu += busy
            self.observer.tick()

    def by(self, key: str = "a") -> str:
        return self.observer.bound(self.governor.slot(key, self.now), self.now).by


@pytest.fixture
def observed() -> Observed:
    """A site that may be asked for more, and has been served."""
    crawl = Observed()
    crawl.around.queued["a"] = 5
    crawl.serve()
    return crawl


def test_a_site_that_may_send_and_does_not_is_held_by_the_crawler(observed: Observed) -> None:
    observed.tick(3)
    assert observed.by() == "crawler"


def test_no_place_is_left_in_the_whole_crawl(observed: Observed) -> None:
    observed.around.has_place = False
    observed.tick(3)
    found = observed.observer.bound(observed.governor.slot("a", 0.0), observed.now)
    assert found == ("total", 16)


def test_another_worker_has_the_host(observed: Observed) -> None:
    observed.around.leaseless.add("a")
    observed.tick(3)
    assert observed.by() == "lease"
    observed.around.leaseless.clear()
    observed.tick(6)
    assert observed.by() == "crawler"


def test_the_scraper_is_full(observed: Observed) -> None:
    observed.around.has_place = False
    observed.around.is_scraper_full = True
    observed.tick(3)
    assert observed.by() == "scraper"


@pytest.mark.parametrize("slow", [{"busy": 0.97}, {"late": 0.4}], ids=["computes", "late"])
def test_a_process_that_is_too_slow_is_named_before_what_it_leaves_undone(
    observed: Observed, slow: dict[str, float]
) -> None:
    """Its places stay taken, and its queue stays empty."""
    observed.around.has_place = False
    observed.tick(6, **slow)
    assert observed.by() == "crawler"
    observed.around.queued.clear()
    observed.send()
    observed.tick(6, **slow)
    assert observed.by() == "crawler"


def test_a_late_loop_is_not_blamed_where_answers_take_longer(observed: Observed) -> None:
    observed.answer(observed.send(), latency=3.0)
    observed.around.has_place = False
    for _ in range(40):
        observed.answer(observed.send(), latency=3.0)
        observed.now += 3.0
    observed.tick(12, late=0.2)
    assert observed.by() == "total"


def test_nothing_waits_while_a_page_is_under_way(observed: Observed) -> None:
    observed.around.queued.clear()
    observed.send()
    observed.tick(3)
    assert observed.by() == "empty"


def test_a_queue_that_does_not_tell_counts_as_one_in_which_requests_wait(
    observed: Observed,
) -> None:
    """It may be another's."""
    observed.around.queued.clear()
    observed.around.may_wait_unseen = True
    observed.tick(3)
    assert observed.by() == "crawler"


def test_the_users_rate_of_the_whole_crawl_comes_with_its_number() -> None:
    crawl = Observed(ADAPTIVE_GLOBAL_RATE=0.5)
    crawl.around.queued["a"] = 5
    crawl.serve()
    crawl.observer.tick()
    assert crawl.observer.bound(crawl.governor.slot("a", 0.0), 0.0) == ("global-rate", 0.5)


def test_what_was_found_most_often_of_late_is_told(observed: Observed) -> None:
    """One odd look changes nothing; a pause at once does, and so does its end."""
    observed.tick(8)
    observed.around.has_place = False
    observed.tick(1)
    observed.around.has_place = True
    assert observed.by() == "crawler"
    permit = observed.send()
    observed.answer(permit, Outcome.REFUSED, announced=30.0)
    observed.tick(1)
    assert observed.by() == "retry-after"
    observed.now = 60.0
    observed.answer(observed.send())
    observed.tick(1)
    assert observed.by() != "retry-after"


def test_a_site_that_is_done_keeps_what_has_held_it_for_most_of_its_time(
    observed: Observed,
) -> None:
    observed.around.has_place = False
    observed.tick(5)
    observed.around.queued.clear()
    observed.tick(50)
    slot = observed.governor.slot("a", observed.now)
    assert observed.observer.main(slot, observed.now) == "total"
    assert observed.observer.state(slot, observed.now) == "idle"


def test_the_mean_rate_is_that_from_the_first_request_to_the_last_page() -> None:
    crawl = Observed()
    crawl.observer.on_new_slot("a")
    for _ in range(10):
        crawl.tick()
        crawl.serve(3)
    crawl.tick(100)
    slot = crawl.governor.slot("a", crawl.now)
    assert crawl.observer.mean_rate(slot, crawl.now) == pytest.approx(3.0, rel=0.15)


def test_only_the_busiest_slots_are_looked_at_each_second() -> None:
    """A thousand sites cost no more than twenty, but for a look each ten seconds."""
    crawl = Observed()
    for number in range(1000):
        crawl.serve(1 + number % 7, key=f"s{number}")
        crawl.around.queued[f"s{number}"] = 1
    looks: list[str] = []
    waiting = crawl.around.waiting
    crawl.around.waiting = lambda key: looks.append(key) or waiting(key)  # type: ignore[method-assign, func-returns-value]
    crawl.tick(5)
    assert len(set(looks)) <= observing.MOST
    assert len(looks) <= 5 * 2 * observing.MOST


def test_what_is_remembered_of_slots_that_are_forgotten_is_bounded() -> None:
    crawl = Observed(ADAPTIVE_MAX_SLOTS=50)
    for number in range(2000):
        crawl.observer.on_new_slot(f"s{number}")
        crawl.serve(1, key=f"s{number}")
        if number % 100 == 0:
            crawl.tick(11)
    assert len(crawl.observer._seen) < 300
