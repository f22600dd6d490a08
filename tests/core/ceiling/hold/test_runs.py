"""What two runs tell of a site that saves up requests at a limit."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from scrapy_adaptive.core.ceiling.hold.runs import Run, between, saved_up

LIMIT, BURST = 10.0, 20.0


def run(rate: float, *, burst: float = BURST, limit: float = LIMIT) -> Run:
    """All that such a site serves at a rate over its limit until it refuses."""
    seconds = burst / (rate - limit)
    return Run(int(rate * seconds), seconds)


def test_what_is_saved_up_is_what_was_served_beyond_the_limit() -> None:
    """Of 40 pages in 2 s the limit let 20 through; and two for the ends of the account."""
    assert saved_up([run(20.0)], LIMIT) == BURST + 2.0


def test_of_runs_that_end_together_the_one_that_says_most_counts() -> None:
    """It served at 5/s for ten seconds before: nothing was used up by that."""
    assert saved_up([Run(90, 12.0), run(20.0)], LIMIT) == BURST + 2.0


def test_without_a_run_anything_may_be_saved_up() -> None:
    assert saved_up([], LIMIT) == math.inf


@given(
    limit=st.floats(0.5, 100.0),
    burst=st.floats(1.0, 200.0),
    fast=st.floats(1.5, 4.0),
    slow=st.floats(1.02, 1.4),
    before=st.floats(0.1, 0.9),
)
def test_the_limit_lies_between(
    limit: float, burst: float, fast: float, slow: float, before: float
) -> None:
    """One fast run, a slower one after some seconds under the limit, in which all was saved up."""
    first = run(fast * limit, burst=burst, limit=limit)
    second = run(slow * limit, burst=burst, limit=limit)
    seconds = burst / (limit - before * limit)
    longer = Run(second.pages + int(before * limit * seconds), second.seconds + seconds)
    low, high = between([first], [longer, second], least=before * limit, most=slow * limit)
    assert low < limit * (1.0 + 1e-9)
    assert high > limit * (1.0 - 1e-9)


def test_a_run_that_can_have_been_a_burst_says_nothing_of_the_limit() -> None:
    """Nothing much is saved up: a page that is refused after three says little."""
    low, high = between([Run(4, 0.1)], [Run(3, 0.1)], least=5.0, most=12.0)
    assert (low, high) == (0.0, 12.0)


def test_a_run_too_short_to_use_up_what_is_saved_did_not_begin_with_all_of_it() -> None:
    """A step refused at once shows that the rate before it was over the limit already."""
    before = run(12.0)
    at_once = Run(before.pages + 1, before.seconds + 0.05), Run(1, 0.05)
    low, high = between([run(30.0)], at_once, least=5.0, most=20.0)
    assert low < LIMIT < high < 12.0


class Saving:
    """A site that saves up `burst` requests and lets `limit` a second through, as a fluid.

    Args:
        limit: 1/s.
        burst: requests.
        stock: requests saved up at first.
    """

    def __init__(self, limit: float, burst: float, stock: float) -> None:
        self.limit = limit
        self.burst = burst
        self.stock = stock
        self.pages = 0.0
        self.seconds = 0.0
        self.marks: list[tuple[float, float]] = []

    def serve(self, rate: float, seconds: float) -> bool:
        """So many seconds at a rate, 1/s; returns whether it refused before they were over."""
        self.marks.append((self.pages, self.seconds))
        left = self.stock / (rate - self.limit) if rate > self.limit else math.inf
        is_refused = left <= seconds
        took = min(left, seconds)
        self.pages += rate * took
        self.seconds += took
        self.stock = min(self.burst, self.stock + (self.limit - rate) * took)
        return is_refused

    def since(self, pages: float, seconds: float) -> Run:
        """What was served since then."""
        return Run(int(self.pages - pages), self.seconds - seconds)

    @property
    def runs(self) -> list[Run]:
        """What was served since the begin of each stage."""
        return [self.since(*mark) for mark in self.marks]


@given(
    limit=st.floats(0.5, 50.0),
    burst=st.floats(1.0, 200.0),
    fast=st.floats(1.5, 8.0),
    stages=st.lists(st.tuples(st.floats(0.0, 1.2), st.floats(0.5, 60.0)), max_size=5),
    last=st.floats(1.05, 3.0),
)
def test_the_limit_is_between_what_was_served_and_what_explains_two_refusals(
    limit: float, burst: float, fast: float, stages: list[tuple[float, float]], last: float
) -> None:
    """Whatever came between them, and whether it saved up all it can in that time or not."""
    site = Saving(limit, burst, burst)
    assert site.serve(fast * limit, math.inf)
    drained, empty = site.runs, (site.pages, site.seconds)
    site.marks.clear()
    site.serve(0.0, 1.0)
    for share, seconds in stages:
        if site.serve(share * limit, seconds):
            break
    else:
        site.serve(last * limit, math.inf)
    seconds = site.seconds - empty[1]
    low, high = between(
        drained,
        site.runs,
        least=0.0,
        most=fast * limit,
        emptied=Run(int(site.pages - empty[0]), seconds),
    )
    assert low < limit * (1.0 + 1e-9)
    assert high > limit * (1.0 - 1e-9)


def test_a_second_refusal_shows_the_limit_behind_a_burst() -> None:
    """1/s and 100 saved up: after eleven seconds of silence not much more than that is served."""
    site = Saving(1.0, 100.0, 100.0)
    site.serve(20.0, math.inf)
    drained, empty = site.runs, (site.pages, site.seconds)
    site.marks.clear()
    site.serve(0.0, 11.0)
    site.serve(2.7, 4.0)
    site.serve(5.3, math.inf)
    pages, seconds = since = site.since(*empty)
    low, high = between(drained, site.runs, least=0.9, most=5.3, emptied=since)
    assert (low, high) == ((pages - 2) / seconds, (pages + 2) / seconds)
    assert 0.8 < low < 1.0 < high < 1.2
