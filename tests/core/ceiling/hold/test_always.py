"""What always holds, whatever the site does."""

from __future__ import annotations

import math
import sys
from collections import deque

from hypothesis import given
from hypothesis import strategies as st

from scrapy_adaptive.core.slot import Slot
from scrapy_adaptive.core.slot_config import Limits
from scrapy_adaptive.core.state.fields import SLOWEST
from tests.core.ceiling.hold.played import Played
from tests.core.virtual import STEADY, Virtual

FACTS = st.lists(
    st.tuples(
        st.sampled_from(["serve", "serve", "serve", "refuse", "cluster", "rollback", "idle"]),
        st.integers(1, 60),
        st.floats(0.01, 100.0),
    ),
    max_size=60,
)


@STEADY
@given(st.sampled_from([0.01, 1.0, 1000.0, math.inf]), FACTS)
def test_what_is_believed_makes_sense_whatever_happens(
    start_rate: float, story: list[tuple[str, int, float]]
) -> None:
    """A rate that is a number, between what was held and what is possible; nothing owed twice."""
    played = Played(start_rate)
    for what, count, seconds in story:
        tell(played, what, count, seconds)
        hold, learned = played.hold, played.hold.learned
        assert hold.rate >= SLOWEST
        assert 0.0 <= hold.held_rate <= hold.rate * (1.0 + 1e-9)
        if learned is not None:
            assert learned.rate <= learned.refused_rate * (1.0 + 1e-9)
            assert 8.0 <= learned.price < math.inf
        assert hold.concurrency >= 1.0
        assert hold.sure_gap >= 0.0
        assert 0.0 <= hold.debt() < math.inf
        assert 0.0 <= hold.noise_ratio <= 1.0


def tell(played: Played, what: str, count: int, seconds: float) -> None:
    """One chapter of a story."""
    if what == "serve":
        played.serve(count, level=1 + count % 8)
    elif what == "refuse":
        played.refuse(level=1 + count % 8)
        played.recover(seconds)
    elif what == "cluster":
        played.refuse(others=count % 4)
        played.recover(*[seconds] * (1 + count % 3), announced=count % 2 == 0)
    elif what == "rollback":
        played.refuse()
        played.recover(seconds)
        played.serve(count % 3)
        played.hold.on_rollback(played.now)
    else:
        played.now += 1000.0 * seconds


class TestMemory:
    """What a slot remembers does not grow with what it has seen."""

    def test_twenty_thousand_pages_take_no_more_than_a_thousand(self) -> None:
        """A limit of 8/s, and each 50th page refused once whatever the rate."""
        after = {}
        virtual = Virtual(Limits(start_delay=0.1, concurrency=16), ceiling="hold")
        for number in range(1, 20_001):
            crawl_page(virtual, number)
            if number in (1_000, 20_000):
                after[number] = size(virtual.slot())
        assert after[20_000] <= after[1_000] + 1024


def crawl_page(virtual: Virtual, page: int) -> None:
    """The page is refused once, if its number says so or the rate is too high; then served."""
    virtual.wait_out()
    permit = virtual.send()
    virtual.wait(0.01)
    if virtual.slot().rate > 8.0 or page % 50 == 0:
        virtual.refuse(permit, page=page)
        virtual.wait_out()
        permit = virtual.send()
    virtual.accept(permit, page=page, latency=0.01)


def size(thing: object, seen: set[int] | None = None) -> int:
    """Bytes of a slot and of all that it holds."""
    seen = set() if seen is None else seen
    if id(thing) in seen or isinstance(thing, type):
        return 0
    seen.add(id(thing))
    parts: list[object] = []
    if isinstance(thing, dict):
        parts = [*thing.keys(), *thing.values()]
    elif isinstance(thing, list | tuple | deque | set):
        parts = [*thing]
    elif type(thing).__module__.startswith(Slot.__module__.partition(".")[0]):
        parts = [*getattr(thing, "__dict__", {}).values()]
        slots = [name for each in type(thing).__mro__ for name in getattr(each, "__slots__", ())]
        parts += [getattr(thing, name) for name in slots if hasattr(thing, name)]
    return sys.getsizeof(thing) + sum(size(part, seen) for part in parts)
