"""The order in which a host queue gives requests out, and how it stores them."""

from __future__ import annotations

from collections.abc import Sized
from pathlib import Path
from typing import Any

import pytest
from scrapy import Request
from scrapy.pqueues import ScrapyPriorityQueue
from scrapy.squeues import FifoMemoryQueue, LifoMemoryQueue, PickleLifoDiskQueue
from scrapy.utils.misc import build_from_crawler

from scrapy_adaptive import HostQueue
from scrapy_adaptive.adapters.queues import open_files
from scrapy_adaptive.core.turns import PASSED_OVER
from tests.adapters.queues.queue_room import PageSpider, Rooms, name, page

pytestmark = [
    pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning"),
    pytest.mark.usefixtures("no_open_files"),
]

ONE_BY_ONE: dict[str, Any] = {
    "places": 1,
    "ADAPTIVE_START_DELAY": 0.0,
    "DOWNLOAD_DELAY": 0.0,
    "SCHEDULER_DISK_QUEUE": "scrapy.squeues.PickleFifoDiskQueue",
    "SCHEDULER_MEMORY_QUEUE": "scrapy.squeues.FifoMemoryQueue",
}
"""Every host is ready whenever it is asked: the order alone decides."""

WRITTEN_BY_OTHERS = [[0, 1], 5, "a", {"a": 3}, {"a": "12"}, {"a": ["x"]}]


