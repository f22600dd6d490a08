"""A broken page's epoch never was; nor were those of a class of pages."""

from __future__ import annotations

import math

import pytest

from tests.core.ceiling.hold.played import Played, held


def test_a_rollback_takes_all_back() -> None:
    played = held()
    played.serve(40)
    played.refuse(others=2)
    played.recover(0.6, 12.0)
    assert played.rate < 9.9
    played.hold.on_rollback(played.now)
    assert (played.rate, played.hold.held_rate, played.refused_rate) == (10.0, 10.0, 10.2)


def test_a_stage_goes_on_where_it_was() -> None:
    """633 of 633.3 pages before; one more after."""
    played = held(10.0, hi=10.05)
    played.serve(633)
    played.refuse()
    played.recover(60.0, announced=True)
    played.hold.on_rollback(played.now)
    played.serve(1)
    assert played.rate == pytest.approx(10.10025)


def test_where_it_is_not_known_what_was_before_the_first_epoch_the_next_is_taken_back() -> None:
    """As of a slot that was put aside: the whole of it may have been too large to keep."""
    played = held()
    played.serve(40)
    permit = played.send()
    played.hold.on_congestion(played.now, permit, rate=played.rate, again=True)
    for _ in range(3):
        played.hold.on_refused()
    played.recover(0.6, 12.0)
    assert played.rate < 9.9
    played.hold.on_rollback(played.now)
    assert played.rate == 10.0


def test_a_doubt_at_the_start_is_taken_back_too() -> None:
    """The next lone refusal is the first one."""
    played = Played(1.0)
    played.serve(5)
    played.refuse()
    played.recover(0.3)
    played.hold.on_rollback(played.now)
    played.refuse()
    played.recover(0.3)
    assert played.rate == 4.0


def test_epochs_of_broken_pages_are_no_evidence_of_a_cap() -> None:
    """Each was the only one of ten that was sixth in flight."""
    played = held(10.0, hi=30.0)
    for _ in range(8):
        for level in (1, 2, 3, 4, 5):
            played.serve(4, level=level)
        played.refuse(level=6)
        played.recover(0.12)
        played.hold.on_rollback(played.now)
    assert played.hold.concurrency == math.inf


def test_once_a_class_of_pages_is_to_blame_nothing_bounds_the_rate() -> None:
    played = held(10.0, hi=10.2)
    played.serve(40)
    played.refuse(others=2)
    played.recover(0.6, 12.0)
    played.hold.on_class_split(played.now)
    assert (played.rate, played.refused_rate) == (10.0, math.inf)
