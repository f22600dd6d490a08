"""When a host queue gives requests out: at the instant at which their host may send."""

from __future__ import annotations

import pytest
from scrapy import Request
from scrapy.exceptions import IgnoreRequest
from scrapy.http import Response
from scrapy.http.request import NO_CALLBACK

from scrapy_adaptive.adapters.scrapy_internals import Copy
from scrapy_adaptive.core import crawl_wide
from scrapy_adaptive.core.slot_config import Limits
from tests.adapters.queues.queue_room import SERVED, Reply, Room, Rooms, name, page

FIFO = {"SCHEDULER_MEMORY_QUEUE": "scrapy.squeues.FifoMemoryQueue"}
MANY_AT_ONCE = {**FIFO, "ADAPTIVE_TARGET_CONCURRENCY": 8}
"""Answers that take seconds do not slow a host down."""


def refused_once(wait: int) -> Reply:
    """A refusal that tells for how long."""
    return Reply(429, {"Retry-After": str(wait)})


def instants(room: Room, host: str) -> list[float]:
    """When requests of a host were sent."""
    return [at for at, sent in room.sent if sent.startswith(host)]


# Who sleeps is served at its instant


def test_a_delay_ends_at_its_instant(rooms: Rooms) -> None:
    """For each host its own."""
    room = rooms(**FIFO, DOWNLOAD_SLOTS={"b": {"delay": 1.75}})
    room.push(*(page(f"{host}/{n}") for n in range(3) for host in "ab"))
    room.run(10)
    assert instants(room, "a") == pytest.approx([0.0, 1.0, 2.0])
    assert instants(room, "b") == pytest.approx([0.0, 1.75, 3.5])


def test_a_pause_ends_at_its_instant(rooms: Rooms) -> None:
    """The site's own word, with nothing added."""
    room = rooms(**FIFO)
    room.push(page("a/1"), page("a/2"))
    room.site = lambda request: refused_once(30) if room.now < 30 else Reply()
    room.run(29.5)
    assert instants(room, "a") == [0.0]
    room.run(0.5)
    assert instants(room, "a") == pytest.approx([0.0, 30.0])


def test_an_answer_frees_its_host_at_once(rooms: Rooms) -> None:
    """Where all the host's places were taken, and its delay has passed."""
    room = rooms(**MANY_AT_ONCE, CONCURRENT_REQUESTS_PER_DOMAIN=2)
    room.push(*(page(f"a/{n}") for n in range(5)))
    room.site = lambda request: Reply(seconds=3.5)
    room.run(20)
    assert instants(room, "a") == pytest.approx([0.0, 1.0, 3.5, 4.5, 7.0])


@pytest.mark.parametrize("end", ["dropped", "cached", "replaced"])
def test_a_request_that_goes_another_way_frees_its_host_at_once(rooms: Rooms, end: str) -> None:
    """A middleware drops it, answers it from a cache or returns another in its place."""
    results: dict[str, IgnoreRequest | Response | Request] = {
        "dropped": IgnoreRequest(),
        "cached": Response("https://a/1"),
        "replaced": page("b/1"),
    }
    room = rooms(**FIFO, by_hand=True)
    room.push(page("a/1"), page("a/2"))
    first = room.take()
    assert first is not None
    assert room.take_all() == []
    room.run(0.05)
    nudged = [room.engine.is_nudged]
    room.leave(first, results[end])
    room.run()
    nudged.append(room.engine.is_nudged)
    assert nudged == [False, True]
    assert "a/2" in room.take_all()


def test_the_whole_crawls_pause_ends_at_its_instant(rooms: Rooms) -> None:
    """Five seconds after the last answer, for those who have nothing to do with it."""
    room = rooms(**FIFO, ADAPTIVE_GLOBAL_TRIP_SLOTS=1, ADAPTIVE_GLOBAL_COOLDOWN=5.0)
    room.push(page("a/1"), *(page(f"{host}/{n}") for n in range(2) for host in "bc"))
    room.site = lambda request: refused_once(60) if "//a" in request.url else Reply(seconds=0.5)
    room.run(20)
    assert instants(room, "b") == pytest.approx([0.0, 5.5])
    assert instants(room, "c") == pytest.approx([0.0, 5.5])