@pytest.fixture(params=["memory", "disk"])
def job(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    """Folder of the job, for both kinds of queue."""
    return tmp_path if request.param == "disk" else None


# Among hosts


def test_hosts_of_equal_priority_take_turns(rooms: Rooms, job: Path | None) -> None:
    """However many requests each has, and in whatever order they came."""
    room = rooms(job, **ONE_BY_ONE)
    room.push(*map(page, ["a/1", "a/2", "a/3", "b/1", "c/1", "c/2"]))
    room.run()
    assert room.names == ["a/1", "b/1", "c/1", "a/2", "c/2", "a/3"]


def test_the_host_with_the_topmost_request_goes_first(rooms: Rooms, job: Path | None) -> None:
    """Each time anew: a host counts as much as the request that is its next."""
    room = rooms(job, **ONE_BY_ONE)
    room.push(page("a/1"), page("b/1", 1), page("c/1", 3), page("b/2", 5), page("a/2", 2))
    room.run()
    assert room.names == ["b/2", "c/1", "a/2", "b/1", "a/1"]


def test_a_low_priority_is_passed_over_so_many_times_and_no_more(rooms: Rooms) -> None:
    """Every sixteenth turn goes to who has waited longest."""
    room = rooms(**ONE_BY_ONE)
    room.push(page("z/1", -10), page("z/2", -10))
    room.push(*(page(f"a/{n}", 5) for n in range(100)))
    room.run()
    turns = [turn for turn, sent in enumerate(room.names) if sent.startswith("z")]
    assert turns[0] == PASSED_OVER
    assert turns[1] - turns[0] <= 2 * (PASSED_OVER + 1)


def test_a_discount_on_depth_brings_other_hosts_forward(rooms: Rooms) -> None:
    """Four requests of priority 3 beside two of 1, one less for each that was taken: 3 2, 1 1 0 0;
    of equals, who has waited longer."""
    for discount, order in ((0.0, "aaaabb"), (1.0, "aababa")):
        room = rooms(**ONE_BY_ONE, ADAPTIVE_HOST_DEPTH_DISCOUNT=discount)
        room.push(*(page(f"a/{n}", 3) for n in range(4)), page("b/0", 1), page("b/1", 1))
        room.run()
        assert "".join(sent[0] for sent in room.names) == order
        room.close()


# Within a host


@pytest.mark.parametrize(("kind", "first"), [("Lifo", ["2", "1"]), ("Fifo", ["1", "2"])])
def test_what_came_back_goes_behind_its_equals_and_before_what_is_lower(
    rooms: Rooms, job: Path | None, kind: str, first: list[str]
) -> None:
    """In whatever order the queue itself is; of several, first back first out."""
    queues = {
        "SCHEDULER_DISK_QUEUE": f"scrapy.squeues.Pickle{kind}DiskQueue",
        "SCHEDULER_MEMORY_QUEUE": f"scrapy.squeues.{kind}MemoryQueue",
    }
    room = rooms(job, **{**ONE_BY_ONE, **queues})
    queue = room.disk if job else room.memory
    room.push_back(queue, page("a/back"))
    room.push_back(queue, page("a/back-too"))
    room.push_back(queue, page("a/higher", 1))
    room.push(page("a/low", -1), page("a/1"), page("a/2"))
    room.run()
    order = ["higher", *first, "back", "back-too", "low"]
    assert room.names == [f"a/{each}" for each in order]


@pytest.mark.parametrize("kind", ["Lifo", "Fifo"])
def test_what_came_back_keeps_its_order_when_the_job_is_resumed(
    rooms: Rooms, tmp_path: Path, kind: str
) -> None:
    """Behind its equals, first back first out, in whatever run it came back."""
    settings = {**ONE_BY_ONE, "SCHEDULER_DISK_QUEUE": f"scrapy.squeues.Pickle{kind}DiskQueue"}
    room = rooms(tmp_path, **settings, by_hand=True)
    room.push_back(room.disk, page("a/back"))
    room.push_back(room.disk, page("a/back-too"))
    room.push(page("a/1"))
    room = rooms(tmp_path, **settings, by_hand=True)
    room.push_back(room.disk, page("a/back-last"))
    room = rooms(tmp_path, **settings)
    room.run()
    assert room.names == ["a/1", "a/back", "a/back-too", "a/back-last"]


def test_the_order_within_a_host_is_scrapys(rooms: Rooms, job: Path | None) -> None:
    """Start requests, which have a queue of their own, included."""
    settings = {
        **ONE_BY_ONE,
        "SCHEDULER_MEMORY_QUEUE": LifoMemoryQueue,
        "SCHEDULER_DISK_QUEUE": PickleLifoDiskQueue,
    }
    room = rooms(job, **settings)
    oracle = ScrapyPriorityQueue(room.crawler, LifoMemoryQueue, "", start_queue_cls=FifoMemoryQueue)
    for number in range(60):
        meta = {"is_start_request": True} if number % 3 else {}
        request = page(f"a/{number}", number * 7 % 4, **meta)
        oracle.push(request)
        room.push(request)
    room.run()
    assert room.names == [name(request) for request in iter(oracle.pop, None)]
    assert len(room.names) == 60


def test_what_cannot_be_saved_leaves_the_others_in_their_order(
    rooms: Rooms, tmp_path: Path
) -> None:
    """Scrapy's queue remembers the priority of a request that it refused."""
    room = rooms(tmp_path, **ONE_BY_ONE, by_hand=True)
    room.push(page("a/low", -1), page("a/unsaved", 5, call=lambda: None), page("b/1"))
    room.close()
    room = rooms(tmp_path, **ONE_BY_ONE)
    room.run()
    assert room.names == ["b/1", "a/low"]


def test_what_cannot_be_saved_loses_no_start_request(rooms: Rooms, tmp_path: Path) -> None:
    """It waits in memory; the start request of its host and priority stays on disk."""
    room = rooms(tmp_path, **ONE_BY_ONE)
    room.push(page("a/start", is_start_request=True), page("a/unsaved", call=lambda: None))
    room.run()
    assert sorted(room.names) == ["a/start", "a/unsaved"]


# Storage


@pytest.mark.parametrize("state", WRITTEN_BY_OTHERS)
def test_the_state_of_another_queue_is_refused(rooms: Rooms, state: Any) -> None:
    """Naming the folder, before anything is opened."""
    room = rooms()
    with pytest.raises(ValueError, match=r"some/folder.*HostQueue"):
        build_from_crawler(HostQueue, room.crawler, FifoMemoryQueue, "some/folder", state)


def test_files_of_some_hosts_only_are_open_at_a_time(
    rooms: Rooms, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether they are pushed to or popped from; nothing is lost by it."""
    monkeypatch.setattr(open_files, "OPEN_HOSTS", 5)
    room = rooms(tmp_path, **ONE_BY_ONE)
    urls = {f"h{host}/{n}" for n in range(3) for host in range(20)}
    most = 0

    def look(*_: object) -> None:
        nonlocal most
        most = max(most, len(open_hosts(tmp_path)))

    room.on_way = look
    for url in sorted(urls):
        room.push(page(url))
        look()
    room.run()
    assert set(room.names) == urls
    assert len(room.names) == len(urls)
    assert most == 5


def open_hosts(folder: Path) -> set[Path]:
    """Folders below this one of which the process holds a file open."""
    links = [link for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    files = [link.readlink() for link in links if link.exists()]
    return {file.parents[1] for file in files if folder in file.parents}


def test_a_host_with_nothing_queued_costs_nothing(rooms: Rooms, job: Path | None) -> None:
    """Neither memory, nor files, nor folders."""
    room = rooms(job, **ONE_BY_ONE)
    room.push(*(page(f"h{host}/{n}") for host in range(50) for n in range(2)))
    room.run()
    assert len(room.names) == 100
    for queue in (room.memory, room.disk) if job else (room.memory,):
        assert held(queue) == set()
    assert held(room.routing) <= {"_governor", "_queues", "unpaced"}
    assert held(room.traffic.reservations) <= {"_governor", "_leads"}
    assert job is None or not list(job.glob("requests.queue/h*"))


def held(owner: object) -> set[str]:
    """Names of the attributes that hold anything."""
    return {
        key
        for key, value in vars(owner).items()
        if isinstance(value, Sized) and not isinstance(value, str) and len(value)
    }


def test_a_start_request_that_cannot_be_read_stops_nobody(
    rooms: Rooms, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is its host's last; the spider has no such callback any more."""
    monkeypatch.setattr(PageSpider, "gone", lambda self, response: None, raising=False)
    room = rooms(tmp_path, **ONE_BY_ONE, by_hand=True)
    gone = getattr(room.crawler.spider, "gone")  # noqa: B009
    start = Request("https://a/start", callback=gone, meta={"is_start_request": True})
    room.push(start)
    room.close()
    monkeypatch.delattr(PageSpider, "gone")
    room = rooms(tmp_path, **ONE_BY_ONE)
    room.run(1.0)
    room.push(page("a/1"), page("a/2"))
    room.run(10.0)
    assert room.names == ["a/1", "a/2"]


def test_a_host_that_many_rules_count_has_a_file_of_its_own(rooms: Rooms, tmp_path: Path) -> None:
    """Its key holds the user agent twice."""
    rule = {"host": "*", "identity": "agent=*", "concurrency": 4}
    settings = {
        **ONE_BY_ONE,
        "USER_AGENT": "Mozilla/5.0 (X11; Linux x86_64) " * 5,
        "ADAPTIVE_RULES": [{**rule, "name": name} for name in ("pace", "places")],
    }
    room = rooms(tmp_path, **settings, by_hand=True)
    room.push(*[page(f"{host}/{number}") for host in "ab" for number in range(3)])
    room.close()
    room = rooms(tmp_path, **settings)
    room.run(10.0)
    assert sorted(room.names) == [f"{host}/{number}" for host in "ab" for number in range(3)]


def test_what_a_rule_parks_of_a_slot_is_told_and_the_rest_goes_on(
    rooms: Rooms,
) -> None:
    """Key 1 has spent its quota, key 2 has not."""
    rule = {"host": "a", "identity": "key=*", "max_hits": 3, "window": "2h"}
    room = rooms(
        ADAPTIVE_RULES=[rule],
        ADAPTIVE_IDENTITY=lambda request: {"key": request.meta["key"]},
        DOWNLOAD_DELAY=1.0,
    )
    room.push(*(page(f"a/{n}", key="1") for n in range(5)))
    room.run(30.0)
    (parked,) = room.traffic.parked()
    assert (parked.slot, parked.waiting) == ("a", 2)
    assert 7000.0 < parked.seconds <= 7200.0
    assert room.traffic.is_parked_by_rule("a")
    room.push(page("a/5", key="2"), page("a/6", key="2"))
    room.run()
    assert [each.waiting for each in room.traffic.parked()] == [2]
    assert not room.traffic.is_parked_by_rule("a")
    room.run(7200.0)
    assert room.traffic.parked() == []
    assert sorted(room.names) == [f"a/{n}" for n in range(7)]
