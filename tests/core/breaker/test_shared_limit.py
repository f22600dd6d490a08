"""Hosts that were refused at their start find out whether they share a limit.

A limit of its own never serves a host more pages in the same time than before its first refusal:
these are worked by hand. Crawls of many hosts are in `test_crawl_wide`.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from scrapy_adaptive.core.breaker.shared_limit import LONGEST, TESTS, SharedLimit
from scrapy_adaptive.core.ceiling.hold.ceiling import Hold
from scrapy_adaptive.core.permit import Permit
from scrapy_adaptive.core.slot import Slot
from scrapy_adaptive.core.slot_config import Limits


class Host:
    """One slot, what it is served, and the tests that hear of it."""

    def __init__(self, tests: SharedLimit, key: str) -> None:
        self.tests = tests
        self.slot = Slot(key, Limits(), make(Limits()), 0.0)

    def served(self, *instants: float) -> None:
        for at in instants:
            self.slot.accepted_count += 1
            self.tests.on_served(self.slot, Permit(self.slot.key, at), at)

    def refused(self, at: float) -> None:
        self.tests.on_refused(self.slot, Permit(self.slot.key, at), at)

    def begins(self, now: float) -> bool:
        """Whether it starts again."""
        may = self.tests.may_test(self.slot, now)
        if may:
            self.tests.begin_test(self.slot, now)
        return may


def make(limits: Limits) -> Hold:
    return Hold(limits.start_rate)


def started(keys: Sequence[str] = ("a", "b")) -> list[Host]:
    """Hosts that were served at 0, 1, 2 and 2.5 s, refused at 3 s, and tested once at 5 s."""
    tests = SharedLimit(make)
    hosts = [Host(tests, key) for key in keys]
    for host in hosts:
        host.served(0.0, 1.0, 2.0, 2.5)
        host.refused(3.0)
        host.served(5.0)
    return hosts


def test_two_hosts_that_are_served_more_than_before_their_refusal_show_a_shared_limit() -> None:
    """The first start: four pages in 3 s, one in its last .5 s.

    Refuted are 1 + 1.25 · 4 = 6 pages in .9 · 3 = 2.7 s, 5 in 1.8, 4 in .9, and, of the last page
    alone, 3 (1 + 1.25, rounded up) in .45 s. Seven pages that are .15 s apart refute all of them:
    6 in .75, 5 in .6, 4 in .45, 3 in .3 s.
    """
    first, second = started()
    first.served(*(10.0 + 0.15 * n for n in range(7)))
    assert not first.tests.is_shown
    second.served(*(20.0 + 0.15 * n for n in range(7)))
    assert first.tests.is_shown


def test_a_bucket_that_refuses_where_it_did_shows_none() -> None:
    """Pages that are .5 s apart: 3 of them take 1 s, more than .45."""
    first, second = started()
    for host in (first, second):
        host.served(*(10.0 + 0.5 * n for n in range(60)))
    assert not first.tests.is_shown


def test_the_slow_beginning_of_a_start_does_not_count() -> None:
    """At 1/s nothing of a limit of 2/s was used, so four pages in 3 s are no limit: 6 in 2.7 s come
    from a bucket that gives 2/s, and 3 in .45 s do not.
    """
    first, second = started()
    for host in (first, second):
        host.served(*(10.0 + 0.45 * n for n in range(60)))
    assert not first.tests.is_shown


def test_one_host_after_the_other_starts_again_once_nothing_was_refused_for_2_s() -> None:
    """What it had learned is given back when it is refused, or after 20 s."""
    first, second = started()
    learned, other = first.slot.ceiling, second.slot.ceiling
    assert not first.begins(5.0)
    assert first.begins(5.1)
    assert first.slot.ceiling != learned
    assert not second.begins(6.0)
    first.refused(7.0)
    assert first.slot.ceiling != learned  # the fresh one hears how its pause ends
    first.served(9.0)
    assert first.slot.ceiling is learned
    assert not first.begins(10.0)
    assert second.begins(10.0)
    assert second.slot.ceiling != other
    first.served(10.1 + LONGEST)
    assert second.slot.ceiling is other


def test_no_more_than_six_hosts_start_again() -> None:
    hosts = started([f"host-{number}" for number in range(TESTS + 3)])
    count = 0
    for number, host in enumerate(hosts):
        at = 10.0 * (number + 1)
        count += host.begins(at)
        if number < TESTS:
            host.refused(at + 1.0)
            host.served(at + 3.0)
    assert count == TESTS


@pytest.mark.parametrize("pages", [0, 1])
def test_a_host_that_was_served_next_to_nothing_says_little(pages: int) -> None:
    """No page: nothing. One page, refused 1 s later: refuted by three in .9 s."""
    tests = SharedLimit(make)
    host = Host(tests, "a")
    host.served(*[0.0][:pages])
    host.refused(1.0)
    host.served(*(5.0 + 0.5 * n for n in range(30)))
    assert not tests._refuted
    host.served(30.0, 30.2, 30.4)
    assert bool(tests._refuted) is bool(pages)
