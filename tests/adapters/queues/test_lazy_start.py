"""When an engine is held back that would read more start requests, and when it goes on.

The queue's crawl has one place in CONCURRENT_REQUESTS, so that `AHEAD` requests may wait.
"""

from __future__ import annotations

from typing import Any

import pytest

from scrapy_adaptive.adapters.queues import lazy_start
from scrapy_adaptive.adapters.queues.lazy_start import AHEAD, EACH, UNHEARD
from scrapy_adaptive.adapters.scrapy_internals import NOTHING, WIDER
from tests.adapters.queues.queue_room import Reply, Room, Rooms, page

ONE_PLACE: dict[str, Any] = {
    "CONCURRENT_REQUESTS": 1,
    "SCHEDULER_MEMORY_QUEUE": "scrapy.squeues.FifoMemoryQueue",
}


def room_of(rooms: Rooms, count: int, **settings: Any) -> Room:
    """A crawl that reads its start requests; so many of one host have come, one of them is sent."""
    room = rooms(**{**ONE_PLACE, **settings})
    room.engine.begin_start()
    room.push(*(page(f"a/{n}") for n in range(count)))
    room.run(0.1)
    return room


@pytest.mark.parametrize("count", [AHEAD, AHEAD + 1])
def test_the_engine_is_held_back_while_so_many_wait_that_may_not_leave(
    rooms: Rooms, count: int
) -> None:
    """One of them is on its way."""
    room = room_of(rooms, count)
    assert room.names == ["a/0"]
    assert room.engine.needs_backout() is (count > AHEAD)


def test_it_gets_what_may_leave_at_its_instant_and_then_asks_once_more(rooms: Rooms) -> None:
    """In vain, after which it is held back: then Scrapy does not send `scheduler_empty`."""
    room = room_of(rooms, AHEAD + 3)
    for sent in (2, 3):
        asked = room.engine.ask_count
        room.run(1.0)
        assert len(room.names) == sent
        assert room.engine.ask_count == asked + 2
        assert room.engine.needs_backout()


def test_it_goes_on_when_fewer_wait(rooms: Rooms) -> None:
    """It is told that nothing may leave, as ever."""
    room = room_of(rooms, AHEAD + 1)
    asked = room.engine.ask_count
    room.run(1.0)
    assert room.names == ["a/0", "a/1"]
    assert not room.engine.needs_backout()
    assert room.engine.ask_count > asked + 1


def test_a_new_host_is_asked_at_once(rooms: Rooms) -> None:
    room = room_of(rooms, AHEAD + 3)
    room.push(page("b/0"))
    room.run()
    assert room.names == ["a/0", "b/0"]
    assert room.engine.needs_backout()


def test_one_more_of_a_host_that_sleeps_changes_nothing(rooms: Rooms) -> None:
    room = room_of(rooms, AHEAD + 3)
    asked = room.engine.ask_count
    room.push(page("a/more"))
    room.run()
    assert room.engine.needs_backout()
    assert room.engine.ask_count == asked


def test_a_start_that_does_not_wait_does_not_keep_the_engine_from_the_rest(rooms: Rooms) -> None:
    """It asks now and then, between so many requests."""
    room = room_of(rooms, AHEAD + 3)
    asked = room.engine.ask_count
    room.push(*(page(f"a/more{n}") for n in range(UNHEARD)))
    assert not room.engine.needs_backout()
    room.run()
    assert room.engine.ask_count == asked + 1
    assert room.engine.needs_backout()


def test_it_is_not_held_back_once_all_start_requests_are_read(rooms: Rooms) -> None:
    room = room_of(rooms, AHEAD + 3)
    room.engine.end_start()
    room.traffic.tick()
    assert not room.engine.needs_backout()
    room.run(AHEAD + 3)
    assert len(room.names) == AHEAD + 3


def test_it_goes_on_when_what_waited_is_dropped(rooms: Rooms) -> None:
    """Else a `start()` that waits would wait for ever: nothing is left that could wake it."""
    room = room_of(rooms, AHEAD + 3)
    room.routing.withdraw(lambda request: True)
    asked = room.engine.ask_count
    room.traffic.tick()
    room.run()
    assert not room.engine.needs_backout()
    assert room.engine.ask_count > asked


def test_what_holds_the_whole_crawl_holds_it_back_too(rooms: Rooms) -> None:
    """Hosts are ready, each is another one, and one request a second may leave."""
    room = rooms(**ONE_PLACE, ADAPTIVE_GLOBAL_RATE=1.0)
    room.engine.begin_start()
    room.push(*(page(f"h{n}/0") for n in range(AHEAD + 4)))
    room.run(0.5)
    for sent in (1, 2, 3):
        assert len(room.names) == sent
        assert room.engine.needs_backout()
        room.run(1.05)


@pytest.mark.parametrize(
    "rules",
    [
        pytest.param([], id="that asks for an hour"),
        pytest.param(
            [{"host": "a", "paused": True}], id="that a rule pauses, nobody knows how long"
        ),
    ],
)
def test_requests_of_a_host_that_is_silent_for_long_do_not_count(
    rules: list[dict[str, Any]], rooms: Rooms, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Up to a number: the hosts behind them need not wait for it."""
    monkeypatch.setattr(lazy_start, "ASIDE", AHEAD)
    room = rooms(**ONE_PLACE, ADAPTIVE_RULES=rules)
    room.site = lambda request: Reply(429, {"Retry-After": "3600"})
    room.engine.begin_start()
    room.push(*(page(f"a/{n}") for n in range(AHEAD + 3)))
    room.run(EACH + 1)
    room.traffic.tick()
    assert not room.engine.needs_backout()
    room.push(*(page(f"a/more{n}") for n in range(AHEAD)))
    room.run()
    assert room.engine.needs_backout()


def test_without_a_limit_on_places_there_is_none_on_start_requests(rooms: Rooms) -> None:
    """Scrapy would read on too."""
    room = room_of(rooms, 5 * AHEAD, CONCURRENT_REQUESTS=0)
    assert not room.engine.needs_backout()


def test_the_room_for_responses_is_what_it_was_before(rooms: Rooms) -> None:
    """Whether items wait for their media meanwhile, or not."""
    room = room_of(rooms, AHEAD + 3)
    slot, engine = room.engine.scraper.slot, room.traffic._engine
    own = type(slot)().max_active_size
    engine.widen_scraper(wide=True)
    assert slot.max_active_size == NOTHING
    slot.active_size = own + 1
    assert not engine.is_scraper_full
    engine.hold_back(held=False)
    assert slot.max_active_size == own * WIDER
    engine.widen_scraper(wide=False)
    assert slot.max_active_size == own