def test_who_waits_at_the_gate_for_a_shared_limit_goes_when_it_is_refuted(
    rooms: Rooms, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its only place is another host's, and so is the refusal that refutes it."""
    monkeypatch.setattr(crawl_wide, "_UNBOUND", Limits(target_concurrency=1e9, concurrency=1))
    room = rooms(**MANY_AT_ONCE, ADAPTIVE_GLOBAL_COOLDOWN=0)
    room.site = lambda request: {
        "c/refused": Reply(429, {"Retry-After": "60"}, seconds=10.0),
        "a/late": Reply(seconds=30.0),
    }.get(name(request), SERVED)
    room.push(page("c/refused"))
    room.run(1)
    shared = room.governor._crawl_wide
    shared.begin([*room.governor], room.clock.seconds())
    room.push(page("a/probe"), page("a/late"))
    room.run(5)
    image = Request("https://b/image", callback=NO_CALLBACK)
    room.engine.downloader.fetch(image)
    room.arrive(image)
    room.run(2)
    assert room.names == ["c/refused", "a/probe", "a/late"]
    monkeypatch.setattr(shared, "is_met", lambda *_: True)
    monkeypatch.setattr(shared, "is_refuted", lambda *_: True)
    room.run(3)
    assert instants(room, "b") == pytest.approx([10.0])


def test_a_pause_that_a_shared_limit_explains_is_not_slept_out(rooms: Rooms) -> None:
    """The host was refused for a minute and would sleep for another; then the limit is found."""
    room = rooms(**FIFO, ADAPTIVE_GLOBAL_COOLDOWN=0)
    room.site = lambda request: Reply(429) if "//a" in request.url and 5 < room.now < 70 else SERVED
    room.push(*(page(f"a/{n}") for n in range(20)))
    room.run(75)
    assert instants(room, "a")[-1] == pytest.approx(68.0)
    room.governor._crawl_wide.begin([*room.governor], room.clock.seconds())
    room.push(page("b/1"))
    room.run(10)
    assert instants(room, "a")[-1] > 75.0


def test_the_whole_crawls_pace_is_kept_to_the_instant(rooms: Rooms) -> None:
    """Two requests a second, over all hosts."""
    room = rooms(**FIFO, ADAPTIVE_GLOBAL_RATE=2.0)
    room.push(*(page(f"{host}/{n}") for n in range(2) for host in "abc"))
    room.run(10)
    assert [at for at, _ in room.sent] == pytest.approx([0.0, 0.5, 1.0, 1.5, 2.0, 2.5])


def test_nothing_is_given_out_and_nothing_waits_while_all_sleep(rooms: Rooms) -> None:
    """The engine is told that there is nothing for it; one timer is armed."""
    room = rooms(by_hand=True)
    room.push(*(page(f"{host}/{n}") for n in range(2) for host in "abc"))
    assert len(room.take_all()) == 3
    assert room.take() is None
    assert room.now == 0.0
    assert room.scheduler.has_pending_requests()
    assert len(room.clock.getDelayedCalls()) <= 1


def test_while_all_sleep_nobody_asks(rooms: Rooms) -> None:
    """Twenty hosts are paused for a minute."""
    room = rooms(**FIFO, places=64, ADAPTIVE_GLOBAL_TRIP_SLOTS=100)
    room.push(*(page(f"h{host}/{n}") for n in range(2) for host in range(20)))
    room.site = lambda request: refused_once(60)
    room.run(1)
    asked = room.engine.ask_count
    room.run(58)
    assert room.engine.ask_count == asked
    room.run(1)
    assert len(room.sent) == 40


# Earlier instants


def test_a_push_is_not_slept_through(rooms: Rooms) -> None:
    """The timer runs for a host that sleeps longer."""
    room = rooms(**FIFO)
    room.push(page("a/1"))
    room.site = lambda request: refused_once(60) if "//a" in request.url else Reply()
    room.run(2.5)
    room.push(page("b/1"), page("b/2"))
    room.run(5)
    assert instants(room, "b") == pytest.approx([2.5, 3.5])


def test_a_fact_is_not_slept_through(rooms: Rooms) -> None:
    """An answer frees a host while the timer runs for another."""
    room = rooms(**MANY_AT_ONCE, CONCURRENT_REQUESTS_PER_DOMAIN=1)
    room.push(page("a/1"), page("b/1"), page("b/2"))
    room.site = lambda request: refused_once(60) if "//a" in request.url else Reply(seconds=2.5)
    room.run(10)
    assert instants(room, "b") == pytest.approx([0.0, 2.5])


# Which request


def test_a_probe_asks_for_a_page_that_was_not_refused_and_a_recheck_for_the_one_that_was(
    rooms: Rooms,
) -> None:
    """The others are served; of three pages nobody can tell that the first is broken, until it was
    refused eight times, of which its recheck counts for two."""
    room = rooms(**FIFO)
    room.push(page("a/bad"), page("a/1"), page("a/2"))
    room.site = lambda request: Reply(429) if request.url.endswith("bad") else Reply()
    room.run(600)
    assert room.names == ["a/bad", "a/1", "a/bad", "a/2", *["a/bad"] * 5]


def test_a_request_without_a_host_waits_for_no_host(rooms: Rooms) -> None:
    """However many there are, and whoever sleeps."""
    room = rooms(**FIFO)
    room.push(page("a/1"), page("a/2"))
    room.run(0.5)
    urls = ["data:,1", "data:,2", "file:///a/1", "data:,3"]
    room.push(*map(page, urls))
    room.run()
    assert room.sent[1:] == [(0.5, url) for url in urls]


@pytest.mark.parametrize("url", ["data:,1", "c/1"])
def test_what_nobody_paces_does_not_wait_with_the_whole_crawl(rooms: Rooms, url: str) -> None:
    """Requests without a host, and opted-out ones, though others are ahead of them."""
    room = rooms(**FIFO, ADAPTIVE_GLOBAL_RATE=0.1)
    room.push(page("a/1", 5), page("b/1", 5), page(url, adaptive_dont_throttle=True))
    room.run(30)
    assert (0.0, url) in room.sent
    assert (0.0, "a/1") in room.sent
    assert instants(room, "b") == pytest.approx([10.0])


def test_an_opted_out_request_waits_for_its_hosts_concurrency_alone(rooms: Rooms) -> None:
    """Its host is paused for a minute, and takes two requests at a time."""
    room = rooms(**FIFO, CONCURRENT_REQUESTS_PER_DOMAIN=2)
    room.push(page("a/refused"))
    room.site = lambda request: (
        refused_once(60) if request.url.endswith("refused") else Reply(seconds=3.0)
    )
    room.run(0.5)
    room.push(*(page(f"a/{n}", adaptive_dont_throttle=True) for n in range(5)))
    room.run(10)
    assert room.sent[1:] == [(0.5 + 3.0 * (n // 2), f"a/{n}") for n in range(5)]


def test_opted_out_downloads_that_take_long_keep_their_places(rooms: Rooms) -> None:
    """More of their host would wait in Scrapy's slot, and take the places of other hosts."""
    room = rooms(**FIFO, CONCURRENT_REQUESTS_PER_DOMAIN=2)
    room.site = lambda request: Reply(seconds=50.0)
    room.push(*(page(f"a/{n}", adaptive_dont_throttle=True) for n in range(3)))
    for _ in range(40):
        room.run(1)
        room.traffic.tick()
    assert room.names == ["a/0", "a/1"]


@pytest.mark.parametrize("is_robots", [False, True], ids=["the page", "its robots.txt"])
def test_who_waits_for_a_lease_keeps_others_of_its_host_in_the_queue(
    is_robots: bool, rooms: Rooms
) -> None:
    """They would only wait beside it, and take the places of other hosts."""
    room = rooms(**FIFO, by_hand=True)
    room.push(page("a/0"), page("a/1"), page("b/0"))
    first = room.take()
    assert first is not None
    with room.traffic.standing_by(page("a/robots.txt") if is_robots else first):
        assert room.take_all() == ["b/0"]
        room.run(60)
        room.traffic.tick()
        assert room.take_all() == []


# Slots learned after the pop


def sent_through_api(request: Request) -> None:
    """A middleware chooses the slot after the pop."""
    request.meta["download_slot"] = "api"


def test_a_slot_learned_after_the_pop_paces_all_hosts_sent_through_it(rooms: Rooms) -> None:
    """Once it is known nothing comes to the gate too early; hosts take turns."""
    room = rooms(**FIFO)
    room.on_way = sent_through_api
    for host in "abc":
        room.push(page(f"{host}/0"))
        room.run(1)
    room.push(*(page(f"{host}/{n}") for host in "abc" for n in (1, 2)))
    room.run(20)
    assert [at for at, _ in room.sent] == pytest.approx([float(n) for n in range(9)])
    assert room.names[3:] == ["a/1", "b/1", "c/1", "a/2", "b/2", "c/2"]
    assert room.crawler.stats is not None
    assert room.crawler.stats.get_value("adaptive/handed_back", 0) == 0


def test_requests_handed_back_go_out_when_their_slot_may_send(rooms: Rooms) -> None:
    """Three hosts turn out to be one slot with five seconds between requests."""
    room = rooms(**FIFO, DOWNLOAD_SLOTS={"api": {"delay": 5.0}})
    room.on_way = sent_through_api
    room.push(*(page(f"{host}/1") for host in "abc"))
    room.run(20)
    assert [at for at, _ in room.sent] == pytest.approx([0.0, 5.0, 10.0])
    assert sorted(room.names) == ["a/1", "b/1", "c/1"]
    assert room.crawler.stats is not None
    assert room.crawler.stats.get_value("adaptive/handed_back") == 2


def test_a_slot_learned_by_one_request_wakes_the_others_in_time(rooms: Rooms) -> None:
    """They slept in the slot they were thought to be sent through."""
    room = rooms(**MANY_AT_ONCE)
    room.on_way = sent_through_api
    room.site = lambda request: Reply(seconds=4.5)
    room.push(*(page(f"a/{n}") for n in range(3)))
    room.run(20)
    assert instants(room, "a") == pytest.approx([0.0, 1.0, 2.0])


# Beside known limits


def test_copies_that_stand_for_pages_of_a_silent_host_take_no_place_of_it(
    rooms: Rooms, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pages that a rule counts; the cache has a stale copy of each."""
    rules = [{"name": "places", "host": "a", "concurrency": 4}]
    room = rooms(**FIFO, by_hand=True, ADAPTIVE_RULES=rules)
    assert room.routing is not None
    monkeypatch.setattr(room.routing, "_cached", lambda request: Copy.STALE)
    room.governor.slot("a", room.clock.seconds()).pause_for(room.clock.seconds(), 100.0)
    pages = [page(f"a/{number}") for number in range(3)]
    room.push(*pages)
    assert room.take_all() == ["a/0", "a/1", "a/2"]
    for each in pages:
        room.traffic.reservations.on_at_gate(each, "a")
    room.clock.advance(200.0)
    assert room.governor.blocked_in_queue("a", room.clock.seconds()) is None


def test_a_recheck_whose_page_a_rule_holds_keeps_nobody_busy(rooms: Rooms) -> None:
    """It may be asked for once in two hours; images of that host wait at the gate."""
    slow = {"name": "slow", "host": "a", "uri": "/slow/*", "max_hits": 1, "window": "2h"}
    room = rooms(**FIFO, DOWNLOAD_DELAY=0, ADAPTIVE_RULES=[slow])
    refused: set[str] = set()

    def site(request: Request) -> Reply:
        is_first = "/slow/" in request.url and request.url not in refused
        refused.add(request.url)
        return Reply(429 if is_first else 200, seconds=0.05)

    room.site = site
    room.push(page("a/1"), page("a/2"), page("a/3"))
    room.run(5.0)
    room.push(page("a/slow/1"))
    room.run(0.06)
    asked = room.engine.ask_count
    for number in range(3):
        image = Request(f"https://a/image{number}", callback=NO_CALLBACK)
        room.engine.downloader.fetch(image).addErrback(lambda failure: None)
        room.arrive(image)
    room.run(60.0)
    assert [sent for _, sent in room.sent[4:]] == ["a/image0", "a/image1", "a/image2"]
    assert room.engine.ask_count - asked < 100
